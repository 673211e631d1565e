"""One tree from rows that are ready: the search, and the best tree with its equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.config import device_of
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Doubles, Int32s
from glasswood.grow.data.derived import at_the_mean, with_derived
from glasswood.grow.data.rows import gathered, prepare
from glasswood.grow.search.engine import (
    Circumstances,
    engine_numbers,
    find_sorter,
    is_pruned,
    make_engine,
    place_rows,
    search,
    to_values,
)
from glasswood.grow.search.screening import screened
from glasswood.grow.tree.assembly import grown_tree, target_range
from glasswood.grow.tree.pruning import Known, Prices, choice_factor, pruned

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.grow.data.columns import TrainingColumns, TrainingData
    from glasswood.grow.data.rows import TrainingRows
    from glasswood.grow.search.engine import SearchResult
    from glasswood.grow.tree.assembly import GrownTree
    from glasswood.grow.tree.intervals import LeftOutRows


@dataclass(frozen=True, eq=False)
class Growth:
    """The result of a search, and its rows in its own order; `order` gives their places among the rows passed.

    `middle` is what equations are fitted to, if it is not the target (`glasswood.grow.search.consensus`); `parts` is
    what trees on parts of the rows tell of its scores; `limits` are those of predictions, if not the target's range.
    `prices` are what the tree was pruned by; `refit` fits the equations of another tree on the same rows as those of
    this one were, `deviance` says what its mean loss is, where these are no squares, and `outcome` holds the y and
    weights of the rows, where the target is a working response. `known` are regressions of other trees on the same
    target.
    """

    result: SearchResult
    rows: TrainingRows
    columns: TrainingColumns
    target: Doubles
    order: Int32s
    middle: Doubles | None = None
    parts: LeftOutRows | None = None
    limits: tuple[float, float] | None = None
    prices: Prices | None = None
    refit: Callable[[Growth], Growth] | None = None
    deviance: Callable[[Growth], float] | None = None
    outcome: tuple[Doubles, Doubles] | None = None
    known: Known | None = None

    def with_tree(self, tree: dict[str, Any]) -> Growth:
        """Put another tree on the same rows."""
        return replace(self, result=replace(self.result, best=tree))

    def pruned(self, model: Any) -> Growth:
        """Prune the best tree where `model` has it so."""
        if self.prices is None:
            return self
        limits = (-np.inf, np.inf) if model.clip == "none" else target_range(self.target)
        given = self.rows, self.columns, self.target
        found = pruned(self.result.best, *given, self.prices, limits, self.known)
        if found.is_dear and self.known is None and self.prices.collinear:
            free = replace(self.prices, collinear=0.0)
            other = pruned(self.result.best, *given, free, limits)
            if other.cost < DECISIVE * found.cost:
                return replace(self, prices=free).with_tree(other.tree)
        return self.with_tree(found.tree)

    def tree(self, model: Any, **meaning: Any) -> GrownTree:
        """Refit the leaves of the best tree as `model` has it; `meaning` are further fields of the Forest."""
        smoothing = 0 if self.columns.term_signs is not None else model.smoothing
        choices = {"clip": model.clip, "smoothing": smoothing, "middle": self.middle, "limits": self.limits}
        choices["known"] = self.known
        grown = grown_tree(self.result.best, self.rows, self.columns, self.target, **choices, **meaning)
        if self.parts is None:
            return grown
        unseen = self.parts.off[self.order] / grown.errors
        return replace(grown, scores=self.parts.widened(grown.scores, unseen))

    def population(self) -> list[dict[str, Any]]:
        """Return the last population, by value."""
        return to_values(self.result.population, self.rows)


DECISIVE = 0.8
"""Part of the cost of a tree that keeps one of nearly collinear columns below which their differences are the signal:
left-out rows are in the cost."""


def with_share_of_time(model: Any, n_searches: int) -> Any:
    """Return the estimator with a part of its limit of time."""
    if model.time_limit is None:
        return model
    return type(model)(**{**model.get_params(deep=False), "time_limit": model.time_limit / n_searches})


def grow(model: Any, data: TrainingData, given: Circumstances) -> Growth:
    """Search for the best tree, and prune it where the estimator has it so.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked.
    data : TrainingData
    given : Circumstances
    """
    (columns, target, weight), order, copies = data.in_order()
    is_linear = model.leaf_model == "linear"
    if is_linear:
        columns = at_the_mean(with_derived(columns, target, weight, model.log_terms))
    linear, threads = ~columns.is_categorical & columns.is_usable & is_linear, n_threads(model.n_jobs)
    device = device_of(model.device)
    ranking = find_sorter(device, given.home, *columns.X.shape), columns.ranks
    wide = screened(columns.X, target, weight, linear, columns.is_testable, model.search_settings.rows_per_parameter)
    rows = prepare(columns.X, target, weight, wide.linear, threads, model.storage, columns.is_testable, *ranking)
    gpu = place_rows(device, model.algorithm, given.home, rows, model.chunks, model.max_leaves)
    engine = make_engine(rows, engine_numbers(model, rows, columns, copies, given.seed, given.margin), gpu)
    result = search(engine, rows, model, replace(given, population=[*given.population, *wide.trees]), gpu)
    if (source := rows.source) is not None:
        columns, target, order = columns.taken(source), gathered(target, source), gathered(order, source)
    prices = None
    if is_pruned(model):
        factor = choice_factor(len(order) / copies, columns.n_features)
        price = model.penalty * factor, model.search_settings.test_weight
        prices = Prices(*price, len(order) / copies, copies, model.max_terms_per_leaf)
    return Growth(result, rows, columns, target, order, prices=prices).pruned(model)
