"""Trees in few bytes for GPUs (evaluate/cuda/packed.cuh): nodes of ranks and columns, a header, the leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes

NODE_TYPES = {"narrow_heap": np.uint16, "narrow": np.uint32, "wide_heap": np.uint32, "wide": np.uint64}
"""Formats by the type of a node: codes of 8 or 16 bits, children at their place in a heap or linked."""

MOST_CODES = {"narrow": 2**8, "wide": 2**16}
"""Codes of a column, and columns, that codes of 8 and 16 bits tell apart."""

MOST_NARROW_NODES = 2**16 - 1
DEEPEST_HEAP, LARGEST_PADDING = 10, 4
"""Trees are padded to full heaps of the deepest one's levels up to this depth and this growth factor."""

CHUNK = 16
"""Bytes of the unit that trees are aligned to and copied in."""


@dataclass(frozen=True, eq=False)
class Image:
    """Packed trees, one after the other.

    Attributes
    ----------
    data : uint8
    chunks : int32, (n_trees + 1,)
        First chunk of each tree in the order of packing, and the number of chunks.
    output : int32, (n_trees,)
        Output that each adds to, rising.
    prefix_bytes : int64, (n_trees, n_levels)
        Bytes of the header and of the nodes above a level.
    depth : int64, (n_trees,)
        Steps of a walk.
    leaf_type : dtype
    heap_depth : int
        Levels of splits of all trees, if these are heaps; otherwise 0.
    """

    data: NDArray[np.uint8]
    chunks: Int32s
    output: Int32s
    prefix_bytes: Int64s
    depth: Int64s
    leaf_type: np.dtype[Any]
    heap_depth: int


@dataclass(frozen=True, eq=False)
class _Shape:
    """Places of a forest's nodes in an image.

    `at` is the node's place in its tree (a heap's padding included), `level` its depth; `depth`, `n_words` (nodes that
    are stored) and `first_leaf`, `end_leaf` (places that have values) belong to trees.
    """

    at: Int64s
    level: Int64s
    depth: Int64s
    n_words: Int64s
    first_leaf: Int64s
    end_leaf: Int64s


def choose_format(forest: TreeEnsemble, codes: Codes) -> str | None:
    """Name the smallest format that holds the forest, None if none does."""
    largest = max(int(np.diff(codes.offsets).max(initial=1)) + 1, codes.n_columns)
    sizes = np.diff(forest.tree_offsets)
    if not len(sizes) or largest > MOST_CODES["wide"]:
        return None
    is_heap = forest.depth <= DEEPEST_HEAP and (2 << forest.depth) * len(sizes) <= LARGEST_PADDING * sizes.sum()
    if largest <= MOST_CODES["narrow"] and (is_heap or sizes.max() <= MOST_NARROW_NODES):
        return "narrow_heap" if is_heap else "narrow"
    return "wide_heap" if is_heap else "wide"


def code_type(name: str) -> np.dtype[Any]:
    """Type of a format's codes."""
    return np.dtype(np.uint8 if name.startswith("narrow") else np.uint16)


def _is_heap(name: str) -> bool:
    return name.endswith("heap")


def pack_trees(forest: TreeEnsemble, codes: Codes, name: str, values: Array, order: Array, output: Int32s) -> Image:
    """Write trees in a given order.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : Codes
        Codes of the forest.
    name : {"narrow_heap", "narrow", "wide_heap", "wide"}
        Format of the nodes.
    values : (n_leaves,)
        What a walk that ends at a leaf returns.
    order : (n_trees,)
        Trees, one after the other.
    output : int32, (n_trees,)
        The output of each tree, in this order.
    """
    shape = (_heap_shape if _is_heap(name) else _linked_shape)(forest)
    node_bytes, leaf_bytes = np.dtype(NODE_TYPES[name]).itemsize, values.dtype.itemsize
    words_bytes = _round_up(shape.n_words * node_bytes)
    sizes = CHUNK + words_bytes + _round_up((shape.end_leaf - shape.first_leaf) * leaf_bytes)
    starts = np.empty(len(order), np.int64)
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    data = np.zeros(int(sizes.sum()), np.uint8)
    first_value = CHUNK + words_bytes - shape.first_leaf * leaf_bytes
    headers = np.stack([sizes, shape.depth, first_value, np.zeros_like(sizes)], axis=1).astype(np.int32)
    data.view(np.int32).reshape(-1, 4)[starts // CHUNK] = headers
    _write_nodes(data, forest, codes, name, shape, starts)
    _write_values(data, forest, values, shape, starts + first_value)
    chunks = np.append(starts[order], len(data)) // CHUNK
    prefix = _prefix_bytes(forest, shape, node_bytes, is_heap=_is_heap(name))
    heap_depth = int(shape.depth[0]) if _is_heap(name) else 0
    return Image(data, chunks.astype(np.int32), output, prefix[order], shape.depth[order], values.dtype, heap_depth)


def _linked_shape(forest: TreeEnsemble) -> _Shape:
    """Nodes in their own order; those of the last level are not words. A tree of one leaf gets a split above it."""
    sizes = np.diff(forest.tree_offsets)
    level = forest.node_depth.astype(np.int64)
    depth = np.maximum(_tree_depths(forest), 2)
    single = sizes == 1
    tree = np.repeat(np.arange(len(sizes)), sizes)
    local = np.arange(forest.n_nodes) - forest.tree_offsets[:-1][tree]
    at = local + single[tree]
    n_words = np.bincount(tree, weights=level < depth[tree], minlength=len(sizes)).astype(np.int64)
    n_words[single] = 3
    is_leaf = forest.feature < 0
    first_leaf = np.full(len(sizes), np.iinfo(np.int64).max)
    np.minimum.at(first_leaf, tree[is_leaf], at[is_leaf])
    return _Shape(at, level + single[tree], depth, n_words, first_leaf, np.where(single, 2, sizes))


def _heap_shape(forest: TreeEnsemble) -> _Shape:
    """Nodes at their places in complete trees, from 1 on; leaves at the end of the way that always goes left."""
    depth = np.full(forest.n_trees, max(forest.depth, 2), np.int64)
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    level = forest.node_depth.astype(np.int64)
    at = np.ones(forest.n_nodes, np.int64)
    left = forest.tree_offsets[:-1][tree] + forest.left
    for depth_now in range(forest.depth):
        splits = np.flatnonzero((level == depth_now) & (forest.feature >= 0))
        at[left[splits]] = 2 * at[splits]
        at[left[splits] + 1] = 2 * at[splits] + 1
    is_leaf = forest.feature < 0
    at[is_leaf] = (at << (depth[tree] - level))[is_leaf]
    n_words = 1 << depth
    return _Shape(at, level, depth, n_words, n_words, 2 * n_words)


def _write_nodes(
    data: NDArray[np.uint8], forest: TreeEnsemble, codes: Codes, name: str, shape: _Shape, starts: Int64s
) -> None:
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    words = data.view(NODE_TYPES[name])
    of_trees = (starts + CHUNK) // words.itemsize
    is_split, bits = forest.feature >= 0, 8 * code_type(name).itemsize
    missing = np.where(is_split, (1 << bits) - codes.node_rank.astype(np.int64), 0).astype(np.uint64)
    node = missing << np.uint64(bits) | codes.node_column.astype(np.uint64)
    if _is_heap(name):
        # Places without a split are 0, and lead to the left.
        words[(of_trees[tree] + shape.at)[is_split]] = node[is_split]
        return
    left = np.where(is_split, forest.left, shape.at).astype(np.uint64)
    node = node << np.uint64(16) | left if name == "narrow" else left << np.uint64(32) | node
    stored = shape.level < shape.depth[tree]
    words[(of_trees[tree] + shape.at)[stored]] = node[stored]
    # A tree of one leaf is a split that sends every row to the left, where the leaf is.
    singles = np.flatnonzero(np.diff(forest.tree_offsets) == 1)
    for place in (0, 2):
        words[of_trees[singles] + place] = words[of_trees[singles] + 1]


def _write_values(data: NDArray[np.uint8], forest: TreeEnsemble, values: Array, shape: _Shape, first: Int64s) -> None:
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    is_leaf = forest.feature < 0
    place = first[tree[is_leaf]] // values.dtype.itemsize + shape.at[is_leaf]
    data.view(values.dtype)[place] = values


def _prefix_bytes(forest: TreeEnsemble, shape: _Shape, node_bytes: int, *, is_heap: bool) -> Int64s:
    """Bytes that hold the header and all nodes above a level: (n_trees, deepest + 1)."""
    n_levels = int(shape.depth.max(initial=2)) + 1
    if is_heap:
        of_heap = _round_up(CHUNK + (np.int64(1) << np.arange(n_levels)) * node_bytes)
        return np.broadcast_to(of_heap, (forest.n_trees, n_levels))
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    counts = np.bincount(tree * n_levels + shape.level, minlength=forest.n_trees * n_levels).reshape(-1, n_levels)
    above = np.cumsum(counts, axis=1) - counts
    return _round_up(CHUNK + above * node_bytes)


def order_by_output(forest: TreeEnsemble) -> tuple[Int32s, Int32s]:
    """List the trees that add to each output, in their order, and where each output's begin."""
    n_trees = forest.n_trees
    if forest.leaf_width > 1:
        starts = np.arange(forest.n_outputs + 1, dtype=np.int32) * n_trees
        return np.tile(np.arange(n_trees, dtype=np.int32), forest.n_outputs), starts
    order = np.argsort(forest.tree_output, kind="stable").astype(np.int32)
    return order, np.searchsorted(forest.tree_output[order], np.arange(forest.n_outputs + 1)).astype(np.int32)


def group_trees(image: Image, capacity: int, most_trees: int, teams: int = 1) -> Int32s:
    """Divide an image into groups of trees that fit a stage of `capacity` bytes (Group in evaluate/cuda/walk_tiles.cu).

    Several teams take the trees of a group side by side: groups are multiples of them where they can be, and of trees
    that are too large for a team's room in the stage only the upper levels are staged.

    Returns
    -------
    int32, (n_groups, 8)
    """
    groups: list[list[int]] = []
    chunks, output = image.chunks.tolist(), image.output.tolist()
    most, per_team = capacity // CHUNK, capacity // CHUNK // teams
    is_large = (np.diff(image.chunks) > per_team).tolist()
    begin, n_trees = 0, len(output)
    while begin < n_trees:
        kind = output[begin], is_large[begin]
        end, limit = begin + 1, min(n_trees, begin + (teams if kind[1] else most_trees))
        while (
            end < limit
            and (output[end], is_large[end]) == kind
            and (kind[1] or chunks[end + 1] - chunks[begin] <= most)
        ):
            end += 1
        if end < n_trees and (output[end], is_large[end]) == kind and end - begin > teams:
            end -= (end - begin) % teams
        n_chunks, levels = _staged_levels(image, begin, end, per_team) if kind[1] else (chunks[end] - chunks[begin], 0)
        groups.append([chunks[begin], n_chunks, end - begin, begin, kind[0], 0, levels, 0])
        begin = end
    result = np.array(groups, np.int32).reshape(-1, 8)
    result[:-1, 5] = result[1:, 4] != result[:-1, 4]
    result[-1:, 5] = 1
    return result


def divide_outputs(groups: Int32s, n_portions: int) -> Int32s:
    """First groups of up to `n_portions` portions of whole outputs, and the number of groups."""
    ends = np.flatnonzero(groups[:, 5]) + 1
    n_portions = min(n_portions, len(ends))
    last = np.arange(1, n_portions + 1) * len(ends) // n_portions - 1
    return np.append(0, ends[last]).astype(np.int32)


def _staged_levels(image: Image, begin: int, end: int, per_team: int) -> tuple[int, int]:
    """Chunks and levels that are staged of each of some large trees."""
    prefixes = [image.prefix_bytes[tree, : int(image.depth[tree]) + 1] for tree in range(begin, end)]
    levels = min(int(np.searchsorted(prefix, per_team * CHUNK, side="right")) - 1 for prefix in prefixes)
    return max(int(prefix[levels]) for prefix in prefixes) // CHUNK, levels


def _tree_depths(forest: TreeEnsemble) -> Int64s:
    if not forest.n_trees:
        return np.zeros(0, np.int64)
    return np.maximum.reduceat(forest.node_depth, forest.tree_offsets[:-1]).astype(np.int64)


def _round_up(n_bytes: Int64s) -> Int64s:
    return -(-n_bytes // CHUNK) * CHUNK
