"""From a source library's node arrays to a TreeEnsemble: what all readers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from glasswood import _core
from glasswood.base.typing import Array, Bools, Int64s
from glasswood.model.ensemble import TreeEnsemble

WORD_BITS = 32


@dataclass(frozen=True, eq=False)
class NodeArrays:
    """The nodes of all trees, tree after tree, in the source's own order and numbering.

    Attributes
    ----------
    counts : (n_trees,)
        Number of nodes of each tree.
    left, right : (n_nodes,)
        Children, counted from the tree's first node; left is negative at a leaf.
    feature, threshold, default_left, cover : (n_nodes,)
        As in TreeEnsemble; whatever stands at a leaf is ignored. The dtype of `threshold` is the row type.
    value : (n_nodes,) or (n_nodes, leaf_width)
        Leaf values; whatever stands at a split is ignored.
    leaf_id : (n_nodes,)
        The source's leaf ids.
    category_set : (n_nodes,) or None
        Index into the forest's sets, -1 where the split is numerical.
    """

    counts: Array
    left: Array
    right: Array
    feature: Array
    threshold: Array
    default_left: Array
    cover: Array
    value: Array
    leaf_id: Array
    category_set: Array | None = None


def assemble(
    nodes: NodeArrays, *, n_features: int, tree_output: ArrayLike | None = None, **meaning: Any
) -> TreeEnsemble:
    """Build a validated TreeEnsemble from nodes in any order; unreachable nodes are dropped.

    Parameters
    ----------
    nodes : NodeArrays
    n_features : int
    tree_output : (n_trees,), optional
        Default: all 0.
    **meaning
        Further fields of TreeEnsemble.

    Raises
    ------
    ValueError
        If the children do not form trees, or TreeEnsemble refuses the arrays.
    """
    counts = np.asarray(nodes.counts, np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if len(nodes.left) != offsets[-1] or len(nodes.right) != offsets[-1]:
        raise ValueError(f"the trees declare {offsets[-1]} nodes, the model holds {len(nodes.left)}; it is corrupt")
    new_offsets, order, left = _core.breadth_first(
        offsets, np.ascontiguousarray(nodes.left, np.int32), np.ascontiguousarray(nodes.right, np.int32)
    )
    is_leaf = left == 0
    leaves = order[is_leaf]
    with np.errstate(invalid="ignore"):  # a signalling NaN; what is not finite is refused below
        value = np.asarray(nodes.value, np.float64)
        cover = np.asarray(nodes.cover, np.float64)[order]
    sets = nodes.category_set
    return TreeEnsemble(
        tree_offsets=new_offsets,
        feature=np.where(is_leaf, -1, np.asarray(nodes.feature)[order]).astype(np.int32),
        threshold=np.where(is_leaf, 0, nodes.threshold[order]).astype(nodes.threshold.dtype),
        left=left,
        default_left=np.where(is_leaf, False, np.asarray(nodes.default_left)[order]).astype(np.bool_),
        cover=cover,
        leaf_value=np.ascontiguousarray(np.atleast_2d(value[leaves].T).T),
        leaf_id=np.asarray(nodes.leaf_id)[leaves].astype(np.int32),
        tree_output=np.zeros(len(counts), np.int32) if tree_output is None else np.asarray(tree_output, np.int32),
        category_set=(
            np.zeros(0, np.int32) if sets is None else np.where(is_leaf, -1, np.asarray(sets)[order]).astype(np.int32)
        ),
        n_features=n_features,
        **meaning,
    )


def less_than(threshold: Array, row_type: DTypeLike) -> Array:
    """Turn ``x <= threshold`` into ``x < u``: the smallest values of the row type that are greater than the thresholds.

    +inf stays +inf, TreeEnsemble's threshold that every number passes.
    """
    threshold = np.asarray(threshold, np.float64)
    with np.errstate(over="ignore"):
        rounded = threshold.astype(row_type)
        above = np.nextafter(rounded, np.asarray(np.inf, row_type))
    return np.where(rounded.astype(np.float64) > threshold, rounded, above)


def pack_sets(lefts: Sequence[Bools], others_left: ArrayLike | None = None) -> tuple[Int64s, NDArray[np.uint32]]:
    """Pack one boolean array a set (category ``c`` goes left) into the fields `set_offsets` and `set_words`.

    The last word of a set has bits beyond its array: they follow `others_left`, by default false.
    """
    n_words = [-(-len(left) // WORD_BITS) for left in lefts]
    offsets = np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64)
    others = np.zeros(len(lefts), np.bool_) if others_left is None else np.asarray(others_left, np.bool_)
    bits = np.repeat(others, np.array(n_words, np.int64) * WORD_BITS)
    for left, start in zip(lefts, offsets, strict=False):
        bits[start * WORD_BITS : start * WORD_BITS + len(left)] = left
    return offsets, np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)
