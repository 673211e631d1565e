"""Boosting: small model trees, each of what those before it leave of the target, while rows that are left out gain."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from silva.grow.search.fitting import fit_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silva.grow.data.columns import TrainingColumns
    from silva.grow.estimator import ModelTreeRegressor
    from silva.grow.search.growing import Circumstances
    from silva.grow.search.interrupts import Interrupts
    from silva.typing import Doubles, Int32s

PATIENCE = 10
"""Trees without gain for the left-out rows after which a sequence ends."""

DRAWN = 0.7
"""Part of a sequence's rows that each of its trees is grown on (stochastic gradient boosting, Friedman 2002)."""


@dataclass(frozen=True, eq=False)
class TreeSequence:
    """Trees whose predictions, times the learning rate, are added to a start.

    Attributes
    ----------
    trees : list of ModelTreeRegressor
    start : float
        Mean of the target.
    rate : float
    """

    trees: list[ModelTreeRegressor]
    start: float = 0.0
    rate: float = 1.0

    def predict(self, rows: Doubles, n_jobs: int | None) -> Doubles:
        """Sum of the trees, of rows as they route them: float64, (n_rows,)."""
        total = sum(tree.forest_.predict(rows, device="cpu", n_jobs=n_jobs) for tree in self.trees)
        predictions: Doubles = self.start + self.rate * total
        return predictions


@dataclass(frozen=True)
class Course:
    """How a sequence is grown.

    Attributes
    ----------
    member : ModelTreeRegressor
        What its trees are grown with.
    rate : float
        Factor of each tree.
    most_trees : int
    seconds : float or None
        For all of them.
    interrupts : Interrupts
    reader : estimator
        Which read the rows.
    """

    member: ModelTreeRegressor
    rate: float
    most_trees: int
    seconds: float | None
    interrupts: Interrupts
    reader: Any


def boosted(
    course: Course,
    columns: TrainingColumns,
    target: Doubles,
    weight: Doubles,
    seen: Int32s,
    unseen: Int32s,
    given: Circumstances,
) -> TreeSequence:
    """Grow a sequence; it ends with the tree after which the rows that it has not seen are predicted best.

    Parameters
    ----------
    course : Course
    columns, target, weight
        All rows.
    seen, unseen : int32
        Rows that the trees are grown on, and rows that say when to stop. Without any of these every tree stays.
    given : Circumstances
    """
    unit = float(np.abs(target).max()) or 1.0
    start = unit * float(np.average(target[seen] / unit, weights=weight[seen]))
    kept, trees, margins = 1, [], np.full(len(target), start)
    least = _square(target, margins, weight, unseen, unit)
    for tree, predictions in _grown(course, columns, target, weight, seen, given, margins):
        trees.append(tree)
        margins += course.rate * predictions
        square = _square(target, margins, weight, unseen, unit)
        if square < least or not len(unseen):
            kept, least = len(trees), square
        if len(trees) - kept >= PATIENCE:
            break
    return TreeSequence(trees[:kept], start, course.rate)


def _grown(
    course: Course,
    columns: TrainingColumns,
    target: Doubles,
    weight: Doubles,
    seen: Int32s,
    given: Circumstances,
    margins: Doubles,
) -> Iterator[tuple[ModelTreeRegressor, Doubles]]:
    """Trees one after the other, each of what `margins` then leaves, and their predictions of all rows."""
    random, began = np.random.default_rng(given.seed), time.perf_counter()
    rows = columns.as_rows()
    for number in range(course.most_trees):
        elapsed = time.perf_counter() - began
        if number and (course.interrupts.have_come or (course.seconds is not None and elapsed > course.seconds)):
            return
        drawn = np.sort(random.permutation(seen)[: max(1, round(DRAWN * len(seen)))])
        rest = (target - margins)[drawn]
        own = replace(given, seed=int(random.integers(2**31 - 1)), started=time.perf_counter())
        tree = clone(course.member)
        if course.seconds is not None:
            tree.set_params(time_limit=max(course.seconds - elapsed, 1e-3))
        growth = fit_tree(tree, columns.taken(drawn).ordered_by(rest, weight[drawn]), rest, weight[drawn], own)
        tree._keep(growth, course.reader)
        yield tree, tree.forest_.predict(rows, device="cpu", n_jobs=tree.n_jobs)


def _square(target: Doubles, margins: Doubles, weight: Doubles, rows: Int32s, unit: float) -> float:
    """Weighted squares of what these rows are off, in units in which none overflows."""
    return float(weight[rows] @ ((target[rows] - margins[rows]) / unit) ** 2)
