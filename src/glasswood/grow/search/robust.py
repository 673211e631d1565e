"""Growing by Huber's loss: squares of small residuals, absolute values of large ones."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.grow.data.columns import TrainingData
from glasswood.grow.data.derived import unexplained
from glasswood.grow.search.growing import grow, with_share_of_time
from glasswood.grow.tree.monotone import fit_equation
from glasswood.grow.tree.refit import rows_by_node

if TYPE_CHECKING:
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

CORNER = 1.345
"""Standard deviations beyond which a residual counts by its absolute value: 95 % as efficient as squares where noise is
normal (Huber 1981)."""

DEVIATION = 1.4826
"""Standard deviation of normal noise over its median absolute value."""

CORNERS = (4.0, 2.0, CORNER)
"""Corners of the searches, each about the fit before: what the first one leaves of its linear regression is structure
too."""

STEPS = 10
"""Steps of reweighting the first regression."""

MOST_STEPS = 30
"""Most steps of reweighting the equations of a tree."""

CLOSE = 1e-7
"""Relative fall of the residuals at which these end."""


def grow_robustly(model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search with targets whose squares about the last fit are Huber's loss, then reweight the equations.

    Targets beyond the corner are moved to it: the squares of the search, from which it takes the noise that its prices
    are in, are then those of the bulk of the rows. The first fit is a linear regression of all rows, so that no leaf is
    made of rows that are far off.

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
        residuals = unexplained(numbers, target, weight * factor)
        factor = _factors(residuals, weight)
    member = with_share_of_time(model, len(CORNERS))
    for step, corner in enumerate(CORNERS):
        moved = target - residuals * (1 - _factors(residuals, weight, corner))
        growth = grow(member, TrainingData(columns.ordered_by(moved, weight), moved, weight), given)
        growth = fitted_robustly(growth, target, weight)
        residuals[growth.order] = residuals_of(growth)
        if step + 1 < len(CORNERS):
            given = given.now(population=growth.population())
    return growth


def fitted_robustly(growth: Growth, target: Doubles, weight: Doubles) -> Growth:
    """Fit the equations of a tree by Huber's loss, by iteratively reweighted least squares.

    Parameters
    ----------
    growth : Growth
        Its own targets may be others: those of its equations are where this begins.
    target, weight : float64, (n_rows,)
        Of the rows as they were given.
    """
    fit = partial(_fitted, target=target[growth.order], weight=weight[growth.order])
    return dataclasses.replace(fit(growth), refit=fit)


def _fitted(growth: Growth, target: Doubles, weight: Doubles) -> Growth:
    """Fit the equations; target and weights are those of the growth's rows."""
    residuals, least = target - growth.target + residuals_of(growth), np.inf
    for _ in range(MOST_STEPS):
        factor = _factors(residuals, weight)
        spread = weight * factor
        growth = dataclasses.replace(
            growth, rows=dataclasses.replace(growth.rows, weight=spread / spread.mean()), target=target
        )
        residuals = residuals_of(growth)
        left = float(weight @ np.minimum(np.abs(residuals), factor * np.abs(residuals)))
        if not left < least * (1 - CLOSE):
            break
        least = left
    return growth


def residuals_of(growth: Growth) -> Doubles:
    """Take from the target, by rows of the growth, what the leaves' regressions say."""
    tree, rows, columns = growth.result.best, growth.rows, growth.columns
    used = tree["model"].reshape(len(tree["feature"]), -1).astype(bool)
    residuals = np.empty(len(growth.target))
    reached = rows_by_node(tree, rows)
    for node in np.flatnonzero(tree["feature"] < 0).tolist():
        at = reached[node]
        X, y, features, unit = columns.X[at], growth.target[at], np.flatnonzero(used[node]), rows.target.scale or 1.0
        residuals[at] = y - fit_equation(columns, X, y, rows.weight[at], features, unit).predict(X)
    return residuals


def _factors(residuals: Doubles, weight: Doubles, corner: float = CORNER) -> Doubles:
    """Weights that turn squares into Huber's loss."""
    size = np.abs(residuals)
    order = np.argsort(size)
    total = np.cumsum(weight[order])
    spread = DEVIATION * size[order][np.searchsorted(total, total[-1] / 2)]
    factors: Doubles = np.minimum(1.0, corner * spread / np.maximum(size, 1e-300)) if spread > 0 else np.ones(len(size))
    return factors
