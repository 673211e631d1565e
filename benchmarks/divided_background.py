"""Values against a background of forests of which some trees have no tables on a GPU, beside the cores.

    python -m benchmarks.divided_background --results FOLDER

20 features, 20,000 training rows: LightGBM's default trees of 31 leaves, trees of 255 leaves, and a full-depth random
forest of scikit-learn. Rows lie on the host. Further explainers of a forest share its plan: times are those of tables
and patterns of the background, and of values after these. Limits: of a kernel of patterns some 17 instructions of a
warp for a row and 128 patterns of a leaf, and 10 for each pattern that lets the row pass.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import lightgbm
import numpy as np
from sklearn.ensemble import RandomForestRegressor

import glasswood
from benchmarks.machine import conditions
from glasswood.explain.cuda.divided import divide

N_FEATURES, N_TRAINING, RUNS = 20, 20_000, 3

MODELS = {
    "100 trees of 31 leaves": (lambda: lightgbm.LGBMRegressor(n_estimators=100, verbose=-1), 100_000, 1000),
    "100 trees of 255 leaves": (
        lambda: lightgbm.LGBMRegressor(n_estimators=100, num_leaves=255, verbose=-1),
        5000,
        1000,
    ),
    "4 full-depth trees": (lambda: RandomForestRegressor(4, max_features="sqrt", random_state=0), 100, 100),
    "4 full-depth trees, 1,000 background rows": (
        lambda: RandomForestRegressor(4, max_features="sqrt", random_state=0),
        200,
        1000,
    ),
}
"""A model, rows and background rows."""

TOLERANCE = 1e-6
"""Largest difference of values, in shares of the largest sum of a row's values."""


def training_rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    return X, X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.2 * X[:, 3:].sum(axis=1) + rng.normal(size=n) * 0.3


def timed(call):
    began = time.perf_counter()
    result = call()
    return result, time.perf_counter() - began


def measure(forest, rows, background):
    """Seconds of both devices in turn, after a call of each that compiles and is compared."""
    found, record = {}, {}
    for device in ("cuda", "cpu"):
        found[device] = glasswood.Explainer(forest, background, device=device).shap_values(rows)
    size = np.abs(found["cpu"]).sum(axis=1).max()
    record["difference"] = float(np.abs(found["cuda"] - found["cpu"]).max() / size)
    assert record["difference"] < TOLERANCE, record
    times = {f"{device}, {call}": [] for device in ("cuda", "cpu") for call in ("tables", "values")}
    for _ in range(RUNS):
        for device in ("cuda", "cpu"):
            explainer = glasswood.Explainer(forest, background, device=device)
            times[f"{device}, tables"].append(timed(explainer.prepare)[1])
            times[f"{device}, values"].append(timed(lambda e=explainer: e.shap_values(rows))[1])
    return record | {"s": {name: float(np.median(each)) for name, each in times.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    parser.add_argument("--rows", type=int, default=0, help="of each case, instead of those of MODELS")
    arguments = parser.parse_args()
    records = {}
    for name, (make, n_rows, n_background) in MODELS.items():
        forest = glasswood.load(make().fit(*training_rows(N_TRAINING, 0)))
        rows, background = training_rows(arguments.rows or n_rows, 1)[0], training_rows(n_background, 2)[0]
        explainer = glasswood.Explainer(forest, background, device="cuda")
        division = divide(explainer.game, explainer.settings, "values")
        record = {
            "rows": len(rows),
            "background": n_background,
            "parts_with_tables": len(division.parts),
            "trees_by_patterns": division.n_walked,
            "share_of_patterns": division.rest_share,
        }
        records[name] = record | measure(forest, rows, background)
        print(json.dumps({name: records[name]}), flush=True)
        if arguments.results:
            about = {"conditions": conditions(), "records": records}
            path = pathlib.Path(arguments.results, "divided-background-nvidia-h200.json")
            path.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
