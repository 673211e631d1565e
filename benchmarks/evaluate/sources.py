"""What other libraries' newest kinds of models and rows cost: linear trees, target statistics, sparse rows.

python -m benchmarks.evaluate.sources [--small] [--processor]; each case compares the predictions before it takes times,
in turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

import glasswood
from benchmarks.data import FOLDER
from benchmarks.timing import Clock, interleaved

Calls = dict[str, "Callable[[], Any]"]
N_THREADS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))


def linear_trees(small: bool) -> tuple[str, Calls]:
    """LightGBM, `linear_tree`: 1000 trees of 31 leaves on 50 features."""
    import lightgbm

    n_trees, n_rows = (100, 10_000) if small else (1000, 100_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * (X[:, 4] > 0) + 0.1 * rng.normal(size=len(X))
    params = {"linear_tree": True, "num_leaves": 31, "verbose": -1, "num_threads": N_THREADS}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y), n_trees)
    forest, rows = glasswood.load(booster), rng.normal(size=(n_rows, 50))
    calls: Calls = {"glasswood": lambda: forest.predict(rows), "LightGBM": lambda: booster.predict(rows)}
    return f"linear_tree, {n_trees} × 31 leaves × 50 features, {n_rows:,} rows", calls


def target_statistics(small: bool) -> tuple[str, Calls]:
    """CatBoost with target statistics on Adult, from a frame of texts."""
    import catboost
    import pandas

    table = pandas.read_parquet(FOLDER / "adult.parquet")
    target = table.columns[-1]
    y = table.pop(target)
    texts = [name for name in table if not pandas.api.types.is_numeric_dtype(table[name])]
    table[texts] = table[texts].astype(object).fillna("missing").astype(str)
    iterations = 100 if small else 1000
    settings = {"iterations": iterations, "depth": 6, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 2}
    settings["thread_count"] = N_THREADS
    model = catboost.CatBoostClassifier(**settings).fit(table[:20_000], y[:20_000], cat_features=texts)
    forest = glasswood.load(model)
    rows = table[: 10_000 if small else len(table)]
    calls: Calls = {
        "glasswood": lambda: forest.predict(rows, output="margin"),
        "CatBoost": lambda: model.predict(rows, prediction_type="RawFormulaVal", thread_count=N_THREADS),
    }
    return f"CTR, Adult, {iterations} × d6, {len(rows):,} rows of a frame", calls


def sparse_rows(small: bool) -> tuple[str, Calls]:
    """XGBoost on CSR rows of 10,000 columns with 20 entries each."""
    import scipy.sparse
    import xgboost

    rng = np.random.default_rng(0)
    n_rows, width, each = 20_000 if small else 1_000_000, 10_000, 20

    def draw(n: int) -> Any:
        entries = (rng.normal(size=n * each), rng.integers(0, width, n * each), np.arange(n + 1) * each)
        matrix = scipy.sparse.csr_matrix(entries, shape=(n, width))
        matrix.sum_duplicates()
        return matrix

    X = draw(20_000)
    y = np.asarray(X[:, :200].sum(axis=1)).ravel() + 0.1 * rng.normal(size=X.shape[0])
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, n_jobs=N_THREADS).fit(X, y)
    booster, forest, rows = model.get_booster(), glasswood.load(model), draw(n_rows)
    calls: Calls = {"glasswood": lambda: forest.predict(rows), "XGBoost": lambda: booster.inplace_predict(rows)}
    return f"CSR of {n_rows:,} × {width:,}, {each} entries a row, 100 × d6", calls


CASES = {"linear": linear_trees, "ctr": target_statistics, "sparse": sparse_rows}


def measure(names: list[str], small: bool, clock: Clock) -> Iterator[str]:
    """Rows of a table: case, seconds of glasswood and of its source library, ratio, largest difference."""
    yield "| case | glasswood | source library | ratio |"
    yield "|---|---|---|---|"
    for name in names:
        title, calls = CASES[name](small)
        (rival,) = [one for one in calls if one != "glasswood"]
        found, expected = np.asarray(calls["glasswood"]()), np.asarray(calls[rival]())
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        seconds = {one: median(runs) for one, runs in interleaved(calls, clock).items()}
        ratio = seconds[rival] / seconds["glasswood"]
        yield f"| {title} | {seconds['glasswood']:.3g} s | {rival} {seconds[rival]:.3g} s | {ratio:.1f} × |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the trees and rows")
    parser.add_argument("--processor", action="store_true", help="processor seconds, for machines with other work")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    given = parser.parse_args()
    glasswood.set_config(n_jobs=N_THREADS)
    for line in measure(
        given.cases or list(CASES), given.small, time.process_time if given.processor else time.perf_counter
    ):
        print(line, flush=True)


if __name__ == "__main__":
    main()
