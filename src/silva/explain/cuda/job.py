"""What both algorithms of explanations on GPUs share: rows in batches that fit, and the diagonal of interactions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.launches import NOWHERE, PreparedLaunch
from silva.cuda.uploads import PerGpu
from silva.device import import_cupy

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from silva.cuda.encoder import CodeTables
    from silva.ensemble import TreeEnsemble
    from silva.typing import GpuArray

ROW_MULTIPLE = 128


class Job:
    """One kind of result of one forest.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
    dtype : dtype
        Of arithmetic and results.
    pairs : bool
        Interactions instead of values.
    features : array of int or None
        Interactions of these features only.

    Attributes
    ----------
    chosen : array of int
        Those features, or all.
    """

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        self.forest, self.codes, self.dtype, self.pairs = forest, codes, np.dtype(dtype), pairs
        self.chosen = np.arange(forest.n_features) if features is None else np.asarray(features)
        self._uploads = PerGpu()

    def compute(self, x: GpuArray, out: GpuArray) -> None:
        """Queue the work for CuPy arrays of rows and results, in batches that fit into memory."""
        flat = out if out.flags.c_contiguous else import_cupy().empty_like(out, order="C")
        step = self._batch_rows(len(x), flat.shape[1:])
        for start in range(0, len(x), step):
            batch = (x, flat) if len(x) <= step else (x[start : start + step], flat[start : start + step])
            self._queue(*batch)
        if flat is not out:
            out[...] = flat

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:
        """Rows at a time."""
        raise NotImplementedError

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        """Queue the work for a batch and its results, which are contiguous."""
        raise NotImplementedError


def fitting_rows(n_bytes: int, row_bytes: int) -> int:
    """Rows that so many bytes hold, a multiple that kernels like."""
    return max(ROW_MULTIPLE, n_bytes // max(row_bytes, 1) // ROW_MULTIPLE * ROW_MULTIPLE)


def padded_rows(n_rows: int) -> int:
    """Rows that codes and sums have room for."""
    return -(-n_rows // ROW_MULTIPLE) * ROW_MULTIPLE


def diagonal_launch(dtype: DTypeLike, n_rows: int, row_shape: tuple[int, ...], chosen: Any) -> PreparedLaunch | None:
    """Launch that writes the interactions of features with themselves; the results' address is the first argument."""
    n_lines = n_rows * row_shape[0] * math.prod(row_shape[2:])
    if not n_lines * row_shape[1]:
        return None
    args = (NOWHERE, np.int64(n_lines), *(np.int32(n) for n in row_shape), chosen)
    return PreparedLaunch(variant("explain/cuda/close_diagonal", REAL=dtype), (-(-n_lines // 4), 1), 128, args)
