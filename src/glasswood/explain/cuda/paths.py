"""GPUTreeShap's own method: single paths, packed into warps.

R. Mitchell, E. Frank, G. Holmes, "GPUTreeShap: massively parallel exact calculation of SHAP scores for tree ensembles",
PeerJ Computer Science 8:e880 (2022), https://doi.org/10.7717/peerj-cs.880, section 3. It shares no arithmetic with the
quadrature and checks it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glasswood import _core
from glasswood.base.device import import_cupy
from glasswood.base.parallel import cached_property
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch
from glasswood.explain.cuda.job import Job, diagonal_launch, fitting_rows, padded_rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from glasswood.base.typing import Array, GpuArray, Int32s
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.encoder import CodeTables
    from glasswood.model.ensemble import TreeEnsemble

HEURISTICS = ("none", "nf", "ffd", "bfd")
"""Bin packing (section 3.3): one path a warp, next fit, first fit decreasing, best fit decreasing."""

WARP, BLOCK = 32, 256
SUM_BYTES = 2**29
"""Integer sums of the rows in flight."""

HEADROOM = 61
"""Bits of the sum of all leaves' magnitudes."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Paths in warps.

    Attributes
    ----------
    bins : int32, (n_paths,)
        Warp of each path.
    n_bins : int
    utilisation : float
        Part of the lanes that hold a path element.
    """

    bins: Int32s
    n_bins: int
    utilisation: float


def pack_paths(lengths: Int32s, heuristic: str = "bfd") -> Packing:
    """Pack paths of up to 32 elements into warps.

    Parameters
    ----------
    lengths : int32, (n_paths,)
    heuristic : {"none", "nf", "ffd", "bfd"}

    Raises
    ------
    ValueError
        If a length is not between 1 and 32, or the heuristic unknown.
    """
    if heuristic not in HEURISTICS:
        raise ValueError(f"heuristic is {heuristic!r}, expected one of {', '.join(HEURISTICS)}")
    bins = _core.pack_paths(np.ascontiguousarray(lengths, np.int32), HEURISTICS.index(heuristic))
    n_bins = int(bins.max(initial=-1)) + 1
    return Packing(bins, n_bins, float(lengths.sum() / (WARP * n_bins)) if n_bins else 1.0)


class PathsJob(Job):
    """Values or interactions of a forest by its paths.

    Raises
    ------
    ValueError
        If a path tests more than 31 distinct features.
    """

    heuristic = "bfd"

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, features: NDArray[np.intp] | None
    ) -> None:
        super().__init__(forest, codes, dtype, pairs, features)
        self._position = np.full(max(forest.n_features, 1), -1, np.int32)
        self._position[self.chosen] = np.arange(len(self.chosen))
        # One element a distinct feature, the root element first (sections 3.1 and 3.2).
        self._paths: dict[str, Array] = _core.extract_paths(forest, codes.codes)
        longest = int(np.diff(self._paths["offsets"]).max(initial=0))
        if longest > WARP:
            raise ValueError(
                f"a path tests {longest - 1} distinct features, algorithm='paths' supports at most {WARP - 1}; use "
                "algorithm='quadrature'"
            )

    @cached_property
    def packing(self) -> Packing:
        """Paths in warps."""
        return pack_paths(np.diff(self._paths["offsets"]).astype(np.int32), self.heuristic)

    @cached_property
    def exponent(self) -> int:
        """Sums are multiples of two to this power: no sum of leaves overflows."""
        starts = self._paths["offsets"][:-1]
        total = float(np.abs(self._paths["value"][starts]).sum())
        return math.frexp(total)[1] - HEADROOM if total else 0

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        return fitting_rows(SUM_BYTES, 8 * math.prod(row_shape))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        n_rows, row_size, forest = len(x), math.prod(result.shape[1:]), self.forest
        stride = padded_rows(n_rows)
        encoded = self.codes.encode(x, stride)
        sums = import_cupy().zeros((n_rows, row_size), np.int64)
        arrays, chosen = self._uploads.get(self._upload)
        n_bins = self.packing.n_bins
        if n_bins:
            per_warp = rows_per_warp(n_rows, n_bins)
            grid = -(-n_bins * -(-n_rows // per_warp) // (BLOCK // WARP))
            rows = {"codes": encoded, "stride": stride, "n_rows": n_rows, "rows_per_warp": per_warp, "sums": sums}
            sizes = {"n_features": forest.n_features, "n_outputs": forest.n_outputs, "row_size": row_size}
            kernel = paths_variant(self.dtype, self.codes.codes.code_type, pairs=self.pairs)
            args = {**arrays, "n_bins": n_bins, **rows, **sizes, "scale": 2.0**-self.exponent}
            launch(kernel, (grid,), (BLOCK,), args)
        if sums.size:
            args = {"sums": sums, "n": sums.size, "unit": 2.0**self.exponent, "result": result}
            launch(variant("explain/cuda/paths/read_sums", REAL=self.dtype), (-(-sums.size // 256),), (256,), args)
        if self.pairs and result.size:
            address = np.array([result.data.ptr], np.uint64)
            closing = diagonal_launch(self.dtype, n_rows, result.shape[1:], chosen, address)
            closing(import_cupy().cuda.get_current_stream().ptr)

    def _upload(self) -> tuple[dict[str, GpuArray], GpuArray]:
        whole = import_cupy().asarray
        arrays = {**arrange(self._paths, self.packing, self.dtype, self.forest.n_outputs), "position": self._position}
        return {name: whole(array) for name, array in arrays.items()}, whole(self.chosen.astype(np.int32))


def arrange(paths: dict[str, Array], packing: Packing, dtype: DTypeLike, n_outputs: int) -> dict[str, Array]:
    """Elements in the order of their warps, by the names that explain/cuda/paths/explain_paths.cu gives them."""
    offsets = paths["offsets"]
    lengths = np.diff(offsets)
    order = np.argsort(packing.bins, kind="stable")
    moved = lengths[order]
    starts = np.concatenate([[0], np.cumsum(moved)])
    place = np.arange(starts[-1]) - np.repeat(starts[:-1], moved)
    element = np.repeat(offsets[:-1][order], moved) + place
    per_bin = np.bincount(packing.bins, weights=lengths, minlength=packing.n_bins).astype(np.int64)
    bin_starts = np.concatenate([[0], np.cumsum(per_bin)]).astype(np.int64)
    feature = paths["feature"][element]
    entry = np.where(feature < 0, -1, feature * n_outputs + paths["output"][element]).astype(np.int32)
    packed = (place | np.repeat(moved, moved) << 8).astype(np.int32)
    extra = paths["extra"] if len(paths["extra"]) else np.zeros(3, np.int32)
    return {
        "zs": paths["z"][element].astype(dtype),
        "values": paths["value"][element].astype(dtype),
        "tests": paths["test"].reshape(-1, 3)[element],
        "entries": entry,
        "places": packed,
        "extra_begin": paths["extra_begin"][element],
        "extra_count": paths["extra_count"][element],
        "extra": extra,
        "bin_starts": bin_starts,
    }


def rows_per_warp(n_rows: int, n_bins: int) -> int:
    """Rows that a warp takes: many share the loading of its elements, few leave enough warps for the GPU."""
    wanted = n_rows * n_bins // 2**17
    return int(np.clip(-(-wanted // 8) * 8, 8, 512))


def paths_variant(dtype: DTypeLike, code_type: DTypeLike, *, pairs: bool) -> Variant:
    """Name the kernel of the warps."""
    return variant(
        "explain/cuda/paths/explain_paths",
        REAL=np.dtype(dtype),
        CODE=np.dtype(code_type),
        ROWS=4 if np.dtype(dtype) == np.float32 else 2,
        PAIRS=int(pairs),
    )
