"""Launches of values by subtree tables, laid out once for rows of a shape."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from silva.cuda.buffers import Buffers, Place
from silva.cuda.codes import encode_forest
from silva.cuda.encoder import CodeTables, row_strides
from silva.cuda.launches import NOWHERE, Plan, PreparedLaunch
from silva.cuda.limits import gpu_limits
from silva.device import import_cupy
from silva.explain.cuda.job import PlannedJob, fitting_rows, padded_rows
from silva.explain.cuda.on_gpu import OnGpu
from silva.explain.cuda.quadrature import QuadratureJob, Walk, lay_out_sum
from silva.explain.cuda.results import find_targets
from silva.explain.cuda.tables import (
    KEY_BYTES,
    RESERVED_SHARED,
    ROOM,
    Batch,
    Contents,
    CoverContents,
    TablePlan,
    Tables,
    add_variant,
    lay_out_keys,
)
from silva.explain.walked import walked_part

if TYPE_CHECKING:
    from silva.cuda.limits import Limits
    from silva.ensemble import TreeEnsemble
    from silva.typing import GpuArray

PARTIAL_BYTES = 2**32
"""Keys and sums of chunks for the rows in flight; more rows are done one part after the other."""

WIDE_THREADS, NARROW_THREADS = (256, 512, 384, 128, 64), (256, 128, 64)
"""Threads of a block that adds."""

RESIDENT_THREADS = 512
"""Of a multiprocessor: what keeps its shared memory busy."""

CODES, KEYS, SUMS, WALK_CODES, BUILT, ROOMS = range(N_BUFFERS := 6)
"""Buffers between the launches."""

TABLES = 5
"""Place of the tables among the arguments of native/explain/cuda/tables/add_tables.cu."""


class TableJob(PlannedJob):
    """Values of a forest by tables, and by the walk where trees have none.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
        For the walk of all trees, for want of memory.
    plan : TablePlan
        With a subtree at least.
    contents : Contents, optional
        What fills the tables; others than the covers leave nothing to the walk.
    """

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, plan: TablePlan, contents: Contents | None = None
    ) -> None:
        super().__init__(forest, codes, plan.dtype, False, None)
        self.plan, self._contents = plan, contents or CoverContents()
        self._walks = _walks_of(forest, plan)
        self.n_slots = len(plan.arrays["slot_keys"]) + (self._walks.n_slots if self._walks else 0)
        self._fallback: QuadratureJob | None = None

    def prepare(self) -> None:
        """Build the tables on the current GPU."""
        if self._fallback is None:
            try:
                self._on_gpu()
            except import_cupy().cuda.memory.OutOfMemoryError:
                self._give_up()

    def compute(self, x: GpuArray, out: GpuArray) -> None:
        """Queue the work for CuPy arrays of rows and results, in batches that fit into memory."""
        if self._fallback is None:
            try:
                super().compute(x, out)
                return
            except import_cupy().cuda.memory.OutOfMemoryError:
                self._give_up()
        cast("QuadratureJob", self._fallback).compute(x, out)

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        n_keys = max(batch.n_subtrees for batch in self.plan.batches)
        row_bytes = self.n_slots * self.dtype.itemsize + KEY_BYTES * n_keys + self.plan.codes.row_bytes
        return fitting_rows(min(PARTIAL_BYTES, self._on_gpu()[1].memory // 8), row_bytes)

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """All that `compute` does for such rows on the current stream, as one plan; None if that is more."""
        return super().whole(x, row_shape) if self._fallback is None else self._fallback.whole(x, row_shape)

    def _lay_out(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan:
        return TableLaunches(self.plan, self._walks, x, row_shape, *self._on_gpu()).plan()

    def _on_gpu(self) -> tuple[Tables, OnGpu]:
        made: tuple[Tables, OnGpu] = self._uploads.get(self._upload)
        return made

    def _upload(self) -> tuple[Tables, OnGpu]:
        tapes = self._walks.tapes if self._walks else []
        keys = np.concatenate([*(tape.slot_keys for tape in tapes), self.plan.arrays["slot_keys"]])
        targets = find_targets(keys, self.forest.n_features, self.forest.n_outputs, False, self.chosen)
        return Tables(self.plan, self._contents), OnGpu(import_cupy(), tapes, targets, self.chosen)

    def _give_up(self) -> None:
        if not isinstance(self._contents, CoverContents):
            raise  # nothing else takes its place
        warnings.warn(
            f"no GPU memory for {self.plan.n_bytes:,} bytes of tables; values come from the quadrature walk. "
            "Pass a smaller table_bytes to keep fewer",
            RuntimeWarning,
            stacklevel=2,
        )
        self._fallback = QuadratureJob(self.forest, self.codes, self.dtype, False, None)


def _walks_of(forest: TreeEnsemble, plan: TablePlan) -> QuadratureJob | None:
    """Lay out the walk of what has no tables."""
    walked = walked_part(forest, plan.walked_trees, plan.arrays["cut_nodes"], plan.dtype)
    if walked is None:
        return None
    job = QuadratureJob(walked, CodeTables(walked, encode_forest(walked)), plan.dtype, False, None)
    return job if job.tapes else None


class TableLaunches:
    """The launches for rows of one type, layout and number on the current GPU."""

    def __init__(
        self,
        plan: TablePlan,
        walks: QuadratureJob | None,
        x: GpuArray,
        row_shape: tuple[int, ...],
        tables: Tables,
        sums: OnGpu,
    ) -> None:
        self._plan, self._tables, self._stride = plan, tables, padded_rows(len(x))
        # A subtree has a column and a slot.
        encode = plan.codes.prepare(x.dtype, row_strides(x), len(x), self._stride)
        self._encode = cast("PreparedLaunch", encode)
        self._walk = Walk(walks, x, sums, self._encode.cell(0)) if walks else None
        n_slots = len(plan.arrays["slot_keys"]) + (walks.n_slots if walks else 0)
        self._add_up = lay_out_sum(sums, plan.dtype, len(x), row_shape, n_slots)
        self._launches = [self._encode]
        self._places = [Place(self._encode.cell(-1), CODES), Place(self._add_up.cell(0), SUMS)]
        self._room = 0

    def plan(self) -> Plan:
        """Codes of rows, sums of the trees that are walked, then of the tables, batch after batch, then of all."""
        walk = self._walk
        beside = walk.beside(len(self._launches)) if walk else None
        if walk:
            self._launches += walk.launches
            self._places += walk.places(WALK_CODES, SUMS)
        for batch in self._plan.batches:
            self._add_batch(batch)
        buffers = Buffers(self._sizes(), self._places)
        make = None if buffers.n_bytes else buffers.make
        return Plan([*self._launches, self._add_up], buffers, make, buffers.n_bytes, beside=beside)

    def _sizes(self) -> list[int]:
        """Bytes of the buffers."""
        plan, stride, walk = self._plan, self._stride, self._walk
        item = plan.dtype.itemsize
        sizes = [0] * N_BUFFERS
        sizes[CODES] = math.prod(plan.codes.shape(stride)) * plan.codes.code_type.itemsize
        sizes[KEYS] = KEY_BYTES * stride * max(batch.n_subtrees for batch in plan.batches)
        sizes[SUMS] = item * stride * len(plan.arrays["slot_keys"]) + (walk.sum_bytes if walk else 0)
        sizes[WALK_CODES] = walk.code_bytes if walk else 0
        sizes[BUILT] = item * plan.n_components * plan.arrays["built_size"]
        sizes[ROOMS] = self._room
        return sizes

    def _add_batch(self, batch: Batch) -> None:
        """Keys of a batch, its tables if they are not kept, and its sums."""
        find = lay_out_keys(self._plan, self._tables.arrays, batch, self._stride)
        add = self._adding(batch)
        # The kernel counts subtrees from the forest's first.
        keys = Place(add.cell(0), KEYS, -KEY_BYTES * batch.first_subtree * self._stride)
        self._places += [Place(find.cell(0), CODES), Place(find.cell(-1), KEYS), keys]
        self._places.append(Place(add.cell(-1), SUMS, self._walk.sum_bytes if self._walk else 0))
        self._launches.append(find)
        if not batch.is_kept:
            self._places.append(Place(add.cell(TABLES), BUILT))
            for build, room in self._tables.builds(batch):
                self._places += [Place(build.cell(ROOM), ROOMS)] if room else []
                self._places.append(Place(build.cell(-1), BUILT))
                self._launches.append(build)
                self._room = max(self._room, room)
        self._launches.append(add)

    def _adding(self, batch: Batch) -> PreparedLaunch:
        block, arrays, tables = choose_block(self._plan, gpu_limits()), self._plan.arrays, self._tables.arrays
        chunks = np.uint64(tables["chunks"].data.ptr + self._plan.chunk_bytes * batch.first_chunk)
        numbers, size = (self._tables.numbers, "kept_size") if batch.is_kept else (NOWHERE, "built_size")
        args = (
            *(NOWHERE, np.int64(self._stride), chunks, tables["stages"], tables["records"], numbers),
            *(np.int64(arrays[size]), np.int32(block.sum_bytes), np.uint32(block.table_bytes)),
            *(np.uint32(block.key_bytes), np.uint32(block.buffer_bytes), NOWHERE),
        )
        kernel = add_variant(self._plan.dtype, arrays["is_narrow"], block.is_staged, block.threads)
        grid = -(-self._stride // block.rows) * batch.n_chunks, 1
        return PreparedLaunch(kernel, grid, block.threads, args, block.shared)


class AddBlock(NamedTuple):
    """A block that adds: its threads and rows, and how it divides its shared memory."""

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


def choose_block(plan: TablePlan, limits: Limits) -> AddBlock:
    """Choose how a block adds: with staged tables if they fit, with as many threads side by side as help."""
    sizes = NARROW_THREADS if plan.arrays["is_narrow"] else WIDE_THREADS
    for is_staged in (True, False):
        blocks = [_lay_out_block(plan, threads, is_staged) for threads in sizes]
        fitting = [block for block in blocks if block.shared <= limits.shared_per_block]
        if fitting:
            return max(fitting, key=lambda block: _resident_threads(block, limits))
    return blocks[-1]


def _resident_threads(block: AddBlock, limits: Limits) -> int:
    """Threads of a multiprocessor, as far as they help."""
    n_blocks = limits.shared_per_multiprocessor // (block.shared + RESERVED_SHARED)
    return min(n_blocks * block.threads, RESIDENT_THREADS)


def _lay_out_block(plan: TablePlan, threads: int, is_staged: bool) -> AddBlock:
    arrays, item = plan.arrays, plan.dtype.itemsize
    rows = threads * (16 if arrays["is_narrow"] else 8) // item
    sum_bytes = 0 if arrays["is_narrow"] else (arrays["most_slots"] + 1) * rows * item
    if not is_staged:
        return AddBlock(threads, rows, False, sum_bytes, 0, 0, 0)
    table_bytes = -(-arrays["most_stage_numbers"] * item // 16) * 16
    key_bytes = arrays["most_stage_subtrees"] * rows * 2
    buffer_bytes = table_bytes + key_bytes + arrays["most_stage_subtrees"] * plan.record_bytes
    return AddBlock(threads, rows, True, sum_bytes, table_bytes, key_bytes, buffer_bytes)
