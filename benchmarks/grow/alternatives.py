"""What `alternatives_` costs: default fits beside the same ones without them, in turns.

`python -m benchmarks.grow.alternatives RESULT [--device cuda] [--turns 5] [--only TEXT]` fits each case in turns, whose
order alternates, and writes processor seconds on one core; a ratio is the median of those of turns. On a GPU the cases
have more rows, and seconds are those of the clock.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Case = tuple[str, dict[str, Any], Any, Any]


def _california(n_rows: int) -> tuple[Any, Any]:
    from benchmarks import data

    table = data.read("california_housing")
    return np.asarray(table.rows[:n_rows], float), np.asarray(table.target[:n_rows], float)


def _adult(n_rows: int) -> tuple[Any, Any]:
    from benchmarks import data

    table = data.read("adult")
    return np.asarray(table.rows[:n_rows], float), np.asarray(table.target[:n_rows])


def _counts(X: Any) -> Any:
    rng = np.random.default_rng(0)
    return rng.poisson(np.exp(0.5 * X[:, 0] + np.where(X[:, 1] > 0.5, 1.0, 0.0))).astype(float)


def cases() -> dict[str, Callable[[], Case]]:
    """Make the fits: kind of estimator, its options, rows and targets."""
    from sklearn.datasets import load_diabetes, make_friedman1

    friedman = make_friedman1(2000, noise=1, random_state=0)
    small = make_friedman1(300, noise=1, random_state=0)
    return {
        "diabetes": lambda: ("regressor", {}, *load_diabetes(return_X_y=True)),
        "friedman, 300 rows": lambda: ("regressor", {}, *small),
        "friedman": lambda: ("regressor", {}, *friedman),
        "friedman, constants": lambda: ("regressor", {"leaf_model": "constant"}, *friedman),
        "friedman, Huber": lambda: ("regressor", {"loss": "huber"}, *friedman),
        "counts": lambda: ("regressor", {"loss": "poisson"}, friedman[0], _counts(friedman[0])),
        "California, 4,000 rows": lambda: ("regressor", {}, *_california(4000)),
        "California": lambda: ("regressor", {}, *_california(13_760)),
        "California, constants": lambda: ("regressor", {"leaf_model": "constant"}, *_california(13_760)),
        "two classes": lambda: ("classifier", {}, *_adult(5000)),
    }


def gpu_cases() -> dict[str, Callable[[], Case]]:
    """Make the fits of a GPU, with the defaults, but for the first, whose search is brief."""
    from benchmarks.grow.gpu_cases import armchair, planes

    on_gpu: dict[str, Any] = {"device": "cuda"}
    return {
        "planes 200K x 16, 30 generations": lambda: ("regressor", on_gpu | {"generations": 30}, *planes(200_000, 16)),
        "planes 200K x 16": lambda: ("regressor", on_gpu, *planes(200_000, 16)),
        "armchair 1M x 2": lambda: ("regressor", on_gpu, *armchair(1_000_000, 2)),
        "armchair 10M x 2": lambda: ("regressor", on_gpu, *armchair(10_000_000, 2)),
    }


def seconds(case: Case, alternatives: int) -> float:
    """Processor seconds of a fit, or seconds of one on a GPU."""
    import glasswood

    kind, options, X, y = case
    of = glasswood.ModelTreeRegressor if kind == "regressor" else glasswood.ModelTreeClassifier
    machine, clock = {"n_jobs": 1}, time.process_time
    if options.get("device") == "cuda":
        machine, clock = {}, time.perf_counter
    model = of(time_limit=None, verbose=False, alternatives=alternatives, **machine, **options)
    began = clock()
    model.fit(X, y)
    return clock() - began


def measured(case: Case, turns: int) -> dict[str, Any]:
    """Fit in turns."""
    with_, without = [], []
    for turn in range(turns):
        for found, alternatives in ((with_, 10), (without, 0))[:: 1 if turn % 2 else -1]:
            found.append(seconds(case, alternatives))
    ratios = np.divide(with_, without)
    return {"with": with_, "without": without, "ratio": float(np.median(ratios))}


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    from benchmarks.grow.gpu import machine

    found: dict[str, Any] = {"conditions": machine(), "cases": {}}
    for name, make in (gpu_cases() if arguments.device == "cuda" else cases()).items():
        if arguments.only in name:
            found["cases"][name] = record = measured(make(), arguments.turns)
            print(f"{name}: {np.median(record['without']):.2f} s, {record['ratio']:.3f}", flush=True)
            arguments.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
