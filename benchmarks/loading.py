"""Load live models with and without comparing them with their library's own predictions.

`python -m benchmarks.loading` writes benchmarks/results/loading-<machine>.json and a table of libraries.md there.
Milliseconds are those of processors, the least of some loads: each is of the model as it is for the first time.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import glasswood
from benchmarks.data import ROOT
from benchmarks.machine import conditions, machine_name
from benchmarks.tables import between
from glasswood.checking import comparison

RESULTS = Path(__file__).parent / "results"
N_ROWS, N_FEATURES, N_TREES, DEPTH, REPEATS = 4_000, 10, 100, 8, 15
LONGEST_MS, LARGEST_SHARE = 10.0, 0.25
"""The check takes at most so many milliseconds, or so large a share of the load."""


def models() -> dict[str, Any]:
    """Fit models of `N_TREES` trees of `DEPTH`, by name."""
    import catboost
    import lightgbm
    import pandas as pd
    import xgboost
    from sklearn import ensemble
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, N_FEATURES)), columns=[f"c{i}" for i in range(N_FEATURES)])
    y = 2 * X.c0 + X.c1 * X.c2 + rng.normal(size=N_ROWS) / 3
    forest: dict[str, Any] = {"max_depth": DEPTH, "random_state": 0}
    leaves = 2**DEPTH - 1
    given: dict[str, Any] = {
        "XGBoost, regressor": xgboost.XGBRegressor(n_estimators=N_TREES, max_depth=DEPTH),
        "XGBoost, classifier": xgboost.XGBClassifier(n_estimators=N_TREES, max_depth=DEPTH),
        "LightGBM, regressor": lightgbm.LGBMRegressor(
            n_estimators=N_TREES, num_leaves=leaves, max_depth=DEPTH, verbose=-1
        ),
        "CatBoost, regressor": catboost.CatBoostRegressor(
            iterations=N_TREES, depth=DEPTH, verbose=0, allow_writing_files=False
        ),
        "CatBoost, classifier": catboost.CatBoostClassifier(
            iterations=N_TREES, depth=DEPTH, verbose=0, allow_writing_files=False
        ),
        "RandomForestRegressor": ensemble.RandomForestRegressor(N_TREES, **forest),
        "RandomForestClassifier": ensemble.RandomForestClassifier(N_TREES, **forest),
        "GradientBoostingClassifier": ensemble.GradientBoostingClassifier(n_estimators=N_TREES, **forest),
        "HistGradientBoostingRegressor": ensemble.HistGradientBoostingRegressor(
            max_iter=N_TREES, max_leaf_nodes=leaves, **forest
        ),
        "IsolationForest": ensemble.IsolationForest(n_estimators=N_TREES, random_state=0),
        "Pipeline of a RandomForestRegressor": make_pipeline(
            StandardScaler(), ensemble.RandomForestRegressor(N_TREES, **forest)
        ),
        "VotingRegressor of XGBoost and a forest": ensemble.VotingRegressor(
            [
                ("forest", ensemble.RandomForestRegressor(N_TREES // 2, **forest)),
                ("boosted", xgboost.XGBRegressor(n_estimators=N_TREES // 2, max_depth=DEPTH)),
            ]
        ),
    }
    return {name: model.fit(X, y > 0 if "lassifier" in name else y) for name, model in given.items()}


def milliseconds(model: Any, **options: Any) -> tuple[float, Any]:
    """Least processor time of a load, and the forest."""
    times = []
    for _ in range(REPEATS):
        comparison.forget()
        start = time.process_time()
        forest = glasswood.load(model, **options)
        times.append(1000 * (time.process_time() - start))
    return min(times), forest


def measured() -> dict[str, Any]:
    """Milliseconds with and without the check, and what it found, by model."""
    result = {}
    for name, model in models().items():
        without, _ = milliseconds(model, check=False)
        checked, forest = milliseconds(model)
        found = forest.checked
        result[name] = {
            "load_ms": without,
            "load_and_check_ms": checked,
            "rows": found.rows,
            "largest_difference": found.difference,
            "unchecked": list(found.unchecked),
            "within_target": checked - without <= max(LONGEST_MS, LARGEST_SHARE * without),
        }
    return result


def table(result: dict[str, Any]) -> str:
    """Lines of Markdown."""
    lines = ["| model | load | load and check | rows | largest difference |", "|---|--:|--:|--:|--:|"]
    for name, one in result.items():
        times = f"{one['load_ms']:.1f} ms | {one['load_and_check_ms']:.1f} ms"
        lines.append(f"| {name} | {times} | {one['rows']} | {one['largest_difference']:.1e} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the results and the table."""
    warnings.simplefilter("ignore")
    result = measured()
    path = RESULTS / f"loading-{machine_name()}.json"
    path.write_text(json.dumps({"conditions": conditions(), "models": result}, indent=1) + "\n")
    page = ROOT / "benchmarks" / "results" / "libraries.md"
    page.write_text(between(page.read_text(), "live models", table(result)))
    print(table(result))


if __name__ == "__main__":
    main()
