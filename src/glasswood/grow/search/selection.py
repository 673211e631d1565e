"""The effect of choosing splits and terms on intervals, measured by trees that are grown on parts of the rows.

Residuals of rows left out of their leaf's regression do not know that its splits and terms were chosen by these rows
too. So trees are grown on four fifths of the rows in turn, and the residuals of the fifth that none of its splits has
seen are set against those that are merely left out of a regression (cross-conformal prediction, Vovk 2015,
https://doi.org/10.1007/s10472-013-9368-4, as a correction): the tree's own scores are multiplied by what lies between
the two, quantile by quantile. The searches are brief; what they find is smaller than the tree, and so is the optimism
of its choice, which makes up for the fifth of the rows that it lacks.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.config import config_context
from glasswood.base.parallel import n_threads, side_by_side
from glasswood.base.typing import Doubles
from glasswood.forest import Forest
from glasswood.grow.data.repeats import repetitions
from glasswood.grow.search.fitting import fit_tree
from glasswood.grow.tree.intervals import LeftOutRows, quadratic_mean, usable_errors

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances

FOLDS = 5

BRIEF = {"population_size": 16, "generations": 6}
"""Settings of a search on a part of the rows, where the local search does most of the work."""

MOST_ROWS = 20_000
"""More rows tell a choice from chance, and to grow more trees on them takes long."""

LEAST_PRICE = 0.05
"""Price of the tree's parameters a row where trees on parts of the rows begin: below, rows tell a choice from chance.
On the tuning sets intervals then became 2 % wider at most."""

ROWS_A_FEATURE = 2
"""Rows for each feature below which only rows that a tree has not seen tell how far off it is: of noise, some column
fits any rows that it is chosen by."""

LEAST_TIME = 0.2
"""Part of the time limit that these searches have where the first one has taken all of it."""

APART = 0x73656C65
"""Added to the seed of the search for the division of the rows."""


def trees_on_parts(
    model: Any,
    tree: dict[str, Any],
    data: TrainingData,
    given: Circumstances,
    changes: dict[str, Any],
) -> LeftOutRows | None:
    """Grow trees on four fifths of the rows in turn; None where they would tell little or take long.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked.
    tree : dict
        Arrays by node, what the search has found on all rows.
    data : TrainingData
    given : Circumstances
        Circumstances of the search.
    changes : dict
        Parameters in which these trees differ, beside `BRIEF`.
    """
    if model.honest or given.interrupts.have_come or len(data.target) > MOST_ROWS:
        return None
    given_rows = data.columns.as_rows()
    data, order, copies = data.in_order()
    if len(order) > MOST_ROWS or price(tree, len(order) / copies) < LEAST_PRICE:
        return None
    target, row = data.target, repetitions(data.columns.X, data.target)
    if row[-1] + 1 < 2 * FOLDS:
        return None
    random = np.random.default_rng([given.seed, APART])
    fold = (random.permutation(row[-1] + 1) % FOLDS)[row]
    limit = None
    if model.time_limit is not None:
        left = model.time_limit - (time.perf_counter() - given.started)
        limit = max(left, LEAST_TIME * model.time_limit) / FOLDS
    apart = {"algorithm": "gram", "device": "cpu", "n_jobs": 1, "time_limit": limit}
    brief = {**model.get_params(deep=False), **BRIEF, **changes, **apart}

    def judged(number: int) -> tuple[Doubles, Doubles, Doubles] | None:
        if given.interrupts.have_come:
            return None
        member, seen = type(model)(**brief), data.taken(np.flatnonzero(fold != number).astype(np.int32)).by_target()
        grown = fit_tree(member, seen, given.beside(given.seed + number)).tree(member)
        predictions = Forest(grown.forest).predict(given_rows, device="cpu", n_jobs=1)
        held = np.flatnonzero(fold == number)
        leaves = Forest(grown.forest).predict(given_rows[order[held]], "leaf", device="cpu", n_jobs=1)[:, 0]
        errors = usable_errors(np.array([leaf.rmse for leaf in grown.models]))[leaves]
        return grown.scores, np.abs(target - predictions[order])[held] / errors, predictions

    threads = n_threads(model.n_jobs)
    with config_context(n_jobs=1):
        found = side_by_side(judged, FOLDS, threads)
    parts = [part for part in found if part is not None]
    if given.interrupts.have_come or len(parts) < FOLDS:
        return None
    within, outside, predictions = zip(*parts, strict=True)
    unseen = np.array(predictions)[fold, order]
    mean: Doubles = np.mean(predictions, axis=0)
    off = np.zeros(len(given_rows))  # copies of a row are in its first place
    off[order] = np.abs(target - unseen)
    error = float(quadratic_mean(off[order], data.weight))
    trust = 1.0 if len(order) / copies < ROWS_A_FEATURE * data.columns.n_features else 0.5
    return LeftOutRows(np.concatenate(within), np.concatenate(outside), mean, off, error, trust)


def price(tree: dict[str, Any], n_rows: float) -> float:
    """Price of the tree's parameters under BIC, per row: ln n for each coefficient, twice that for each split."""
    is_leaf = tree["feature"] < 0
    terms = tree["model"].reshape(len(is_leaf), -1)[is_leaf]
    n_parameters = 2 * int((~is_leaf).sum()) + int(is_leaf.sum()) + int(terms.sum())
    return n_parameters * math.log(n_rows) / n_rows
