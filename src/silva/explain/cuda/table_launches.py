"""Launches of values by subtree tables, laid out once for rows of a shape."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from silva.cuda.codes import encode_forest
from silva.cuda.encoder import CodeTables, row_strides
from silva.cuda.launches import NOWHERE, KeptByRows, PreparedLaunch
from silva.cuda.limits import gpu_limits
from silva.device import import_cupy
from silva.explain.cuda.job import Job, fitting_rows, padded_rows
from silva.explain.cuda.on_gpu import OnGpu
from silva.explain.cuda.quadrature import Launches, QuadratureJob, lay_out_sum
from silva.explain.cuda.results import find_targets
from silva.explain.cuda.tables import Batch, TablePlan, Tables, add_variant, keys_variant
from silva.explain.tables import select_trees

if TYPE_CHECKING:
    from silva.cuda.limits import Limits
    from silva.ensemble import TreeEnsemble
    from silva.typing import GpuArray

PARTIAL_BYTES = 2**32
"""Keys and sums of chunks for the rows in flight; more rows are done one part after the other."""

KEY_THREADS, KEY_ROWS, KEY_BLOCKS = 128, 8, 132 * 16
"""Threads and rows of a thread of native/explain/cuda/tables/find_keys.cu; blocks that fill the GPU."""

WIDE_THREADS, NARROW_THREADS = (256, 512, 384, 128, 64), (256, 128, 64)
"""Threads of a block that adds."""

RESIDENT_THREADS = 512
"""Of a multiprocessor: what keeps its shared memory busy."""

RESERVED_SHARED = 1024
"""Bytes of shared memory that the driver takes for each block."""

TABLES = 5
"""Place of the tables among the arguments of native/explain/cuda/tables/add_tables.cu."""


class TableJob(Job):
    """Values of a forest by tables, and by the walk where trees have none.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
        For the walk of all trees, for want of memory.
    plan : TablePlan
        With a subtree at least.
    """

    def __init__(self, forest: TreeEnsemble, codes: CodeTables, plan: TablePlan) -> None:
        super().__init__(forest, codes, plan.dtype, False, None)
        self.plan = plan
        self._walks = _walks_of(forest, plan)
        self.n_slots = len(plan.arrays["slot_keys"]) + (self._walks.n_slots if self._walks else 0)
        self._fallback: QuadratureJob | None = None
        self._launches: KeptByRows[TableLaunches] = KeptByRows()

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
        row_bytes = self.n_slots * self.dtype.itemsize + 2 * n_keys + self.plan.codes.row_bytes
        return fitting_rows(min(PARTIAL_BYTES, self._on_gpu()[1].memory // 8), row_bytes)

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        tables, sums = self._on_gpu()
        shape = result.shape[1:]
        self._launches.of(x, shape, lambda: TableLaunches(self.plan, self._walks, x, shape, tables, sums))(x, result)

    def _on_gpu(self) -> tuple[Tables, OnGpu]:
        made: tuple[Tables, OnGpu] = self._uploads.get(self._upload)
        return made

    def _upload(self) -> tuple[Tables, OnGpu]:
        tapes = self._walks.tapes if self._walks else []
        keys = np.concatenate([*(tape.slot_keys for tape in tapes), self.plan.arrays["slot_keys"]])
        targets = find_targets(keys, self.forest.n_features, self.forest.n_outputs, False, self.chosen)
        return Tables(self.plan), OnGpu(import_cupy(), tapes, targets, self.chosen)

    def _give_up(self) -> None:
        warnings.warn(
            f"no GPU memory for {self.plan.n_bytes:,} bytes of tables; values come from the quadrature walk. "
            "Pass a smaller table_bytes to keep fewer",
            RuntimeWarning,
            stacklevel=2,
        )
        self._fallback = QuadratureJob(self.forest, self.codes, self.dtype, False, None)


def _walks_of(forest: TreeEnsemble, plan: TablePlan) -> QuadratureJob | None:
    """Lay out the walk of trees without tables."""
    if not len(plan.walked_trees):
        return None
    walked = select_trees(forest, plan.walked_trees)
    job = QuadratureJob(walked, CodeTables(walked, encode_forest(walked)), plan.dtype, False, None)
    return job if job.tapes else None


class TableLaunches:
    """The launches for rows of one type, layout and number on the current GPU; for one thread at a time."""

    def __init__(
        self,
        plan: TablePlan,
        walks: QuadratureJob | None,
        x: GpuArray,
        shape: tuple[int, ...],
        tables: Tables,
        sums: OnGpu,
    ) -> None:
        self._plan = plan
        self._stride = padded_rows(len(x))
        self._walk = Launches(walks, x, shape, sums) if walks else None
        self._walk_slots = walks.n_slots if walks else 0
        self._n_slots = self._walk_slots + len(plan.arrays["slot_keys"])
        encode = plan.codes.prepare(x.dtype, row_strides(x), len(x), self._stride)
        add_up = lay_out_sum(sums, plan.dtype, len(x), shape, self._n_slots)
        # A subtree has a column and a slot.
        self._encode, self._add_up = cast("PreparedLaunch", encode), cast("PreparedLaunch", add_up)
        self._n_keys = max(batch.n_subtrees for batch in plan.batches)
        self._batches = [self._lay_out(batch, tables) for batch in plan.batches]

    def __call__(self, x: GpuArray, result: GpuArray) -> None:
        """Queue the work on the current stream."""
        cupy, plan = import_cupy(), self._plan
        stream = cupy.cuda.get_current_stream().ptr
        # The GPU begins while the rest is prepared.
        codes = plan.codes.empty(self._stride)
        self._encode.addresses[0], self._encode.addresses[-1] = x.data.ptr, codes.data.ptr
        self._encode(stream)
        keys = cupy.empty((self._n_keys, self._stride), np.uint16)
        partial = cupy.empty((self._n_slots, self._stride), plan.dtype)
        shape = plan.n_components, plan.arrays["built_size"]
        built = cupy.empty(shape, plan.dtype) if shape[1] else None
        if self._walk is not None:
            self._walk.walk(x, partial.data.ptr)
        sums = partial.data.ptr + self._walk_slots * self._stride * plan.dtype.itemsize
        for batch in self._batches:
            batch(stream, codes.data.ptr, keys.data.ptr, 0 if built is None else built.data.ptr, sums)
        self._add_up.addresses[0], self._add_up.addresses[-1] = partial.data.ptr, result.data.ptr
        self._add_up(stream)

    def _lay_out(self, batch: Batch, tables: Tables) -> BatchLaunches:
        builds = [] if batch.is_kept else tables.builds(batch)
        keys_before = 2 * batch.first_subtree * self._stride
        return BatchLaunches(self._finding(batch, tables), builds, self._adding(batch, tables), keys_before)

    def _finding(self, batch: Batch, tables: Tables) -> PreparedLaunch:
        n_tiles = -(-self._stride // (KEY_THREADS * KEY_ROWS))
        run = int(np.clip(batch.n_subtrees * n_tiles // KEY_BLOCKS, 4, 64))
        heads = np.uint64(tables.arrays["heads"].data.ptr + self._plan.head_bytes * batch.first_subtree)
        sizes = np.int32(batch.n_subtrees), np.int32(run)
        args = (NOWHERE, np.int64(self._stride), heads, tables.arrays["entries"], *sizes, NOWHERE)
        grid = n_tiles, -(-batch.n_subtrees // run)
        return PreparedLaunch(keys_variant(self._plan.arrays["is_packed"]), grid, KEY_THREADS, args)

    def _adding(self, batch: Batch, tables: Tables) -> PreparedLaunch:
        block, arrays = choose_block(self._plan, gpu_limits()), self._plan.arrays
        chunks = np.uint64(tables.arrays["chunks"].data.ptr + self._plan.chunk_bytes * batch.first_chunk)
        numbers, size = (tables.numbers, "kept_size") if batch.is_kept else (NOWHERE, "built_size")
        args = (
            *(NOWHERE, np.int64(self._stride), chunks, tables.arrays["stages"], tables.arrays["records"], numbers),
            *(np.int64(arrays[size]), np.int32(block.sum_bytes), np.uint32(block.table_bytes)),
            *(np.uint32(block.key_bytes), np.uint32(block.buffer_bytes), NOWHERE),
        )
        kernel = add_variant(self._plan.dtype, arrays["is_narrow"], block.is_staged, block.threads)
        grid = -(-self._stride // block.rows) * batch.n_chunks, 1
        return PreparedLaunch(kernel, grid, block.threads, args, block.shared)


class BatchLaunches(NamedTuple):
    """Keys, tables if they are not kept, and sums of a batch."""

    keys: PreparedLaunch
    builds: list[PreparedLaunch]
    add: PreparedLaunch
    keys_before: int
    """Bytes of the keys of the subtrees before the batch."""

    def __call__(self, stream: int, codes: int, keys: int, built: int, sums: int) -> None:
        """Queue them."""
        self.keys.addresses[0], self.keys.addresses[-1] = codes, keys
        self.keys(stream)
        for build in self.builds:
            build.addresses[-1] = built
            build(stream)
        if self.builds:
            self.add.addresses[TABLES] = built
        # The kernel counts subtrees from the forest's first.
        self.add.addresses[0], self.add.addresses[-1] = (keys - self.keys_before) % 2**64, sums
        self.add(stream)


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
