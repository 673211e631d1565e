"""One tree as an estimator has it: by squares or Huber's loss, with equations from all rows or rows of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.parallel import n_threads
from glasswood.grow.data.derived import like
from glasswood.grow.data.groups import most_promising
from glasswood.grow.data.rows import prepare
from glasswood.grow.losses import LINKS, loss_of
from glasswood.grow.search.engine import to_ranks, to_values
from glasswood.grow.search.growing import Growth, grow, with_share_of_time
from glasswood.grow.search.reweighted import fitted_by, grow_reweighted
from glasswood.grow.search.robust import fitted_robustly, grow_robustly
from glasswood.grow.tree.pruning import without_small_leaves

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances

APART = 0x686F6E65
"""Added to the seed of the search for the division of the rows."""


def fit_tree(model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search for a tree; with ``honest`` on a part of the rows, the others being left to its equations.

    If features may act together within groups only, trees of the most promising groups are searched for.

    If it tests features with which predictions must rise or fall, a second search is for a tree that does not: clipping
    leaves so that the constraints hold may cost more than such splits gain.

    Parameters
    ----------
    model, data, given
        As in `glasswood.grow.search.growing.grow`.
    """
    if len(data.columns.groups) > 1:
        groups = most_promising(data)
        model = with_share_of_time(model, len(groups))
        growths = [
            fit_tree(model, data.with_columns(groups=(group,)), given.now(population=given.population))
            for group in groups
        ]
        return min(growths, key=lambda growth: _cost(model, growth))
    if not data.columns.is_constrained:
        return _searched(model, data, given)
    model = with_share_of_time(model, 2)
    growth = _searched(model, data, given)
    tested = growth.result.best["feature"]
    if not growth.columns.column_signs[tested[tested >= 0]].any() or growth.result.interrupted:
        return growth
    without = data.with_columns(tests_constrained=False)
    return min(growth, _searched(model, without, given.now()), key=lambda one: _cost(model, one))


def _cost(model: Any, growth: Growth) -> float:
    """BIC of a constrained tree: the fit of its clipped leaves."""
    grown, n_rows = growth.tree(model), len(growth.order)
    n_parameters = sum(1 + len(leaf.features) for leaf in grown.models) + 2 * (len(grown.models) - 1)
    price = float(model.penalty) * n_parameters * math.log(n_rows)
    return n_rows * math.log(max(grown.sse, 1e-12) / n_rows) + price


def _searched(model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search for a tree among all that the columns allow."""
    search: Callable[..., Growth] = grow_robustly if model.loss == "huber" else grow
    if model.loss in LINKS:
        search = partial(grow_reweighted, loss_of(model))
    if not model.honest:
        return search(model, data, given)
    data, order, _ = data.in_order()
    shuffled = np.random.default_rng([given.seed, APART]).permutation(len(order)).astype(np.int32)
    n_own = round(model.honest * len(order))
    if min(n_own, len(order) - n_own) < 1:
        raise ValueError(
            f"honest={shown(model.honest)} divides {len(order)} rows and leaves one part empty; pass more rows"
        )
    own, others = np.sort(shuffled[:n_own]), np.sort(shuffled[n_own:])
    seen, held = data.taken(others).by_target(), data.taken(own)
    growth = search(model, seen, given)
    held = held._replace(columns=held.columns.ordered_like(seen.columns.order))
    moved = _moved(model, growth, held)
    if model.loss in LINKS:
        moved = fitted_by(loss_of(model), moved, held.target, held.weight)
    elif model.loss == "huber":
        moved = fitted_robustly(moved, held.target, held.weight)
    return dataclasses.replace(moved, order=order[own[moved.order]])


def _moved(model: Any, growth: Growth, data: TrainingData) -> Growth:
    """Put what was found on other rows; splits that part few of them are left out."""
    columns, target, weight = like(growth.columns, data.columns), data.target, data.weight
    linear = ~columns.is_categorical & columns.is_usable & (model.leaf_model == "linear")
    rows = prepare(columns.X, target, weight, linear, n_threads(model.n_jobs), model.storage, columns.is_testable)
    found = growth.result
    best, *population = to_ranks(to_values([found.best, *found.population], growth.rows), rows)
    best, *met = (
        without_small_leaves({**before, **tree}, rows, model.min_samples_leaf)
        for before, tree in zip(
            [found.best, *found.met], [best, *to_ranks(to_values(found.met, growth.rows), rows)], strict=True
        )
    )
    result = dataclasses.replace(found, best=best, population=population, met=met)
    order = np.arange(len(target), dtype=np.int32) if rows.source is None else rows.source
    return Growth(result, rows, columns.taken(order), target[order], order)
