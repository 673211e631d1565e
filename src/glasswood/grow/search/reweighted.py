"""Growing by losses other than squares: searches on the working responses of the best tree so far."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.grow.data.columns import TrainingData
from glasswood.grow.losses import LINKS
from glasswood.grow.search.growing import grow, with_share_of_time
from glasswood.grow.search.robust import residuals_of
from glasswood.grow.tree.assembly import sign_of, target_range

if TYPE_CHECKING:
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

ROUNDS = 3
"""Searches, each for the working responses of the tree before."""

STEPS = 50
"""Most steps of reweighting the equations of the last tree."""

CLOSE = 1e-9
"""Relative gain of the loss at which it ends."""

EITHER_SIGN = (-np.inf, np.inf)
"""Range of logarithms and of working responses."""


def grow_reweighted(loss: Any, model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search for the tree of margins that makes a loss small, by iteratively reweighted least squares.

    Each search has the working responses, and their weights, of the tree before; the equations of the last tree are
    then reweighted until the loss falls no further.

    Parameters
    ----------
    loss : PoissonLoss, GammaLoss or QuantileLoss
    model, data, given
        As in `glasswood.grow.search.growing.grow`.
    """
    (columns, target, weight), _, _ = data.in_order()
    margins = np.full((len(target), 1), loss.start(target, weight))
    member = with_share_of_time(model, ROUNDS)
    for _ in range(ROUNDS):
        rest, spread = loss.rough().step(target, margins, weight, 0)
        working = TrainingData(columns.ordered_by(rest, spread), margins[:, 0] + rest, spread)
        growth = grow(member, working, given)
        margins = _margins(growth, len(target))
        given = given.now()
    least = np.inf
    for _ in range(STEPS):
        left = loss.total(target, margins, weight)
        if not left < least - CLOSE * abs(left):
            break
        least, best = left, growth
        rest, spread = loss.step(target, margins, weight, 0)
        rows = dataclasses.replace(growth.rows, weight=spread[growth.order] / spread.mean())
        growth = dataclasses.replace(growth, rows=rows, target=(margins[:, 0] + rest)[growth.order])
        margins = _margins(growth, len(target))
    is_amount = LINKS[model.loss] == "identity"  # margins of other links are logarithms
    return dataclasses.replace(best, sign=sign_of(target) if is_amount else EITHER_SIGN)


def _margins(growth: Growth, n_rows: int) -> Doubles:
    """Predict the rows, as they were given, by the leaves' regressions."""
    predicted = np.zeros(n_rows)
    predicted[growth.order] = growth.target
    margins: Doubles = np.clip(predicted - residuals_of(growth, n_rows), *target_range(growth.target, EITHER_SIGN))
    return margins[:, None]
