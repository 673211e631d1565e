"""Which library does what by which call: one table drives the comparison of results and the times."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import CACHE, read, rows_of, tiled_parquet
from benchmarks.models import trained

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from benchmarks.cases import Case

TOLERANCE = 1e-4
"""Largest difference between two results, relative to their largest number: float32 sums over 1000 trees."""

PEAK_MEMORY = """
import re, sys
from silva.cli import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
sys.exit(code)
"""
"""Run silva's command line, then print the most memory that the process had, in kB (rusage counts its parent's)."""

BACKGROUND_MEMORY = """
import re, sys
import numpy, silva
def memory(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
forest, arrays = silva.load(sys.argv[1]), numpy.load(sys.argv[2])
background, rows = arrays["background"], arrays["rows"]
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
silva.Explainer(forest, background, n_jobs=int(sys.argv[3])).shap_values(rows)
print(memory("VmHWM") - before)
"""
"""Explain rows against background rows, then print the most memory beyond that of the forest and the rows, in kB."""

Call = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """What a case gives to every library."""

    case: Case

    @cached_property
    def model(self) -> Any:
        """The trained model, live in the library that trained it."""
        return trained(self.case.model)

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        return rows_of(self.case.model.data, self.case.n_rows)

    @cached_property
    def background(self) -> NDArray[np.float32]:
        """The last rows of the data."""
        return read(self.case.model.data).rows[-self.case.n_background :]

    @property
    def n_threads(self) -> int:
        return self.case.n_threads

    def saved(self, suffix: str, save: Callable[[Any, Path], Any]) -> Path:
        """Write the model beside the trained ones."""
        path = CACHE / f"{self.case.model.library}-saved{suffix}"
        save(self.model, path)
        return path


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


def _silva_values(dtype: str, work: Work) -> Call:
    import silva

    return partial(silva.Explainer(work.model, dtype=dtype, n_jobs=work.n_threads).shap_values, work.rows)


def _silva_prepare(work: Work) -> Call:
    """Plan and build the tables of a forest that is loaded; the count of outputs is what can be compared."""
    import silva

    forest = silva.load(work.model)
    return lambda: np.size(silva.Explainer(_unplanned(forest), n_jobs=work.n_threads).prepare().expected_value)


def _unplanned(forest: Any) -> Any:
    """The forest without the plans that it keeps for further explainers: planning is part of the time."""
    return dataclasses.replace(forest)


def _silva_explain_row(work: Work) -> Call:
    import silva

    return partial(silva.Explainer(work.model).row(), work.rows[0])


def _silva_interactions(dtype: str, work: Work) -> Call:
    import silva

    return partial(silva.Explainer(work.model, dtype=dtype, n_jobs=work.n_threads).shap_interaction_values, work.rows)


def _silva_background(method: str, work: Work) -> Call:
    """From rows to values: the background's tables are part of the call, as are the other libraries'."""
    import silva

    forest = silva.load(work.model)

    def explain() -> Any:
        return getattr(silva.Explainer(_unplanned(forest), work.background, n_jobs=work.n_threads), method)(work.rows)

    return explain


def _silva_weighted_background(work: Work) -> Call:
    import silva

    forest, weight = silva.load(work.model), np.random.default_rng(0).random(work.case.n_background)
    against = {"background_weight": weight, "n_jobs": work.n_threads}
    return lambda: silva.Explainer(_unplanned(forest), work.background, **against).shap_values(work.rows)


def _silva_background_memory(work: Work) -> Call:
    return partial(_memory_against, work, work.saved(".ubj", _save_xgboost))


def _memory_against(work: Work, model: Path) -> float:
    """MiB beyond the forest and the rows of a process of its own."""
    with TemporaryDirectory(dir=CACHE) as folder:
        np.savez(f"{folder}/arrays.npz", background=work.background, rows=work.rows)
        command = [sys.executable, "-c", BACKGROUND_MEMORY, str(model), f"{folder}/arrays.npz", str(work.n_threads)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(run.stdout) / 1024


def _silva_margin(work: Work) -> Call:
    import silva

    return partial(silva.load(work.model).predict, work.rows, output="margin", n_jobs=work.n_threads)


def _silva_row(work: Work) -> Call:
    import silva

    return partial(silva.load(work.model).predictor("margin"), work.rows[0])


def _silva_dependence(work: Work) -> Call:
    import silva

    grid = partial(silva.partial_dependence, silva.load(work.model), work.rows, 0, n_jobs=work.n_threads)
    return lambda: grid().average[0]


def _scikit_learn_dependence(work: Work) -> Call:
    from sklearn.inspection import partial_dependence

    if hasattr(work.model, "n_jobs"):
        work.model.set_params(n_jobs=work.n_threads)
    grid = partial(partial_dependence, work.model, work.rows, [0], method="brute", kind="average")
    return lambda: grid()["average"][0]


def _silva_report(work: Work) -> Call:
    """The report of a forest that is loaded; the count of files is what can be compared."""
    import silva

    forest, path = silva.load(work.model), CACHE / "report.html"

    def report() -> int:
        silva.report(forest, work.rows, path=path, n_jobs=work.n_threads)
        return 1

    return report


def _silva_report_size(work: Work) -> Call:
    report = _silva_report(work)

    def size() -> float:
        report()
        return (CACHE / "report.html").stat().st_size / 2**20

    return size


def _silva_load(suffix: str, work: Work) -> Call:
    import silva

    saves = {".silva": lambda model, path: silva.load(model).save(path)}
    source = work.saved(suffix, saves.get(suffix, _save_xgboost)) if suffix else work.model
    return lambda: silva.load(source).n_trees


def _silva_explain_file(work: Work) -> Call:
    data = tiled_parquet(work.case.model.data, work.case.n_rows)
    return partial(_peak_memory, work.saved(".ubj", _save_xgboost), data, work.n_threads)


def _peak_memory(model: Path, data: Path, n_threads: int) -> float:
    """Explain a file in a process of its own and return the MiB that it needed."""
    with TemporaryDirectory(dir=CACHE) as folder:
        command = ["explain", str(model), str(data), "-o", f"{folder}/phi.parquet", "--n-jobs", str(n_threads)]
        run = subprocess.run([sys.executable, "-c", PEAK_MEMORY, *command], check=True, capture_output=True, text=True)
    return int(run.stdout.split()[-1]) / 1024


def _xgboost_matrix(work: Work) -> Any:
    import xgboost

    work.model.set_param({"nthread": work.n_threads})
    return xgboost.DMatrix(work.rows, nthread=work.n_threads)


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


def _xgboost_load(suffix: str, work: Work) -> Call:
    import xgboost

    path = work.saved(suffix, _save_xgboost)
    return lambda: xgboost.Booster(model_file=path).num_boosted_rounds()


def _save_xgboost(model: Any, path: Path) -> None:
    model.save_model(path)


def _lightgbm_margin(work: Work) -> Call:
    return partial(work.model.predict, work.rows, raw_score=True, num_threads=work.n_threads)


def _lightgbm_values(work: Work) -> Call:
    contributions = partial(work.model.predict, work.rows, pred_contrib=True, num_threads=work.n_threads)
    return lambda: contributions()[:, :-1]


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
    "silva": Rival(
        "silva",
        {
            "values": partial(_silva_values, "float32"),
            "interactions": partial(_silva_interactions, "float32"),
            "margin": _silva_margin,
            "row": _silva_row,
            "explain row": _silva_explain_row,
            "background values": partial(_silva_background, "shap_values"),
            "background interactions": partial(_silva_background, "shap_interaction_values"),
            "weighted background": _silva_weighted_background,
            "background memory": _silva_background_memory,
            "prepare": _silva_prepare,
            "partial dependence": _silva_dependence,
            "report": _silva_report,
            "size of the report": _silva_report_size,
            "load Booster": partial(_silva_load, ""),
            **{f"load {suffix}": partial(_silva_load, suffix) for suffix in (".ubj", ".json", ".silva")},
            "explain file": _silva_explain_file,
            "import": partial(_import, "silva"),
        },
    ),
    "silva float64": Rival(
        "silva",
        {
            "values": partial(_silva_values, "float64"),
            "interactions": partial(_silva_interactions, "float64"),
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
            **{f"load {suffix}": partial(_xgboost_load, suffix) for suffix in (".ubj", ".json")},
            "import": partial(_import, "xgboost"),
        },
    ),
    "LightGBM": Rival(
        "lightgbm",
        {
            "values": _lightgbm_values,
            "margin": _lightgbm_margin,
            "row": _lightgbm_margin,
            "import": partial(_import, "lightgbm"),
        },
    ),
    "scikit-learn": Rival(
        "scikit-learn",
        {
            "margin": _scikit_learn_margin,
            "row": _scikit_learn_margin,
            "partial dependence": _scikit_learn_dependence,
            "import": partial(_import, "sklearn"),
        },
    ),
    "oneDAL": Rival("scikit-learn-intelex", {"margin": _onedal_margin, "row": _onedal_margin}),
    "shap": Rival(
        "shap", {"values": _shap_values, "background values": _shap_background, "import": partial(_import, "shap")}
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
