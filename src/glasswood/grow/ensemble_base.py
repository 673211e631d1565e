"""The steps of both kinds of ensembles of model trees: draw rows, grow on each draw, join the forests."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from glasswood.base.config import config_context, device_of
from glasswood.base.device import on_host, parse_device
from glasswood.base.escapes import quoted
from glasswood.base.parallel import n_threads, side_by_side
from glasswood.base.typing import Doubles, Int32s, Int64s, Output, Rows
from glasswood.evaluate.links import respond
from glasswood.forest import Forest
from glasswood.grow.balance import balance, within_sign
from glasswood.grow.boosting import IN_MIXTURES, Draw, Mixture, SequencePlan, TreeSequence, boosted, columns_of, mixed
from glasswood.grow.checks import check_parameters, one_of
from glasswood.grow.data.reading import routed
from glasswood.grow.data.repeats import repetitions
from glasswood.grow.losses import LINKS, SquaredLoss
from glasswood.grow.merging import merged
from glasswood.grow.search.engine import Circumstances, find_sorter
from glasswood.grow.search.process import Interrupts, undisturbed
from glasswood.grow.tree_estimator import TreeEstimator

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.estimator import ModelTreeRegressor
    from glasswood.grow.losses import SequenceLoss

BOOSTED: dict[str, Any] = {
    "penalty": 0.1, "max_leaves": 8, "noise": "uniform", "clip": "leaf",
    "population_size": 16, "generations": 20, "log_terms": False,
}  # fmt: skip
"""What the trees of a sequence are grown with by default."""


class TreeEnsembleEstimator(TreeEstimator):
    """Ensembles of model trees; their parameters are those of `ModelTreeEnsembleRegressor`."""

    estimator: Any
    n_estimators: int
    max_samples: float
    method: str
    learning_rate: float
    max_trees: int
    time_limit: float | None
    n_jobs: int | None
    random_state: Any

    @abstractmethod
    def _members(self) -> dict[str, Any]:
        """Return what the trees of each method are by default."""

    @abstractmethod
    def _loss(self, target: Doubles) -> SequenceLoss:
        """Return what a sequence reduces."""

    @abstractmethod
    def _alone(self, member: Any, data: TrainingData, given: Circumstances) -> TreeSequence:
        """Grow one tree on rows, as its estimator does."""

    @abstractmethod
    def _whole(
        self, member: ModelTreeRegressor, seconds: float | None, data: TrainingData, given: Circumstances
    ) -> TreeSequence:
        """Grow a tree that a boosted sequence may begin with, by a brief search."""

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches in each tree: int32, (n_rows, n_trees)."""
        leaves: Int32s = routed(self, X, "leaf")
        return leaves

    @property
    def feature_importances_(self) -> Doubles:
        """Mean of the importances of the trees: float64, (n_features,); boosted trees by the squares they explain."""
        check_is_fitted(self)
        shares = np.array([tree.feature_importances_ for tree in self.estimators_])
        squares = np.ones(len(shares))
        if self.method != "mean":
            explained = np.array([tree._explained for tree in self.estimators_])
            squares = (explained / (explained.max() or 1.0)) ** 2
        importances: Doubles = squares @ shares / (squares.sum() or 1.0)
        return importances

    @property
    def categorical_features(self) -> Sequence[int | str] | None:
        """Those of `estimator`."""
        return None if self.estimator is None else self.estimator.categorical_features

    @property
    def monotonic_cst(self) -> Any:
        """Those of `estimator`."""
        return None if self.estimator is None else self.estimator.monotonic_cst

    @property
    def coefficient_signs(self) -> Any:
        """Those of `estimator`."""
        return None if self.estimator is None else self.estimator.coefficient_signs

    @property
    def interaction_cst(self) -> Any:
        """Those of `estimator`."""
        return None if self.estimator is None else self.estimator.interaction_cst

    @property
    def device(self) -> str:
        """That of `estimator`."""
        return device_of("auto" if self.estimator is None else self.estimator.device)

    def _staged(self, X: Rows, output: Output) -> Iterator[Any]:
        """Predict rows after each step, in which every sequence that has not ended adds a tree to each output."""
        check_is_fitted(self)
        forest = self.forest_.ensemble
        first = np.cumsum([0] + [tree.forest_.n_trees for tree in self.estimators_])
        margins = forest.base_score.astype(np.float64)
        for step in range(int(self._steps.max()) + 1):
            for number in np.flatnonzero(self._steps == step).tolist():
                own = slice(first[number], first[number + 1])
                added = np.asarray(on_host(routed(self.estimators_[number], X, "margin")))
                total = np.tile(margins, (len(added), 1)) if margins.ndim == 1 else margins
                total[:, forest.tree_output[own]] += forest.tree_weight[own] * added.reshape(len(added), -1)
                margins = total
            yield respond(forest, margins, output)

    def _member(self) -> Any:
        """Check the parameters, and return what a tree is grown with."""
        members = self._members()
        check_parameters(self, method=one_of(*members), loss=one_of("squared", *LINKS))
        default = members[self.method]
        if self.estimator is not None and not isinstance(self.estimator, type(default)):
            given, expected = type(self.estimator).__name__, type(default).__name__
            raise TypeError(f"estimator is a {given}, expected a {expected} or None")
        member = default if self.estimator is None else clone(self.estimator)
        check_parameters(member)
        if getattr(member, "curves", False):
            raise ValueError(
                f"estimator has curves={quoted(member.curves)}, which trees of an ensemble have not; pass curves=False"
            )
        return member

    def _fit(
        self, member: Any, data: TrainingData, home: int | None, group: Doubles, objective: str, **meaning: Any
    ) -> tuple[list[TreeSequence | Mixture], list[Draw], TrainingData]:
        """Grow on draws with the same part of every `group`, and join; also the rows in their order.

        `objective` and `meaning` are fields of the forest.
        """
        data, order, copies = data.in_order()
        rows = repetitions(data.columns.X, data.target) if copies > 1 else np.arange(len(order))
        sorter = find_sorter(device_of(member.device), home, *data.columns.X.shape)
        data = data._replace(columns=data.columns.ranked(n_threads(self.n_jobs), sorter))
        draws = self._samples(rows, group[order].astype(np.int64))
        with undisturbed() as interrupts:
            sequences, draws = self._grown(member, data, draws, home, interrupts)
            self.samples_: list[Int32s] = [order[draw.seen] for draw in draws]
            self._join(sequences, **meaning, objective=f"{objective}{self._constraints}")
            self._balance(member, data)
            self.interrupted_: bool = interrupts.have_come
        return sequences, draws, data

    def _samples(self, row: Int64s, group: Int64s) -> list[Draw]:
        """Draw the rows of each sequence; copies of a `row` that it sees are not among those that it has not seen.

        The same part of every `group` is drawn, at least one row.
        """
        random = check_random_state(self.random_state)
        draws = []
        for _ in range(self.n_estimators):
            seed = int(random.randint(2**31 - 1))
            shuffled = random.permutation(len(row))
            parts = [shuffled[group[shuffled] == one] for one in np.unique(group)]
            seen = np.concatenate([part[: max(1, round(self.max_samples * len(part)))] for part in parts])
            seen = np.sort(seen).astype(np.int32)
            draws.append(Draw(seed, seen, np.flatnonzero(~np.isin(row, row[seen])).astype(np.int32)))
        return draws

    def _grown(
        self, member: Any, data: TrainingData, draws: list[Draw], home: int | None, interrupts: Interrupts
    ) -> tuple[list[TreeSequence | Mixture], list[Draw]]:
        """Grow the sequences, as many beside each other as there are threads; after an interrupt those begun, and one.

        Also returns the draws of these.
        """
        began, n_together = time.perf_counter(), min(n_threads(self.n_jobs), len(draws))
        if parse_device(device_of(member.device))[0] in {"cuda", "all"} or home is not None:
            n_together = 1
        member.set_params(n_jobs=self.n_jobs if n_together == 1 else 1, verbose=False)
        loss = self._loss(data.target)

        def fitted(number: int) -> list[TreeSequence]:
            draw = draws[number]
            if number and interrupts.have_come:
                return []
            seconds = self._share(time.perf_counter() - began, len(draws) - number, n_together)
            given = Circumstances(draw.seed, home=home, interrupts=Interrupts(interrupts))
            if self.method == "mean":
                tree = clone(member).set_params(random_state=draw.seed, time_limit=seconds)
                return [self._alone(tree, data.taken(draw.seen), given)]
            whole = partial(self._whole, member)
            changes = IN_MIXTURES if self.estimator is None and isinstance(loss, SquaredLoss) else {}
            plan = SequencePlan(draw, member, loss, self.max_trees, seconds, self, self.learning_rate, whole, changes)
            return boosted(plan, data, given)

        with config_context(n_jobs=member.n_jobs):
            found = side_by_side(fitted, len(draws), n_together)
        draws = [draw for draw, sequences in zip(draws, found, strict=True) if sequences]
        return mixed([sequences for sequences in found if sequences], draws, data, loss), draws

    def _share(self, elapsed: float, n_left: int, n_together: int) -> float | None:
        """Seconds for one of the trees that are left."""
        if self.time_limit is None:
            return None
        return max((self.time_limit - elapsed) * min(1.0, n_together / n_left), 1e-3)

    def _join(self, sequences: list[TreeSequence | Mixture], **meaning: Any) -> None:
        """Set the trees and their forest, the mean of the sequences; `meaning` are further fields of it."""
        self.estimators_: list[Any] = [tree for sequence in sequences for tree in sequence.estimators]
        self.sequence_: Int64s = np.repeat(
            np.arange(len(sequences)), [len(sequence.estimators) for sequence in sequences]
        )
        self._steps = np.concatenate([sequence.steps for sequence in sequences])
        share = 1 / len(sequences)
        self.forest_: Forest = Forest(
            merged(
                [tree.forest_.ensemble for tree in self.estimators_],
                np.concatenate([sequence.outputs for sequence in sequences]),
                share * np.concatenate([sequence.weights for sequence in sequences]),
                base_score=np.mean([sequence.start for sequence in sequences], axis=0),
                **meaning,
            )
        )
        self.n_leaves_: int = self.forest_.n_leaves

    def _balance(self, member: Any, data: TrainingData) -> None:
        """Add the constant to the forest with which the mean prediction is that of the target, if it has one."""
        forest = self.forest_.ensemble
        if getattr(self, "loss", "") == "quantile" or getattr(member, "loss", "") == "huber":
            return
        margins = self.forest_.predict(data.columns.as_rows(), "margin", device="cpu", n_jobs=self.n_jobs)
        change = balance(forest.link, data.target, columns_of(np.asarray(margins)), data.weight)
        if self.method == "mean" and forest.link == "identity":
            change = within_sign(change, forest, data.target)
        self.forest_ = Forest(replace(forest, base_score=forest.base_score + change, checked=None))
