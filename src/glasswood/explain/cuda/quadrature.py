"""SHAP values and interactions by quadrature: launches laid out once for rows of a shape, repeated for others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.typing import GpuArray, Int32s, Int64s
from glasswood.cuda.buffers import Buffers, Place
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import row_strides
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import gpu_limits
from glasswood.cuda.streams import Beside
from glasswood.explain.cuda.job import PlannedJob, diagonal_launch, fitting_rows, padded_rows
from glasswood.explain.cuda.leaf_tapes import LeafTape, write_leaf_tapes
from glasswood.explain.cuda.results import OnGpu, find_targets
from glasswood.explain.cuda.tapes import TINY_SPLITS, Tape, write_tapes
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.encoder import CodeTables

SHARED_BYTES, PAIR_SHARED_BYTES = 24 * 1024, 32 * 1024
"""Accumulators of a block in shared memory: eight blocks fit beside each other, seven of interactions.
Interactions of 14 features (27 KB) took 13.6 ms on an H200 with accumulators in global memory, 9.7 ms with these."""

BLOCKS = (64, 32)
"""Threads of a block, by preference: with 64 the last wave of blocks is short."""

FEW_THREADS = 2**16
"""Rows times chunks below which blocks are small, to spread over all multiprocessors."""

WARP, MOST_WARPS, SUM_STRIDE = 32, 16, 33
MOST_SHARED = 48 * 1024
"""Shared memory that no GPU refuses to a block."""


class SmallForest:
    """A forest whose chunks are the warps of one block, with codes and sums in its shared memory."""

    def __init__(self, tape: Tape, dtype: DTypeLike, codes: CodeTables) -> None:
        self._tape, self._dtype, self._codes = tape, dtype, codes
        self.shared: int = SUM_STRIDE * len(tape.slot_keys) * np.dtype(dtype).itemsize + WARP * codes.row_bytes

    def plan(self, x: GpuArray, tables: OnGpu) -> Plan:
        """Lay out the launch that fills results, (n, F, k) and contiguous, for such rows."""
        codes, tape = self._codes, self._tape
        n_chunks = len(tape.chunk_starts)
        rows = {"X": NOWHERE, **row_strides(x), "n_rows": len(x), "n_columns": codes.codes.n_columns}
        sizes = {"n_chunks": n_chunks, "n_slots": len(tape.slot_keys), "n_entries": len(tables.target)}
        sums = {"slot_starts": tables.slot_starts, "slots": tables.slots, "result": NOWHERE}
        args = {**rows, **codes.tables(), **tables.tapes[0], **sizes, **sums}
        kernel = small_variant(tape, self._dtype, codes.codes.thresholds.dtype, codes.code_type, x.dtype)
        grid, threads = (-(-len(x) // WARP), 1), WARP * min(n_chunks, MOST_WARPS)
        launch = PreparedLaunch(kernel, grid, threads, args, self.shared)
        return Plan([launch], launch.cell("X"), launch.cell("result"))


def make_small(tapes: list[Tape], dtype: DTypeLike, codes: CodeTables) -> SmallForest | None:
    """Values of the tapes of a forest in one launch; None if it is too large for that."""
    if len(tapes) != 1 or tapes[0].n_splits >= TINY_SPLITS:
        return None
    small = SmallForest(tapes[0], dtype, codes)
    return small if small.shared <= MOST_SHARED else None


def small_variant(
    tape: Tape, dtype: DTypeLike, row_type: DTypeLike, code_type: DTypeLike, input_type: DTypeLike
) -> Variant:
    """Name the kernel for the tape of a small forest and rows of a type."""
    macros = walk_macros(tape, dtype, code_type, False)
    types = {"INPUT": np.dtype(input_type), "ROW": np.dtype(row_type)}
    return variant("explain/cuda/explain_small", **macros, **types, SHARED=1, STAGED=1)


SUM_BLOCKS = 1024
"""Blocks of the last sum that fill the GPU."""

FEWEST_ENTRIES, MOST_ENTRIES, TILE_SLOTS = 8, 64, 1024
"""Fewest and most entries of a tile of the sum (native/explain/cuda/sum_slots.cu), and accumulators at which it ends:
pairs of Covertype's ten numbers have hundreds each, and a block with all of them would keep the others waiting."""

MANY_SLOTS = 2**14
"""Accumulators of a row beyond which they lie in memory rather than in the second cache."""

PARTIAL_BYTES = 2**30
"""Sums of chunks for the rows in flight; more rows are done one batch after the other."""


class QuadratureJob(PlannedJob):
    """Values or interactions by the walk of tapes; what it needs on a GPU is written at the first call there.

    Attributes
    ----------
    tapes : list of Tape
    n_slots : int
        Partial sums of a row.
    """

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        super().__init__(forest, codes, dtype, pairs, features)
        self.tapes: Any = self._write(features)
        self.n_slots: int = sum(len(tape.slot_keys) for tape in self.tapes)
        self.small: SmallForest | None = self._make_small()

    def kernel(self, tape: Any, input_type: DTypeLike, *, shared: bool) -> Variant:  # noqa: ARG002
        """Kernel that walks a tape for rows of a type, with accumulators in global or in shared memory."""
        return walk_variant(tape, self.dtype, self.codes.code_type, pairs=self.pairs, shared=shared)

    def row_arguments(self, x: GpuArray, rows: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what the kernels take of the rows beside their codes."""
        return {}

    def _write(self, features: NDArray[np.intp] | None) -> Any:
        return write_tapes(self.forest, self.codes.codes, self.dtype, pairs=self.pairs, features=features)

    def _make_small(self) -> SmallForest | None:
        return None if self.pairs else make_small(self.tapes, self.dtype, self.codes)

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        if self.small is not None:
            return max(n_rows, 1)
        row_bytes = self.n_slots * self.dtype.itemsize + self.codes.row_bytes
        return fitting_rows(min(PARTIAL_BYTES, gpu_limits().memory // 8), row_bytes)

    def _lay_out(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        tables = self._on_gpu()
        if not len(tables.target):
            return None
        return self.small.plan(x, tables) if self.small else lay_out_values(self, x, row_shape, tables)

    def _on_gpu(self) -> OnGpu:
        tables: OnGpu = self._uploads.get(self._upload)
        return tables

    def _upload(self) -> OnGpu:
        keys = np.concatenate([tape.slot_keys for tape in self.tapes] or [np.zeros(0, np.int64)])
        targets = find_targets(keys, self.forest.n_features, self.forest.n_outputs, self.pairs, self.chosen)
        return OnGpu(import_cupy(), self.tapes, targets, self.chosen)


class LinearJob(QuadratureJob):
    """Values or interactions where leaves hold linear models, leaf by leaf (explain/cuda/explain_leaves.cu)."""

    def kernel(self, tape: Any, input_type: DTypeLike, *, shared: bool) -> Variant:
        """Kernel that explains the leaves of a tape."""
        return leaves_variant(tape, self.dtype, self.codes.code_type, input_type, pairs=self.pairs, shared=shared)

    def row_arguments(self, x: GpuArray, rows: Any) -> dict[str, Any]:
        """Return the numbers that the models' terms read."""
        return {"X": rows, **row_strides(x)}

    def _write(self, features: NDArray[np.intp] | None) -> Any:
        return write_leaf_tapes(self.forest, self.codes.codes, self.dtype, pairs=self.pairs, features=features)

    def _make_small(self) -> None:
        return None


class WalkLaunches:
    """Launches that write the partial sums of rows of one type, layout and number, (n_slots, padded rows).

    Parameters
    ----------
    job : QuadratureJob
    x : CuPy array
        Such rows.
    tables : OnGpu
    rows : uint64 array, optional
        Cell of the rows' address, of another launch that takes them.

    Attributes
    ----------
    launches : list of PreparedLaunch
        The rows' codes, unless nothing is asked of the rows, then the walk of each tape.
    code_bytes, sum_bytes : int
        Sizes of the buffers that they need.
    """

    def __init__(self, job: QuadratureJob, x: GpuArray, tables: OnGpu, rows: Any = NOWHERE) -> None:
        self._job, self._n_rows, self._stride = job, len(x), padded_rows(len(x))
        self.encode: PreparedLaunch | None = job.codes.prepare(x.dtype, row_strides(x), len(x), self._stride, rows)
        self._walks = self._walking(x, tables, rows)
        self.launches: list[PreparedLaunch] = [*([] if self.encode is None else [self.encode]), *self._walks]
        self.code_bytes: int = math.prod(job.codes.shape(self._stride)) * job.codes.code_type.itemsize
        self._tape_bytes = [len(tape.slot_keys) * self._stride * job.dtype.itemsize for tape in job.tapes]
        self.sum_bytes: int = sum(self._tape_bytes)

    def places(self, codes: int, sums: int) -> list[Place]:
        """Find where launches take the addresses of codes and sums, from the numbers of their buffers."""
        result = [] if self.encode is None else [Place(self.encode.cell("codes"), codes)]
        offset = 0
        for walk, n_bytes in zip(self._walks, self._tape_bytes, strict=True):
            result += [Place(walk.cell("codes"), codes), Place(walk.cell("partial"), sums, offset)]
            offset += n_bytes
        return result

    def beside(self, n_before: int = 0) -> Beside | None:
        """Which launches run beside each other, after `n_before` earlier ones: the walks of several tapes."""
        first = n_before + len(self.launches) - len(self._walks)
        return Beside(first, len(self._walks)) if len(self._walks) > 1 else None

    def _walking(self, x: GpuArray, tables: OnGpu, rows: Any) -> list[PreparedLaunch]:
        job, result = self._job, []
        of_rows = {**job.row_arguments(x, rows), "n_rows": self._n_rows, "stride": self._stride}
        for tape, arrays in zip(job.tapes, tables.tapes, strict=True):
            n_chunks, item = len(tape.slot_offsets) - 1, job.dtype.itemsize
            block, shared = choose_block(tape.most_slots, item, self._n_rows, n_chunks, job.pairs)
            grid = -(-self._n_rows // block) * n_chunks, 1
            kernel = job.kernel(tape, x.dtype, shared=shared > 0)
            args = {**arrays, **of_rows, "codes": NOWHERE, "partial": NOWHERE}
            result.append(PreparedLaunch(kernel, grid, block, args, shared))
        return result


def lay_out_values(job: QuadratureJob, x: GpuArray, row_shape: tuple[int, ...], tables: OnGpu) -> Plan:
    """Lay out the launches from rows to values or interactions: codes, partial sums, sums, the diagonal."""
    rows = np.zeros(1, np.uint64)
    walk = WalkLaunches(job, x, tables, rows)
    add_up = lay_out_sum(tables, job.dtype, len(x), row_shape, job.n_slots)
    buffers = Buffers([walk.code_bytes, walk.sum_bytes], [*walk.places(0, 1), Place(add_up.cell("partial"), 1)])
    launches = [*walk.launches, add_up]
    if job.pairs:
        launches.append(diagonal_launch(job.dtype, len(x), row_shape, tables.chosen, add_up.cell("result")))
    make = None if buffers.n_bytes else buffers.make
    beside = walk.beside()
    return Plan(launches, rows, add_up.cell("result"), buffers, make, buffers.n_bytes, beside=beside)


def lay_out_sum(
    tables: OnGpu, dtype: DTypeLike, n_rows: int, row_shape: tuple[int, ...], n_slots: int
) -> PreparedLaunch:
    """Lay out the launch that adds up the chunks, `partial`, to `result`."""
    n_entries = len(tables.target)
    tile_rows = 32 * (16 // np.dtype(dtype).itemsize) if n_slots > MANY_SLOTS else 32
    n_tiles = -(-n_rows // tile_rows)
    entries = int(np.clip(n_entries * n_tiles // SUM_BLOCKS, FEWEST_ENTRIES, MOST_ENTRIES))
    starts = sum_tiles(tables.host_starts, entries)
    rows = {"partial": NOWHERE, "stride": padded_rows(n_rows), "n_rows": n_rows, "row_size": math.prod(row_shape)}
    tiles = {"n_tiles": len(starts) - 1, "tile_starts": import_cupy().asarray(starts)}
    sums = {name: getattr(tables, name) for name in ("slot_starts", "slots", "target", "mirror")}
    args = {**rows, **tiles, **sums, "result": NOWHERE}
    grid = n_tiles, min(len(starts) - 1, 65535)
    kernel = variant("explain/cuda/sum_slots", REAL=np.dtype(dtype), TILE=tile_rows)
    return PreparedLaunch(kernel, grid, (32, 8), args)


def sum_tiles(slot_starts: Int64s, most_entries: int) -> Int32s:
    """Return where the tiles of entries begin, and where the last one ends."""
    starts, n_entries = [0], len(slot_starts) - 1
    while starts[-1] < n_entries:
        first = starts[-1]
        full = int(np.searchsorted(slot_starts, slot_starts[first] + TILE_SLOTS, side="right")) - 1
        starts.append(min(max(full, first + 1), first + most_entries, n_entries))
    return np.array(starts, np.int32)


def choose_block(most_slots: int, itemsize: int, n_rows: int, n_chunks: int, pairs: bool) -> tuple[int, int]:
    """Threads of a block, and its bytes of shared memory; 0 if the accumulators do not fit there."""
    block = BLOCKS[n_rows * n_chunks < FEW_THREADS]
    shared = most_slots * block * itemsize
    return block, shared if shared <= (PAIR_SHARED_BYTES if pairs else SHARED_BYTES) else 0


def walk_variant(tape: Tape, dtype: DTypeLike, code_type: DTypeLike, *, pairs: bool, shared: bool) -> Variant:
    """Name the kernel for a tape."""
    return variant("explain/cuda/explain_rows", **walk_macros(tape, dtype, code_type, pairs), SHARED=int(shared))


def leaves_variant(
    tape: LeafTape, dtype: DTypeLike, code_type: DTypeLike, input_type: DTypeLike, *, pairs: bool, shared: bool
) -> Variant:
    """Name the kernel for leaves with linear models."""
    words = tape.points * np.dtype(dtype).itemsize // 4
    return variant(
        "explain/cuda/explain_leaves",
        REAL=np.dtype(dtype),
        POINTS=tape.points,
        PAIRS=int(pairs),
        HOT_WORDS=_power_of_two(-(-max(tape.most_tested, 1) // 32)),
        CODE=np.dtype(code_type),
        SHARED=int(shared),
        INPUT=np.dtype(input_type),
        MIN_BLOCKS=12 if words <= 4 else 8,
    )


def walk_macros(tape: Tape, dtype: DTypeLike, code_type: DTypeLike, pairs: bool) -> dict[str, Any]:
    """Macros of native/explain/cuda/row.cuh."""
    words = tape.points * np.dtype(dtype).itemsize // 4
    height = 4 if words <= 3 or tape.levels <= 4 else 3
    levels = _round_levels(tape.levels - height)
    # Registers for what is alive: interactions of four points spill 460 bytes a thread with the 64 of eight blocks.
    blocks = (8 if words <= 3 else 5 if words <= 4 else 4) if pairs else 8 if words <= 4 else 5
    blocks = blocks if words <= 8 else 3
    return {
        "REAL": np.dtype(dtype),
        "POINTS": tape.points,
        "HEIGHT": height,
        "LEVELS": levels,
        "PAIRS": int(pairs),
        "HOT_WORDS": _power_of_two(-(-max(tape.tracks, 1) // 32)),
        "CODE": np.dtype(code_type),
        "DELTAS": _round_levels(tape.levels) if pairs else 0,
        "MIN_BLOCKS": blocks,
    }


def _round_levels(levels: int) -> int:
    """0, 8, 16, 32, ...: few kernels serve all depths."""
    return 0 if levels <= 0 else max(8, _power_of_two(levels))


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
