"""Launches of the quadrature walk, laid out once for rows of a shape and repeated with other addresses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES, row_strides
from silva.cuda.prepared import NOWHERE, ByShape, PreparedLaunch
from silva.cuda.runtime import SideStreams
from silva.device import import_cupy
from silva.explain.cuda.kernels import choose_block, walk_variant

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import DTypeLike, NDArray

    from silva.cuda.compiler import Variant
    from silva.cuda.encoder import CodeTables
    from silva.explain.cuda.results import Targets
    from silva.explain.cuda.tapes import Tape
    from silva.typing import GpuArray, Int32s

ROW_MULTIPLE = 128

SUM_BLOCKS = 1024
"""Blocks of the last sum that fill the GPU."""

SUM_ENTRIES, SPARSE_SUM_ENTRIES = 32, 128
"""Most entries of its tile (native/explain/cuda/sum_slots.cu); more where most have no accumulator and cost nothing."""

FETCHED_BEYOND = 2048
"""Words behind the tape that explain/cuda/explain_rows.cu may fetch: a window of 2 KB and 32 lines of 128 bytes."""


class TapeKernels:
    """Tapes of a forest and the kernels that walk them.

    Parameters
    ----------
    tapes : list of Tape
    dtype : dtype
        Of arithmetic and results.
    codes : CodeTables
    pairs : bool
        Interactions instead of values.

    Attributes
    ----------
    n_slots : int
        Partial sums of a row.
    """

    def __init__(self, tapes: list[Tape], dtype: DTypeLike, codes: CodeTables, *, pairs: bool) -> None:
        self.tapes, self.dtype, self.codes, self.pairs = tapes, np.dtype(dtype), codes, pairs
        self.n_slots = sum(len(tape.slot_keys) for tape in tapes)
        self.kernels = [
            [walk_variant(tape, dtype, codes.code_type, pairs=pairs, shared=shared) for shared in (False, True)]
            for tape in tapes
        ]
        self._launches: ByShape[Launches] = ByShape()

    def queue(self, x: GpuArray, result: GpuArray, tables: OnGpu) -> None:
        """Queue what fills `result`, contiguous and of the rows' first dimension, for rows of a CuPy array."""
        shape = result.shape[1:]
        self._launches.of(x, shape, lambda: Launches(self, x, shape, tables))(x, result)


class Launches:
    """The launches for rows of one type, layout and number on the current GPU; for one thread at a time."""

    def __init__(self, walks: TapeKernels, x: GpuArray, row_shape: tuple[int, ...], tables: OnGpu) -> None:
        self._walks, self._row_shape, self._n_rows = walks, row_shape, len(x)
        self._stride = -(-len(x) // ROW_MULTIPLE) * ROW_MULTIPLE
        self._sides = SideStreams(len(walks.tapes))
        self._encode = walks.codes.prepare(x.dtype, row_strides(x), len(x), self._stride)
        self._tapes = self._walking(tables)
        self._is_sparse = len(tables.target) < math.prod(row_shape)
        self._sum = self._summing(tables)
        self._close = self._closing(tables)

    def __call__(self, x: GpuArray, result: GpuArray) -> None:
        """Queue the work on the current stream."""
        cupy = import_cupy()
        encoded = self._walks.codes.empty(self._stride)
        partial = cupy.empty((self._walks.n_slots, self._stride), self._walks.dtype)
        stream = cupy.cuda.get_current_stream()
        if self._encode is not None:
            self._encode.addresses[0], self._encode.addresses[-1] = x.data.ptr, encoded.data.ptr
            self._encode(stream.ptr)
        address = partial.data.ptr
        with self._sides.beside(stream) as streams:
            for (walk, n_bytes), on in zip(self._tapes, streams, strict=True):
                walk.addresses[3], walk.addresses[-1] = encoded.data.ptr, address
                walk(on.ptr)
                address += n_bytes
        if self._is_sparse:
            result.fill(0)
        if self._sum is not None:
            self._sum.addresses[0], self._sum.addresses[-1] = partial.data.ptr, result.data.ptr
            self._sum(stream.ptr)
        if self._close is not None:
            self._close.addresses[0] = result.data.ptr
            self._close(stream.ptr)

    def _walking(self, tables: OnGpu) -> list[tuple[PreparedLaunch, int]]:
        """Launch of each tape, and bytes of its partial sums."""
        walks, result = self._walks, []
        sizes = NOWHERE, np.int32(self._n_rows), np.uint32(self._stride), NOWHERE
        for tape, kernels, arrays in zip(walks.tapes, walks.kernels, tables.tapes, strict=True):
            n_chunks, item = len(tape.chunk_starts), walks.dtype.itemsize
            block, shared = choose_block(tape.most_slots, item, self._n_rows, n_chunks, walks.pairs)
            grid = -(-self._n_rows // block) * n_chunks, 1
            launch = PreparedLaunch(kernels[shared > 0], grid, block, (*arrays, *sizes), shared)
            result.append((launch, len(tape.slot_keys) * self._stride * item))
        return result

    def _summing(self, tables: OnGpu) -> PreparedLaunch | None:
        """Add up the chunks."""
        n_entries = len(tables.target)
        if not n_entries:
            return None
        n_tiles = -(-self._n_rows // 32)
        most = SPARSE_SUM_ENTRIES if self._walks.n_slots < n_entries else SUM_ENTRIES
        tile_entries = int(np.clip(n_entries * n_tiles // SUM_BLOCKS, 1, most))
        sizes = (np.int64(self._stride), np.int32(self._n_rows), np.int32(n_entries), np.int32(tile_entries))
        sums = (tables.slot_starts, tables.slots, tables.target, tables.mirror)
        args = (NOWHERE, *sizes, *sums, np.int64(math.prod(self._row_shape)), NOWHERE)
        grid = n_tiles, min(-(-n_entries // tile_entries), 65535)
        return PreparedLaunch(self._variant("explain/cuda/sum_slots"), grid, (32, 8), args)

    def _closing(self, tables: OnGpu) -> PreparedLaunch | None:
        n_lines = self._n_rows * self._row_shape[0] * math.prod(self._row_shape[2:])
        if not self._walks.pairs or not n_lines * self._row_shape[1]:
            return None
        args = (NOWHERE, np.int64(n_lines), *(np.int32(n) for n in self._row_shape), tables.chosen)
        return PreparedLaunch(self._variant("explain/cuda/close_diagonal"), (-(-n_lines // 4), 1), 128, args)

    def _variant(self, name: str) -> Variant:
        return variant(name, REAL=C_TYPES[self._walks.dtype.name])


class OnGpu:
    """Tapes and targets in the memory of one GPU."""

    def __init__(self, cupy: ModuleType, tapes: list[Tape], targets: Targets, chosen: NDArray[np.intp]) -> None:
        self.tapes = [
            (_padded(cupy, tape.words), cupy.asarray(tape.chunk_starts), cupy.asarray(tape.slot_offsets))
            for tape in tapes
        ]
        self.slot_starts = cupy.asarray(targets.slot_starts)
        self.slots = cupy.asarray(targets.slots)
        self.target = cupy.asarray(targets.target)
        self.mirror = cupy.asarray(targets.mirror)
        self.chosen = cupy.asarray(chosen.astype(np.int32))
        self.memory = int(cupy.cuda.runtime.memGetInfo()[1])
        cupy.cuda.get_current_stream().synchronize()


def _padded(cupy: ModuleType, words: Int32s) -> Any:
    """Upload a tape with room behind it that the walk fetches but does not use."""
    result = cupy.zeros(len(words) + FETCHED_BEYOND, np.int32)
    result[: len(words)].set(words)
    return result
