"""Sparse rows of SciPy and CuPy: dense a chunk at a time where they are, in the columns that a forest uses alone."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from glasswood import _core
from glasswood.base.device import array_gpu, import_cupy
from glasswood.base.typing import Array, Int32s
from glasswood.inputs.matching import check_width
from glasswood.model.ensemble import TreeEnsemble, of_absent

CHUNK_BYTES = 2**26
"""Memory of the dense rows of a chunk. It is the same for all chunks: to get a page from the system takes longer than
to fill it."""


def is_sparse(X: object) -> bool:
    """Whether rows are a sparse matrix or array of SciPy, or of CuPy."""
    sparse = sys.modules.get("scipy.sparse")
    return (sparse is not None and bool(sparse.issparse(X))) or is_on_gpu(X)


def is_on_gpu(X: object) -> bool:
    """Whether these are sparse rows of CuPy."""
    sparse = sys.modules.get("cupyx.scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def joined(parts: list[Any]) -> Any:
    """Put results of chunks below each other, where they are."""
    if len(parts) == 1:
        return parts[0]
    return (np if array_gpu(parts[0]) is None else import_cupy()).concatenate(parts)


def used_columns(forest: TreeEnsemble) -> Int32s:
    """Features that any split or equation of the forest has, rising; the first one if there is none."""
    used = np.union1d(forest.feature[forest.feature >= 0], forest.linear_feature)
    return used.astype(np.int32) if len(used) else np.zeros(min(1, forest.n_features), np.int32)


def in_columns(forest: TreeEnsemble, used: Int32s) -> TreeEnsemble:
    """Return the forest of the columns `used` alone, in their order, for the rows of `dense_chunks`."""
    forest = of_absent(forest)
    place = np.zeros(max(forest.n_features, 1), np.int32)
    place[used] = np.arange(len(used))
    fields = {field.name: getattr(forest, field.name) for field in dataclasses.fields(TreeEnsemble)}
    tables, names = forest.categories, forest.feature_names
    return TreeEnsemble(
        **{
            **fields,
            "transform": None,
            "n_features": len(used),
            "feature": np.where(forest.feature < 0, -1, place[forest.feature]).astype(np.int32),
            "linear_feature": place[forest.linear_feature],
            "zero_missing": forest.zero_missing[used] if len(forest.zero_missing) else forest.zero_missing,
            "categories": None if tables is None else tuple(tables[i] for i in used),
            "open_tables": (),
            "table_places": np.zeros((0, 0), np.bool_),
            "feature_names": None if names is None else tuple(names[i] for i in used),
        }
    )


def made_dense(X: Any, forest: TreeEnsemble) -> Array:
    """Make all columns of sparse rows dense, as `dense_chunks` does.

    Raises
    ------
    NotImplementedError
        If an entry that is not stored is missing for some trees and 0 for others, which dense rows cannot say.
    """
    if len(forest.absent_missing):
        raise NotImplementedError(
            "the model's estimators do not agree on entries that sparse rows do not store: missing for some, 0 for "
            "others; sparse rows are for predict and shap_values, pass dense rows here"
        )
    used = np.arange(forest.n_features, dtype=np.int32)
    result = np.empty(X.shape, X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    for rows, dense in dense_chunks(X, forest, used):
        result[rows] = dense
    return result


def dense_chunks(X: Any, forest: TreeEnsemble, used: Int32s) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows, and these rows in the columns `used` until the next are asked for: CuPy's on their GPU.

    Entries stored twice are added up, as SciPy does. An entry that is not stored is missing for the libraries of
    `ABSENT_IS_MISSING` and 0 for others; where both are among a forest's trees, `in_columns` lets them tell NaN apart.

    Raises
    ------
    ValueError
        If X has another number of columns than the forest has features.
    TypeError
        If X holds no real numbers.
    NotImplementedError
        If X stores NaN, and the trees do not agree on entries that are not stored.
    """
    check_width(X.shape[1], forest)
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X holds {X.dtype}, expected real numbers; convert them to float first")
    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    xp: Any = import_cupy() if is_on_gpu(rows) else np
    if len(forest.absent_missing) and rows.dtype.kind == "f" and bool(xp.isnan(rows.data).any()):
        raise NotImplementedError(
            "X stores NaN, and the model's estimators do not agree on entries that are not stored (missing for some, 0 "
            "for others), which NaN would have to mean; impute X"
        )
    dtype = rows.dtype if rows.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if forest.threshold.dtype == np.float32 and not forest.has_linear_leaves:
        dtype = np.dtype(np.float32)  # in which splits compare: half the memory
    fill = np.nan if forest.absent_of_trees.any() else 0.0
    place = np.full(forest.n_features, -1, np.int32)
    place[used] = np.arange(len(used))
    fill_rows = _spread_on_gpu if xp is not np else _spread
    step = max(1, CHUNK_BYTES // max(len(used) * dtype.itemsize, 1))
    memory = xp.empty((min(step, rows.shape[0]), len(used)), dtype)
    for first in range(0, rows.shape[0], step):
        last = min(first + step, rows.shape[0])
        dense = memory[: last - first]
        dense.fill(fill)
        fill_rows(rows, slice(first, last), place, dense)
        yield slice(first, last), dense


def _spread(rows: Any, chunk: slice, place: Int32s, dense: Array) -> None:
    """Write the entries of some rows into dense ones."""
    starts = rows.indptr[chunk.start : chunk.stop + 1]
    entries = slice(int(starts[0]), int(starts[-1]))
    index = rows.indices.dtype if rows.indices.dtype in (np.int32, np.int64) else np.dtype(np.int64)
    columns = rows.indices[entries].astype(index, copy=False)
    with np.errstate(over="ignore"):
        values = rows.data[entries].astype(dense.dtype, copy=False)
    _core.spread_rows((starts - starts[0]).astype(index), columns, values, place, dense)


def _spread_on_gpu(rows: Any, chunk: slice, place: Int32s, dense: Any) -> None:
    xp: Any = import_cupy()
    starts = rows.indptr[chunk.start : chunk.stop + 1]
    first, last = int(starts[0]), int(starts[-1])
    # CuPy repeats by lists of the host alone.
    row = xp.searchsorted(starts[1:], xp.arange(first, last), side="right")
    column = xp.asarray(place)[rows.indices[first:last]]
    kept = column >= 0
    dense[row[kept], column[kept]] = rows.data[first:last][kept]
