"""Launches of values and interactions by subtree tables, laid out once for rows of a shape."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.typing import GpuArray
from glasswood.cuda.buffers import Buffers, Place
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables, row_strides
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import gpu_limits
from glasswood.explain.cuda.job import PlannedJob, diagonal_launch, fitting_rows, padded_rows
from glasswood.explain.cuda.quadrature import QuadratureJob, WalkLaunches, lay_out_sum
from glasswood.explain.cuda.results import OnGpu, find_targets
from glasswood.explain.cuda.tables import (
    KEY_BYTES,
    RESERVED_SHARED,
    SharedTables,
    TablePlan,
    Tables,
    lay_out_keys,
)
from glasswood.explain.players import over_players
from glasswood.explain.walks import walked_part
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood._core import TableBatch
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.per_gpu import Limits

WIDE_THREADS, NARROW_THREADS, PAIR_THREADS = (256, 512, 384, 128, 64), (256, 128, 64), (512, 256, 128, 64)
POINT_THREADS = (256, 128, 64)
"""Threads of a block that adds."""

RESIDENT_THREADS = 512
"""Threads of a multiprocessor that keep its shared memory busy."""

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
    number_bytes: int
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
    number_bytes = -(-batch.most_stage_numbers * plan.dtype.itemsize // 16) * 16
    key_bytes = batch.most_stage_subtrees * block.rows * 2
    buffer_bytes = number_bytes + key_bytes + batch.most_stage_subtrees * plan.arrays["records"].shape[1]
    return block._replace(number_bytes=number_bytes, key_bytes=key_bytes, buffer_bytes=buffer_bytes)


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


PARTIAL_BYTES = 2**32
"""Keys and sums of chunks for the rows in flight; more rows are done one part after the other."""

CODES, KEYS, SUMS, WALK_CODES, BUILT, ROOMS = range(N_BUFFERS := 6)
"""Buffers between the launches."""


class TableJob(PlannedJob):
    """Values or interactions of a forest by tables, and by the walk where trees have none.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
        For the walk of all trees, for want of memory.
    tables : SharedTables
    features : array of int, optional
        Interactions of these players only.
    """

    plan: TablePlan
    tables: SharedTables

    def __init__(
        self,
        forest: TreeEnsemble,
        codes: CodeTables,
        tables: SharedTables,
        features: NDArray[np.intp] | None = None,
    ) -> None:
        super().__init__(forest, codes, tables.plan.dtype, tables.plan.of_pairs, features, tables.plan.players.n)
        self.plan, self.tables = tables.plan, tables
        self._features = features
        self._walks = self._walks_of_rest()
        self.n_slots: int = len(self.plan.arrays["slot_keys"]) + (self._walks.n_slots if self._walks else 0)
        self._fallback: QuadratureJob | None = None

    @property
    def has_tables(self) -> bool:
        """Whether tables explain any tree."""
        return True

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
        return fitting_rows(min(PARTIAL_BYTES, gpu_limits().memory // 8), row_bytes)

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """Return all that `compute` does for such rows on the current stream as one plan; None if one is too few."""
        return super().whole(x, row_shape) if self._fallback is None else self._fallback.whole(x, row_shape)

    def _lay_out(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        sums = self._on_gpu()
        if not len(sums.target):
            return None
        return TableLaunches(self.plan, self._walks, x, row_shape, self.tables.on_gpu(), sums).plan()

    def _on_gpu(self) -> OnGpu:
        self.tables.on_gpu()
        made: OnGpu = self._uploads.get(self._upload)
        return made

    def _upload(self) -> OnGpu:
        tapes = self._walks.tapes if self._walks else []
        keys = np.concatenate([*(tape.slot_keys for tape in tapes), self.plan.arrays["slot_keys"]])
        targets = find_targets(keys, self.n_players, self.forest.n_outputs, self.pairs, self.chosen)
        return OnGpu(import_cupy(), tapes, targets, self.chosen)

    def _walks_of_rest(self) -> QuadratureJob | None:
        """Lay out the walk of what has no tables; against a background, that is another job's."""
        if not self.tables.may_be_walked:
            return None
        plan = self.plan
        walked = walked_part(self.forest, plan.walked_trees, plan.arrays["cut_nodes"], plan.dtype)
        if walked is None:
            return None
        codes = CodeTables(walked, encode_forest(walked))
        job = QuadratureJob(over_players(walked, plan.players), codes, plan.dtype, self.pairs, self._features)
        return job if job.tapes else None

    def _give_up(self) -> None:
        if not self.tables.may_be_walked:
            raise
        warnings.warn(
            f"no GPU memory for {self.plan.n_bytes:,} bytes of tables; {'interactions' if self.pairs else 'values'} "
            "come from the quadrature walk. Pass a smaller table_bytes to keep fewer",
            RuntimeWarning,
            stacklevel=2,
        )
        forest = over_players(self.forest, self.plan.players)
        self._fallback = QuadratureJob(forest, self.codes, self.dtype, self.pairs, self._features)


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
        self._walk = WalkLaunches(walks, x, sums, self._encode.cell("X")) if walks else None
        n_slots = len(plan.arrays["slot_keys"]) + (walks.n_slots if walks else 0)
        self._add_up = lay_out_sum(sums, plan.dtype, len(x), row_shape, n_slots)
        self._result = self._add_up.cell("result")
        close = [diagonal_launch(plan.dtype, len(x), row_shape, sums.chosen, self._result)] if plan.of_pairs else []
        self._end = [self._add_up, *close]
        self._launches = [self._encode]
        self._places = [Place(self._encode.cell("codes"), CODES), Place(self._add_up.cell("partial"), SUMS)]
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
        launches, rows = [*self._launches, *self._end], self._encode.cell("X")
        return Plan(launches, rows, self._result, buffers, make, buffers.n_bytes, beside=beside)

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

    def _add_batch(self, batch: TableBatch) -> None:
        """Keys of a batch, its tables if they are not kept, and its sums."""
        find = lay_out_keys(self._plan, self._tables.arrays, batch, self._stride)
        add = self._adding(batch)
        # The kernel counts subtrees from the forest's first.
        keys = Place(add.cell("keys"), KEYS, -KEY_BYTES * batch.first_subtree * self._stride)
        self._places += [Place(find.cell("codes"), CODES), Place(find.cell("keys"), KEYS), keys]
        self._places.append(Place(add.cell("partial"), SUMS, self._walk.sum_bytes if self._walk else 0))
        self._launches.append(find)
        if not batch.is_kept:
            self._places.append(Place(add.cell("tables"), BUILT))
            for build, room in self._tables.builds(batch):
                self._places += [Place(build.cell("scratch"), ROOMS)] if room else []
                self._places.append(Place(build.cell("tables"), BUILT))
                self._launches.append(build)
                self._room = max(self._room, room)
        self._launches.append(add)

    def _adding(self, batch: TableBatch) -> PreparedLaunch:
        block, tables = choose_block(self._plan, batch, self._stride, gpu_limits()), self._tables.arrays
        numbers, size = (self._tables.numbers, "kept_size") if batch.is_kept else (NOWHERE, "built_size")
        args = {
            "keys": NOWHERE,
            "stride": self._stride,
            "chunks": tables["chunks"][batch.first_chunk :],
            "stages": tables["stages"],
            "records": tables["records"],
            "tables": numbers,
            "component_size": self._plan.arrays[size],
            **{name: getattr(block, name) for name in ("sum_bytes", "number_bytes", "key_bytes", "buffer_bytes")},
            "partial": NOWHERE,
        }
        grid = -(-self._stride // block.rows) * batch.n_chunks, 1
        return PreparedLaunch(block.kernel, grid, block.threads, args, block.shared)
