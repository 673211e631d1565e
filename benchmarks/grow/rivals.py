"""What others make of the same rows: name -> (prediction, leaves or rules)."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.grow.cases import Case

WEKA = "/usr/share/java/weka.jar"
"""Where Debian puts it; WEKA_JAR in the environment names another place."""

PACKAGES = {
    "Cubist": "cubist",
    "PILOT": "fast-model-trees",
    "linear-tree": "linear-tree",
    "LightGBM linear trees": "lightgbm",
    "LightGBM": "lightgbm",
    "EBM": "interpret-core",
    "CLARITree": "claritree",
    "decision tree": "scikit-learn",
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
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        jar = os.environ.get("WEKA_JAR", WEKA)
        command = ["java", "-cp", jar, "weka.core.Version"]
        found["M5P"] = "weka " + subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    return found


def cubist(case: Case, **settings: Any) -> tuple[Any, int]:
    from cubist import Cubist

    model = Cubist(**settings).fit(case.X, case.y)
    return model.predict(case.X_test), len(model.coeffs_)


def pilot(case: Case, **settings: Any) -> tuple[Any, int]:
    from pilot import PILOT

    model = PILOT(**settings).train(case.X, case.y)
    summary = model.tree_summary()
    return model.predict(case.X_test), int((summary["node_type"] == "con").sum())


def m5p(case: Case, least_rows: int = 4) -> tuple[Any, int]:
    """Weka's M5P by its command line, files included. It prints three decimals, hence y in millionths."""
    with tempfile.TemporaryDirectory() as folder:
        train, test, model = (Path(folder) / name for name in ("train.arff", "test.arff", "model"))
        _write_arff(train, case.X, case.y * 1e6)
        _write_arff(test, case.X_test, case.y_test * 1e6)
        text = _weka("-t", train, "-no-cv", "-d", model, "-M", least_rows)
        predictions = _weka("-l", model, "-T", test, "-p", "0")
    rows = re.findall(r"^\s*\d+\s+\S+\s+(\S+)", predictions, re.MULTILINE)
    rules = re.search(r"Number of Rules : (\d+)", text)
    return np.array(rows, float) / 1e6, int(rules[1]) if rules else 0


def _weka(*arguments: Any) -> str:
    command = ["java", "-Xmx4g", "-cp", os.environ.get("WEKA_JAR", WEKA), "weka.classifiers.trees.M5P"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def _write_arff(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    names = [f"@attribute x{i} numeric" for i in range(X.shape[1] + 1)]
    header = "\n".join(["@relation rows", *names, "@data"])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.17g", delimiter=",", header=header, comments="")


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


def lightgbm_defaults(case: Case) -> tuple[Any, int]:
    import lightgbm as lgb

    model = lgb.LGBMRegressor(verbose=-1, n_jobs=1).fit(case.X, case.y)
    n_leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return model.booster_.predict(case.X_test), n_leaves


def decision_tree(case: Case) -> tuple[Any, int]:
    """scikit-learn's, its size by five-fold cross-validation."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeRegressor

    sizes = {"max_leaf_nodes": [2, 4, 8, 16, 32, 64, 128]}
    search = GridSearchCV(DecisionTreeRegressor(random_state=0), sizes, cv=5).fit(case.X, case.y)
    return search.predict(case.X_test), search.best_estimator_.get_n_leaves()


def ebm(case: Case, n_jobs: int = 1) -> tuple[Any, int]:
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(n_jobs=n_jobs).fit(case.X, case.y)
    return model.predict(case.X_test), len(model.term_names_)


def clari_tree(case: Case) -> tuple[Any, int]:
    """With the settings of its own example: there are no defaults of depth and ridge."""
    from clari_tree import CLARITree

    model = CLARITree(depth=4, lambda_=0.001, kappa=0.001, n_thresholds=20, verbose=False)
    model.fit(case.X, case.y)
    return np.ravel(model.predict(case.X_test)), int(model.n_leaves())


def linear_regression(case: Case) -> tuple[Any, int]:
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(np.nan_to_num(case.X), case.y).predict(case.X_test), 1


RIVALS: dict[str, Callable[[Case], tuple[Any, int]]] = {
    "Cubist": cubist,
    "PILOT": pilot,
    "M5P": m5p,
    "linear-tree": linear_tree,
    "LightGBM linear trees": lightgbm,
    "LightGBM": lightgbm_defaults,
    "CLARITree": clari_tree,
    "decision tree": decision_tree,
    "linear regression": linear_regression,
}
