"""SHAP values and interactions on NVIDIA GPUs: buffers and launches of the quadrature walk."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.codes import encode_forest
from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES, CodeTables
from silva.cuda.rows import check_gpu_rows, like, map_rows
from silva.cuda.runtime import launch, side_by_side
from silva.device import DeviceError, array_gpu, import_cupy
from silva.explain.cuda_small import make_small
from silva.explain.paths import PathsJob
from silva.explain.tapes import Tape, write_tapes
from silva.explain.targets import Targets, find_targets
from silva.explain.walks import choose_block, walk_variant
from silva.inputs import as_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.compiler import Variant
    from silva.forest import Forest

ROW_MULTIPLE = 128
PARTIAL_BYTES = 2**30
"""Sums of chunks for the rows in flight; more rows are done one part after the other."""

SUM_BLOCKS = 1024
"""Blocks of the last sum that fill the GPU."""

SUM_ENTRIES, SPARSE_SUM_ENTRIES = 32, 128
"""Most entries of its tile (native/explain/sum_slots.cu); more where most have no accumulator and cost nothing."""

FETCHED_BEYOND = 2048
"""Words behind the tape that explain/rows.cu may fetch: a window of 2 KB and 32 lines of 128 bytes."""


class CudaExplainer:
    """SHAP values of a forest on GPUs; what it needs on a GPU is written at the first call there.

    Parameters
    ----------
    forest : Forest
    dtype : {"float32", "float64"}
        Type of the arithmetic and of the results.
    algorithm : {"quadrature", "paths"}
    """

    def __init__(self, forest: Forest, dtype: str = "float32", algorithm: str = "quadrature") -> None:
        self.forest = forest
        self.dtype = np.dtype(dtype)
        self.algorithm = algorithm
        self._jobs: dict[Any, Any] = {}

    def shap_values(self, X: Any, gpus: tuple[int, ...], out: Any = None) -> Any:
        """SHAP values of the rows: (n, F), or (n, F, k) for k > 1 outputs, in the library of `X`."""
        return self._run(self._job("values", None), X, gpus, (self.forest.n_features,), out)

    def shap_interaction_values(
        self, X: Any, gpus: tuple[int, ...], places: NDArray[np.int32] | None = None, out: Any = None
    ) -> Any:
        """SHAP interaction values: (n, m, F) or (n, m, F, k); places[f] is feature f's place among the m, or -1."""
        forest = self.forest
        chosen = np.arange(forest.n_features)
        if places is not None:
            chosen = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        is_all = np.array_equal(chosen, np.arange(forest.n_features))
        job = self._job("pairs" if is_all else tuple(chosen.tolist()), None if is_all else chosen)
        return self._run(job, X, gpus, (len(chosen), forest.n_features), out)

    def _run(self, job: Any, X: Any, gpus: tuple[int, ...], shape: tuple[int, ...], out: Any) -> Any:
        forest = self.forest
        full = (*shape, forest.n_outputs)
        rows = as_rows(X, forest) if array_gpu(X) is None else check_gpu_rows(X, forest, gpus[0])
        target = None if out is None else _check_out(out, rows, (len(rows), *shape), full, self.dtype)
        result = map_rows(rows, gpus, full, self.dtype, job.compute, input_type=forest.threshold.dtype, out=target)
        if out is not None:
            return out
        result = result[..., 0] if forest.n_outputs == 1 else result
        return result if isinstance(result, np.ndarray) else like(X, result)

    def _job(self, key: Any, features: NDArray[np.intp] | None) -> Any:
        if key not in self._jobs:
            kind = PathsJob if self.algorithm == "paths" else _Job
            self._jobs[key] = kind(self.forest, self._codes, self.dtype, key != "values", features)
        return self._jobs[key]

    @functools.cached_property
    def _codes(self) -> CodeTables:
        return CodeTables(self.forest, encode_forest(self.forest))


def _check_out(out: Any, rows: Any, shape: tuple[int, ...], full: tuple[int, ...], dtype: Any) -> Any:
    """Return the caller's array as (n, ..., k), checked."""
    expected = shape if full[-1] == 1 else (len(rows), *full)
    if (array_gpu(out) is None) != (array_gpu(rows) is None):
        raise TypeError("out and X must both be NumPy arrays, or both lie on the GPU")
    if array_gpu(out) != array_gpu(rows):
        raise DeviceError(f"out lies on cuda:{array_gpu(out)}, X on cuda:{array_gpu(rows)}; use an array beside X")
    if tuple(out.shape) != expected or out.dtype != dtype:
        raise ValueError(f"out is {out.dtype} of shape {tuple(out.shape)}, expected {dtype} of shape {expected}")
    target = out if isinstance(out, np.ndarray) else import_cupy().asarray(out)
    return target[..., None] if full[-1] == 1 else target


class _Job:
    """One kind of result of one forest."""

    def __init__(
        self, forest: Forest, codes: CodeTables, dtype: Any, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        self._forest, self._codes, self._dtype, self._pairs = forest, codes, np.dtype(dtype), pairs
        self._chosen = np.arange(forest.n_features) if features is None else np.asarray(features)
        self._tapes = write_tapes(forest, codes.codes, dtype, pairs=pairs, features=features)
        self._n_slots = sum(len(tape.slot_keys) for tape in self._tapes)
        self._kernels = [
            [walk_variant(tape, dtype, codes.code_type, pairs=pairs, shared=shared) for shared in (False, True)]
            for tape in self._tapes
        ]
        self._real = C_TYPES[self._dtype.name]
        self._summing = variant("explain/sum_slots", REAL=self._real)
        self._closing = variant("explain/close_diagonal", REAL=self._real)
        self._small = None if pairs else make_small(self._tapes, self._dtype, codes)
        self._on_gpu: dict[int, OnGpu] = {}

    def compute(self, x: Any, out: Any) -> None:
        """Queue the work for rows `x`, as many at a time as the partial sums leave room for."""
        cupy = import_cupy()
        tables = self._upload(cupy)
        flat = out if out.flags.c_contiguous else cupy.empty_like(out, order="C")
        if self._small is not None:
            self._small.values(x, flat, tables)
        else:
            row_bytes = self._n_slots * self._dtype.itemsize + self._codes.row_bytes
            budget = min(PARTIAL_BYTES, tables.memory // 8)
            step = max(ROW_MULTIPLE, budget // max(row_bytes, 1) // ROW_MULTIPLE * ROW_MULTIPLE)
            for start in range(0, len(x), step):
                self._compute_part(cupy, tables, x[start : start + step], flat[start : start + step])
        if flat is not out:
            out[...] = flat

    def _compute_part(self, cupy: Any, tables: OnGpu, x: Any, flat: Any) -> None:
        n_rows = len(x)
        stride = -(-n_rows // ROW_MULTIPLE) * ROW_MULTIPLE
        encoded = self._codes.encode(x, stride)
        partial = cupy.empty((self._n_slots, stride), self._dtype)
        first_slot = 0
        with side_by_side(len(self._tapes)) as streams:
            for tape, kernels, arrays, stream in zip(self._tapes, self._kernels, tables.tapes, streams, strict=True):
                with stream:
                    self._walk(tape, kernels, (*arrays, encoded), n_rows, stride, partial[first_slot:])
                first_slot += len(tape.slot_keys)
        self._sum(tables, partial, n_rows, stride, flat)
        if self._pairs and flat.size:
            n_lines = flat.size // flat.shape[2]
            counts = tuple(np.int32(n) for n in flat.shape[1:])
            launch(self._closing, (-(-n_lines // 4),), (128,), (flat, np.int64(n_lines), *counts, tables.chosen))

    def _walk(
        self, tape: Tape, kernels: list[Variant], arrays: tuple[Any, ...], n_rows: int, stride: int, partial: Any
    ) -> None:
        n_chunks = len(tape.chunk_starts)
        block, shared = choose_block(tape.most_slots, self._dtype.itemsize, n_rows, n_chunks, self._pairs)
        grid = -(-n_rows // block) * n_chunks
        launch(kernels[shared > 0], (grid,), (block,), (*arrays, np.int32(n_rows), np.uint32(stride), partial), shared)

    def _sum(self, tables: OnGpu, partial: Any, n_rows: int, stride: int, flat: Any) -> None:
        """Add up the chunks; what no chunk holds is 0."""
        n_entries, row_size = len(tables.target), math.prod(flat.shape[1:])
        if n_entries < row_size:
            flat.fill(0)
        if not n_entries:
            return
        n_tiles = -(-n_rows // 32)
        most = SPARSE_SUM_ENTRIES if self._n_slots < n_entries else SUM_ENTRIES
        tile_entries = int(np.clip(n_entries * n_tiles // SUM_BLOCKS, 1, most))
        args = (tables.slot_starts, tables.slots, tables.target, tables.mirror, np.int64(row_size), flat)
        sizes = (np.int64(stride), np.int32(n_rows), np.int32(n_entries), np.int32(tile_entries))
        launch(self._summing, (n_tiles, min(-(-n_entries // tile_entries), 65535)), (32, 8), (partial, *sizes, *args))

    def _upload(self, cupy: Any) -> OnGpu:
        gpu = cupy.cuda.runtime.getDevice()
        if gpu not in self._on_gpu:
            keys = np.concatenate([tape.slot_keys for tape in self._tapes] or [np.zeros(0, np.int64)])
            targets = find_targets(keys, self._forest.n_features, self._forest.n_outputs, self._pairs, self._chosen)
            self._on_gpu[gpu] = OnGpu(cupy, self._tapes, targets, self._chosen)
        return self._on_gpu[gpu]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_gpu": {}}


class OnGpu:
    """Tapes and targets in the memory of one GPU."""

    def __init__(self, cupy: Any, tapes: list[Tape], targets: Targets, chosen: NDArray[np.intp]) -> None:
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


def _padded(cupy: Any, words: NDArray[np.int32]) -> Any:
    """Upload a tape with room behind it that the walk fetches but does not use."""
    result = cupy.zeros(len(words) + FETCHED_BEYOND, np.int32)
    result[: len(words)].set(words)
    return result
