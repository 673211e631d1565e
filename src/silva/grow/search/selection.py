"""What the choice of splits and terms does to intervals, by trees that are grown on parts of the rows.

Residuals of rows left out of their leaf's regression do not know that its splits and terms were chosen by these rows
too. So trees are grown on four fifths of the rows in turn, and the residuals of the fifth that none of its splits has
seen are set against those that are merely left out of a regression (cross-conformal prediction, Vovk 2015,
https://doi.org/10.1007/s10472-013-9368-4, as a correction): the tree's own scores are multiplied by what lies between
the two, quantile by quantile. The searches are brief; what they find is smaller than the tree, and so is the optimism
of its choice, which makes up for the fifth of the rows that it lacks (`docs/internals/grow.md` has the trial).
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.grow.data.repeats import in_order, repetitions
from silva.grow.search.fitting import fit_tree
from silva.grow.tree.intervals import usable_errors
from silva.parallel import n_threads, side_by_side

if TYPE_CHECKING:
    from silva.grow.data.columns import TrainingColumns
    from silva.grow.search.growing import Circumstances
    from silva.typing import Doubles, Int32s

FOLDS = 5

BRIEF = {"population_size": 16, "generations": 6}
"""Of a search on a part of the rows: the local search does most of the work."""

MOST_ROWS = 20_000
"""More rows tell a choice from chance, and to grow more trees on them takes long."""

LEAST_PRICE = 0.05
"""Price of the tree's parameters under BIC, ln n each, a row: where it is lower, rows tell a choice from chance. On the
tuning sets intervals then became 2 % wider at most."""

APART = 0x73656C65
"""Added to the seed of the search for the division of the rows."""


def after_selection(
    model: Any,
    tree: dict[str, Any],
    scores: Doubles,
    data: tuple[TrainingColumns, Doubles, Doubles],
    given: Circumstances,
) -> Doubles:
    """Scores of left-out rows as they would be if no split had been chosen by these rows; rising.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked.
    tree : dict
        Arrays by node.
    scores : float64, (n_left_out,)
        Of rows left out of their leaf's regression, rising.
    data : columns, target, weight
        Rows of positive weight.
    given : Circumstances
        Of the search; where it was interrupted, or rows are too few or too many, the scores stay.
    """
    n_rows = len(data[1])
    is_cheap = _n_parameters(tree) * math.log(n_rows) < LEAST_PRICE * n_rows
    if model.honest or given.interrupts.have_come or n_rows > MOST_ROWS or is_cheap:
        return scores
    columns, target, weight = data
    order, weight, _ = in_order(columns.X, target, weight)
    columns, target = columns.taken(order), target[order]
    row = repetitions(columns.X, target)
    if len(row) > MOST_ROWS or row[-1] + 1 < 2 * FOLDS:
        return scores
    random = np.random.default_rng([given.seed, APART])
    fold = (random.permutation(row[-1] + 1) % FOLDS)[row]
    own = replace(given, population=(), callbacks=[lambda _: given.interrupts.have_come])

    def judged(number: int) -> tuple[Doubles, Doubles]:
        seen, held = (np.flatnonzero(which).astype(np.int32) for which in (fold != number, fold == number))
        fresh = replace(own, seed=given.seed + number, started=time.perf_counter())
        return _scores(model, (columns, target, weight), seen, held, fresh)

    parts = side_by_side(judged, FOLDS, n_threads(model.n_jobs))
    if given.interrupts.have_come:
        return scores
    within, outside = (np.concatenate(part) for part in zip(*parts, strict=True))
    level = np.arange(1, len(scores) + 1) / (len(scores) + 1)
    left_out, unseen = np.quantile(within, level), np.quantile(outside, level)
    factor = np.maximum(np.divide(unseen, left_out, out=np.ones(len(level)), where=left_out > 0), 1.0)
    widened: Doubles = np.maximum.accumulate(scores * factor)
    return widened


def _n_parameters(tree: dict[str, Any]) -> int:
    """As BIC counts them: two a split, the coefficients of the leaves."""
    is_leaf = tree["feature"] < 0
    terms = tree["model"].reshape(len(is_leaf), -1)[is_leaf]
    return 2 * int((~is_leaf).sum()) + int(is_leaf.sum()) + int(terms.sum())


def _scores(
    model: Any, data: tuple[TrainingColumns, Doubles, Doubles], seen: Int32s, held: Int32s, given: Circumstances
) -> tuple[Doubles, Doubles]:
    """Grow a tree on the rows seen; scores of rows left out of its regressions, and of rows that it has not seen."""
    columns, target, weight = data
    limit = None if model.time_limit is None else model.time_limit / FOLDS
    changed = {**BRIEF, "algorithm": "gram", "device": "cpu", "n_jobs": 1, "time_limit": limit}
    member = type(model)(**{**model.get_params(deep=False), **changed})
    rows = columns.taken(seen).ordered_by(target[seen], weight[seen])
    grown = fit_tree(member, rows, target[seen], weight[seen], given).tree(member)
    X = columns.taken(held).as_rows()
    leaves = grown.forest.predict(X, "leaf", device="cpu", n_jobs=1)[:, 0]
    errors = usable_errors(np.array([leaf.rmse for leaf in grown.models]))[leaves]
    residuals = target[held] - grown.forest.predict(X, device="cpu", n_jobs=1)
    return grown.scores, np.abs(residuals) / errors
