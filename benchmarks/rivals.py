"""Which library does what by which call: one table drives the comparison of results and the times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import own
from benchmarks.models import categories_of
from benchmarks.work import Call, Work, save_xgboost

if TYPE_CHECKING:
    from benchmarks.cases import Case

TOLERANCE = 1e-4
"""Largest difference between two results, relative to their largest number: float32 sums over 1000 trees."""


@dataclass(frozen=True)
class Rival:
    """A library: its package, and by task what turns work into the call to time, whose results are comparable."""

    package: str
    tasks: dict[str, Callable[[Work], Call]]


def prepare(case: Case) -> dict[str, Call]:
    """Make the calls of those libraries of the case that are installed."""
    work = Work(case)
    return {name: RIVALS[name].tasks[case.task](work) for name in case.libraries if package_version(name)}


def package_version(library: str) -> str | None:
    """Version of a library's package, None where it is not installed."""
    try:
        return version(RIVALS[library].package)
    except PackageNotFoundError:
        return None


def difference(result: Any, reference: Any) -> float:
    """Largest difference, relative to the largest number of the reference; infinite where shapes differ."""
    result, reference = (np.squeeze(np.asarray(array, np.float64)) for array in (result, reference))
    if result.shape != reference.shape:
        return float("inf")
    return float(np.abs(result - reference).max() / (np.abs(reference).max() or 1.0))


def _xgboost_matrix(work: Work) -> Any:
    import xgboost

    work.model.set_param({"nthread": work.n_threads})
    return xgboost.DMatrix(work.rows, nthread=work.n_threads, enable_categorical=True)


def _xgboost_values(work: Work) -> Call:
    matrix = _xgboost_matrix(work)
    return lambda: _features_first(work.model.predict(matrix, pred_contribs=True)[..., :-1], 1)


def _xgboost_interactions(work: Work) -> Call:
    matrix = _xgboost_matrix(work)
    return lambda: _features_first(work.model.predict(matrix, pred_interactions=True)[..., :-1, :-1], 2)


def _features_first(values: NDArray[Any], n_axes: int) -> NDArray[Any]:
    """Move the axis of outputs, where there is one, behind the axes of features."""
    return values if values.ndim == 1 + n_axes else np.moveaxis(values, 1, -1)


def _xgboost_margin(work: Work) -> Call:
    work.model.set_param({"nthread": work.n_threads})
    return partial(work.model.inplace_predict, work.rows, predict_type="margin")


def _xgboost_matrix_margin(work: Work) -> Call:
    """A matrix a call, as predictions of one are kept."""
    return lambda: work.model.predict(_xgboost_matrix(work), output_margin=True)


def _catboost_pool(work: Work) -> Any:
    import catboost

    return catboost.Pool(work.rows, cat_features=categories_of(work.rows), thread_count=work.n_threads)


def _catboost_margin(rows_of: Callable[[Work], Any], work: Work) -> Call:
    """Predict what is made of the rows in each call."""
    predict = partial(work.model.predict, prediction_type="RawFormulaVal", thread_count=work.n_threads)
    return lambda: predict(rows_of(work))


def _catboost_pool_margin(work: Work) -> Call:
    pool = _catboost_pool(work)
    return _catboost_margin(lambda _: pool, work)


def _rows(work: Work) -> Any:
    return work.rows


def _catboost_values(work: Work) -> Call:
    explain = partial(
        work.model.get_feature_importance, _catboost_pool(work), type="ShapValues", thread_count=work.n_threads
    )
    return lambda: explain()[:, :-1]


def _xgboost_load(suffix: str, work: Work) -> Call:
    import xgboost

    path = work.saved(suffix, save_xgboost)
    return lambda: xgboost.Booster(model_file=path).num_boosted_rounds()


def _lightgbm_margin(work: Work) -> Call:
    return partial(work.model.predict, work.rows, raw_score=True, num_threads=work.n_threads)


def _lightgbm_values(work: Work) -> Call:
    contributions = partial(work.model.predict, work.rows, pred_contrib=True, num_threads=work.n_threads)
    return lambda: contributions()[:, :-1]


def _scikit_learn_dependence(work: Work) -> Call:
    from sklearn.inspection import partial_dependence

    if hasattr(work.model, "n_jobs"):
        work.model.set_params(n_jobs=work.n_threads)
    grid = partial(partial_dependence, work.model, work.rows, [0], method="brute", kind="average")
    return lambda: grid()["average"][0]


def _scikit_learn_importance(work: Work) -> Call:
    from sklearn.inspection import permutation_importance

    return lambda: permutation_importance(work.estimator, work.rows, work.target, random_state=0).importances


def _scikit_learn_margin(work: Work) -> Call:
    work.model.set_params(n_jobs=work.n_threads)
    return partial(work.model.predict, work.rows)


def _onedal_margin(work: Work) -> Call:
    import daal4py

    daal4py.daalinit(work.n_threads)
    return partial(daal4py.mb.convert_model(work.model).predict, work.rows)


def _shap_values(work: Work) -> Call:
    import shap

    explainer = shap.TreeExplainer(work.model, feature_perturbation="tree_path_dependent")
    return partial(explainer.shap_values, work.rows, check_additivity=False)


def _shap_background(work: Work) -> Call:
    import shap

    def explain() -> Any:
        explainer = shap.TreeExplainer(work.model, work.background, feature_perturbation="interventional")
        return explainer.shap_values(work.rows, check_additivity=False)

    return explain


def _woodelf_background(method: str, work: Work) -> Call:
    import pandas
    import woodelf

    names = [f"f{i}" for i in range(work.rows.shape[1])]
    rows, background = (pandas.DataFrame(X, columns=names) for X in (work.rows, work.background))
    return lambda: getattr(woodelf.WoodelfExplainer(work.model, background), method)(rows, verbose=False)


def _woodelf_values(work: Work) -> Call:
    import pandas
    import woodelf

    names = [f"f{i}" for i in range(work.rows.shape[1])]
    rows = pandas.DataFrame(work.rows, columns=names)
    return lambda: woodelf.WoodelfExplainer(work.model).shap_values(rows, verbose=False)


def _shapiq_values(work: Work) -> Call:
    import shapiq

    explainer = shapiq.TreeExplainer(work.model, max_order=1, index="SV")
    return lambda: np.array([explainer.explain(row).get_n_order_values(1) for row in work.rows])


def _shapiq_background(work: Work) -> Call:
    from shapiq.tree.interventional import InterventionalTreeSHAPIQ

    def explain() -> Any:
        explainer = InterventionalTreeSHAPIQ(work.model, work.background, max_order=1, index="SV")
        return np.array([explainer.explain(row).get_n_order_values(1) for row in work.rows])

    return explain


def _import(module: str, _work: Work) -> Call:
    """A fresh process that imports the module and ends."""
    return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True).returncode


RIVALS = {
    "glasswood": Rival(
        "glasswood",
        {
            "values": partial(own.values, "float32"),
            "interactions": partial(own.interactions, "float32"),
            "margin": own.margin,
            "row": own.row,
            "row by name": own.named_row,
            "explain row": own.explain_row,
            "background values": partial(own.background, "shap_values"),
            "background interactions": partial(own.background, "shap_interaction_values"),
            "weighted background": own.weighted_background,
            "background memory": own.background_memory,
            "prepare": own.prepare,
            "partial dependence": own.dependence,
            "importance": own.importance,
            "report": own.report,
            "size of the report": own.report_size,
            "load Booster": partial(own.load, ""),
            **{f"load {suffix}": partial(own.load, suffix) for suffix in (".ubj", ".json", ".glasswood")},
            "explain file": own.explain_file,
            "import": partial(_import, "glasswood"),
        },
    ),
    "glasswood float64": Rival(
        "glasswood",
        {
            "values": partial(own.values, "float64"),
            "interactions": partial(own.interactions, "float64"),
        },
    ),
    "XGBoost": Rival(
        "xgboost-cpu",
        {
            "values": _xgboost_values,
            "explain row": _xgboost_values,
            "interactions": _xgboost_interactions,
            "margin": _xgboost_margin,
            "row": _xgboost_margin,
            "row by name": _xgboost_margin,
            **{f"load {suffix}": partial(_xgboost_load, suffix) for suffix in (".ubj", ".json")},
            "import": partial(_import, "xgboost"),
        },
    ),
    "XGBoost, DMatrix": Rival("xgboost-cpu", {"margin": _xgboost_matrix_margin}),
    "CatBoost": Rival(
        "catboost",
        {"margin": partial(_catboost_margin, _rows), "row by name": partial(_catboost_margin, _rows)},
    ),
    "CatBoost, Pool": Rival(
        "catboost", {"margin": partial(_catboost_margin, _catboost_pool), "values": _catboost_values}
    ),
    "CatBoost, Pool made before": Rival("catboost", {"margin": _catboost_pool_margin}),
    "LightGBM": Rival(
        "lightgbm",
        {
            "values": _lightgbm_values,
            "explain row": _lightgbm_values,
            "margin": _lightgbm_margin,
            "row": _lightgbm_margin,
            "row by name": _lightgbm_margin,
            "import": partial(_import, "lightgbm"),
        },
    ),
    "scikit-learn": Rival(
        "scikit-learn",
        {
            "margin": _scikit_learn_margin,
            "row": _scikit_learn_margin,
            "partial dependence": _scikit_learn_dependence,
            "importance": _scikit_learn_importance,
            "import": partial(_import, "sklearn"),
        },
    ),
    "oneDAL": Rival("scikit-learn-intelex", {"margin": _onedal_margin, "row": _onedal_margin}),
    "shap": Rival(
        "shap",
        {
            "values": _shap_values,
            "explain row": _shap_values,
            "background values": _shap_background,
            "import": partial(_import, "shap"),
        },
    ),
    "shapiq": Rival("shapiq", {"values": _shapiq_values, "background values": _shapiq_background}),
    "woodelf": Rival(
        "woodelf-explainer",
        {
            "values": _woodelf_values,
            "background values": partial(_woodelf_background, "shap_values"),
            "background interactions": partial(_woodelf_background, "shap_interaction_values"),
        },
    ),
    "NumPy": Rival("numpy", {"import": partial(_import, "numpy")}),
}
