"""The inverted index: training rows by the leaves that they reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.neighbors.training import Counts

POSITIONS_TOGETHER = 2**24
"""Leaves of rows that are found together."""


@dataclass(frozen=True, eq=False)
class LeafLists:
    """Rows of each leaf: those of leaf l are ``rows[offsets[l]:offsets[l + 1]]``, rising.

    Attributes
    ----------
    offsets : int64, (n_leaves + 1,)
    rows : int32
    mass : float64
        Weight of a leaf's rows up to and with each; empty where each row counts once.
    """

    offsets: Int64s
    rows: Int32s
    mass: Doubles

    def weight(self) -> Doubles:
        """Weight of the rows of each leaf, (n_leaves,)."""
        if not len(self.mass):
            return np.diff(self.offsets).astype(np.float64)
        ends = self.offsets[1:]
        return np.where(np.diff(self.offsets) > 0, self.mass[np.maximum(ends, 1) - 1], 0.0)


def in_parts(forest: TreeEnsemble, n_rows: int) -> Iterator[slice]:
    """Split rows into parts whose leaves are found together."""
    step = max(1, POSITIONS_TOGETHER // max(forest.n_trees, 1))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def list_rows(
    forest: TreeEnsemble,
    positions: Int32s,
    n_jobs: int | None,
    order: Int64s | None = None,
    bags: Counts | None = None,
    row_weight: Doubles | None = None,
) -> LeafLists:
    """List the rows of each leaf, by number, or as places in an order; rows of weight 0 are left out.

    Parameters
    ----------
    forest : TreeEnsemble
    positions : int32, (n, n_trees)
    n_jobs : int, optional
    order : (n,), optional
    bags, row_weight : optional
        As for `LeafIndex`.
    """
    places = np.arange(len(positions)) if order is None else order
    first, threads = forest.leaf_offsets.astype(np.int32), n_threads(n_jobs)
    return LeafLists(*_core.index_leaves(positions, first, places.astype(np.int32), bags, row_weight, threads))


def as_counts(weight: Doubles | None) -> Doubles | None:
    """Weights of rows as they are where all are whole numbers, which count rows; else those above 0 in the mean 1."""
    if weight is None or (weight == np.floor(weight)).all():
        return weight
    return np.asarray(weight * (np.count_nonzero(weight) / weight.sum()))


class LeafIndex:
    """An index from a forest's leaves to its training rows.

    Parameters
    ----------
    forest : TreeEnsemble
    lists : LeafLists
        All rows, each once.
    weights : int64, (n_trees,)
        Whole weights of the trees.
    bags : (n, n_trees), optional
        How often a tree was given a row.
    row_weight : (n,), optional
    class_weight : float64, (n_classes, n_trees), optional
        What a row of a class counts in each tree, besides (scikit-learn's ``class_weight``).
    row_class : int64, (n,), optional
        Places of the rows' classes, for `class_weight`.
    """

    forest: TreeEnsemble
    lists: LeafLists
    weights: Int64s
    bags: Counts | None
    row_weight: Doubles | None
    class_weight: Doubles | None
    row_class: Int64s | None

    def __init__(
        self,
        forest: TreeEnsemble,
        lists: LeafLists,
        weights: Int64s,
        bags: Counts | None,
        row_weight: Doubles | None,
        class_weight: Doubles | None = None,
        row_class: Int64s | None = None,
    ) -> None:
        self.forest, self.lists, self.weights, self.bags, self.row_weight = forest, lists, weights, bags, row_weight
        self.class_weight, self.row_class = class_weight, row_class

    def __len__(self) -> int:
        return len(self.lists.rows) // self.forest.n_trees

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in {"shares", "positions"}}

    @cached_property
    def positions(self) -> Int32s:
        """Leaves of the training rows, (n, n_trees)."""
        result = np.empty((len(self), self.forest.n_trees), np.int32)
        leaf = np.repeat(np.arange(self.forest.n_leaves, dtype=np.int32), np.diff(self.lists.offsets))
        for tree in range(self.forest.n_trees):
            part = slice(tree * len(self), (tree + 1) * len(self))
            result[self.lists.rows[part], tree] = leaf[part]
        return result

    @cached_property
    def shares(self) -> _core.RowShares:
        """The search for shares of trees on the CPU."""
        lists, first = self.lists, self.forest.leaf_offsets.astype(np.int32)
        return _core.RowShares(lists.offsets, lists.rows, first, self.weights.astype(np.uint16), len(self))

    @property
    def total(self) -> int:
        """Sum of the trees' weights: the share of rows that share all leaves."""
        return int(self.weights.sum())

    def weight(self) -> Doubles | None:
        """Weight of each row in each tree, (n, n_trees); None if each counts once."""
        if self.bags is None and self.row_weight is None and self.class_weight is None:
            return None
        weight = np.ones((len(self), self.forest.n_trees)) if self.bags is None else self.bags.astype(np.float64)
        if self.row_weight is not None:
            weight *= self.row_weight[:, None]
        if self.class_weight is not None:
            weight *= self.class_weight[self.row_class]
        return weight

    def given(self, n_jobs: int | None, order: Int64s | None = None) -> LeafLists:
        """List the rows that trees were given, by leaf, with their weights; by number, or as places in an order.

        Quantiles interpolate as if weights counted rows, so that relative ones are in the mean 1.
        """
        if order is None and self.bags is None and self.row_weight is None:
            return self.lists
        return list_rows(self.forest, self.positions, n_jobs, order, self.bags, as_counts(self.row_weight))

    def leaf_weights(self, n_jobs: int | None) -> Doubles:
        """Weight of the rows that each leaf was given, (n_leaves,)."""
        if self.class_weight is not None and (weight := self.weight()) is not None:
            return np.bincount(self.positions.ravel(), weight.ravel(), self.forest.n_leaves).astype(np.float64)
        first = self.forest.leaf_offsets.astype(np.int32)
        return _core.weigh_leaves(self.positions, first, self.bags, self.row_weight, n_threads(n_jobs))

    def nearest(
        self, positions: Int32s, k: int, first_own: int, n_jobs: int | None, by: str = "auto"
    ) -> tuple[Int32s, Int32s]:
        """Find rows and shares of the k nearest, (n, k) each, falling; -1 and 0 where fewer share a leaf."""
        rows, shares = (np.empty((len(positions), k), np.int32) for _ in range(2))
        self.shares.nearest(positions, first_own, rows, shares, by, n_threads(n_jobs))
        return rows, shares

    def squares(
        self, positions: Int32s, group: Int32s, query_group: Int32s, n_jobs: int | None, by: str = "auto"
    ) -> Doubles:
        """Sum the squared similarities of rows and the training rows of their groups, (n,)."""
        out: NDArray[np.uint64] = np.empty(len(positions), np.uint64)
        self.shares.squares(positions, -1, group, query_group, out, by, n_threads(n_jobs))
        return out / float(self.total) ** 2


class TargetIndex:
    """Targets of the rows in each leaf, in their order.

    Parameters
    ----------
    index : LeafIndex
    targets : float64, (n,)
        Rising.
    lists : LeafLists
        Ranks of the targets.
    """

    targets: Doubles
    lists: LeafLists

    @classmethod
    def of(cls, index: LeafIndex, targets: Doubles, n_jobs: int | None) -> TargetIndex:
        """Index the targets of all rows, (n,)."""
        order = np.argsort(targets, kind="stable")
        return cls(index, targets[order], index.given(n_jobs, order))

    def __init__(self, index: LeafIndex, targets: Doubles, lists: LeafLists) -> None:
        self.targets, self.lists = targets, lists
        share = index.weights / index.total
        first = index.forest.leaf_offsets.astype(np.int32)
        self._mixture = _core.TargetMixture(lists.offsets, lists.rows, first, lists.mass, share, targets)

    def quantiles(
        self, positions: Int32s, q: Doubles, linear: bool, weighted_leaves: bool, n_jobs: int | None
    ) -> Doubles:
        """Quantiles, (n, len(q)); NaN where no leaf has training rows."""
        out = np.empty((len(positions), len(q)))
        self._mixture.quantiles(positions, q, linear, weighted_leaves, out, n_threads(n_jobs))
        return out

    def below(self, positions: Int32s, values: Doubles, weighted_leaves: bool, n_jobs: int | None) -> Doubles:
        """Shares of the weight of targets of at most each value, (n, len(values))."""
        out = np.empty((len(positions), len(values)))
        ranks = np.searchsorted(self.targets, values, side="right").astype(np.int32)
        self._mixture.below(positions, ranks, weighted_leaves, out, n_threads(n_jobs))
        return out
