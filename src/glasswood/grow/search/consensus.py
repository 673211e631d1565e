"""A second, brief search, for what y and the trees on parts of the rows agree on.

Another sample of rows has other splits and terms: most of a tree's error on few, noisy rows is this variance. The mean
of trees on parts of the rows varies less (Breiman 1996, https://doi.org/10.1007/BF00058655), and a single tree that is
grown to follow it keeps some of that (Breiman and Shang 1996, "Born again trees"). So the search goes on from its last
population, for the mean of y and of what these trees predict, and the equations are fitted to that mean.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from glasswood.grow.data.repeats import in_order
from glasswood.grow.losses import LINKS
from glasswood.grow.search.engine import is_pruned
from glasswood.grow.search.fitting import fit_tree
from glasswood.grow.search.selection import MOST_ROWS, price, trees_on_parts

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

SHARE = 0.5
"""Most of the trees' predictions in what the second search is for; less where they are far off beside the first tree.

Of y, which is off by the noise s, and of predictions that are off by d, the mean that is least off has the share
s² / (s² + d²) of the latter. Rows that a tree has not seen are off by more than the root of s² + d², so that s² over
the square of their error is no more than that share.
"""

LEAST_PRICE = 0.1
"""Price of the tree's parameters a row (`selection.price`) where trees follow others. At half of it, where intervals
begin to need these, 4 of 60 random known trees got a leaf or two too many."""

LEAST_SHARE = 0.25
"""Trees that are more than twice as far off as the first tree have nothing to say: what is known without much noise
stays as it is, whatever brief searches miss of it."""

PENALTY = 0.5
"""Penalty of the trees on parts of the rows, relative to that of the tree. Their errors average out, and a mean of
trees that are too small would smooth away what the first tree has found."""

GENERATIONS = 20
"""Generations of the second search; twice as many found the same trees on the tuning sets."""

LIMIT = 0.2
"""Part of the time limit of the first search that the second may take."""


def settled(model: Any, growth: Growth, data: TrainingData, given: Circumstances) -> Growth:
    """Search on for the mean of the target and of what trees on parts of the rows predict, where these are worth it.

    A tree without splits stays: that nothing pays is not to be outvoted by larger trees of fewer rows.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked. Its tree stays without ``smoothing="auto"``, where it prices no noise or has another
        loss than squares.
    growth : Growth
        What the search has found.
    data : TrainingData
    given : Circumstances
        Circumstances of the search.
    """
    if model.loss in LINKS:
        return growth
    columns, target, weight = data
    history = growth.result.history
    has_means = model.smoothing == "auto" and model.loss == "squared" and model.algorithm == "gram" and is_pruned(model)
    best = growth.result.best
    has_means &= columns.term_signs is None
    goes_on = bool(has_means and (best["feature"] >= 0).any() and history and not growth.result.interrupted)
    if goes_on and len(target) <= MOST_ROWS:
        order, _, copies = in_order(columns.X, target, weight)
        goes_on = price(best, len(order) / copies) >= LEAST_PRICE
    changes = {"penalty": PENALTY * model.penalty} if goes_on else {}
    parts = trees_on_parts(model, best, data, given, changes)
    share = 0.0
    if goes_on and parts is not None and parts.error > 0:
        share = min(SHARE, (history[-1].rmse / parts.error) ** 2)
    if parts is None or share < LEAST_SHARE:
        return dataclasses.replace(growth, parts=parts)
    limit = None if model.time_limit is None else LIMIT * model.time_limit
    changed = {"generations": GENERATIONS, "n_iter_no_change": GENERATIONS, "time_limit": limit, "device": "cpu"}
    own = given.now(population=growth.population(), callbacks=())
    middle = data._replace(target=(1 - share) * target + share * parts.mean)
    found = fit_tree(type(model)(**{**model.get_params(deep=False), **changed}), middle, own)
    first, second = growth.result, found.result
    result = dataclasses.replace(
        first,
        best={**second.best, "fitness": first.best["fitness"]},
        population=second.population,
        met=second.met,
        interrupted=first.interrupted or second.interrupted,
        n_evaluations=first.n_evaluations + second.n_evaluations,
    )
    return dataclasses.replace(found, result=result, target=target[found.order], middle=found.target, parts=parts)
