"""Background rows: whose values stand for the features that a coalition does not know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.device import on_host
from silva.evaluate.evaluator import evaluator_of
from silva.inputs import arranged, as_rows
from silva.inputs.targets import as_vector

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.typing import Array, Doubles, Int64s, Rows

WEIGHT_BITS = 62
"""Weights are integers whose sum stays below 2 to this, so that no sum of them depends on the order of rows."""


@dataclass(frozen=True, eq=False)
class Background:
    """Background rows as the forest routes them.

    Attributes
    ----------
    rows : (m, F), float32 or float64
    weight : (m,)
        In some unit of which the rows' weights are multiples.
    total : int
        The weights are shares of it: their sum, except in parts of an output (responses.py).
    expected_value : (n_outputs,)
        Mean margin.
    """

    rows: Array
    weight: Int64s
    total: int
    expected_value: Doubles

    def __repr__(self) -> str:
        return f"<{len(self.rows):,} rows>"


def make_background(X: Rows | Background, weight: Any, forest: TreeEnsemble, n_jobs: int | None) -> Background:
    """Check background rows and their weights.

    Raises
    ------
    ValueError
        If there are no rows, they do not fit the forest, or weights are negative, not finite or all 0.
    """
    if isinstance(X, Background):
        return X
    try:
        rows = as_rows(arranged(on_host(X), forest, by_position=False), forest)
    except (TypeError, ValueError) as error:
        raise type(error)(f"background: {error}") from error
    if len(rows) == 0:
        raise ValueError("background has no rows, expected at least 1; leave background=None for path-dependent values")
    counts = integer_weights(on_host(weight), len(rows))
    used = counts > 0
    # Rows that the caller changes later must not count.
    return placed_background(np.array(rows[used]), counts[used], forest, n_jobs)


def placed_background(rows: Array, counts: Int64s, forest: TreeEnsemble, n_jobs: int | None) -> Background:
    """Background of rows that `as_rows` made, with weights above 0."""
    if forest.has_linear_leaves:  # sums of what the leaves' models return have an order
        order = np.lexsort(rows.T)
        rows, counts = rows[order], counts[order]
    return Background(rows, counts, int(counts.sum()), mean_margin(forest, rows, counts, n_jobs))


def integer_weights(weight: Any, n_rows: int) -> Int64s:
    """Weights as multiples of a power of two, the largest that keeps their sum exact."""
    if weight is None:
        return np.ones(n_rows, np.int64)
    weights = as_vector(weight, "background_weight")
    if weights.shape != (n_rows,):
        raise ValueError(f"background_weight has shape {weights.shape}, expected ({n_rows},), one weight per row")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"background_weight holds {weights.dtype}, expected numbers")
    weights = weights.astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        wrong = int(np.argmin(np.isfinite(weights) & (weights >= 0)))
        raise ValueError(
            f"background_weight is {weights[wrong]} for row {wrong}, expected finite numbers of at least 0"
        )
    if not weights.any():
        raise ValueError("background_weight is 0 for every row; give at least one row a weight above 0")
    spare = WEIGHT_BITS - n_rows.bit_length() - math.frexp(weights.max())[1]
    counts: Int64s = np.rint(np.ldexp(weights, spare)).astype(np.int64)
    return counts


def margins_of(forest: TreeEnsemble, rows: Array, n_jobs: int | None) -> Doubles:
    """Margins of rows that `as_rows` made: (n, n_outputs)."""
    evaluator = evaluator_of(forest).cpu
    return evaluator.margins(rows, evaluator.default_choice(len(rows)), n_jobs)


def mean_margin(forest: TreeEnsemble, rows: Array, weight: Int64s, n_jobs: int | None) -> Doubles:
    """Weighted mean of the rows' margins: (n_outputs,).

    Raises
    ------
    ValueError
        If their sum is beyond float64: linear leaves extrapolate infinite and huge numbers.
    """
    margins = margins_of(forest, rows, n_jobs)
    largest = np.abs(margins).max(initial=0.0)
    with np.errstate(over="ignore"):
        if not np.isfinite(largest * weight.sum()):
            raise ValueError(
                f"background: margins of its rows reach {largest:.3g}, and float64 does not hold their sum; leave out "
                "rows with numbers far beyond those of training"
            )
    return np.array([mean(of_output, weight) for of_output in margins.T])


def mean(values: Doubles, weight: Int64s) -> float:
    """Weighted mean by exactly rounded sums, which have no order; rows of equal values are one."""
    distinct, place = np.unique(values, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, place, weight)
    return math.fsum((distinct * counts).tolist()) / int(weight.sum())
