"""What GPUs leave or left to the cores (docs/guide/explain.md), in seconds on these cores or on a GPU.

    python -m benchmarks.refused_on_gpus --results FOLDER [--device cuda]

Linear leaves against a background beside the constant leaves of the same settings, exact probabilities of 40 used
features beside 30, and full-depth trees against a background and by groups. Values are checked by their sums. Medians
of runs after one that builds. What a GPU refuses is recorded with its sentence.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import lightgbm
import numpy as np
from sklearn.ensemble import RandomForestRegressor

import glasswood
from benchmarks.machine import conditions

RUNS, N_TRAINING, N_DIFFERING = 3, 20_000, 12
"""Runs; rows of training; features on which rows whose probabilities are explained differ: up to 20 are exact."""


def training_rows(n, n_features):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    return X, X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.2 * X[:, 3:].sum(axis=1) + rng.normal(size=n) * 0.3


def boosted(n_features, *, linear=False, classes=False):
    X, y = training_rows(N_TRAINING, n_features)
    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    model = kind(n_estimators=100, linear_tree=linear, random_state=0, n_jobs=2, verbose=-1)
    forest = glasswood.load(model.fit(X, y > 0 if classes else y))
    return (forest.with_means(X) if linear else forest), X


def deep():
    X, y = training_rows(N_TRAINING, 20)
    return glasswood.load(RandomForestRegressor(4, max_features="sqrt", random_state=0, n_jobs=2).fit(X, y)), X


CASES = {
    "constant leaves, background": (lambda: boosted(20), "margin", 1000, 100),
    "linear leaves, background": (lambda: boosted(20, linear=True), "margin", 1000, 100),
    "exact probabilities, 30 features": (lambda: boosted(30, classes=True), "probability", 200, 100),
    "exact probabilities, 40 features": (lambda: boosted(40, classes=True), "probability", 200, 100),
    "4 full-depth trees, background": (deep, "margin", 100, 100),
    "4 full-depth trees, groups": (deep, "margin", 1000, 0),
}
"""Forest and rows, output, rows explained and background rows; without any, features are in groups of two."""


def measure(case, device):
    make, output, n_rows, n_background = CASES[case]
    forest, X = make()
    if output == "probability":
        X = X.copy()
        X[:, N_DIFFERING:] = X[0, N_DIFFERING:]
    rows, background = X[:n_rows], X[-n_background:] if n_background else None
    pairs = None if n_background else {f"group {i}": [2 * i, 2 * i + 1] for i in range(forest.n_features // 2)}
    explainer = glasswood.Explainer(forest, background, groups=pairs, output=output, device=device)
    times = []
    try:
        for _ in range(RUNS + 1):
            began = time.perf_counter()
            values = explainer.shap_values(rows)
            times.append(time.perf_counter() - began)
    except NotImplementedError as refused:
        return {"refused": str(refused)}
    answers = forest.predict(rows, output=output)
    answers = answers[:, -1] if answers.ndim > 1 else answers
    values = np.asarray(values).reshape(n_rows, len(explainer.players), -1)[..., -1]
    difference = np.abs(values.sum(axis=1) + np.ravel(explainer.expected_value)[-1] - answers).max()
    record = {"leaves": forest.n_leaves, "rows": n_rows, "background": n_background, "first s": times[0]}
    return record | {"s": float(np.median(times[1:])), "largest difference of sums": float(difference)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    report = {"conditions": conditions(), "records": {}}
    for case in CASES:
        report["records"][case] = measure(case, options.device)
        print(case, report["records"][case], flush=True)
        of_device = "" if options.device == "cpu" else f"-{options.device}"
        (options.results / f"refused-on-gpus{of_device}.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
