"""Growing by losses other than squares: searches on the working responses of the best tree so far."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.grow.data.columns import TrainingData
from glasswood.grow.losses import PowerLoss, QuantileLoss
from glasswood.grow.search.growing import grow, with_share_of_time
from glasswood.grow.search.robust import residuals_of
from glasswood.grow.tree.assembly import sign_of, target_range
from glasswood.grow.tree.refit import rows_by_node

if TYPE_CHECKING:
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

ROUNDS = 3
"""Searches, each for the working responses of the tree before."""

STEPS = 50
"""Most steps of reweighting the equations of the last tree."""

BETWEEN = 10
"""Most of these steps between two searches."""

CLOSE = 1e-9
"""Relative gain of the loss at which it ends."""

EITHER_SIGN = (-np.inf, np.inf)
"""Range of logarithms."""

SHORTEST = 2.0**-20
"""Part of a step below which nothing along it lowers the loss."""


def grow_reweighted(loss: Any, model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search for the tree of margins that makes a loss small, by iteratively reweighted least squares.

    Each search has the working responses, and their weights, of the tree before, whose equations are those of the loss:
    searches look at shortened responses, which would leave the equations anywhere.

    Parameters
    ----------
    loss : PowerLoss or QuantileLoss
    model, data, given
        As in `glasswood.grow.search.growing.grow`.
    """
    (columns, target, weight), _, _ = data.in_order()
    margins = np.full((len(target), 1), loss.start(target, weight))
    member = with_share_of_time(model, ROUNDS)
    for left in reversed(range(ROUNDS)):
        rest, spread = loss.rough().step(target, margins, weight, 0)
        spread = spread / (2 * spread.max())  # below 1: whole numbers would count repetitions of rows
        working = TrainingData(columns.ordered_by(rest, spread), margins[:, 0] + rest, spread)
        growth = fitted_by(loss, grow(member, working, given), target, weight, BETWEEN if left else STEPS)
        margins[growth.order, 0] = _predicted(growth)
        given = given.now()
    return growth


def fitted_by(loss: Any, growth: Growth, target: Doubles, weight: Doubles, most_steps: int = STEPS) -> Growth:
    """Fit the equations of a tree by a loss.

    Reweighted least squares from the leaves' constants, with steps that are halved until the loss falls: from anywhere
    far below the optimum, the first whole step goes as far beyond it.

    Parameters
    ----------
    loss : PowerLoss or QuantileLoss
    growth : Growth
    target, weight : float64, (n_rows,)
        Of the rows as they were given.
    most_steps : int
    """
    target, weight = target[growth.order], weight[growth.order]
    fit = partial(_fitted, loss, target=target, weight=weight, most_steps=most_steps)
    deviance = partial(_mean_deviance, loss, target=target, weight=weight)
    return dataclasses.replace(fit(growth), refit=fit, deviance=deviance, outcome=(target, weight))


def _fitted(loss: Any, growth: Growth, target: Doubles, weight: Doubles, most_steps: int) -> Growth:
    """Fit the equations; target and weights are those of the growth's rows."""
    margins = _constants(loss, growth, target, weight)
    best, length = _with_working(growth, margins[:, 0], weight), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        least = loss.total(target, margins, weight)
        for _ in range(most_steps):
            rest, spread = loss.step(target, margins, weight, 0)
            tried = _with_working(growth, margins[:, 0] + length * rest, spread)
            further = _predicted(tried)[:, None]
            left = loss.total(target, further, weight)
            if left <= least:
                gain, best, margins, least = least - left, tried, further, left
                if gain <= CLOSE * abs(left) and length == 1:
                    break
                length = min(2 * length, 1.0)
            elif length > SHORTEST:
                length /= 2
            else:
                break
    if isinstance(loss, QuantileLoss):
        reached, shift = rows_by_node(growth.result.best, growth.rows), np.empty(len(target))
        for node in np.flatnonzero(growth.result.best["feature"] < 0).tolist():
            at = reached[node]
            shift[at] = loss.change(target[at], margins[at], weight[at])
        best, margins = dataclasses.replace(best, target=best.target + shift), margins + shift[:, None]
    sign = EITHER_SIGN if isinstance(loss, PowerLoss) else sign_of(target)
    least = _least_margin(loss, target, weight)
    low, high = target_range(np.concatenate([np.maximum(margins[:, 0], least), loss.attainable(target)]), sign)
    return dataclasses.replace(best, limits=(max(low, least), high))


def _mean_deviance(loss: Any, growth: Growth, target: Doubles, weight: Doubles) -> float:
    """Mean deviance, or loss, of the rows of a growth."""
    assert growth.limits is not None
    margins = np.clip(_predicted(growth), *growth.limits)[:, None]
    return float(loss.deviance(target, margins, weight)) / float(weight.sum())


def _constants(loss: Any, growth: Growth, target: Doubles, weight: Doubles) -> Doubles:
    """Margins of the best constant of each leaf: float64, (n_rows, 1)."""
    margins, least = np.empty((len(target), 1)), _least_margin(loss, target, weight)
    reached = rows_by_node(growth.result.best, growth.rows)
    for node in np.flatnonzero(growth.result.best["feature"] < 0).tolist():
        at = reached[node]
        margins[at] = np.maximum(loss.start(target[at], weight[at]), least)
    return margins


def _least_margin(loss: Any, target: Doubles, weight: Doubles) -> float:
    """Choose what margins are kept above: leaves without any count have a mean, half a count among all rows."""
    if not isinstance(loss, PowerLoss):
        return -np.inf
    return float(loss.start(target, weight)[0]) - math.log(2 * len(target))


def _with_working(growth: Growth, response: Doubles, spread: Doubles) -> Growth:
    """Put other responses and weights in, by rows of the growth."""
    return dataclasses.replace(
        growth, rows=dataclasses.replace(growth.rows, weight=spread / spread.mean()), target=response
    )


def _predicted(growth: Growth) -> Doubles:
    """Predict the rows of a growth by the leaves' regressions."""
    return growth.target - residuals_of(growth)
