"""Trees of log-odds: searches on working responses, and the tree, the size and the penalty by the likelihood."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles, Int32s
from glasswood.evaluate.links import expit
from glasswood.grow.class_splits import Candidate, proposed_splits, split_price, with_split
from glasswood.grow.data.groups import most_promising
from glasswood.grow.logistic import LogisticRows, fit_logistic_leaf
from glasswood.grow.search.growing import grow
from glasswood.grow.tree.assembly import assembled
from glasswood.grow.tree.pruning import levels_of_splits, strongest
from glasswood.grow.tree.refit import Design, rows_by_node

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth
    from glasswood.grow.search.process import Interrupts
    from glasswood.grow.tree.assembly import GrownTree
    from glasswood.grow.tree.refit import LeafModel

RIDGES = (0.1, 1.0, 10.0, 100.0)
"""Penalties that are tried; the likelihood of rows that are left out decides."""

TRIED = 4
"""Splits whose leaves are fitted in turn."""

CERTAIN = 0.02
"""Probabilities are kept so far from 0 and 1 in working responses: a row that is far off would outweigh all others."""


@dataclass
class Shares:
    """Seconds for one search after the other, of which those are taken off that go into the fits between them.

    Attributes
    ----------
    limit : float or None
        Seconds for all; None: no limit.
    n_left : int
        Searches that are to come.
    began : float
        `time.perf_counter` when the call began.
    between : float
        Seconds of fits after the search that had the longest.
    """

    limit: float | None
    n_left: int
    began: float
    between: float = 0.0

    def next(self) -> float | None:
        """Seconds of the next search; 0 or less if there is no time."""
        if self.limit is None:
            return None
        left = self.limit - (time.perf_counter() - self.began)
        return left / max(self.n_left, 1) - self.between

    def end(self, searched: float) -> None:
        """Note that fits have ended after a search that had ended at this time."""
        self.n_left -= 1
        self.between = max(self.between, time.perf_counter() - searched)


def best_tree(model: Any, data: TrainingData, given: Circumstances, rounds: int, shares: Shares) -> Candidate:
    """Search for the tree of one class.

    The first search minimises the squares of 0 and 1 minus the prediction. The others minimise those of the working
    responses of the best tree so far, weighted by their variances: the quadratic approximation of the likelihood about
    it (McCullagh and Nelder 1989, 2.5), whose BIC is that of the likelihood to second order. The result is
    the tree, or the single leaf, with the least deviance of rows that are left out of their leaf's fit, plus the price
    of choosing splits and terms.

    Parameters
    ----------
    model : ModelTreeRegressor
        What searches are made with.
    data : TrainingData
        Its targets are 0 or 1.
    given : Circumstances
    rounds : int
        Searches, fewer where there is no time for more than the first.
    shares : Shares
        Seconds for them.
    """
    if len(data.columns.groups) > 1:
        groups = most_promising(data)
        shares.n_left += (len(groups) - 1) * rounds
        trees = [best_tree(model, data.with_columns(groups=(group,)), given, rounds, shares) for group in groups]
        return min(trees, key=lambda candidate: candidate.cost)
    best: Candidate | None = None
    _, y, weight = working = data
    for _ in range(rounds):
        seconds = shares.next()
        if best is not None and (given.interrupts.have_come or (seconds is not None and seconds <= 0)):
            break
        model.time_limit = None if seconds is None else max(seconds, 1e-3)
        growth = grow(model, working, given)
        searched = time.perf_counter()
        found = [
            candidate_of(growth, y, weight, model),
            candidate_of(_as_leaf(growth, model), y, weight, model),
        ]
        best = min([*found, *([best] if best else [])], key=lambda candidate: candidate.cost)
        best = _split_further(best, y, weight, model, shares, time.perf_counter() - searched, given.interrupts)
        shares.end(searched)
        p = np.clip(expit(best.margin), CERTAIN, 1 - CERTAIN)
        variance = p * (1 - p)
        working = data._replace(target=np.log(p / (1 - p)) + (y - p) / variance, weight=weight * variance)
        given = given.now(population=growth.population())
    assert best is not None
    return best


def _split_further(
    best: Candidate,
    y: Doubles,
    weight: Doubles,
    model: Any,
    shares: Shares,
    seconds: float,
    interrupts: Interrupts,
) -> Candidate:
    """Split the leaves where the likelihood has the scores change most, as long as that pays and nothing ends it.

    `seconds` is what two candidates took.
    """
    while len(best.models) < model.max_leaves and ((left := shares.next()) is None or left > TRIED / 2 * seconds):
        if interrupts.have_come:
            break
        growth = best.growth
        found = [
            candidate_of(growth.with_tree(with_split(growth.result.best, split)), y, weight, model)
            for split in proposed_splits(best, y, weight, model, TRIED)
        ]
        better = min([best, *found], key=lambda candidate: candidate.cost)
        if better is best:
            break
        best = better
    return best


def _as_leaf(growth: Growth, limits: Any) -> Growth:
    """Put the same rows below no split, with all columns or the strongest terms."""
    tree = growth.result.best
    n_columns = len(tree["model"]) // len(tree["feature"])
    usable = (growth.rows.column >= 0).astype(np.uint8)
    most = max(0, int(len(growth.order) / limits.search_settings.rows_per_parameter) - 1)
    max_terms = limits.max_terms_per_leaf
    model = usable if usable.sum() <= most else tree["model"].reshape(-1, n_columns).max(axis=0)
    if max_terms is not None:
        data = growth.columns.X, growth.target, growth.rows.weight
        design = Design.of(*data, np.flatnonzero(model), growth.rows.target.scale or 1.0)
        model = np.zeros_like(model)
        model[strongest(design, growth.columns.sources, max_terms)] = 1
    leaf = {
        "feature": np.array([-1], np.int32),
        "threshold": np.zeros(1, np.int32),
        "missing_left": np.zeros(1, np.uint8),
        "left": np.array([-1], np.int32),
        "right": np.array([-1], np.int32),
        "model": model,
        "fitness": tree["fitness"],
    }
    return growth.with_tree(leaf)


def candidate_of(growth: Growth, y: Doubles, weight: Doubles, model: Any) -> Candidate:
    """Fit the leaves of a tree by each penalty and keep the best.

    Parameters
    ----------
    growth : Growth
    y, weight : float64, (n_rows,)
        0 or 1, and weights, of the rows as they were given.
    model : ModelTreeRegressor
    """
    tree = growth.result.best
    rows = logistic_rows(growth, y, weight)
    reached = rows_by_node(tree, growth.rows)
    price = _price_of_choice(growth, reached, model.penalty)
    fits = _fitted(tree, rows, reached, RIDGES)
    best = int(np.argmin([cost for _, _, cost in fits]))
    models, margin, cost = fits[best]
    as_given = np.empty(len(y))
    as_given[growth.order] = margin
    return Candidate(growth, models, reached, RIDGES[best], cost + price, as_given, cost)


def _price_of_choice(growth: Growth, reached: list[Int32s], penalty: float) -> float:
    """Price what choosing splits and terms takes from rows that are left out of the fit, though not of the choice.

    One choice of m costs twice ln m (the risk inflation of Foster and George 1994,
    https://doi.org/10.1214/aos/1176325766): a place among all of a column in the node, so that a split by two
    categories costs less than a threshold; a column of p; a leaf that has all columns has chosen no terms.
    """
    tree = growth.result.best
    levels = levels_of_splits(tree, growth.rows, growth.columns, reached)
    used = tree["model"].reshape(len(tree["feature"]), -1).astype(bool)[tree["feature"] < 0]
    n_columns = int((growth.rows.column >= 0).sum())
    n_chosen = len(levels) + sum(int(own.sum()) for own in used if own.sum() < n_columns)
    places = sum(split_price(growth.rows, tree["feature"][v], n, reached[v]) for v, n in levels.items())
    return 2 * penalty * (places + math.log(max(n_columns, 1)) * n_chosen)


def logistic_rows(growth: Growth, y: Doubles, weight: Doubles, offset: Doubles | None = None) -> LogisticRows:
    """Rows in the order of the growth."""
    share = min(max(float(np.average(y, weights=weight)), 1e-6), 1 - 1e-6)
    offset = np.zeros(len(y)) if offset is None else offset
    prior = math.log(share / (1 - share))
    signs = None if growth.columns.term_signs is None else growth.columns.coefficient_signs
    return LogisticRows(growth.columns.X, y[growth.order], weight[growth.order], offset[growth.order], prior, signs)


def _fitted(
    tree: dict[str, Any],
    rows: LogisticRows,
    reached: list[Int32s],
    ridges: Sequence[float],
    near: dict[int, LeafModel] | None = None,
) -> list[tuple[dict[int, LeafModel], Doubles, float]]:
    """Fit for each ridge: models by node, log-odds of the rows, and the sum of their deviances when left out."""
    used = tree["model"].reshape(len(tree["feature"]), -1).astype(bool)
    limit = math.log(2 * len(rows.y))
    models: list[dict[int, LeafModel]] = [{} for _ in ridges]
    margins, costs = np.empty((len(ridges), len(rows.y))), np.zeros(len(ridges))
    for node in np.flatnonzero(tree["feature"] < 0).tolist():
        at = reached[node]
        start = None if near is None else near[node]
        fits = fit_logistic_leaf(rows.taken(at), np.flatnonzero(used[node]), ridges, start)
        for k, fit in enumerate(fits):
            models[k][node] = fit.model
            margins[k, at] = np.clip(fit.margin, -limit, limit)
            costs[k] += fit.left_out.sum()
    return list(zip(models, margins, costs.tolist(), strict=True))


def refitted(candidate: Candidate, y: Doubles, weight: Doubles, offset: Doubles) -> Candidate:
    """Fit the leaves once more beside log-odds that others give."""
    growth = candidate.growth
    rows = logistic_rows(growth, y, weight, offset)
    fits = _fitted(growth.result.best, rows, candidate.reached, [candidate.ridge], candidate.models)
    models, margin, left_out = fits[0]
    as_given = np.empty(len(y))
    as_given[growth.order] = margin
    return dataclasses.replace(candidate, models=models, margin=as_given, left_out=left_out)


def as_tree(candidate: Candidate, weight: Doubles, **meaning: Any) -> GrownTree:
    """Make a forest of one output that counts rows by `weight`, not by that of working responses.

    `meaning` are further fields of the forest.
    """
    growth = candidate.growth
    rows = dataclasses.replace(growth.rows, weight=weight[growth.order] / weight.mean())
    limit = math.log(2 * len(growth.order))
    limits = dict.fromkeys(candidate.models, (-limit, limit))
    return assembled(growth.result.best, rows, growth.columns, candidate.reached, candidate.models, limits, **meaning)
