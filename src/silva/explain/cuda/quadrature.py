"""SHAP values and interactions by quadrature: launches laid out once for rows of a shape, repeated for others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import row_strides
from silva.cuda.launches import NOWHERE, KeptByRows, PreparedLaunch
from silva.cuda.streams import SideStreams
from silva.device import import_cupy
from silva.explain.cuda.job import Job, diagonal_launch, fitting_rows, padded_rows
from silva.explain.cuda.kernels import choose_block, walk_variant
from silva.explain.cuda.on_gpu import OnGpu
from silva.explain.cuda.results import find_targets
from silva.explain.cuda.small_forests import make_small
from silva.explain.cuda.tapes import write_tapes

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from silva.cuda.encoder import CodeTables
    from silva.ensemble import TreeEnsemble
    from silva.typing import GpuArray

SUM_BLOCKS = 1024
"""Blocks of the last sum that fill the GPU."""

SUM_ENTRIES, SPARSE_SUM_ENTRIES = 32, 128
"""Most entries of its tile (native/explain/cuda/sum_slots.cu); more where most have no accumulator and cost nothing."""

PARTIAL_BYTES = 2**30
"""Sums of chunks for the rows in flight; more rows are done one batch after the other."""


class QuadratureJob(Job):
    """Values or interactions by the walk of tapes; what it needs on a GPU is written at the first call there.

    Attributes
    ----------
    n_slots : int
        Partial sums of a row.
    kernels : list of (Variant, Variant)
        That walk each tape with accumulators in global and in shared memory.
    """

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        super().__init__(forest, codes, dtype, pairs, features)
        self.tapes = write_tapes(forest, codes.codes, dtype, pairs=pairs, features=features)
        self.n_slots = sum(len(tape.slot_keys) for tape in self.tapes)
        self.kernels = [
            [walk_variant(tape, dtype, codes.code_type, pairs=pairs, shared=shared) for shared in (False, True)]
            for tape in self.tapes
        ]
        self._small = None if pairs else make_small(self.tapes, self.dtype, codes)
        self._launches: KeptByRows[Launches] = KeptByRows()

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        if self._small is not None:
            return max(n_rows, 1)
        row_bytes = self.n_slots * self.dtype.itemsize + self.codes.row_bytes
        return fitting_rows(min(PARTIAL_BYTES, self._on_gpu().memory // 8), row_bytes)

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        tables, shape = self._on_gpu(), result.shape[1:]
        if self._small is not None:
            self._small.values(x, result, tables)
        else:
            self._launches.of(x, shape, lambda: Launches(self, x, shape, tables))(x, result)

    def _on_gpu(self) -> OnGpu:
        tables: OnGpu = self._uploads.get(self._upload)
        return tables

    def _upload(self) -> OnGpu:
        keys = np.concatenate([tape.slot_keys for tape in self.tapes] or [np.zeros(0, np.int64)])
        targets = find_targets(keys, self.forest.n_features, self.forest.n_outputs, self.pairs, self.chosen)
        return OnGpu(import_cupy(), self.tapes, targets, self.chosen)


class Launches:
    """The launches for rows of one type, layout and number on the current GPU; for one thread at a time."""

    def __init__(self, job: QuadratureJob, x: GpuArray, row_shape: tuple[int, ...], tables: OnGpu) -> None:
        self._job, self._row_shape, self._n_rows = job, row_shape, len(x)
        self._stride = padded_rows(len(x))
        self._sides = SideStreams(len(job.tapes))
        self._encode = job.codes.prepare(x.dtype, row_strides(x), len(x), self._stride)
        self._tapes = self._walking(tables)
        self._is_sparse = len(tables.target) < math.prod(row_shape)
        self._sum = lay_out_sum(tables, job.dtype, self._n_rows, row_shape, job.n_slots)
        diagonal = (job.dtype, self._n_rows, row_shape, tables.chosen)
        self._close = diagonal_launch(*diagonal) if job.pairs else None

    def __call__(self, x: GpuArray, result: GpuArray) -> None:
        """Queue the work on the current stream."""
        cupy = import_cupy()
        partial = cupy.empty((self._job.n_slots, self._stride), self._job.dtype)
        stream = cupy.cuda.get_current_stream()
        self.walk(x, partial.data.ptr)
        if self._is_sparse:
            result.fill(0)
        if self._sum is not None:
            self._sum.addresses[0], self._sum.addresses[-1] = partial.data.ptr, result.data.ptr
            self._sum(stream.ptr)
        if self._close is not None:
            self._close.addresses[0] = result.data.ptr
            self._close(stream.ptr)

    def walk(self, x: GpuArray, address: int) -> None:
        """Queue what writes the partial sums, (n_slots, padded rows), to an address."""
        encoded, stream = self._job.codes.empty(self._stride), import_cupy().cuda.get_current_stream()
        if self._encode is not None:
            self._encode.addresses[0], self._encode.addresses[-1] = x.data.ptr, encoded.data.ptr
            self._encode(stream.ptr)
        with self._sides.beside(stream) as streams:
            for (walk, n_bytes), on in zip(self._tapes, streams, strict=True):
                walk.addresses[3], walk.addresses[-1] = encoded.data.ptr, address
                walk(on.ptr)
                address += n_bytes

    def _walking(self, tables: OnGpu) -> list[tuple[PreparedLaunch, int]]:
        """Launch of each tape, and bytes of its partial sums."""
        job, result = self._job, []
        sizes = NOWHERE, np.int32(self._n_rows), np.uint32(self._stride), NOWHERE
        for tape, kernels, arrays in zip(job.tapes, job.kernels, tables.tapes, strict=True):
            n_chunks, item = len(tape.chunk_starts), job.dtype.itemsize
            block, shared = choose_block(tape.most_slots, item, self._n_rows, n_chunks, job.pairs)
            grid = -(-self._n_rows // block) * n_chunks, 1
            launch = PreparedLaunch(kernels[shared > 0], grid, block, (*arrays, *sizes), shared)
            result.append((launch, len(tape.slot_keys) * self._stride * item))
        return result


def lay_out_sum(
    tables: OnGpu, dtype: DTypeLike, n_rows: int, row_shape: tuple[int, ...], n_slots: int
) -> PreparedLaunch | None:
    """Lay out the launch that adds up the chunks: their sums and the results are its first and last argument."""
    n_entries = len(tables.target)
    if not n_entries:
        return None
    n_tiles = -(-n_rows // 32)
    most = SPARSE_SUM_ENTRIES if n_slots < n_entries else SUM_ENTRIES
    tile_entries = int(np.clip(n_entries * n_tiles // SUM_BLOCKS, 1, most))
    sizes = (np.int64(padded_rows(n_rows)), np.int32(n_rows), np.int32(n_entries), np.int32(tile_entries))
    sums = (tables.slot_starts, tables.slots, tables.target, tables.mirror)
    args = (NOWHERE, *sizes, *sums, np.int64(math.prod(row_shape)), NOWHERE)
    grid = n_tiles, min(-(-n_entries // tile_entries), 65535)
    return PreparedLaunch(variant("explain/cuda/sum_slots", REAL=np.dtype(dtype)), grid, (32, 8), args)
