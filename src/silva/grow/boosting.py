"""Boosting: small model trees, each of what those before it leave of a loss, while rows that are left out gain."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from silva.grow.search.fitting import fit_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from silva.grow.data.columns import TrainingColumns
    from silva.grow.estimator import ModelTreeRegressor
    from silva.grow.losses import SequenceLoss
    from silva.grow.search.growing import Circumstances
    from silva.grow.search.interrupts import Interrupts
    from silva.typing import Doubles, Int32s

PATIENCE = 10
"""Steps without gain for the left-out rows after which a sequence ends."""

DRAWN = 0.7
"""Part of a sequence's rows that each of its trees is grown on (stochastic gradient boosting, Friedman 2002)."""


EXACT = 1e-12
"""Part of the loss of a constant at which nothing is left to add to a tree but its rounding."""


@dataclass(frozen=True, eq=False)
class TreeSequence:
    """Trees whose predictions are added to a start.

    Attributes
    ----------
    start : float64, (n_outputs,)
    first : ModelTreeRegressor or ModelTreeClassifier, optional
        A whole tree, or a tree for each output.
    trees : list of ModelTreeRegressor
        Those of a step beside each other, one an output.
    rate : float
        Factor of `trees`.
    """

    start: Doubles
    first: Any = None
    trees: list[ModelTreeRegressor] = field(default_factory=list)
    rate: float = 1.0

    @property
    def estimators(self) -> list[Any]:
        """All trees."""
        return [*([] if self.first is None else [self.first]), *self.trees]

    @property
    def outputs(self) -> list[int]:
        """Output of each tree of the forests."""
        return [number % len(self.start) for number in range(len(self.weights))]

    @property
    def steps(self) -> list[int]:
        """Step in which each of all trees was added."""
        before = 0 if self.first is None else 1
        return [*range(before), *(before + k // len(self.start) for k in range(len(self.trees)))]

    @property
    def weights(self) -> list[float]:
        """Factor of each tree of the forests."""
        return [1.0] * (0 if self.first is None else self.first.forest_.n_trees) + [self.rate] * len(self.trees)

    def margins(self, rows: Doubles, n_jobs: int | None) -> Doubles:
        """Add up the trees, of rows as they route them: float64, (n_rows, n_outputs)."""
        margins = np.zeros((len(rows), len(self.start)))
        for number, tree in enumerate(self.trees):
            margins[:, number % len(self.start)] += tree.forest_.predict(rows, device="cpu", n_jobs=n_jobs)
        margins *= self.rate
        if self.first is not None:
            margins += _columns(self.first.forest_.predict(rows, "margin", device="cpu", n_jobs=n_jobs))
        return self.start + margins


def _columns(margins: Doubles) -> Doubles:
    """One column an output."""
    return margins[:, None] if margins.ndim == 1 else margins


@dataclass(frozen=True)
class Course:
    """How a sequence is grown.

    Attributes
    ----------
    member : ModelTreeRegressor
        What its trees are grown with.
    loss : SequenceLoss
    rate : float
        Factor of each tree.
    most_trees : int
        Largest number of trees of each output.
    seconds : float or None
        For all of them.
    interrupts : Interrupts
    reader : estimator
        Which read the rows.
    whole : callable
        Grows a sequence of one whole tree: of the seconds for it, columns, target, weight and circumstances.
    """

    member: ModelTreeRegressor
    loss: SequenceLoss
    rate: float
    most_trees: int
    seconds: float | None
    interrupts: Interrupts
    reader: Any
    whole: Callable[..., TreeSequence]


def boosted(
    course: Course,
    columns: TrainingColumns,
    target: Doubles,
    weight: Doubles,
    seen: Int32s,
    unseen: Int32s,
    given: Circumstances,
) -> TreeSequence:
    """Grow a sequence; it ends with the step after which the rows that it has not seen are predicted best.

    If a whole tree alone predicts these rows better, the sequence begins with it instead of a constant, and may end
    with it.

    Parameters
    ----------
    course : Course
    columns, target, weight
        All rows.
    seen, unseen : int32
        Rows that the trees are grown on, and rows that say when to stop. Without any of these every tree stays.
    given : Circumstances
    """
    start = TreeSequence(course.loss.start(target[seen], weight[seen]), rate=course.rate)
    data, began = (columns, target, weight, seen, unseen, given), time.perf_counter()
    sequence, left = _continued(course, start, 1, *data)
    spent = time.perf_counter() - began
    seconds = None if course.seconds is None else course.seconds - spent
    if not len(unseen) or course.interrupts.have_come or (seconds is not None and seconds <= 0):
        return sequence
    whole = course.whole(
        seconds, columns.taken(seen), target[seen], weight[seen], replace(given, started=began + spent)
    )
    rows = columns.taken(unseen).as_rows()
    constant, alone = (
        course.loss.total(target[unseen], one.margins(rows, 1), weight[unseen]) for one in (start, whole)
    )
    if alone >= left or alone <= EXACT * constant:
        return sequence if alone >= left else whole
    seconds = None if course.seconds is None else course.seconds - (time.perf_counter() - began)
    return _continued(replace(course, seconds=seconds), replace(whole, rate=course.rate), 0, *data)[0]


def _continued(
    course: Course,
    begun: TreeSequence,
    least_steps: int,
    columns: TrainingColumns,
    target: Doubles,
    weight: Doubles,
    seen: Int32s,
    unseen: Int32s,
    given: Circumstances,
) -> tuple[TreeSequence, float]:
    """Add steps to a sequence; and what is left of the loss of rows that it has not seen."""

    def left() -> float:
        return course.loss.total(target[unseen], margins[unseen], weight[unseen])

    margins = begun.margins(columns.as_rows(), 1)
    kept, steps, least = least_steps, list[list["ModelTreeRegressor"]](), left()
    for trees, predictions in _grown(course, begun, columns, target, weight, seen, given, margins):
        steps.append(trees)
        margins += course.rate * predictions
        total = left()
        if total < least or not len(unseen):
            kept, least = len(steps), total
        if len(steps) - kept >= PATIENCE:
            break
    return replace(begun, trees=[tree for trees in steps[:kept] for tree in trees]), least


def _grown(
    course: Course,
    begun: TreeSequence,
    columns: TrainingColumns,
    target: Doubles,
    weight: Doubles,
    seen: Int32s,
    given: Circumstances,
    margins: Doubles,
) -> Iterator[tuple[list[ModelTreeRegressor], Doubles]]:
    """Grow steps one after the other, each of what `margins` then leave: trees, and their predictions of all rows."""
    random, began = np.random.default_rng(given.seed), time.perf_counter()
    rows = columns.as_rows()
    for number in range(course.most_trees):
        elapsed = time.perf_counter() - began
        is_late = course.seconds is not None and elapsed > course.seconds
        if (number or begun.first is not None) and (course.interrupts.have_come or is_late):
            return
        drawn = np.sort(random.permutation(seen)[: max(1, round(DRAWN * len(seen)))])
        trees = []
        for output in range(course.loss.n_outputs):
            rest, spread = course.loss.step(target[drawn], margins[drawn], weight[drawn], output)
            own = replace(given, seed=int(random.integers(2**31 - 1)), started=time.perf_counter())
            tree = clone(course.member)
            if course.seconds is not None:
                tree.set_params(time_limit=max(course.seconds - elapsed, 1e-3))
            tree._keep(fit_tree(tree, columns.taken(drawn).ordered_by(rest, spread), rest, spread, own), course.reader)
            trees.append(tree)
        yield trees, np.column_stack([tree.forest_.predict(rows, device="cpu", n_jobs=tree.n_jobs) for tree in trees])
