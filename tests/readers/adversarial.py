"""Rows that sit on, and one ulp beside, every threshold of a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tests.oracles.evaluate import visits

if TYPE_CHECKING:
    from glasswood import Forest

DENORMALS = (
    5e-324,
    1e-310,
    1e-45,
    1e-40,
    float(np.float32(1e-35)),
    float(np.nextafter(np.float32(1e-35), np.float32(1))),
)
NUMBERS = (0.0, -0.0, *DENORMALS, *(-x for x in DENORMALS), 1e-38, 3.4e38, -3.4e38)
INFINITIES = (np.inf, -np.inf)
CATEGORIES = (0.0, -0.0, -1e-30, -0.5, -0.999, -1.0, -1.5, -7.0, 1e4, 2.0**24 - 1, 2.0**24, 1e9, 2.0**31, 3e9)
"""Codes that no training row had, negative ones and fractions; those inside the sets are added per forest."""


def adversarial_rows(
    forest: Forest,
    base_rows: NDArray[np.float64],
    seed: int = 0,
    allow_nan: bool = True,
    allow_inf: bool = True,
    max_rows: int = 20_000,
) -> NDArray[np.float64]:
    """Change one entry at a time of rows that reach a split, to values at which its test could go wrong.

    Parameters
    ----------
    base_rows : (n, n_features)
        Ordinary rows, best the training rows, which reach every split. Categories as codes.
    allow_nan, allow_inf : bool
        False where the source library refuses such rows.
    max_rows : int
        A sample of this size is drawn if there are more.
    """
    rng = np.random.default_rng(seed)
    base_rows = np.asarray(base_rows, np.float64)
    specials = [*([np.nan] if allow_nan else []), *(INFINITIES if allow_inf else [])]
    changes = [*_at_splits(forest, base_rows, specials, rng), *_everywhere(forest, base_rows, specials, rng)]
    rows = [base_rows, _scattered(base_rows, specials, rng)]
    for row, feature, values in changes:
        block = np.repeat(base_rows[row : row + 1], len(values), axis=0)
        block[:, feature] = values
        rows.append(block)
    result = np.concatenate(rows)
    return result if len(result) <= max_rows else result[rng.choice(len(result), max_rows, replace=False)]


def _at_splits(forest: Forest, base_rows, specials, rng):
    """One row that reaches each split, and the values to try there."""
    for _, node, rows in visits(forest, base_rows):
        if forest.ensemble.feature[node] >= 0 and len(rows):
            yield rng.choice(rows), forest.ensemble.feature[node], np.array([*_at_split(forest, node), *specials])


def _at_split(forest: Forest, node: int) -> list[float]:
    if len(forest.ensemble.category_set) and forest.ensemble.category_set[node] >= 0:
        return _near_set(forest, forest.ensemble.category_set[node])
    return near(float(forest.ensemble.threshold[node]))


def near(threshold: float) -> list[float]:
    """The threshold, its neighbours in float32 and float64, and the float64 numbers between two float32 ones."""
    if not np.isfinite(threshold):
        return [0.0]
    with np.errstate(over="ignore"):
        single = np.float32(threshold)
        around = [np.nextafter(single, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)]
    lower, middle, upper = (float(x) for x in (around[0], single, around[1]))
    ties = [x for x in (lower / 2 + middle / 2, middle / 2 + upper / 2) if np.isfinite(x)]
    values = [threshold, lower, middle, upper, *ties]
    beside = [np.nextafter(x, side) for x in (threshold, middle, *ties) for side in (-np.inf, np.inf)]
    return [float(x) for x in (*values, *beside, -threshold) if np.isfinite(x) and abs(x) < 3.4e38]


def _near_set(forest: Forest, which: int) -> list[float]:
    n_bits = 32 * int(forest.ensemble.set_offsets[which + 1] - forest.ensemble.set_offsets[which])
    last = np.arange(max(0, n_bits - 64), n_bits + 2, dtype=np.float64)
    first = np.arange(min(n_bits, 40), dtype=np.float64)
    return [*CATEGORIES, *first, *last, *(first + 0.5), *np.nextafter(first + 1, 0)]


def _everywhere(forest: Forest, base_rows, specials, rng):
    """Zeros, denormals and special values in every column."""
    marker = [] if np.isnan(forest.ensemble.missing) else near(forest.ensemble.missing)
    for feature in range(forest.n_features):
        yield rng.integers(len(base_rows)), feature, np.array([*NUMBERS, *marker, *specials])


def _scattered(base_rows, specials, rng):
    """Rows with several odd entries at a time, and rows of nothing else."""
    odd = np.array([0.0, -0.0, *specials])
    rows = np.where(rng.random(base_rows.shape) < 0.3, rng.choice(odd, base_rows.shape), base_rows)
    return np.concatenate([rows, np.repeat(odd[:, None], base_rows.shape[1], axis=1)])
