"""Splits and leaves of LightGBM's trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.typing import Array, Bools, Doubles, Int64s
from glasswood.readers.assemble import NodeArrays, less_than

if TYPE_CHECKING:
    from glasswood.readers.lightgbm.text import Document

ZERO_THRESHOLD = float(np.float32(1e-35))
SMALLEST_CATEGORY = float(np.nextafter(-1.0, 0.0))
"""Categories are truncated to integers, so everything above -1 is one."""

LARGEST_THRESHOLD = 1e308
"""LightGBM stays within 1e300; above the largest number no threshold is left for TreeEnsemble's ``x < threshold``."""

IS_CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2


class Layout:
    """The text's arrays of splits and of leaves, and where their entries stand in NodeArrays.

    The text keeps splits and leaves apart; NodeArrays takes a tree's splits first, then its leaves.

    Attributes
    ----------
    n_leaves, n_splits : (n_trees,)
    split_tree, leaf_tree : tree of each split and leaf
    leaf_number : number of each leaf in its tree, LightGBM's leaf id
    kind, threshold, feature : ``decision_type``, ``threshold``, ``split_feature`` of each split
    leaf_value : value of each leaf

    Raises
    ------
    ValueError
        If arrays are too short or too long, or hold what no tree can hold; the message names the tree.
    """

    split_tree: Int64s
    leaf_tree: Int64s

    def __init__(self, document: Document) -> None:
        self.document = document
        self.n_leaves: Int64s = _n_leaves(document)
        self.n_splits: Int64s = self.n_leaves - 1
        # Nothing of the declared sizes is made before the text has been found to hold as much.
        self.leaf_value: Array = document.tree_arrays("leaf_value", self.n_leaves, np.float64)
        trees = np.arange(len(self.n_leaves))
        self.split_tree, self.leaf_tree = np.repeat(trees, self.n_splits), np.repeat(trees, self.n_leaves)
        self.leaf_number: Int64s = count_up(self.n_leaves)
        counts = self.n_splits + self.n_leaves
        starts = np.cumsum(counts) - counts
        self._split_at = starts[self.split_tree] + count_up(self.n_splits)
        self._leaf_at = (starts + self.n_splits)[self.leaf_tree] + self.leaf_number
        self.kind: Array = self.splits("decision_type", np.int64)
        self.threshold: Array = self.splits("threshold", np.float64)
        self.feature: Array = self.splits("split_feature", np.int64)
        self._check()

    def _check(self) -> None:
        n_features = self.document.integer("max_feature_idx") + 1
        self.refuse((self.kind < 0) | (self.kind >> 2 > MISSING_NAN), "has an unknown decision_type")
        self.refuse(np.isnan(self.threshold), "has a threshold that is NaN")
        too_large = np.isfinite(self.threshold) & (np.abs(self.threshold) > LARGEST_THRESHOLD)
        self.refuse(too_large, f"has a threshold beyond {LARGEST_THRESHOLD}")
        outside = (self.feature < 0) | (self.feature >= n_features)
        self.refuse(outside, f"splits on a feature that does not exist; the model has {n_features}")
        self.refuse(~np.isfinite(self.leaf_value), "has a leaf_value that is not finite", self.leaf_tree)

    @property
    def is_categorical(self) -> Bools:
        """Splits that test a set of categories."""
        return (self.kind & IS_CATEGORICAL) > 0

    @property
    def missing(self) -> Int64s:
        """What each split takes as missing: `MISSING_NONE`, `MISSING_ZERO` or `MISSING_NAN`."""
        return self.kind >> 2

    @property
    def default_left(self) -> Bools:
        """Side of NaN: 0's where it counts as 0, right where categories are tested."""
        declared = (self.kind & DEFAULT_LEFT) > 0
        return ~self.is_categorical & np.where(self.missing == MISSING_NONE, self.zero_left, declared)

    @property
    def zero_left(self) -> Bools:
        """Side of 0 at numerical splits."""
        return self.threshold >= 0

    def splits(self, key: str, dtype: DTypeLike) -> Array:
        """Return an array of the text with one entry per split."""
        return self.document.tree_arrays(key, self.n_splits, dtype)

    def children(self, key: str) -> Int64s:
        """Return children in the numbering of NodeArrays; the text numbers leaves -1, -2, ..."""
        child = self.splits(key, np.int64)
        n_splits, n_leaves = self.n_splits[self.split_tree], self.n_leaves[self.split_tree]
        self.refuse((child >= n_splits) | (child < -n_leaves), f"has a {key} that does not exist")
        return self.join(np.where(child < 0, n_splits + ~child, child), -1)

    def covers(self) -> Doubles:
        """Return the number of training rows of each node."""
        splits = self.splits("internal_count", np.float64)
        leaves = self.document.tree_arrays("leaf_count", self.n_leaves, np.float64)
        self.refuse(~np.isfinite(splits) | (splits < 0), "has an internal_count that counts nothing")
        self.refuse(~np.isfinite(leaves) | (leaves < 0), "has a leaf_count that counts nothing", self.leaf_tree)
        return self.join(splits, leaves)

    def join(self, splits: Array, leaves: Any) -> Array:
        """Put splits and leaves in the order of NodeArrays."""
        result = np.empty(len(self._split_at) + len(self._leaf_at), splits.dtype)
        result[self._split_at], result[self._leaf_at] = splits, leaves
        return result

    def refuse(self, wrong: Bools, what: str, tree: Int64s | None = None) -> None:
        """Raise ValueError with the number of the first tree that has a wrong entry (default: one per split)."""
        if wrong.any():
            raise ValueError(f"tree {(self.split_tree if tree is None else tree)[np.argmax(wrong)]} {what}")


def node_arrays(layout: Layout, category_set: Int64s | None) -> NodeArrays:
    """Return all nodes; `category_set` is the set of each split or -1."""
    n_splits = len(layout.kind)
    upper = less_than(layout.threshold, np.float64)
    return NodeArrays(
        counts=layout.n_splits + layout.n_leaves,
        left=layout.children("left_child"),
        right=layout.children("right_child"),
        feature=layout.join(layout.feature, -1),
        threshold=layout.join(np.where(layout.is_categorical, SMALLEST_CATEGORY, upper), 0.0),
        default_left=layout.join(layout.default_left, False),
        cover=layout.covers(),
        value=layout.join(np.zeros(n_splits), layout.leaf_value),
        leaf_id=layout.join(np.full(n_splits, -1), layout.leaf_number),
        category_set=None if category_set is None else layout.join(category_set, -1),
    )


def zero_missing(layout: Layout, categories_zero_left: Bools, n_features: int) -> Bools:
    """Find the features whose zeros are missing: (n_features,), or (0,) if there are none.

    `categories_zero_left` tells of each split whether category 0 goes left.
    The question only arises where a missing value goes to the other side than 0 does. At a split of missing type
    Zero both go to the missing side, at all others each to its own, so such splits of one feature must agree.
    """
    zero_left = np.where(layout.is_categorical, categories_zero_left, layout.zero_left)
    differ = layout.default_left != zero_left
    as_missing = differ & (layout.missing == MISSING_ZERO) & ~layout.is_categorical
    result = np.zeros(n_features if as_missing.any() else 0, np.bool_)
    if len(result):
        result[layout.feature[as_missing]] = True
        conflict = differ & ~as_missing & result[layout.feature]
        if conflict.any():
            name = layout.document.feature_names[layout.feature[np.argmax(conflict)]]
            raise NotImplementedError(
                f"feature {name!r} takes zeros as missing in some splits and as numbers in others; such a model is not "
                "supported, train all of it with one setting of zero_as_missing"
            )
    return result


def count_up(counts: Int64s) -> Int64s:
    """Return 0, 1, ..., count - 1 for each of the counts, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _n_leaves(document: Document) -> Int64s:
    n_leaves = document.tree_integers("num_leaves")
    if (n_leaves < 1).any():
        at = int(np.argmin(n_leaves))
        raise ValueError(f"tree {at} declares {n_leaves[at]} leaves, expected at least 1")
    return n_leaves
