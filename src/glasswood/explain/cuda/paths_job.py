"""The job of algorithm="paths", whose method is in reference/paths.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.typing import GpuArray
from glasswood.explain.cuda.job import Job, diagonal_launch, fitting_rows, padded_rows
from glasswood.model.ensemble import TreeEnsemble
from glasswood.reference.paths import PackedPaths

if TYPE_CHECKING:
    from glasswood.cuda.encoder import CodeTables

SUM_BYTES = 2**29
"""Bytes of the integer sums of the rows in flight."""


class PathsJob(Job):
    """Values or interactions of a forest by its paths: see `Job` for parameters.

    Raises
    ------
    ValueError
        If a path tests more than 31 distinct features.
    """

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        super().__init__(forest, codes, dtype, pairs, features)
        self.paths: PackedPaths = PackedPaths(forest, codes, self.dtype, pairs, self.chosen)

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        return fitting_rows(SUM_BYTES, 8 * math.prod(row_shape))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        self.paths.explain(self.codes.encode(x, padded_rows(len(x))), len(x), result)
        if self.pairs and result.size:
            chosen = self._uploads.get(lambda: import_cupy().asarray(self.chosen.astype(np.int32)))
            closing = diagonal_launch(
                self.dtype, len(x), result.shape[1:], chosen, np.array([result.data.ptr], np.uint64)
            )
            closing(import_cupy().cuda.get_current_stream().ptr)
