"""Growing by Huber's loss: squares of small residuals, absolute values of large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.grow.data.derived import unexplained
from glasswood.grow.search.growing import grow, with_share_of_time
from glasswood.grow.tree.refit import fit_leaf, rows_by_node

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

CORNER = 1.345
"""Standard deviations beyond which a residual counts by its absolute value: 95 % as efficient as squares where noise is
normal (Huber 1981)."""

DEVIATION = 1.4826
"""Standard deviation of normal noise over its median absolute value."""

ROUNDS = 3
"""Searches, each with the weights that the residuals of the one before give."""

STEPS = 10
"""Most steps of reweighting a regression."""


def grow_robustly(model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search with weights that make squares of Huber's loss (iteratively reweighted least squares).

    The first weights are those of a linear regression of all rows, so that no leaf is made of rows that are far off.

    Parameters
    ----------
    model, data, given
        As in `glasswood.grow.search.growing.grow`.
    """
    data, _, _ = data.in_order()
    columns, target, weight = data
    numbers = columns.X[:, ~columns.is_categorical]
    factor = np.ones(len(target))
    for _ in range(STEPS):
        factor = _factors(unexplained(numbers, target, weight * factor), weight)
    member = with_share_of_time(model, ROUNDS)
    for step in range(ROUNDS):
        growth = grow(member, data._replace(weight=weight * factor), given)
        if step + 1 < ROUNDS:
            factor = _factors(residuals_of(growth, len(target)), weight)
            given = given.now(population=growth.population())
    return growth


def residuals_of(growth: Growth, n_rows: int) -> Doubles:
    """Take from the rows, as they were given, what the leaves' regressions say."""
    tree, rows = growth.result.best, growth.rows
    used = tree["model"].reshape(len(tree["feature"]), -1).astype(bool)
    residuals = np.zeros(n_rows)
    reached = rows_by_node(tree, rows)
    for node in np.flatnonzero(tree["feature"] < 0).tolist():
        at = reached[node]
        X, y, weight = growth.columns.X[at], growth.target[at], rows.weight[at]
        leaf = fit_leaf(X, y, weight, np.flatnonzero(used[node]), rows.target.scale or 1.0)
        residuals[growth.order[at]] = y - leaf.predict(X)
    return residuals


def _factors(residuals: Doubles, weight: Doubles) -> Doubles:
    """Weights that turn squares into Huber's loss."""
    size = np.abs(residuals)
    order = np.argsort(size)
    total = np.cumsum(weight[order])
    spread = DEVIATION * size[order][np.searchsorted(total, total[-1] / 2)]
    factors: Doubles = np.minimum(1.0, CORNER * spread / np.maximum(size, 1e-300)) if spread > 0 else np.ones(len(size))
    return factors
