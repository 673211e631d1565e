"""Blocks that add up tables: their threads, rows and shared memory. No GPU is needed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from silva.cuda.compiler import variant
from silva.explain.cuda.tables import RESERVED_SHARED

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from silva._core import TableBatch
    from silva.cuda.compiler import Variant
    from silva.cuda.limits import Limits
    from silva.explain.cuda.tables import TablePlan

WIDE_THREADS, NARROW_THREADS, PAIR_THREADS = (256, 512, 384, 128, 64), (256, 128, 64), (512, 256, 128, 64)
POINT_THREADS = (256, 128, 64)
"""Threads of a block that adds."""

RESIDENT_THREADS = 512
"""Of a multiprocessor: what keeps its shared memory busy."""

PAIR_GROUP = 8
"""Threads that share an entry, as in native/explain/cuda/tables/add_pairs.cu."""

MOST_QUADS, FEW_QUADS = 16, 8
"""Runs of 16 bytes of sums that a thread has of its rows' entries; fewer where blocks would not fill the GPU twice."""


class AddBlock(NamedTuple):
    """A block that adds: its kernel, threads and rows, and how it divides its shared memory."""

    kernel: Variant
    threads: int
    rows: int
    is_staged: bool
    sum_bytes: int
    table_bytes: int
    key_bytes: int
    buffer_bytes: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.sum_bytes + 2 * self.buffer_bytes


def choose_block(plan: TablePlan, batch: TableBatch, stride: int, limits: Limits) -> AddBlock:
    """Choose how a block adds: with staged tables if they fit, with as many threads side by side as help."""
    for is_staged in (True, False):
        if plan.of_pairs:
            blocks = [_pair_block(plan, batch, threads, is_staged, stride, limits) for threads in PAIR_THREADS]
        else:
            sizes = NARROW_THREADS if batch.is_narrow else WIDE_THREADS
            sizes = POINT_THREADS if batch.n_points else sizes
            blocks = [_value_block(plan, batch, threads, is_staged) for threads in sizes]
        fitting = [block for block in blocks if block.shared <= limits.shared_per_block]
        if fitting:
            return max(fitting, key=lambda block: _resident_threads(block, limits))
    return blocks[-1]


def _resident_threads(block: AddBlock, limits: Limits) -> int:
    """Threads of a multiprocessor, as many as help."""
    n_blocks = limits.shared_per_multiprocessor // (block.shared + RESERVED_SHARED)
    return min(n_blocks * block.threads, RESIDENT_THREADS)


def _value_block(plan: TablePlan, batch: TableBatch, threads: int, is_staged: bool) -> AddBlock:
    is_narrow, item = bool(batch.is_narrow), plan.dtype.itemsize
    rows = threads * (16 if is_narrow else 8) // item
    sum_bytes = 0 if is_narrow else (batch.most_slots + 1) * rows * item
    if batch.n_points:
        kernel = points_variant(plan.dtype, batch.n_points, is_staged, threads)
    else:
        kernel = add_variant(plan.dtype, is_narrow, is_staged, threads)
    return _with_buffers(AddBlock(kernel, threads, rows, is_staged, sum_bytes, 0, 0, 0), plan, batch)


def _pair_block(
    plan: TablePlan, batch: TableBatch, threads: int, is_staged: bool, stride: int, limits: Limits
) -> AddBlock:
    n_groups = threads // PAIR_GROUP
    most, few = (n_groups * quads // batch.n_quads for quads in (MOST_QUADS, FEW_QUADS))
    rows = few if -(-stride // most) * batch.n_chunks < 2 * limits.n_multiprocessors else most
    kernel = pair_variant(plan.dtype, batch.n_quads, rows // n_groups, is_staged, threads)
    return _with_buffers(AddBlock(kernel, threads, rows, is_staged, 0, 0, 0, 0), plan, batch)


def _with_buffers(block: AddBlock, plan: TablePlan, batch: TableBatch) -> AddBlock:
    """Give a block that stages tables the room for a stage."""
    if not block.is_staged:
        return block
    table_bytes = -(-batch.most_stage_numbers * plan.dtype.itemsize // 16) * 16
    key_bytes = batch.most_stage_subtrees * block.rows * 2
    buffer_bytes = table_bytes + key_bytes + batch.most_stage_subtrees * plan.arrays["records"].shape[1]
    return block._replace(table_bytes=table_bytes, key_bytes=key_bytes, buffer_bytes=buffer_bytes)


def add_variant(dtype: DTypeLike, is_narrow: bool, is_staged: bool, threads: int) -> Variant:
    """Name the kernel that adds up vectors of values."""
    macros = {"WIDE": int(not is_narrow), "STAGED": int(is_staged), "THREADS": threads}
    return variant("explain/cuda/tables/add_tables", REAL=np.dtype(dtype), **macros)


def points_variant(dtype: DTypeLike, n_points: int, is_staged: bool, threads: int) -> Variant:
    """Name the kernel that adds up values from tables by points."""
    macros = {"POINTS": n_points, "STAGED": int(is_staged), "THREADS": threads}
    return variant("explain/cuda/tables/add_points", REAL=np.dtype(dtype), **macros)


def pair_variant(dtype: DTypeLike, n_quads: int, rows: int, is_staged: bool, threads: int) -> Variant:
    """Name the kernel that adds up entries of interactions; `rows` of a thread."""
    macros = {"QUADS": n_quads, "ROWS_OF_THREAD": rows, "STAGED": int(is_staged), "THREADS": threads}
    return variant("explain/cuda/tables/add_pairs", REAL=np.dtype(dtype), **macros)
