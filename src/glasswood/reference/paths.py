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
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.device import import_cupy
from glasswood.base.escapes import quoted
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, GpuArray, Int32s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.encoder import CodeTables

HEURISTICS = ("none", "nf", "ffd", "bfd")
"""Bin packing (section 3.3): one path a warp, next fit, first fit decreasing, best fit decreasing."""

WARP, BLOCK = 32, 256
"""Lanes of a warp and threads of a block."""

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
        raise ValueError(f"heuristic is {quoted(heuristic)}, expected one of {', '.join(HEURISTICS)}")
    bins = _core.pack_paths(np.ascontiguousarray(lengths, np.int32), HEURISTICS.index(heuristic))
    n_bins = int(bins.max(initial=-1)) + 1
    return Packing(bins, n_bins, float(lengths.sum() / (WARP * n_bins)) if n_bins else 1.0)


class PackedPaths:
    """A forest's paths, and the sums of their values or interactions.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
    dtype : dtype
        Of arithmetic and results.
    pairs : bool
        Interactions instead of values.
    chosen : array of int
        Interactions of these features only.

    Raises
    ------
    ValueError
        If a path tests more than 31 distinct features.
    """

    heuristic = "bfd"

    def __init__(
        self, forest: TreeEnsemble, codes: CodeTables, dtype: DTypeLike, pairs: bool, chosen: NDArray[np.intp]
    ) -> None:
        self._forest, self._codes, self._dtype, self._pairs = forest, codes, dtype, pairs
        self._position = np.full(max(forest.n_features, 1), -1, np.int32)
        self._position[chosen] = np.arange(len(chosen))
        self._uploads = PerGpu()
        # One element a distinct feature, the root element first (sections 3.1 and 3.2).
        self.arrays: dict[str, Array] = _core.extract_paths(forest, codes.codes)
        longest = int(np.diff(self.arrays["offsets"]).max(initial=0))
        if longest > WARP:
            raise ValueError(
                f"a path tests {longest - 1} distinct features, algorithm='paths' supports at most {WARP - 1}; use "
                "algorithm='quadrature'"
            )

    @cached_property
    def packing(self) -> Packing:
        """Paths in warps."""
        return pack_paths(np.diff(self.arrays["offsets"]).astype(np.int32), self.heuristic)

    @cached_property
    def exponent(self) -> int:
        """Sums are multiples of two to this power: no sum of leaves overflows."""
        starts = self.arrays["offsets"][:-1]
        total = float(np.abs(self.arrays["value"][starts]).sum())
        return math.frexp(total)[1] - HEADROOM if total else 0

    def explain(self, encoded: GpuArray, n_rows: int, result: GpuArray) -> None:
        """Queue the sums for encoded rows, (n_columns, stride), but for interactions of features with themselves."""
        row_size, n_bins = math.prod(result.shape[1:]), self.packing.n_bins
        sums = import_cupy().zeros((n_rows, row_size), np.int64)
        if n_bins:
            per_warp = rows_per_warp(n_rows, n_bins)
            grid = -(-n_bins * -(-n_rows // per_warp) // (BLOCK // WARP))
            rows = {"codes": encoded, "stride": encoded.shape[1], "n_rows": n_rows, "rows_per_warp": per_warp}
            sizes = {"n_features": self._forest.n_features, "n_outputs": self._forest.n_outputs, "row_size": row_size}
            kernel = paths_variant(self._dtype, self._codes.codes.code_type, pairs=self._pairs)
            args = {**self._uploads.get(self._upload), "n_bins": n_bins, **rows, **sizes, "sums": sums}
            launch(kernel, (grid,), (BLOCK,), {**args, "scale": 2.0**-self.exponent})
        if sums.size:
            args = {"sums": sums, "n": sums.size, "unit": 2.0**self.exponent, "result": result}
            launch(variant("reference/explain/cuda/read_sums", REAL=self._dtype), (-(-sums.size // 256),), (256,), args)

    def _upload(self) -> dict[str, GpuArray]:
        arrays = arrange(self.arrays, self.packing, self._dtype, self._forest.n_outputs)
        return {name: import_cupy().asarray(array) for name, array in (arrays | {"position": self._position}).items()}


def arrange(paths: dict[str, Array], packing: Packing, dtype: DTypeLike, n_outputs: int) -> dict[str, Array]:
    """Elements in the order of their warps, by the names that reference/explain/cuda/explain_paths.cu gives them."""
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
        "reference/explain/cuda/explain_paths",
        REAL=np.dtype(dtype),
        CODE=np.dtype(code_type),
        ROWS=4 if np.dtype(dtype) == np.float32 else 2,
        PAIRS=int(pairs),
    )
