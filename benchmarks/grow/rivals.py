"""What others make of the same rows: name -> (prediction, leaves or rules)."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.grow.cases import Case

PACKAGES = {
    "Cubist": "cubist",
    "PILOT": "fast-model-trees",
    "linear-tree": "linear-tree",
    "LightGBM linear trees": "lightgbm",
    "linear regression": "scikit-learn",
}


def versions() -> dict[str, str]:
    """Versions of the rivals that are installed."""
    found = {}
    for rival, package in PACKAGES.items():
        try:
            found[rival] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def cubist(case: Case) -> tuple[Any, int]:
    from cubist import Cubist

    model = Cubist().fit(case.X, case.y)
    return model.predict(case.X_test), len(model.coeffs_)


def pilot(case: Case) -> tuple[Any, int]:
    from pilot import PILOT

    model = PILOT().train(case.X, case.y)
    summary = model.tree_summary()
    return model.predict(case.X_test), int((summary["node_type"] == "con").sum())


def linear_tree(case: Case) -> tuple[Any, int]:
    from lineartree import LinearTreeRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.utils.validation import validate_data

    # 0.3.5 calls a private method that scikit-learn 1.6 turned into this function.
    LinearTreeRegressor._validate_data = lambda self, *given, **named: validate_data(self, *given, **_renamed(named))
    model = LinearTreeRegressor(LinearRegression()).fit(case.X, case.y)
    return model.predict(case.X_test), len(model._leaves)


def _renamed(named: dict[str, Any]) -> dict[str, Any]:
    if "force_all_finite" in named:
        named["ensure_all_finite"] = named.pop("force_all_finite")
    return named


def lightgbm(case: Case) -> tuple[Any, int]:
    import lightgbm as lgb

    booster = lgb.train({"linear_tree": True, "verbose": -1, "num_threads": 2}, lgb.Dataset(case.X, case.y), 300)
    n_leaves = sum(tree["num_leaves"] for tree in booster.dump_model()["tree_info"])
    return booster.predict(case.X_test), n_leaves


def linear_regression(case: Case) -> tuple[Any, int]:
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(np.nan_to_num(case.X), case.y).predict(case.X_test), 1


RIVALS: dict[str, Callable[[Case], tuple[Any, int]]] = {
    "Cubist": cubist,
    "PILOT": pilot,
    "linear-tree": linear_tree,
    "LightGBM linear trees": lightgbm,
    "linear regression": linear_regression,
}
