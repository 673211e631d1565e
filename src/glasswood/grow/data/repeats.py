"""Rows that are repeated, or weigh as much as several: one order and one count for all ways to write the same data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Doubles, Int32s, Int64s

MOST_ORDERED = 1 << 17
"""More rows keep their order, and repetitions among them are not looked for."""

CHANCE = 1.02
"""Rows of equal features and target are copies where at most this many times as many rows differ in all columns as
differ in the features: where rows repeat by chance, equal features come with other targets too."""

WEIGHT_BITS = 32
"""Bits that relative weights are rounded to."""

LARGEST_WHOLE = 2.0**53
"""Smallest number beyond which all are whole."""

ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""Factors of a mixture of bits (Steele, Lea and Flood 2014)."""


def without_scale(weight: Doubles) -> Doubles:
    """Divide weights by what they have in common: counts by their divisor, others by their mean.

    Others are rounded to `WEIGHT_BITS`, so that those that differ in scale alone are the same numbers.

    Parameters
    ----------
    weight : float64, (n_rows,)
        Positive.
    """
    whole = (weight == np.floor(weight)).all() and weight.max() < LARGEST_WHOLE
    if whole:
        counts = weight.astype(np.int64)
        counts //= np.gcd.reduce(counts)
        if counts.sum() <= MOST_ORDERED:
            return counts.astype(np.float64)
    digits, exponent = np.frexp(weight / weight.max())
    share: Doubles = np.ldexp(np.rint(digits * 2.0**WEIGHT_BITS), exponent)
    relative: Doubles = share / share.mean()
    return relative


def in_order(X: Doubles, y: Doubles, weight: Doubles) -> tuple[Int32s, Doubles, float]:
    """Rows to grow a tree on, their weights, and how many copies of each there are on average.

    The order follows from the ranks of what the rows hold, so that other units of a column or of the target leave it as
    it is. Weights that are whole numbers count repetitions: a row of weight two is two rows, and where all counts have
    a common divisor they are divided by it. Other weights are relative.

    Parameters
    ----------
    X : float64, (n_rows, n_features)
    y : float64, (n_rows,)
    weight : float64, (n_rows,)
        Positive.

    Notes
    -----
    O(n_features n_rows log n_rows). Rows are told apart by 64 bits of each.
    """
    if len(y) > MOST_ORDERED:
        return np.arange(len(y), dtype=np.int32), weight, 1.0
    features = _mixed(X, np.zeros(len(y), np.uint64))
    keys = _mixed(y[:, None], features)
    order = np.lexsort((weight, keys)).astype(np.int32)
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    copies = len(starts) <= CHANCE * len(np.unique(features))
    if not (weight == np.floor(weight)).all() or weight.sum() > MOST_ORDERED:
        return order, weight[order], len(order) / len(starts) if copies else 1.0
    counts = np.add.reduceat(weight[order], starts).astype(np.int64)
    counts //= np.gcd.reduce(counts)
    rows = order if counts.sum() == len(order) and (weight == 1).all() else np.repeat(order[starts], counts)
    return rows, np.ones(len(rows)), len(rows) / len(starts) if copies else 1.0


def repetitions(X: Doubles, y: Doubles) -> Int64s:
    """Give rows in order numbers, copies the same one: int64, (n_rows,)."""
    same = (X[1:] == X[:-1]) | (np.isnan(X[1:]) & np.isnan(X[:-1]))
    differs = ~same.all(axis=1) | (y[1:] != y[:-1])
    return np.concatenate([[0], np.cumsum(differs)])


def _mixed(X: Doubles, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ranks in the columns stirred into the keys, one column after the other; all NaN are one value, as both zeros."""
    for column in X.T:
        keys = (keys ^ np.unique(column, return_inverse=True)[1].astype(np.uint64)) * ODD[0]
        keys = (keys ^ (keys >> np.uint64(30))) * ODD[1]
        keys = (keys ^ (keys >> np.uint64(27))) * ODD[2]
        keys ^= keys >> np.uint64(31)
    return keys
