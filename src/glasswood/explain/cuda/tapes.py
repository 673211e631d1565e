"""Trees as tapes for the CUDA walk: which trees share a kernel, a chunk and an accumulator. No GPU is needed here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes

MOST_POINTS = 8
"""Quadrature points of one walk; trees that need more are walked again with the next points."""

FEWEST_CHUNK_SPLITS, MOST_CHUNK_SPLITS, CHUNKS = 100, 2000, 1000
"""Splits of a chunk: few enough for many blocks at small batches, enough to pay for writing its sums."""

FEWEST_PAIR_SPLITS, PAIR_CHUNKS = 32, 500
"""The same for interactions, which come in batches of a few hundred rows: many small chunks fill the GPU."""

TINY_SPLITS, TINY_CHUNKS, FEWEST_TINY_SPLITS = 1000, 8, 4
"""A forest this small is one bucket, and its chunks are the warps of one block (explain/cuda/explain_small.cu)."""

WHOLE_TREE, WHOLE_PAIR_TREE = 3.0, 1.5
"""A tree of more splits than this many chunks is cut into segments, each of which walks down from the root again."""

NARROW_SLOTS = 20 * 1024 // (64 * 4)
"""Accumulators that a thread of a full block can have in shared memory and leave room for the tape in the first cache.
Chunks of wide forests that have more are made smaller."""

NARROWEST_SPLITS = 48
"""Smaller segments of trees walk down from the root too often."""

WIDE_CHUNK = 2
"""How many times larger chunks are where accumulators lie in global memory all the same: fewer sums, fewer segments."""

FEW_SPLITS = 10_000
"""Smaller forests take 2, 4 or 8 points: few kernels serve them all, compiling another costs more than it saves."""

FETCHED_BEYOND = 2048
"""Words behind the tape that explain/cuda/explain_rows.cu may fetch: a window of 2 KB and 32 lines of 128 bytes."""

SMALL_BUCKET = 0.1
"""A bucket with a smaller fraction of the splits joins the next: its launch would not fill the GPU."""


@dataclass(frozen=True, eq=False)
class Tape:
    """Trees that are walked with the same number of points.

    Attributes
    ----------
    points : int
        Quadrature points of a walk.
    words : int32
        Records of native/explain/cuda/tape_format.h.
    chunk_starts : int64, (n_chunks,)
        In units of 16 bytes.
    slot_offsets : int64, (n_chunks + 1,)
        Accumulators of each chunk.
    slot_keys : int64, (n_slots,)
        ``(output * n_features + i) * n_features + j`` of each accumulator; i = j for values.
    levels, tracks, most_slots : int
        Largest numbers of splits on a path, of repeated ones among them, and of accumulators of a chunk.
    n_splits : int
        Splits of all walks.
    """

    points: int
    words: Int32s
    chunk_starts: Int64s
    slot_offsets: Int64s
    slot_keys: Int64s
    levels: int
    tracks: int
    most_slots: int
    n_splits: int

    def upload(self, cupy: ModuleType) -> dict[str, Any]:
        """Arguments of its kernel on the current GPU."""
        words = cupy.zeros(len(self.words) + FETCHED_BEYOND, np.int32)
        words[: len(self.words)].set(self.words)
        starts = {name: cupy.asarray(getattr(self, name)) for name in ("chunk_starts", "slot_offsets")}
        return {"tape": words, **starts}


def write_tapes(
    forest: TreeEnsemble,
    codes: Codes,
    dtype: DTypeLike,
    *,
    pairs: bool = False,
    features: NDArray[np.intp] | None = None,
) -> list[Tape]:
    """Write the tapes of a forest.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : Codes
    dtype : float32 or float64
    pairs : bool
        Interactions instead of values.
    features : array of int, optional
        Interactions of these features only.
    """
    distinct, height = _core.tree_shapes(forest, codes)
    selected = np.zeros(0, np.uint8)
    if features is not None:
        selected = np.zeros(forest.n_features, np.uint8)
        selected[features] = 1
    write = functools.partial(_write_walks, forest, codes, dtype=dtype, pairs=pairs, selected=selected)
    bucket = choose_points(distinct, (np.diff(forest.tree_offsets) - 1) // 2)
    return [
        _write_bucket(forest, np.flatnonzero(bucket == points), dtype, pairs, functools.partial(write, int(points)))
        for points in np.unique(bucket[height > 0])
    ]


def choose_points(distinct: Int32s, n_splits: Int64s) -> Int32s:
    """Quadrature points of each tree, exact for integrands of degree `distinct` - 1; 0 where that is 0.

    Few numbers of points, as trees of each are walked by a kernel of their own.
    """
    points = -(-distinct // 2)
    if n_splits.sum() < FEW_SPLITS:
        points = np.where(
            (points > 0) & (points <= MOST_POINTS), np.maximum(2, 2 ** np.ceil(np.log2(points.clip(1)))), points
        )
        points = points.astype(np.int32)
    if n_splits.sum() < TINY_SPLITS:
        points = np.where(points > 0, points.max(initial=0), 0).astype(np.int32)
    for value in np.unique(points[points > 0])[:-1]:
        if n_splits[points == value].sum() < SMALL_BUCKET * n_splits.sum():
            points[points == value] = points[points > value].min()
    return points


def quadrature(points: int) -> tuple[int, Doubles, Doubles]:
    """Points and weights on [0, 1] (Gauss-Legendre), in equal passes of at most `MOST_POINTS`; weights of 0 fill up."""
    passes = -(-points // MOST_POINTS)
    per_pass = -(-points // passes)
    t, w = np.full(passes * per_pass, 0.5), np.zeros(passes * per_pass)
    t[:points], w[:points] = _core.gauss_legendre(points).reshape(2, points)
    return per_pass, t, w


def _write_bucket(
    forest: TreeEnsemble, members: NDArray[np.intp], dtype: DTypeLike, pairs: bool, write: Callable[[Walks], Tape]
) -> Tape:
    """Write trees that need as many points, with accumulators that fit into shared memory if they can."""
    n_splits, most = chunk_splits(forest, pairs), NARROW_SLOTS * 4 // np.dtype(dtype).itemsize
    n_wide, whole = WIDE_CHUNK * n_splits, WHOLE_PAIR_TREE if pairs else WHOLE_TREE
    tape = write(find_walks(forest, members, n_splits, whole * n_splits))
    while not pairs and tape.most_slots > most:
        # Half as many splits have more than half as many features: this comes from above, in two or three steps.
        n_splits = int(0.9 * n_splits * most / tape.most_slots)
        if n_splits < NARROWEST_SPLITS:
            return write(find_walks(forest, members, n_wide, whole * n_wide))
        tape = write(find_walks(forest, members, n_splits, n_splits))
    return tape


def _write_walks(
    forest: TreeEnsemble,
    codes: Codes,
    points: int,
    walks: Walks,
    *,
    dtype: DTypeLike,
    pairs: bool,
    selected: NDArray[np.uint8],
) -> Tape:
    per_pass, t, w = quadrature(points)
    in_double = np.dtype(dtype) == np.float64
    tape = _core.write_tape(forest, codes, walks, t, w, per_pass, pairs, selected, in_double)
    return Tape(points=per_pass, n_splits=int((walks.end - walks.begin).sum()) - len(walks.tree), **tape)


@dataclass(frozen=True, eq=False)
class Walks:
    """Walks in their order: leaves `begin` to `end` - 1 of trees, in depth-first order, by output.

    Attributes
    ----------
    tree, component, output, begin, end : int32, (n_walks,)
        A tree of vector leaves is walked for each output.
    chunk_offsets : int64, (n_chunks + 1,)
    """

    tree: Int32s
    component: Int32s
    output: Int32s
    begin: Int32s
    end: Int32s
    chunk_offsets: Int64s


def find_walks(forest: TreeEnsemble, members: NDArray[np.intp], target: int, whole: float) -> Walks:
    """Cut trees into segments and group these into chunks: by the forest alone, so that batches do not change bits.

    Parameters
    ----------
    forest : TreeEnsemble
    members : array of int
        Trees.
    target : int
        Splits of a chunk.
    whole : float
        Splits beyond which a tree is cut.
    """
    n_leaves = np.diff(forest.leaf_offsets)
    n_segments = np.where(n_leaves > whole, -(-n_leaves // target), 1)[members]
    tree = np.repeat(members, n_segments)
    segment = np.arange(len(tree)) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)
    bounds = [n_leaves[tree] * (segment + end) // np.repeat(n_segments, n_segments) for end in (0, 1)]
    if forest.leaf_width == 1:
        order = np.argsort(forest.tree_output[tree], kind="stable")
        output, component = forest.tree_output[tree][order], np.zeros(len(tree), np.int32)
    else:
        order = np.tile(np.arange(len(tree)), forest.n_outputs)
        output = component = np.repeat(np.arange(forest.n_outputs, dtype=np.int32), len(tree))
    tree, begin, end = (values[order].astype(np.int32) for values in (tree, *bounds))
    return Walks(tree, component, output, begin, end, chunk_offsets(end - begin, output, target))


def chunk_splits(forest: TreeEnsemble, pairs: bool) -> int:
    """Choose how many splits fill a chunk."""
    total = int((np.diff(forest.leaf_offsets) - 1).sum()) * (forest.n_outputs if forest.leaf_width > 1 else 1)
    if total < TINY_SPLITS:
        return max(-(-total // TINY_CHUNKS), FEWEST_TINY_SPLITS)
    if pairs:
        return int(np.clip(total // PAIR_CHUNKS, FEWEST_PAIR_SPLITS, MOST_CHUNK_SPLITS))
    return int(np.clip(total // CHUNKS, FEWEST_CHUNK_SPLITS, MOST_CHUNK_SPLITS))


def chunk_offsets(sizes: Int32s, output: Int32s, target: int) -> Int64s:
    """Consecutive walks of one output, together of about as many splits as fill a chunk."""
    offsets, filled = [0], 0
    for index in range(len(sizes)):
        if index and (filled + sizes[index] / 2 > target or output[index] != output[index - 1]):
            offsets.append(index)
            filled = 0
        filled += int(sizes[index])
    return np.array([*offsets, len(sizes)], np.int64)
