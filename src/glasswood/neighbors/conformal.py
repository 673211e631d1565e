"""Intervals and sets that hold the truth as often as asked for, whatever the distribution of the rows.

Split conformal prediction with locally weighted residuals (Lei et al. 2018, doi:10.1080/01621459.2017.1307116), and
jackknife+ after bootstrap (Barber et al. 2021, doi:10.1214/20-AOS1965; Kim, Xu, Barber 2020).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int32s

if TYPE_CHECKING:
    from glasswood.neighbors.training import Counts

SMALLEST_SCALE = 0.1
"""Share of the mean scale that is added to all scales: if neighbours are fitted without error, targets still vary."""

NUMBERS_TOGETHER = 2**23
"""Predictions of models without a row that are held together."""


def check_coverage(coverage: float) -> float:
    """Raise ValueError unless the coverage lies between 0 and 1."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {quoted(coverage)}, expected a number between 0 and 1, such as 0.9")
    return float(coverage)


class LeafScale:
    """Mean absolute residual of the training rows in the leaves that a row reaches.

    Parameters
    ----------
    residual : (n,)
        Residuals of training rows; NaN if there is none.
    positions : int32, (n, n_trees)
    share : (n_trees,)
        Shares of the trees.
    n_leaves : int
    """

    def __init__(self, residual: Doubles, positions: Int32s, share: Doubles, n_leaves: int) -> None:
        known = ~np.isnan(residual)
        size = np.abs(residual[known])
        overall = float(size.mean()) if len(size) else 0.0
        total, count = np.zeros(n_leaves), np.zeros(n_leaves)
        for tree in range(positions.shape[1]):
            leaf = positions[known, tree]
            total += np.bincount(leaf, size, n_leaves)
            count += np.bincount(leaf, minlength=n_leaves)
        self._mean = np.divide(total, count, out=np.full(n_leaves, overall), where=count > 0)
        self._share, self._least = share, SMALLEST_SCALE * overall

    def of(self, positions: Int32s) -> Doubles:
        """Scales of rows, (m,); 1 where no training row has a residual."""
        if self._least == 0:
            return np.ones(len(positions))
        result: Doubles = self._mean[positions] @ self._share + self._least
        return result


def conformal_quantile(scores: Doubles, coverage: float) -> float:
    """Score that at least ceil((n + 1) * coverage) of n scores do not exceed; infinite where n is too small."""
    place = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return math.inf if place > len(scores) else float(np.partition(scores, place - 1)[place - 1])


def jackknife_plus(
    values: Doubles, positions: Int32s, training: Int32s, bags: Counts, y: Doubles, coverage: float
) -> tuple[Doubles, Doubles]:
    """Compute the ends of jackknife+-after-bootstrap intervals of rows.

    Parameters
    ----------
    values : (n_leaves,)
        Predictions of the leaves.
    positions, training : int32, (m, n_trees) and (n, n_trees)
        Leaves of the rows, and of the training rows.
    bags : (n, n_trees)
    y : (n,)
    coverage : float
    """
    out = (bags == 0).astype(np.float64)
    count = out.sum(axis=1)
    used = count > 0
    out, count, y = out[used], count[used], y[used]
    residual = np.abs(y - (values[training[used]] * out).sum(axis=1) / count)
    share = (out / count[:, None]).T
    low, high = np.empty(len(positions)), np.empty(len(positions))
    step = max(1, NUMBERS_TOGETHER // max(len(y), 1))
    for first in range(0, len(positions), step):
        part = slice(first, first + step)
        left_out = values[positions[part]] @ share
        low[part] = -_smallest(residual - left_out, coverage)
        high[part] = _smallest(left_out + residual, coverage)
    return low, high


def _smallest(numbers: Doubles, coverage: float) -> Doubles:
    """`conformal_quantile` of each row."""
    n = numbers.shape[1]
    place = math.ceil((n + 1) * coverage - 1e-9)
    if place > n:
        return np.full(len(numbers), np.inf)
    result: Array = np.partition(numbers, place - 1, axis=1)[:, place - 1]
    return result
