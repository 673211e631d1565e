"""The columns of a forest as the kernels look values up in them (native/common/columns.h, encode_columns.cu)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.codes import Codes
    from silva.forest import Forest

SHARED_BYTES = 64 * 1024
"""Thresholds and starts of buckets of a run of columns in shared memory: 32 columns of 255 float32 thresholds, read as
whole lines; with a tile of values two blocks fit."""

BUCKETS, MOST_STEPS, MOST_BUCKETED = 4, 4, 255
"""Buckets for each threshold; thresholds in a bucket (as in native/common/columns.h), and of a column, up to which
they take less time than a search tree. Of 255 quantiles of a normal distribution few share a bucket."""

LEAST_ENTRIES = 4
"""Room of a column: multiples of 16 bytes."""

WARP, SECTOR, TALLEST, CHUNK = 32, 8, 8, 16
"""Columns of a group at most, and of a sector of memory; levels of the columns that groups hold; bytes of a chunk."""

COLUMN = np.dtype(
    {
        "names": ["low", "scale", "steps", "height", "feature", "category_set", "missing", "zero_is_missing", "offset"],
        "formats": [np.float32, np.float32, *[np.int32] * 6, np.int64],
        "itemsize": 48,
    }
)
"""Column in native/common/columns.h."""

GROUP = np.dtype(
    {
        "names": ["first_column", "n_columns", "steps", "n_entries", "first_chunk", "n_chunks"],
        "formats": [np.int32] * 6,
        "itemsize": 32,
    }
)
"""LaneGroup in native/common/encode_columns.cu."""


class SearchTables:
    """Thresholds of each column as the kernels look them up: by buckets or search trees.

    Attributes
    ----------
    columns : COLUMN, (n_columns + 1,)
        Column ``c`` owns the entries ``offset[c]`` to ``offset[c + 1] - 1``, a power of two.
    thresholds : float32 or float64
    starts : uint8
        Thresholds below each bucket; the column's entries' number times `BUCKETS` of them.
    entry_bytes : int
        Of a threshold and its buckets.
    runs : int32
        First columns of the runs that share a block, and the number of columns.
    shared_entries : int
        Entries of the largest run that fits into shared memory.
    """

    def __init__(self, codes: Codes, zero_missing: NDArray[np.bool_]) -> None:
        counts = np.diff(codes.offsets)
        self.columns = np.zeros(codes.n_columns + 1, COLUMN)
        columns = self.columns[:-1]
        columns["height"] = [int(n).bit_length() for n in counts]
        for name in ("feature", "category_set", "missing"):
            columns[name] = getattr(codes, name)
        columns["zero_is_missing"] = zero_missing[codes.feature] if len(zero_missing) else False
        sizes = np.maximum(np.int64(1) << columns["height"].astype(np.int64), LEAST_ENTRIES)
        self.columns["offset"][1:] = np.cumsum(sizes)
        # A bucket is read as a whole, also behind the last column's thresholds.
        self.thresholds = np.full(int(self.columns["offset"][-1]) + MOST_STEPS, np.nan, codes.thresholds.dtype)
        self.starts = np.zeros(BUCKETS * len(self.thresholds), np.uint8)
        for column in range(codes.n_columns):
            self._fill(column, codes.thresholds[codes.offsets[column] : codes.offsets[column + 1]])
        self.entry_bytes = codes.thresholds.itemsize + BUCKETS
        self.runs, self.shared_entries = _divide(sizes, SHARED_BYTES // self.entry_bytes)

    def _fill(self, column: int, sorted_: NDArray[Any]) -> None:
        row = self.columns[column]
        begin, end = self.columns["offset"][column : column + 2]
        starts, thresholds = self.starts[BUCKETS * begin : BUCKETS * end], self.thresholds[begin:end]
        found = _fill_buckets(starts[: BUCKETS << row["height"]], sorted_) if row["category_set"] < 0 else None
        if found is None:
            _fill_search_tree(thresholds, int(row["height"]), sorted_)
        else:
            row["low"], row["scale"], row["steps"] = found
            thresholds[: len(sorted_)] = np.where(sorted_ < np.inf, sorted_, np.nan)

    def lane_groups(self, forest: Forest) -> tuple[NDArray[Any], NDArray[np.uint8], int]:
        """Divide columns into groups for encode_columns.cu: groups, image, bytes of the largest.

        There are none if a column is too tall. The columns are divided evenly, but sectors of memory are not: two
        groups would read them.
        """
        columns, n_columns = self.columns[:-1], len(self.columns) - 1
        if not n_columns or columns["height"].max() > TALLEST:
            return np.zeros(0, GROUP), np.zeros(0, np.uint8), 0
        is_plain = not forest.zero_threshold > 0 and np.isnan(forest.missing)
        groups = np.zeros(-(-n_columns // WARP), GROUP)
        n_sectors = -(-n_columns // SECTOR)
        firsts = np.minimum(np.arange(len(groups) + 1) * n_sectors // len(groups) * SECTOR, n_columns)
        images: list[NDArray[np.uint8]] = []
        for group, (first, end) in zip(groups, itertools.pairwise(firsts), strict=True):
            members, image = columns[first:end], self._image(first, end)
            are_plain = is_plain and (members["steps"] > 0).all() and not members["zero_is_missing"].any()
            steps = members["steps"].max() if are_plain else 0
            n_entries = max(1 << int(members["height"].max()), LEAST_ENTRIES)
            place = sum(len(image) for image in images) // CHUNK
            group["first_column"], group["n_columns"], group["steps"] = first, end - first, steps
            group["n_entries"], group["first_chunk"], group["n_chunks"] = n_entries, place, len(image) // CHUNK
            images.append(image)
        return groups, np.concatenate(images), max(len(image) for image in images)

    def _image(self, first: int, end: int) -> NDArray[np.uint8]:
        """Thresholds [entry][lane], then starts [bucket / 4][lane][4]."""
        offsets = self.columns["offset"][first : end + 1]
        n_entries = int(np.diff(offsets).max())
        thresholds = np.full((n_entries, WARP), np.nan, self.thresholds.dtype)
        starts = np.zeros((n_entries, WARP, BUCKETS), np.uint8)
        for lane, (begin, stop) in enumerate(itertools.pairwise(offsets)):
            thresholds[: stop - begin, lane] = self.thresholds[begin:stop]
            starts[: stop - begin, lane] = self.starts[BUCKETS * begin : BUCKETS * stop].reshape(-1, BUCKETS)
        return np.concatenate([thresholds.view(np.uint8).ravel(), starts.ravel()])


def _fill_buckets(starts: NDArray[np.uint8], thresholds: NDArray[Any]) -> tuple[Any, Any, int] | None:
    """Write how many thresholds lie below each bucket, return low, scale, steps; None if they spread badly."""
    finite = thresholds[thresholds < np.inf]
    if not 0 < len(finite) <= MOST_BUCKETED:
        return None
    with np.errstate(all="ignore"):
        single = finite.astype(np.float32)
        low = single[0]
        scale = np.float32(1) / (single[-1] - low)
        scale = scale if np.isfinite(scale) else np.float32(0)
        share = np.nan_to_num((single - low) * scale, nan=0).clip(0, 1)
    # Exact in float64, so rounded as the kernels' fused operation is.
    at = np.rint(share.astype(np.float64) * (len(starts) - 1)).astype(np.int64)
    steps = int(np.bincount(at).max())
    if steps > MOST_STEPS:
        return None
    starts[:] = np.searchsorted(at, np.arange(len(starts)))
    return low, scale, steps


def _fill_search_tree(tree: NDArray[Any], height: int, thresholds: NDArray[Any]) -> None:
    """Write sorted thresholds in breadth-first order; those of +inf, which no number reaches, stay NaN."""
    padded = np.full((1 << height) - 1, np.nan, tree.dtype)
    finite = thresholds[thresholds < np.inf]
    padded[: len(finite)] = finite
    for level in range(height):
        tree[1 << level : 2 << level] = padded[(1 << (height - 1 - level)) - 1 :: 1 << (height - level)]


def _divide(sizes: NDArray[np.int64], capacity: int) -> tuple[NDArray[np.int32], int]:
    """Divide columns into runs of at most `capacity` entries; a larger column is a run by itself."""
    starts, used, largest = [0], 0, 0
    for column, size in enumerate(sizes.tolist()):
        if used and used + size > capacity:
            starts.append(column)
            used = 0
        used += size
        if used <= capacity:
            largest = max(largest, used)
    return np.array([*starts, len(sizes)], np.int32), largest
