"""Influence of training rows on predictions, with the splits as they are.

Without a row, each leaf that holds it has another value. In forests that average, this is all, and exact. In boosted
forests the rows of that leaf then have other margins, hence other gradients, and the leaves of all later rounds follow:
to first order, a chain of derivatives. It is walked backwards, once for each prediction and all training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int32s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.neighbors.training import is_average

if TYPE_CHECKING:
    from glasswood.neighbors.index import LeafIndex

UNEXPLAINED = 1e-4
"""Largest share of the leaves' squared values that Newton steps may leave unexplained; rounding leaves 1e-14."""


MEAN_TOLERANCE = 1e-5
"""Largest share of the variance of y by which leaves may differ from means of y; rounding leaves 1e-12."""


class Step(NamedTuple):
    """Derivatives of a loss by the margin, (n,): first, second, third."""

    gradient: Doubles
    hessian: Doubles
    third: Doubles


def _squared(margin: Doubles, y: Doubles) -> Step:
    return Step(margin - y, np.ones_like(y), np.zeros_like(y))


def _logistic(margin: Doubles, y: Doubles) -> Step:
    p = 1 / (1 + np.exp(-margin))
    return Step(p - y, p * (1 - p), p * (1 - p) * (1 - 2 * p))


def _exponential(margin: Doubles, y: Doubles) -> Step:
    mean = np.exp(margin)
    return Step(mean - y, mean, mean)


LOSSES: dict[str, Callable[[Doubles, Doubles], Step]] = {
    "identity": _squared,
    "logistic": _logistic,
    "exp": _exponential,
}
"""By the link of the forest."""


def influence_of(index: LeafIndex, y: Doubles) -> AverageInfluence | BoostedInfluence:
    """Choose what computes influence.

    Parameters
    ----------
    index : LeafIndex
    y : (n, k)
        Targets, or 0 and 1 for each class.

    Raises
    ------
    NotImplementedError
        For linear leaves, boosted forests of several outputs or other links than `LOSSES`.
    """
    forest = index.forest
    if forest.has_linear_leaves:
        raise NotImplementedError("influence does not support linear models in leaves")
    if is_average(forest) and forest.leaf_width == y.shape[1]:
        average = AverageInfluence(index, y)
        if forest.n_trees > 1 or forest.n_outputs > 1 or average.unexplained <= MEAN_TOLERANCE:
            average.check()
            return average
    if forest.n_outputs > 1 or forest.link not in LOSSES:
        raise NotImplementedError(
            f"influence supports averages, and boosting with one output and squared error, log loss or Poisson loss; "
            f"this forest has {forest.n_outputs} outputs and the link {quoted(forest.link)}"
        )
    return BoostedInfluence(index, y[:, 0])


class AverageInfluence:
    """Influence in forests whose leaves are means of the targets: the change if a row is left out of its leaves.

    Attributes
    ----------
    unexplained : float
        Share of the leaves' squared deviations that the means of X and y leave.
    """

    def __init__(self, index: LeafIndex, y: Doubles) -> None:
        self._index, forest = index, index.forest
        weight = index.weight()
        self._tree_weight = forest.tree_weight
        ones = np.ones((len(y), forest.n_trees)) if weight is None else weight
        self._change = np.zeros((forest.n_trees, *y.shape))
        value = forest.leaf_value + forest.base_score[: forest.leaf_width]
        differs = spread = 0.0
        for tree in range(forest.n_trees):
            leaf = index.positions[:, tree]
            total = np.bincount(leaf, ones[:, tree], forest.n_leaves)[leaf]
            mean = (
                np.stack([np.bincount(leaf, ones[:, tree] * column, forest.n_leaves)[leaf] for column in y.T], axis=1)
                / np.maximum(total, 1e-300)[:, None]
            )
            differs += float((ones[:, tree, None] * (value[leaf] - mean) ** 2).sum())
            spread += float((ones[:, tree, None] * (y - y.mean(axis=0)) ** 2).sum())
            left = total - ones[:, tree]
            # A leaf in which no other row is left keeps its value.
            share = np.divide(ones[:, tree], left, out=np.zeros(len(y)), where=left > 1e-9 * total)
            self._change[tree] = share[:, None] * (y - mean)
        self.unexplained: float = differs / spread if spread else float(differs > 0)

    def check(self) -> None:
        """Refuse leaves that are no means of the targets, for which a mean without the row would be another number.

        Raises
        ------
        ValueError
        """
        if not self.unexplained <= MEAN_TOLERANCE:
            raise ValueError(
                f"the values of the leaves are not the means of y over the rows of X that reach them (they differ by "
                f"{self.unexplained:.1%} of the variance of y); influence requires the rows, targets and weights of "
                "the training, and rows that each tree was given, which only live random forests of scikit-learn know"
            )

    def of(self, positions: Int32s) -> Doubles:
        """Prediction minus prediction without each row, (m, n, k)."""
        result = np.zeros((len(positions), *self._change.shape[1:]))
        for tree, weight in enumerate(self._tree_weight):
            shared = positions[:, tree, None] == self._index.positions[:, tree]
            result += weight * shared[:, :, None] * self._change[tree]
        return result


@dataclass(frozen=True, eq=False)
class _Round:
    """A tree of a boosted forest: leaves of the rows, how leaving a row out and its margin change its leaf's value."""

    leaf: Array
    start: int
    change: Doubles
    slope: Doubles


class BoostedInfluence:
    """Influence in boosted forests: first-order changes of all leaves if a row is left out."""

    def __init__(self, index: LeafIndex, y: Doubles) -> None:
        self._forest = forest = index.forest
        self._n_leaves = np.diff(forest.leaf_offsets)
        row_weight = np.ones(len(y)) if index.row_weight is None else index.row_weight
        rate, penalty, shift = _settings(index, y, row_weight)
        margin = np.full(len(y), float(forest.base_score[0])) + shift
        self._rounds: list[_Round] = []
        for tree, value, leaf, start in _trees(index, shift):
            step = LOSSES[forest.link](margin, y)
            total = np.bincount(leaf, row_weight * step.hessian, self._n_leaves[tree])[leaf] + penalty
            own = value[leaf]
            left = total - row_weight * step.hessian
            # A leaf in which no other row is left has no step.
            change = np.divide(
                -row_weight * (rate * step.gradient + step.hessian * own),
                left,
                out=own.copy(),
                where=left > 1e-9 * total,
            )
            slope = -row_weight * (rate * step.hessian + step.third * own) / np.maximum(total, 1e-300)
            self._rounds.append(_Round(leaf, start, change, slope))
            margin += own

    def of(self, positions: Int32s) -> Doubles:
        """Margin minus margin without each row, (m, n, 1)."""
        n = len(self._rounds[0].leaf)
        result = np.zeros((len(positions), n))
        for query, leaves in enumerate(positions):
            # How the prediction follows each row's margin, after the rounds that are still to come.
            after = np.zeros(n)
            for tree in range(len(self._rounds) - 1, -1, -1):
                one = self._rounds[tree]
                by_leaf = np.bincount(one.leaf, after, self._n_leaves[tree])
                by_leaf[leaves[tree] - one.start] += 1.0
                of_row = by_leaf[one.leaf]
                result[query] += (of_row - after) * one.change
                after += of_row * one.slope
        return result[:, :, None]


def _trees(index: LeafIndex, shift: float) -> list[tuple[int, Doubles, Array, int]]:
    """Trees with the steps in their leaves, and the leaves of the training rows within the tree."""
    forest, result = index.forest, []
    for tree in range(forest.n_trees):
        start, end = forest.leaf_offsets[tree : tree + 2]
        value = forest.tree_weight[tree] * forest.leaf_value[start:end, 0]
        leaf = index.positions[:, tree] - start
        result.append((tree, value - shift if tree == 0 else value, leaf, int(start)))
    return result


def _settings(index: LeafIndex, y: Doubles, weight: Doubles) -> tuple[float, float, float]:
    """Find learning rate, L2 penalty, and what the first tree holds besides its step (LightGBM: the mean).

    The forest tells them: a leaf's value is -rate * G / (H + penalty) of its rows' gradients and Hessians.

    Raises
    ------
    ValueError
        If no pair of them explains the leaves.
    """
    forest = index.forest
    found = [(*_fitted(index, y, weight, shift), shift) for shift in _shifts(forest, y, weight)]
    left, rate, penalty, shift = min(found)
    if not (left <= UNEXPLAINED and rate > 0):
        raise ValueError(
            f"{left:.2%} of the leaves' squared values are not Newton steps of the loss on X and y; influence requires "
            "the rows and targets of the training, all of them in every round, and the loss of the forest's link"
        )
    return rate, penalty, shift


def _shifts(forest: TreeEnsemble, y: Doubles, weight: Doubles) -> list[float]:
    mean = float(np.average(y, weights=weight))
    with np.errstate(divide="ignore", invalid="ignore"):
        logit, log = np.log(mean / (1 - mean)), np.log(mean)
        start = {"identity": mean, "logistic": logit, "exp": log}[forest.link]
    return [0.0, float(start)] if np.isfinite(start) else [0.0]


def _fitted(index: LeafIndex, y: Doubles, weight: Doubles, shift: float) -> tuple[float, float, float]:
    """Least squares of value * H = -rate * G - penalty * value over all leaves: what is left of them, the two."""
    forest = index.forest
    margin = np.full(len(y), float(forest.base_score[0])) + shift
    G, H, V = [], [], []
    for _, value, leaf, _ in _trees(index, shift):
        step = LOSSES[forest.link](margin, y)
        G.append(np.bincount(leaf, weight * step.gradient, len(value)))
        H.append(np.bincount(leaf, weight * step.hessian, len(value)))
        V.append(value)
        margin = margin + value[leaf]
    gradient, hessian, values = (np.concatenate(parts) for parts in (G, H, V))
    system = np.stack([-gradient, -values], axis=1)
    rate, penalty = np.linalg.lstsq(system, values * hessian, rcond=None)[0]
    if penalty < 0 or not np.isfinite(penalty):
        penalty = 0.0
        rate = -float(gradient @ (values * hessian)) / max(float(gradient @ gradient), 1e-300)
    steps = -rate * gradient / np.maximum(hessian + penalty, 1e-300)
    left = float((hessian * (values - steps) ** 2).sum() / max(float((hessian * values**2).sum()), 1e-300))
    return left, float(rate), float(penalty)
