"""SHAP values and interactions on NVIDIA GPUs: rows in, results out, by parts that fit."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.codes import encode_forest
from silva.cuda.encoder import CodeTables
from silva.cuda.rows import check_gpu_rows, like, map_rows
from silva.device import DeviceError, array_gpu, import_cupy
from silva.explain.cuda.launches import ROW_MULTIPLE, OnGpu, TapeKernels
from silva.explain.cuda.paths import PathsJob
from silva.explain.cuda.results import find_targets
from silva.explain.cuda.small import make_small
from silva.explain.cuda.tapes import write_tapes
from silva.inputs import as_rows

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import DTypeLike, NDArray

    from silva.ensemble import TreeEnsemble
    from silva.typing import Array, GpuArray, Int32s, Rows

PARTIAL_BYTES = 2**30
"""Sums of chunks for the rows in flight; more rows are done one part after the other."""


class CudaExplainer:
    """SHAP values of a forest on GPUs; what it needs on a GPU is written at the first call there.

    Parameters
    ----------
    forest : TreeEnsemble
    dtype : {"float32", "float64"}
        Type of the arithmetic and of the results.
    algorithm : {"quadrature", "paths"}
    """

    def __init__(self, forest: TreeEnsemble, dtype: str = "float32", algorithm: str = "quadrature") -> None:
        self.forest = forest
        self.dtype = np.dtype(dtype)
        self.algorithm = algorithm
        self._jobs: dict[object, Any] = {}

    def shap_values(self, X: Rows, gpus: tuple[int, ...], out: GpuArray | Array | None = None) -> Any:
        """SHAP values of the rows: (n, F), or (n, F, k) for k > 1 outputs, in the library of `X`."""
        return self._run(self._job("values", None), X, gpus, (self.forest.n_features,), out)

    def shap_interaction_values(
        self,
        X: Rows,
        gpus: tuple[int, ...],
        places: Int32s | None = None,
        out: GpuArray | Array | None = None,
    ) -> Any:
        """SHAP interaction values: (n, m, F) or (n, m, F, k); places[f] is feature f's place among the m, or -1."""
        n_features = self.forest.n_features
        if places is None:
            return self._run(self._job("pairs", None), X, gpus, (n_features, n_features), out)
        chosen = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        return self._run(self._job(tuple(chosen.tolist()), chosen), X, gpus, (len(chosen), n_features), out)

    def _run(
        self, job: Any, X: Rows, gpus: tuple[int, ...], shape: tuple[int, ...], out: GpuArray | Array | None
    ) -> Any:
        forest = self.forest
        full = (*shape, forest.n_outputs)
        rows = as_rows(X, forest) if array_gpu(X) is None else check_gpu_rows(X, forest, gpus[0])
        target = None if out is None else _check_out(out, rows, (len(rows), *shape), full, self.dtype)
        result = map_rows(rows, gpus, full, self.dtype, job.compute, input_type=forest.threshold.dtype, out=target)
        if out is not None:
            return out
        result = result[..., 0] if forest.n_outputs == 1 else result
        return result if isinstance(result, np.ndarray) else like(X, result)

    def _job(self, key: object, features: NDArray[np.intp] | None) -> Any:
        if key not in self._jobs:
            kind = PathsJob if self.algorithm == "paths" else _Job
            self._jobs[key] = kind(self.forest, self._codes, self.dtype, key != "values", features)
        return self._jobs[key]

    @functools.cached_property
    def _codes(self) -> CodeTables:
        return CodeTables(self.forest, encode_forest(self.forest))


def _check_out(
    out: GpuArray | Array, rows: Any, shape: tuple[int, ...], full: tuple[int, ...], dtype: DTypeLike
) -> Any:
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
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        self._forest, self._codes, self._dtype, self._pairs = forest, codes, np.dtype(dtype), pairs
        self._chosen = np.arange(forest.n_features) if features is None else np.asarray(features)
        self._tapes = write_tapes(forest, codes.codes, dtype, pairs=pairs, features=features)
        self._walks = TapeKernels(self._tapes, self._dtype, codes, pairs=pairs)
        self._small = None if pairs else make_small(self._tapes, self._dtype, codes)
        self._on_gpu: dict[int, OnGpu] = {}

    def compute(self, x: GpuArray, out: GpuArray) -> None:
        """Queue the work for rows `x`, as many at a time as the partial sums leave room for."""
        cupy = import_cupy()
        tables = self._upload(cupy)
        flat = out if out.flags.c_contiguous else cupy.empty_like(out, order="C")
        if self._small is not None:
            self._small.values(x, flat, tables)
        else:
            row_bytes = self._walks.n_slots * self._dtype.itemsize + self._codes.row_bytes
            budget = min(PARTIAL_BYTES, tables.memory // 8)
            step = max(ROW_MULTIPLE, budget // max(row_bytes, 1) // ROW_MULTIPLE * ROW_MULTIPLE)
            for start in range(0, len(x), step):
                part = (x, flat) if len(x) <= step else (x[start : start + step], flat[start : start + step])
                self._walks.queue(*part, tables)
        if flat is not out:
            out[...] = flat

    def _upload(self, cupy: ModuleType) -> OnGpu:
        gpu = cupy.cuda.runtime.getDevice()
        if gpu not in self._on_gpu:
            keys = np.concatenate([tape.slot_keys for tape in self._tapes] or [np.zeros(0, np.int64)])
            targets = find_targets(keys, self._forest.n_features, self._forest.n_outputs, self._pairs, self._chosen)
            self._on_gpu[gpu] = OnGpu(cupy, self._tapes, targets, self._chosen)
        return self._on_gpu[gpu]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_on_gpu": {}}
