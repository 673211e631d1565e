"""Code of both algorithms of explanations on GPUs: rows in batches that fit, and the diagonal of interactions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, GpuArray, Int64s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import KeptByRows, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.explain.cuda.results import MOST_COMPLETE
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.encoder import CodeTables

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
    chosen : array of int or None
        Interactions of these players only; None for all.
    n_players : int, optional
        Default: the features.
    """

    forest: TreeEnsemble
    codes: CodeTables
    dtype: np.dtype[Any]
    pairs: bool

    def __init__(
        self,
        forest: TreeEnsemble,
        codes: CodeTables,
        dtype: DTypeLike,
        pairs: bool,
        chosen: NDArray[np.intp] | None,
        n_players: int | None = None,
    ) -> None:
        self.forest, self.codes, self.dtype, self.pairs = forest, codes, np.dtype(dtype), pairs
        self.n_players: int = forest.n_features if n_players is None else n_players
        self.chosen: Int64s = np.arange(self.n_players) if chosen is None else np.asarray(chosen)
        self._uploads = PerGpu()

    @property
    def has_tables(self) -> bool:
        """Whether tables explain any tree."""
        return False

    def prepare(self) -> None:
        """Build on the current GPU what takes long."""

    def compute(self, x: GpuArray, out: GpuArray) -> None:
        """Queue the work for CuPy arrays of rows and results, in batches that fit into memory."""
        flat = out if out.flags.c_contiguous else import_cupy().empty_like(out, order="C")
        step = self._batch_rows(len(x), flat.shape[1:])
        for start in range(0, len(x), step):
            batch = (x, flat) if len(x) <= step else (x[start : start + step], flat[start : start + step])
            self._queue(*batch)
        if flat is not out:
            out[...] = flat

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:  # noqa: ARG002
        """Return all that `compute` does for such rows on the current stream as one plan; None if one is too few."""
        return None

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:
        """Rows at a time."""
        raise NotImplementedError

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        """Queue the work for a batch and its results, which are contiguous."""
        raise NotImplementedError


class PlannedJob(Job):
    """A job whose batches are launches that are laid out once for rows of a type, layout and number."""

    @cached_property
    def _plans(self) -> KeptByRows[Plan | None]:
        return KeptByRows()

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """Return all that `compute` does for such rows on the current stream as one plan; None if one is too few."""
        is_whole = not self.is_sparse(row_shape) and len(x) <= self._batch_rows(len(x), row_shape)
        return self._plan_for(x, row_shape) if is_whole else None

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        if self.is_sparse(result.shape[1:]):
            result.fill(0)
        if (plan := self._plan_for(x, result.shape[1:])) is not None:
            plan.run(x, result)

    def _plan_for(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        # Buffers that are kept serve one stream.
        stream = import_cupy().cuda.get_current_stream().ptr
        return self._plans.of(x, (stream, *row_shape), lambda: self._lay_out(x, row_shape))

    def _lay_out(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """Lay out the launches for a batch of such rows; None if there is nothing to do."""
        raise NotImplementedError

    def is_sparse(self, row_shape: tuple[int, ...]) -> bool:
        """Whether the launches leave out numbers of the results that are 0."""
        return self.pairs and math.prod(row_shape) > MOST_COMPLETE


def fitting_rows(n_bytes: int, row_bytes: int) -> int:
    """Rows that fit into `n_bytes`, a multiple of ROW_MULTIPLE."""
    return max(ROW_MULTIPLE, n_bytes // max(row_bytes, 1) // ROW_MULTIPLE * ROW_MULTIPLE)


def padded_rows(n_rows: int) -> int:
    """Rows that codes and sums have room for."""
    return -(-n_rows // ROW_MULTIPLE) * ROW_MULTIPLE


def diagonal_launch(
    dtype: DTypeLike, n_rows: int, row_shape: tuple[int, ...], chosen: Any, result: Array
) -> PreparedLaunch:
    """Launch that writes the interactions of features with themselves; `result` is the cell of the results' address."""
    n_lines = n_rows * row_shape[0]
    sizes = dict(zip(("n_chosen", "n_features", "n_outputs"), row_shape, strict=True))
    args = {"result": result, "n_lines": n_lines, **sizes, "chosen": chosen}
    return PreparedLaunch(variant("explain/cuda/close_diagonal", REAL=dtype), (-(-n_lines // 4), 1), 128, args)
