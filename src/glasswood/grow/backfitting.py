"""Sums of a few trees that are fitted together: each in turn to what the others leave of a loss (backfitting).

Of trees that are grown one after the other, the first models what the sum would share out. So every tree is searched
again beside the others, from the population that it was found in (Friedman and Stuetzle 1981,
https://doi.org/10.1080/01621459.1981.10477729).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from glasswood.grow.boosting import TreeSequence
from glasswood.grow.data.columns import TrainingData
from glasswood.grow.losses import GammaLoss, PoissonLoss, QuantileLoss
from glasswood.grow.search.fitting import fit_tree

if TYPE_CHECKING:
    from glasswood.grow.boosting import SequencePlan
    from glasswood.grow.estimator import ModelTreeRegressor
    from glasswood.grow.search.engine import Circumstances

CYCLES = 3
"""Times that each tree is fitted."""

FIRST_LEAVES = 2
"""Most leaves of a tree before the last one is there: a first tree of full size would leave the others nothing."""

AGAIN = 20
"""Generations of a search that goes on from an earlier one."""


def fitted_together(plan: SequencePlan, data: TrainingData, given: Circumstances) -> TreeSequence:
    """Fit the trees in turn, `CYCLES` times; the first time all searches are whole, then brief.

    Parameters
    ----------
    plan : SequencePlan
    data : TrainingData
        All rows.
    given : Circumstances
    """
    data, loss, began = data.taken(plan.draw.seen), plan.loss, time.perf_counter()
    columns, target, weight = data
    start = loss.start(target, weight)
    n_trees, rows = plan.n_trees, columns.as_rows()
    trees: list[ModelTreeRegressor] = []
    own = np.zeros((n_trees, len(target)))
    orders = [columns] * n_trees
    margins = np.tile(start, (len(target), 1))
    for turn in range(CYCLES * n_trees):
        number, is_first = turn % n_trees, turn < n_trees
        seconds = plan.left(began)
        is_late = seconds is not None and seconds <= 0
        if (trees and given.interrupts.have_come) or (is_late and not is_first):
            break
        rest, spread = loss.step(target, margins, weight, 0)
        wanted = rest + own[number]
        tree = clone(plan.member)
        if seconds is not None:
            share = seconds / (n_trees - turn + 1 if is_first else 1)
            tree.set_params(time_limit=max(share, 1e-3))
        if is_first:
            orders[number] = columns.ordered_by(wanted, spread)
            trees.append(tree)
            if turn < n_trees - 1:
                tree.set_params(max_leaves=min(FIRST_LEAVES, tree.max_leaves))
        else:
            tree.set_params(generations=AGAIN, n_iter_no_change=AGAIN)
        here = given.now(seed=given.seed + turn, population=[] if is_first else trees[number]._population)
        tree._keep(fit_tree(tree, TrainingData(orders[number], wanted, spread), here), plan.reader)
        trees[number] = tree
        margins[:, 0] -= own[number]
        own[number] = tree.forest_.predict(rows, device="cpu", n_jobs=tree.n_jobs)
        margins[:, 0] += own[number]
    if isinstance(loss, PoissonLoss | GammaLoss | QuantileLoss):  # of squares, the last tree's mean is right
        start = start + loss.change(target, margins, weight)
    return TreeSequence(start, trees=trees)
