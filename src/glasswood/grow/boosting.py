"""Boosting: small model trees, each of what those before it leave of a loss, while rows that are left out gain.

Equations follow slopes, steps of constants follow what bends and jumps; which of them a set needs is not known before.
So trees without equations are boosted beside those with equations, and rows that neither has seen say how to mix both
(stacking with shares, Breiman 1996, https://doi.org/10.1007/BF00117832).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from glasswood.base.typing import Doubles, Int32s
from glasswood.grow.data.columns import TrainingData
from glasswood.grow.losses import LogLoss, SquaredLoss
from glasswood.grow.search.fitting import fit_tree

if TYPE_CHECKING:
    from glasswood.grow.estimator import ModelTreeRegressor
    from glasswood.grow.losses import SequenceLoss
    from glasswood.grow.search.engine import Circumstances

PATIENCE = 10
"""Steps without gain for the left-out rows after which a sequence ends."""

DRAWN = 0.7
"""Part of a sequence's rows that each of its trees is grown on (stochastic gradient boosting, Friedman 2002)."""

IN_MIXTURES: dict[str, Any] = {"population_size": 4, "generations": 2}
"""Searches of mixed trees: what one tree misses, later ones or the other sequence make up for."""

CONSTANTS: dict[str, Any] = {"leaf_model": "constant", **IN_MIXTURES}
"""What differs in a sequence of trees without equations."""

FASTER = 1.5
"""Learning rate of trees without equations, relative to that of trees with equations: a smaller rate gains nothing."""

LEAST_SHARE = 0.01
"""Share of a mixture below which a sequence is left out."""

THIRDS = 20
"""Times that a third of the range of a share is left out in search of the best one: 3e-4 of it are left."""

MIXED = SquaredLoss, LogLoss
"""Losses with which trees without equations are boosted too."""

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
            margins += columns_of(self.first.forest_.predict(rows, "margin", device="cpu", n_jobs=n_jobs))
        return self.start + margins


@dataclass(frozen=True, eq=False)
class Mixture:
    """Sequences that are grown on the same rows, each with a share of the prediction; it reads like one sequence.

    Attributes
    ----------
    parts : list of TreeSequence
    shares : list of float
    """

    parts: list[TreeSequence]
    shares: list[float]

    @property
    def start(self) -> Doubles:
        """Where the sequences begin, (n_outputs,)."""
        start: Doubles = np.array(self.shares) @ np.array([part.start for part in self.parts])
        return start

    @property
    def estimators(self) -> list[Any]:
        """All trees."""
        return [tree for part in self.parts for tree in part.estimators]

    @property
    def outputs(self) -> list[int]:
        """Output of each tree of the forests."""
        return [output for part in self.parts for output in part.outputs]

    @property
    def steps(self) -> list[int]:
        """Step in which each of all trees was added."""
        return [step for part in self.parts for step in part.steps]

    @property
    def weights(self) -> list[float]:
        """Factor of each tree of the forests."""
        return [share * weight for part, share in zip(self.parts, self.shares, strict=True) for weight in part.weights]

    def margins(self, rows: Doubles, n_jobs: int | None) -> Doubles:
        """Add up the trees, of rows as they route them: float64, (n_rows, n_outputs)."""
        margins: Doubles = np.tensordot(self.shares, [part.margins(rows, n_jobs) for part in self.parts], axes=1)
        return margins


def columns_of(margins: Doubles) -> Doubles:
    """One column an output."""
    return margins[:, None] if margins.ndim == 1 else margins


@dataclass(frozen=True, eq=False)
class Draw:
    """Seed of a sequence, rows that it is grown on, and those that it does not see."""

    seed: int
    seen: Int32s
    unseen: Int32s


@dataclass(frozen=True, eq=False)
class SequencePlan:
    """How to grow trees whose predictions are added up.

    Attributes
    ----------
    draw : Draw
        Unseen rows say when to stop. Without any of these every tree stays.
    member : ModelTreeRegressor
        What they are grown with.
    loss : SequenceLoss
    n_trees : int
        Largest number of trees of each output.
    seconds : float or None
        For all of them.
    reader : estimator
        Which read the rows.
    rate : float
        Factor of each tree.
    whole : callable
        Grows a sequence of one whole tree from the seconds for it, its rows and the circumstances.
    in_mixtures : dict
        What differs in trees with equations whose sequence is mixed with another.
    """

    draw: Draw
    member: ModelTreeRegressor
    loss: SequenceLoss
    n_trees: int
    seconds: float | None
    reader: Any
    rate: float
    whole: Callable[[float | None, TrainingData, Circumstances], TreeSequence]
    in_mixtures: dict[str, Any] = field(default_factory=dict)

    def with_trees(self, changes: dict[str, Any]) -> SequencePlan:
        """Return a plan whose trees differ."""
        return replace(self, member=clone(self.member).set_params(**changes))

    def left(self, began: float) -> float | None:
        """Return the seconds that are left of those from `began` on; None: no limit."""
        return None if self.seconds is None else self.seconds - (time.perf_counter() - began)

    def is_over(self, began: float, given: Circumstances) -> bool:
        """Whether no seconds are left of those from `began` on, or an interrupt has come."""
        seconds = self.left(began)
        return given.interrupts.have_come or (seconds is not None and seconds <= 0)


def boosted(plan: SequencePlan, data: TrainingData, given: Circumstances) -> list[TreeSequence]:
    """Grow a sequence and, where rows that it has not seen can say how to mix both, one of trees without equations.

    Parameters
    ----------
    plan : SequencePlan
    data : TrainingData
        All rows.
    given : Circumstances
    """
    seen, unseen, began = data.taken(plan.draw.seen), data.taken(plan.draw.unseen), time.perf_counter()
    start = TreeSequence(plan.loss.start(seen.target, seen.weight), rate=plan.rate)
    if not isinstance(plan.loss, MIXED) or plan.member.leaf_model != "linear" or not len(plan.draw.unseen):
        return [_with_equations(plan, start, data, given)]
    sequence = _with_equations(plan.with_trees(plan.in_mixtures), start, data, given)
    if plan.is_over(began, given) or _left(plan, sequence, unseen) <= EXACT * _left(plan, start, unseen):
        return [sequence]
    rate, seconds = min(FASTER * plan.rate, 1.0), plan.left(began)
    constants = replace(plan.with_trees(CONSTANTS), seconds=seconds, rate=rate)
    beside = _continued(constants, replace(start, rate=rate), 1, data, given)[0]
    # Half a sequence would spoil the share that it has in common with those of other draws.
    return [sequence] if plan.is_over(began, given) else [sequence, beside]


def mixed(
    found: list[list[TreeSequence]], draws: list[Draw], data: TrainingData, loss: SequenceLoss
) -> list[TreeSequence | Mixture]:
    """Mix what was grown on each draw, all by the same share: rows that neither has seen are then predicted best.

    Parameters
    ----------
    found : list of one or two sequences
        Of each draw.
    draws : list of Draw
    data : TrainingData
        All rows.
    loss : SequenceLoss
    """
    rows: list[tuple[Doubles, Doubles, Doubles, Doubles]] = []
    for sequences, draw in zip(found, draws, strict=True):
        if len(sequences) == 2:
            unseen = data.taken(draw.unseen)
            first, other = (one.margins(unseen.columns.as_rows(), 1) for one in sequences)
            rows.append((unseen.target, unseen.weight, first, other - first))
    share = _best_share(loss, *(np.concatenate(part) for part in zip(*rows, strict=True))) if rows else 0.0
    return [_mixture(sequences, share) for sequences in found]


def _best_share(loss: SequenceLoss, target: Doubles, weight: Doubles, first: Doubles, change: Doubles) -> float:
    """Share of a change of margins, from 0 to 1, that leaves least of a convex loss."""
    if isinstance(loss, SquaredLoss):
        step = change[:, 0] / loss.unit
        square = float(weight @ step**2)
        product = float(weight @ ((target - first[:, 0]) / loss.unit * step))
        return min(max(product / square, 0.0), 1.0) if square > 0 else 0.0
    low, high = 0.0, 1.0
    for _ in range(THIRDS):
        third = (high - low) / 3
        inner, outer = (loss.total(target, first + share * change, weight) for share in (low + third, high - third))
        low, high = (low, high - third) if inner <= outer else (low + third, high)
    return (low + high) / 2


def _mixture(sequences: list[TreeSequence], share: float) -> TreeSequence | Mixture:
    """Mix two sequences by the share of the second one, or keep one of them."""
    if len(sequences) == 1 or share < LEAST_SHARE:
        return sequences[0]
    return sequences[1] if share > 1 - LEAST_SHARE else Mixture(sequences, [1 - share, share])


def _left(plan: SequencePlan, sequence: TreeSequence, rows: TrainingData) -> float:
    """Loss that a sequence leaves of rows."""
    return plan.loss.total(rows.target, sequence.margins(rows.columns.as_rows(), 1), rows.weight)


def _with_equations(plan: SequencePlan, start: TreeSequence, data: TrainingData, given: Circumstances) -> TreeSequence:
    """Grow a sequence; it ends with the step after which the rows that it has not seen are predicted best.

    If a whole tree alone predicts these rows better, the sequence begins with it instead of a constant, and may end
    with it.
    """
    began, unseen = time.perf_counter(), data.taken(plan.draw.unseen)
    sequence, least = _continued(plan, start, 1, data, given)
    if not len(plan.draw.unseen) or plan.is_over(began, given):
        return sequence
    whole = plan.whole(plan.left(began), data.taken(plan.draw.seen), given.now())
    constant, alone = _left(plan, start, unseen), _left(plan, whole, unseen)
    if alone >= least or alone <= EXACT * constant:
        return sequence if alone >= least else whole
    rest = replace(plan, seconds=plan.left(began))
    return _continued(rest, replace(whole, rate=plan.rate), 0, data, given)[0]


def _continued(
    plan: SequencePlan, begun: TreeSequence, least_steps: int, data: TrainingData, given: Circumstances
) -> tuple[TreeSequence, float]:
    """Add steps to a sequence; and what is left of the loss of rows that it has not seen."""
    unseen = plan.draw.unseen

    def left() -> float:
        return plan.loss.total(data.target[unseen], margins[unseen], data.weight[unseen])

    margins = begun.margins(data.columns.as_rows(), 1)
    kept, steps, least = least_steps, list[list["ModelTreeRegressor"]](), left()
    for trees, predictions in _grown(plan, begun, data, given, margins):
        steps.append(trees)
        margins += plan.rate * predictions
        total = left()
        if total < least or not len(unseen):
            kept, least = len(steps), total
        if len(steps) - kept >= PATIENCE:
            break
    return replace(begun, trees=[tree for trees in steps[:kept] for tree in trees]), least


def _grown(
    plan: SequencePlan, begun: TreeSequence, data: TrainingData, given: Circumstances, margins: Doubles
) -> Iterator[tuple[list[ModelTreeRegressor], Doubles]]:
    """Grow steps one after the other, each of what `margins` then leave: trees, and their predictions of all rows."""
    random, began = np.random.default_rng(given.seed), time.perf_counter()
    rows, seen = data.columns.as_rows(), plan.draw.seen
    parameters = plan.member.get_params(deep=False)  # clones take as long as a small tree's leaves
    for number in range(plan.n_trees):
        seconds = plan.left(began)
        is_late = seconds is not None and seconds < 0
        if (number or begun.first is not None) and (given.interrupts.have_come or is_late):
            return
        drawn = np.sort(random.permutation(seen)[: max(1, round(DRAWN * len(seen)))])
        columns, target, weight = data.taken(drawn)
        trees = []
        for output in range(plan.loss.n_outputs):
            rest, spread = plan.loss.step(target, margins[drawn], weight, output)
            own = given.now(seed=int(random.integers(2**31 - 1)))
            tree = type(plan.member)(**parameters)
            if seconds is not None:
                tree.time_limit = max(seconds, 1e-3)
            tree._keep(fit_tree(tree, TrainingData(columns, rest, spread).by_target(), own), plan.reader)
            trees.append(tree)
        yield trees, np.column_stack([tree.forest_.predict(rows, device="cpu", n_jobs=tree.n_jobs) for tree in trees])
