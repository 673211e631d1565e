"""Rows to rank codes on a GPU."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.typing import Array, GpuArray, Int32s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu, gpu_limits
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes
    from glasswood.cuda.compiler import Variant

THREADS, LANE_ROWS, CHUNK_ROWS = 512, 4, 128
"""Threads of a block, rows that a lane takes side by side and a warp's (as in common/cuda/encode_rows.cu)."""

SHARED_BYTES = 64 * 1024
"""Thresholds and starts of buckets of a run of columns in shared memory: 32 columns of 255 float32 thresholds; with a
tile of values two blocks fit."""

WIDE, NARROW = 32, 8
"""Columns of a tile: whole lines of memory, or sectors."""

WIDE_VALUES = 2**23
"""Values of all rows from which tiles are wide. Runs of few columns have few thresholds, which every block copies
first; sixteen thousand values or so pay for the copy."""

BLOCKS_PER_MULTIPROCESSOR = 2
"""As many as it has room for: each copies thresholds."""

WARPS = THREADS // 32
"""Columns that a block of wide tiles takes at a time."""

SMALL_TABLE = 128
"""Entries a column, on average, up to which a warp takes two chunks of rows at once: a sixth less instructions. Lookups
in larger tables meet in the banks of shared memory: there one at a time was the faster by a sixth."""

BUCKETS, MOST_STEPS, MOST_BUCKETED = 4, 4, 255
"""Buckets for each threshold; thresholds in a bucket (as in common/cuda/encode.cuh), and of a column, up to which
they take less time than a search tree. Of 255 quantiles of a normal distribution two at most share a bucket."""

LEAST_ENTRIES = 4
"""Room of a column: multiples of 16 bytes."""


class CodeTables:
    """The columns of a forest, uploaded to each GPU that uses them.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : Codes
    code_type : dtype, optional
        Unsigned type of the codes; that of `codes` by default.

    Attributes
    ----------
    codes : Codes
    code_type : dtype
    row_bytes : int
        Bytes of the codes of one row.
    """

    def __init__(self, forest: TreeEnsemble, codes: Codes, code_type: DTypeLike | None = None) -> None:
        self.codes = codes
        self.code_type: np.dtype[Any] = np.dtype(codes.code_type if code_type is None else code_type)
        self.row_bytes: int = codes.n_columns * self.code_type.itemsize
        self._forest = forest
        self._search = _SearchTrees(codes)
        self._uploads = PerGpu()

    def encode(self, x: GpuArray, stride: int) -> GpuArray:
        """Codes of the rows of a CuPy array: (n_columns, stride), 0 beyond the rows; queued on the current stream."""
        result = self.empty(stride)
        encoding = self.prepare(x.dtype, row_strides(x), len(x), stride)
        if encoding is not None:
            Plan([encoding], encoding.cell("X"), encoding.cell("codes")).run(x, result)
        return result

    def empty(self, stride: int) -> GpuArray:
        """Memory for the codes of rows on the current GPU."""
        codes: GpuArray = import_cupy().empty(self.shape(stride), self.code_type)
        return codes

    def shape(self, stride: int) -> tuple[int, int]:
        """Shape of the codes of rows."""
        return max(self.codes.n_columns, 1), stride

    def prepare(
        self,
        input_type: DTypeLike,
        strides: dict[str, int],
        n_rows: int,
        stride: int,
        rows: Array | np.uint64 = NOWHERE,
    ) -> PreparedLaunch | None:
        """Launch that encodes rows, `X`, to `codes`: addresses that are set before it runs.

        None if there are no columns. `rows` is the cell of another launch whose rows they are.
        """
        if not self.codes.n_columns:
            return None
        search, total = self._search, self.codes.n_columns
        n_columns = WIDE if total > WIDE // 2 and stride * total >= WIDE_VALUES else NARROW
        runs, entries = search.divide(n_columns)
        shared = entries * search.entry_bytes
        at_once = 2 if search.thresholds.itemsize == 4 and search.offsets[-1] <= SMALL_TABLE * total else 1
        tile_rows = (at_once if n_columns == WIDE else 4) * CHUNK_ROWS
        tile_bytes = (tile_rows + LANE_ROWS) * n_columns * search.thresholds.itemsize
        if shared + tile_bytes > gpu_limits().shared_per_block:
            shared = entries = 0
        n_blocks = BLOCKS_PER_MULTIPROCESSOR * gpu_limits().n_multiprocessors
        n_tiles = min(-(-stride // tile_rows), n_blocks)
        jobs = self._uploads.get(
            lambda: import_cupy().asarray(divide_rows(runs, n_tiles, n_blocks)), (n_columns, n_tiles)
        )
        sizes = {"n_rows": n_rows, "stride": stride, "jobs": jobs, "shared_entries": entries}
        args = {"X": rows, **strides, **sizes, **self.tables(), "codes": NOWHERE}
        kernel = encode_variant(input_type, self.codes, self.code_type, n_columns, at_once)
        return PreparedLaunch(kernel, (len(jobs), 1), THREADS, args, shared)

    def tables(self) -> dict[str, Any]:
        """Arguments of kernels that encode, on the current GPU: the code tables of encode.cuh."""
        tables: dict[str, Any] = self._uploads.get(self._upload)
        return tables

    def _upload(self) -> dict[str, Any]:
        cupy, codes, forest, search = import_cupy(), self.codes, self._forest, self._search
        arrays = {name: getattr(codes, name) for name in ("feature", "category_set", "missing")}
        arrays |= {name: getattr(search, name) for name in ("height", "offsets", "buckets", "thresholds")}
        arrays |= {name: getattr(forest, name) for name in ("set_offsets", "set_words", "set_others_left")}
        arrays["bucket_starts"] = search.starts
        numbers = {"zero_threshold": forest.zero_threshold, "missing_value": forest.missing}
        zeros = cupy.asarray(forest.zero_missing) if len(forest.zero_missing) else NOWHERE
        return {**{name: cupy.asarray(array) for name, array in arrays.items()}, "zero_missing": zeros, **numbers}


class _SearchTrees:
    """Thresholds of each column as the kernels look them up: by buckets or search trees (common/cuda/encode.cuh).

    Attributes
    ----------
    height : int32, (n_columns,)
    offsets : int64, (n_columns + 1,)
        Column ``c`` owns the entries ``offsets[c]`` to ``offsets[c + 1] - 1``, a power of two.
    thresholds : float32 or float64
    buckets : int32, (n_columns, 4)
        Words of Buckets.
    starts : uint8
        Thresholds below each bucket; the column's entries' number times `BUCKETS` of them.
    entry_bytes : int
        Size of a threshold and its buckets.
    """

    def __init__(self, codes: Codes) -> None:
        counts = np.diff(codes.offsets)
        self.height = np.array([int(n).bit_length() for n in counts], np.int32)
        sizes = np.maximum(np.int64(1) << self.height.astype(np.int64), LEAST_ENTRIES)
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # A bucket is read as a whole, also behind the last column's thresholds.
        self.thresholds = np.full(int(self.offsets[-1]) + MOST_STEPS, np.nan, codes.thresholds.dtype)
        self.starts = np.zeros(BUCKETS * len(self.thresholds), np.uint8)
        self.buckets = np.zeros((codes.n_columns, 4), np.int32)
        for column, height in enumerate(self.height):
            sorted_ = codes.thresholds[codes.offsets[column] : codes.offsets[column + 1]]
            begin, end = self.offsets[column : column + 2]
            starts = self.starts[BUCKETS * begin : BUCKETS * end]
            found = _fill_buckets(starts[: BUCKETS << height], sorted_) if codes.category_set[column] < 0 else None
            if found is None:
                _fill_search_tree(self.thresholds[begin:end], int(height), sorted_)
            else:
                self.buckets[column] = found
                self.thresholds[begin:end][: len(sorted_)] = np.where(sorted_ < np.inf, sorted_, np.nan)
        self.entry_bytes = codes.thresholds.itemsize + BUCKETS

    def divide(self, most_columns: int) -> tuple[list[tuple[int, int]], int]:
        """First and last columns of runs that share a block, and the entries of the largest that fits.

        A column that does not fit is a run by itself.
        """
        capacity = SHARED_BYTES // self.entry_bytes
        sizes, starts, used, largest = np.diff(self.offsets).tolist(), [0], 0, 0
        for column, size in enumerate(sizes):
            if used and (used + size > capacity or column - starts[-1] == most_columns):
                starts.append(column)
                used = 0
            used += size
            if used <= capacity:
                largest = max(largest, used)
        return list(itertools.pairwise([*starts, len(sizes)])), largest


def _fill_buckets(starts: NDArray[np.uint8], thresholds: Array) -> Int32s | None:
    """Write how many thresholds lie below each bucket, return the words of Buckets; None if they spread badly."""
    finite = thresholds[thresholds < np.inf]
    if not 0 < len(finite) <= MOST_BUCKETED:
        return None
    with np.errstate(all="ignore"):
        single = finite.astype(np.float32)
        low = single[0]
        scale = np.float32(1) / (single[-1] - low)
        scale = scale if np.isfinite(scale) else np.float32(0)
        share = np.fmin(np.fmax((single - low) * scale, np.float32(0)), np.float32(1))
    # The kernels round the exact product once; float64 holds it.
    at = np.rint(share.astype(np.float64) * (len(starts) - 1)).astype(np.int64)
    steps = int(np.bincount(at).max())
    if steps > MOST_STEPS:
        return None
    starts[:] = np.searchsorted(at, np.arange(len(starts)))
    return np.array([low, scale, 0, 0], np.float32).view(np.int32) + np.array([0, 0, steps, 0], np.int32)


def _fill_search_tree(tree: Array, height: int, thresholds: Array) -> None:
    """Write sorted thresholds in breadth-first order; those of +inf, which no number reaches, stay NaN."""
    padded = np.full((1 << height) - 1, np.nan, tree.dtype)
    finite = thresholds[thresholds < np.inf]
    padded[: len(finite)] = finite
    for level in range(height):
        tree[1 << level : 2 << level] = padded[(1 << (height - 1 - level)) - 1 :: 1 << (height - level)]


def divide_rows(runs: list[tuple[int, int]], n_tiles: int, n_blocks: int) -> Int32s:
    """Share the tiles of each run among blocks, as many as it has work: (n, 4), Job of encode_rows.cu."""
    work = np.array([-(-(end - begin) // WARPS) for begin, end in runs])
    shares = np.clip(n_blocks * work // work.sum(), 1, n_tiles).tolist()
    jobs = [(*run, first, n) for run, n in zip(runs, shares, strict=True) for first in range(n)]
    return np.array(jobs, np.int32)


def row_strides(x: GpuArray) -> dict[str, int]:
    """Strides of rows and features in elements, as kernels name them."""
    item = x.dtype.itemsize
    return {"row_stride": x.strides[0] // item, "feature_stride": x.strides[1] // item}


def encode_variant(input_type: DTypeLike, codes: Codes, code_type: DTypeLike, n_columns: int, at_once: int) -> Variant:
    """Name the kernel for rows of a type, tiles of `n_columns` columns and `at_once` chunks at once."""
    return variant(
        "common/cuda/encode_rows",
        INPUT=np.dtype(input_type),
        ROW=codes.thresholds.dtype,
        CODE=np.dtype(code_type),
        COLUMNS=n_columns,
        AT_ONCE=at_once,
    )
