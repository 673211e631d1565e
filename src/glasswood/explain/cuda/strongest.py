"""The strongest interactions of rows on GPUs: their matrices stay there, a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.device import import_cupy, on_host
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.explain.strongest import beside

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from glasswood.base.typing import Array, Doubles, GpuArray, Int32s, Int64s
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.cuda.explainer import CudaExplainer
    from glasswood.inputs.placed import PlacedRows

MATRIX_BYTES = 2**28
"""Bytes of the matrices of a batch."""

WARPS, THREADS = 4, 128
"""Of a block, as in native/explain/cuda/select_pairs.cu, add_magnitudes.cu and take_entries.cu."""

MOST_PARTS, PART_SUMS = 64, 2**19
"""Most parts of a batch whose magnitudes are added up side by side, and most sums of all parts together."""

MOST_LISTED = 256
"""Pairs whose lists shared memory holds; 12 KB of float32, 16 KB of float64."""

PLACES: dict[np.dtype[Any], Any] = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}


class CudaPairs:
    """Searches matrices on GPUs; results of rows on a GPU stay there.

    Parameters
    ----------
    explainer : CudaExplainer
    places : int32, (P,), optional
        As for `CudaExplainer.interactions`.
    row_size : int
        Numbers of a row's matrix for one output.
    """

    def __init__(self, explainer: CudaExplainer, places: Int32s | None, row_size: int) -> None:
        self._explainer, self._places, self._row_size = explainer, places, row_size
        self._k, self._dtype = explainer.n_outputs, np.dtype(explainer.settings.dtype)

    def strongest(self, rows: PlacedRows, pairs: Int32s, entries: Int64s, top: int) -> tuple[Any, Any]:
        """Find the strongest of each row, falling: pairs, (n, top, 2, k), and entries, (n, top, k)."""

        def select(matrices: GpuArray, result: GpuArray) -> None:
            n_items = len(matrices) * self._k
            args = self._arguments(matrices, entries) | {"n_items": n_items, "top": top, "result": result}
            args["pairs"] = self._uploaded("pairs", pairs)
            kernel = select_variant(self._dtype)
            launch(kernel, (-(-n_items // WARPS), 1), (32 * WARPS, 1), args, WARPS * top * 2 * self._dtype.itemsize)

        found = self._explainer.reduced(rows, self._places, (3, top, self._k), select, MATRIX_BYTES)
        features = found.view(PLACES[self._dtype])[:, :2].astype(np.int32).transpose(0, 2, 1, 3).copy()
        return self.like(rows, features), self.like(rows, found[:, 2].copy())

    def magnitudes(self, rows: PlacedRows, entries: Int64s, taken: Int64s) -> tuple[Doubles, Any]:
        """Add up the magnitudes of entries over rows and outputs, (E,); take some entries of each row, (n, t, k)."""
        sums = PerGpu()
        made: dict[int, Any] = {}
        n_parts = max(1, min(MOST_PARTS, PART_SUMS // len(entries)))

        def zeros() -> Any:
            cupy = import_cupy()
            made[cupy.cuda.runtime.getDevice()] = found = cupy.zeros((n_parts, len(entries)), np.float64)
            return found

        def add(matrices: GpuArray, result: GpuArray) -> None:
            n_rows = len(matrices)
            args = self._arguments(matrices, entries) | {"n_rows": n_rows}
            grid = -(-len(entries) // THREADS), n_parts
            launch(add_variant(self._dtype), grid, (THREADS, 1), args | {"sums": sums.get(zeros)})
            if len(taken):
                args["entries"], args["n_entries"] = import_cupy().asarray(taken), len(taken)
                grid = -(-n_rows * len(taken) * self._k // THREADS), 1
                launch(take_variant(self._dtype), grid, (THREADS, 1), args | {"result": result})

        found = self._explainer.reduced(rows, self._places, (len(taken), self._k), add, MATRIX_BYTES)
        total = np.zeros(len(entries))
        for gpu in sorted(made):
            with import_cupy().cuda.Device(gpu):
                total += on_host(made[gpu].sum(axis=0))
        return total, found

    def like(self, rows: PlacedRows, result: Any) -> Any:
        """Return a result beside the rows."""
        return beside(rows, result)

    def _arguments(self, matrices: GpuArray, entries: Int64s) -> dict[str, Any]:
        """Arguments that the kernels share."""
        return {
            "matrices": matrices,
            "row_size": self._row_size * self._k,
            "n_outputs": self._k,
            "entries": self._uploaded("entries", entries),
            "n_entries": len(entries),
        }

    def _uploaded(self, what: str, array: Array) -> Any:
        """Copy what the chosen features decide to the current GPU, once."""
        key = what, len(array), None if self._places is None else self._places.tobytes()
        return self._explainer.uploads.get(lambda: import_cupy().asarray(array), key)


def select_variant(dtype: DTypeLike) -> Variant:
    """Kernel that finds the strongest entries of each row."""
    place = "int" if np.dtype(dtype) == np.float32 else "long long"
    return variant("explain/cuda/select_pairs", REAL=np.dtype(dtype), PLACE=place)


def add_variant(dtype: DTypeLike) -> Variant:
    """Kernel that adds the magnitudes of entries."""
    return variant("explain/cuda/add_magnitudes", REAL=np.dtype(dtype))


def take_variant(dtype: DTypeLike) -> Variant:
    """Kernel that copies entries."""
    return variant("explain/cuda/take_entries", REAL=np.dtype(dtype))
