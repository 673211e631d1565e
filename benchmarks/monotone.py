"""Monotone trees: pairs of rows that differ in one constrained feature, and what the constraints cost.

    python -m benchmarks.monotone FOLDER --machine "2 processors" [--sets 10] [--pairs 50000] [--jobs 2] [--record]

FOLDER has the sets of `benchmarks.pool`. On each of the first regressions of the reporting half, by hash, the two
numbers whose ranks correlate most with the target are constrained to the sign of that correlation, in glasswood's tree
and boosted sequence and in LightGBM. Pairs start from test rows and go far beyond the range of the feature.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.pool import sets
from benchmarks.tables import between

N_CONSTRAINED = 2

LEAST_ROWS = 300


def signs_of(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Choose the columns whose ranks correlate most with the target's: 1 or -1 each, 0 for the others."""
    correlations = np.array([_correlation(x, y) for x in X.T])
    signs = np.zeros(X.shape[1], int)
    for column in np.argsort(-np.abs(correlations), kind="stable")[:N_CONSTRAINED]:
        signs[column] = int(np.sign(correlations[column]))
    return signs


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import spearmanr

    present = ~np.isnan(x)
    if len(np.unique(x[present])) < 3:
        return 0.0
    return float(np.nan_to_num(spearmanr(x[present], y[present]).statistic))


def violations(
    predict: Callable[[np.ndarray], np.ndarray], X: np.ndarray, signs: np.ndarray, n_pairs: int, random: Any
) -> int:
    """Count pairs of rows that differ in one constrained feature and are predicted against its sign."""
    first = X[random.integers(len(X), size=n_pairs)]
    at = random.choice(np.flatnonzero(signs), n_pairs)
    middle, spread = np.nanmean(X, axis=0)[at], np.nanstd(X, axis=0)[at]
    near = X[random.integers(len(X), size=(2, n_pairs)), at]
    far = middle + spread * random.standard_normal((2, n_pairs)) * random.choice([0.1, 1.0, 30.0], n_pairs)
    values = np.sort(np.where(np.isnan(near) | (random.random((2, n_pairs)) < 0.5), far, near), axis=0)
    second = first.copy()
    first[np.arange(n_pairs), at], second[np.arange(n_pairs), at] = values
    return int(np.sum(signs[at] * (predict(second) - predict(first)) < 0))


def models(signs: list[int] | None) -> dict[str, Any]:
    """Return all models, with the constraints or without."""
    import lightgbm

    import glasswood

    step = glasswood.ModelTreeRegressor(
        penalty=0.1, max_leaves=8, noise="uniform", clip="leaf", population_size=16, generations=20, monotonic_cst=signs
    )
    quiet = {"time_limit": None, "n_jobs": 1}
    return {
        "glasswood, one tree": glasswood.ModelTreeRegressor(monotonic_cst=signs, verbose=False, **quiet),
        "glasswood, boosted": glasswood.ModelTreeEnsembleRegressor(step, 1, method="boosting", **quiet),
        "LightGBM": lightgbm.LGBMRegressor(verbose=-1, n_jobs=1, monotone_constraints=signs),
    }


def measured(path: Path, n_pairs: int) -> list[dict[str, Any]]:
    """Fit all on one set, its categories as one-hot columns."""
    split = sets.read(path, 0, 3_000)
    X, X_test = split.numbers()
    signs = signs_of(X, split.y)
    found = []
    free, held = models(None), models(signs.tolist())
    for name, model in held.items():
        model.fit(X, split.y)
        free[name].fit(X, split.y)
        errors = [float(np.sqrt(np.mean((m.predict(X_test) - split.y_test) ** 2))) for m in (model, free[name])]
        random = np.random.default_rng([zlib.crc32(path.stem.encode()), len(found)])
        counted = [violations(m.predict, X_test, signs, n_pairs, random) for m in (model, free[name])]
        found.append({
            "case": path.stem, "method": name, "pairs": n_pairs, "error": errors[0], "error_free": errors[1],
            "violations": counted[0], "violations_free": counted[1],
        })  # fmt: skip
    return found


def table(records: list[dict[str, Any]]) -> str:
    """Sums of pairs, and medians of the errors' ratios."""
    heads = ("", "models", "pairs", "violations", "of the same without constraints",
             "error in that without, median", "worst", "error in LightGBM's constrained, median")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    beside = {one["case"]: one["error"] for one in records if one["method"] == "LightGBM"}
    for method in dict.fromkeys(one["method"] for one in records):
        own = [one for one in records if one["method"] == method]
        costs = [one["error"] / one["error_free"] for one in own]
        ratio = np.median([one["error"] / beside[one["case"]] for one in own])
        free = sum(one["violations_free"] for one in own) / sum(one["pairs"] for one in own)
        lines.append(
            f"| {method} | {len(own)} | {sum(one['pairs'] for one in own):,} | {sum(one['violations'] for one in own)} "
            f"| {100 * free:.1f} % | {np.median(costs):.3f} | {max(costs):.3f} | {ratio:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Fit, print the table, and on request write it to the page and the records to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--machine", default="")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    paths = [path for path in given.folder.glob("*.parquet") if _fits(path)]
    paths.sort(key=lambda path: zlib.crc32(path.stem.encode()))
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(partial(measured, n_pairs=given.pairs), paths[: given.sets]):
            records += found
            print(json.dumps(found), flush=True)
    print(table(records))
    if given.record:
        results = Path(__file__).parent / "results" / "monotone.json"
        about = {**machine.conditions(), "machine": given.machine, "records": records}
        results.write_text(json.dumps(about, indent=1) + "\n")
        page = results.parent / "grow.md"
        page.write_text(between(page.read_text(), "monotone", table(records)))


def _fits(path: Path) -> bool:
    """Whether a set is a regression of the reporting half, of enough rows and numbers."""
    if sets.is_tuning(path.stem) or sets.has_classes(path.stem):
        return False
    split = sets.read(path, 0, 3_000)
    return len(split.y) >= LEAST_ROWS and np.count_nonzero(signs_of(split.numbers()[0], split.y)) == N_CONSTRAINED


if __name__ == "__main__":
    main()
