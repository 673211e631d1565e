"""Trees as tapes for the CUDA walk: which trees share a kernel, a chunk and an accumulator. No GPU is needed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.codes import Codes
    from silva.forest import Forest

MOST_POINTS = 8
"""Quadrature points of one walk; trees that need more are walked again with the next points."""

FEWEST_CHUNK_SPLITS, MOST_CHUNK_SPLITS, CHUNKS = 100, 2000, 1000
"""Splits of a chunk: few enough for many blocks at small batches, enough to pay for writing its sums."""

FEW_SPLITS = 10_000
"""Smaller forests take 2, 4 or 8 points: few kernels serve them all, compiling another costs more than it saves."""

SMALL_BUCKET = 0.1
"""A bucket with a smaller part of the splits joins the next: its launch would not fill the GPU."""


@dataclass(frozen=True, eq=False)
class Tape:
    """Trees that are walked with the same number of points.

    Attributes
    ----------
    points : int
        Quadrature points of a walk.
    words : int32
        Records of native/tape_format.h.
    chunk_starts : int64, (n_chunks,)
        In units of 16 bytes.
    slot_offsets : int64, (n_chunks + 1,)
        Accumulators of each chunk.
    slot_keys : int64, (n_slots,)
        ``(output * n_features + i) * n_features + j`` of each accumulator; i = j for values.
    levels, tracks, most_slots : int
        Largest numbers of splits on a path, of repeated ones among them, and of accumulators of a chunk.
    """

    points: int
    words: NDArray[np.int32]
    chunk_starts: NDArray[np.int64]
    slot_offsets: NDArray[np.int64]
    slot_keys: NDArray[np.int64]
    levels: int
    tracks: int
    most_slots: int


def write_tapes(
    forest: Forest, codes: Codes, dtype: Any, *, pairs: bool = False, features: NDArray[np.intp] | None = None
) -> list[Tape]:
    """Write the tapes of a forest.

    Parameters
    ----------
    forest : Forest
    codes : Codes
    dtype : float32 or float64
    pairs : bool
        Interactions instead of values.
    features : array of int, optional
        Interactions of these features only.
    """
    trees = _core.TapeForest(
        offsets=forest.tree_offsets,
        leaf_offsets=forest.leaf_offsets,
        feature=forest.feature,
        left=forest.left,
        column=codes.node_column,
        rank=codes.node_rank,
        cover=forest.cover,
        leaf_value=np.ascontiguousarray(forest.leaf_value).ravel(),
        tree_weight=forest.tree_weight,
        n_features=forest.n_features,
    )
    distinct, height = trees.shapes()
    selected = np.zeros(0, np.uint8)
    if features is not None:
        selected = np.zeros(forest.n_features, np.uint8)
        selected[features] = 1
    n_splits = (np.diff(forest.tree_offsets) - 1) // 2
    return [
        _write_bucket(forest, trees, np.flatnonzero(bucket == points), int(points), n_splits, dtype, pairs, selected)
        for bucket in [_buckets(distinct, n_splits)]
        for points in np.unique(bucket[height > 0])
    ]


def _buckets(distinct: NDArray[np.int32], n_splits: NDArray[np.int64]) -> NDArray[np.int32]:
    """Quadrature points of each tree; 0 for trees without splits."""
    points = -(-distinct // 2)
    if n_splits.sum() < FEW_SPLITS:
        points = np.where(
            (points > 0) & (points <= MOST_POINTS), np.maximum(2, 2 ** np.ceil(np.log2(points.clip(1)))), points
        )
        points = points.astype(np.int32)
    for value in np.unique(points[points > 0])[:-1]:
        if n_splits[points == value].sum() < SMALL_BUCKET * n_splits.sum():
            points[points == value] = points[points > value].min()
    return points


def quadrature(points: int) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights on [0, 1] (Gauss-Legendre), in equal passes of at most `MOST_POINTS`; weights of 0 fill up."""
    passes = -(-points // MOST_POINTS)
    per_pass = -(-points // passes)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    t, w = np.full(passes * per_pass, 0.5), np.zeros(passes * per_pass)
    t[:points], w[:points] = (nodes + 1) / 2, weights / 2
    return per_pass, t, w


def _write_bucket(
    forest: Forest,
    trees: Any,
    members: NDArray[np.intp],
    points: int,
    n_splits: NDArray[np.int64],
    dtype: Any,
    pairs: bool,
    selected: NDArray[np.uint8],
) -> Tape:
    per_pass, t, w = quadrature(points)
    tree, component, output = _instances(forest, members)
    plan = _core.TapePlan(
        tree=tree,
        component=component,
        output=output,
        chunk_offsets=_chunk_offsets(n_splits[tree], output),
        t=t,
        w=w,
        n_points=per_pass,
        pairs=pairs,
        selected=selected,
    )
    tape = _core.write_tape(trees, plan, np.dtype(dtype) == np.float64)
    return Tape(
        points=per_pass,
        words=tape["words"],
        chunk_starts=tape["chunk_starts"],
        slot_offsets=tape["slot_offsets"],
        slot_keys=tape["slot_keys"],
        levels=tape["n_levels"],
        tracks=tape["n_tracks"],
        most_slots=tape["n_slots"],
    )


def _instances(forest: Forest, members: NDArray[np.intp]) -> tuple[NDArray[np.int32], ...]:
    """Tree, leaf component and output of each walk, by output: a tree of vector leaves is walked for each output."""
    if forest.leaf_width == 1:
        output = forest.tree_output[members]
        order = np.argsort(output, kind="stable")
        return members[order].astype(np.int32), np.zeros(len(members), np.int32), output[order]
    output = np.repeat(np.arange(forest.n_outputs, dtype=np.int32), len(members))
    return np.tile(members, forest.n_outputs).astype(np.int32), output, output


def _chunk_offsets(n_splits: NDArray[np.int64], output: NDArray[np.int32]) -> NDArray[np.int64]:
    """Consecutive walks of one output, together of about as many splits as fill a chunk."""
    target = np.clip(int(n_splits.sum()) // CHUNKS, FEWEST_CHUNK_SPLITS, MOST_CHUNK_SPLITS)
    offsets, filled = [0], 0
    for index in range(len(n_splits)):
        if index and (filled >= target or output[index] != output[index - 1]):
            offsets.append(index)
            filled = 0
        filled += int(n_splits[index])
    return np.array([*offsets, len(n_splits)], np.int64)
