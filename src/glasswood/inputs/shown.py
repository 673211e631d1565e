"""Rows as their user gave them: for pictures and tables, where a category is its value and not its code."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Rows
from glasswood.inputs.arrays import checked_array, to_array, to_floats
from glasswood.inputs.categories import Coded, arrays_hold_values, object_column, object_columns
from glasswood.inputs.frames import to_frame
from glasswood.inputs.matching import column_order
from glasswood.inputs.sparse import is_sparse
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.inputs.categories import Column

MISSING = "missing"


def own_values(X: Rows, forest: TreeEnsemble) -> Array:
    """Values of `X` in the order of the forest's features; (n_rows, n_features).

    Parameters
    ----------
    X
        Rows that `as_rows` takes.
    forest : TreeEnsemble

    Returns
    -------
    float32 or float64 array where all values are numbers, else an array of objects
        Texts and categories by value (codes in an array by the forest's tables), numbers as they are. Missing numbers
        are NaN, missing texts `MISSING`: plots of shap sort the texts of a column.
    """
    frame = to_frame(X)
    if frame is None:
        return _of_array(checked_array(to_array(X)), forest)
    order = column_order(frame.names, forest)
    if frame.block is not None:
        return to_floats(frame.block if order is None else frame.block[:, order], np.float64)
    columns = [_values(frame.column(i)) for i in order or range(len(frame.names))]
    return _beside(columns, frame.n_rows)


def unknown_labels(shown: Array, codes: Array, table: Array) -> Array:
    """Mark rows whose category the forest's table lacks: CatBoost's documents hold only those that a split tests.

    Parameters
    ----------
    shown : (n,)
        Values of a feature with categories, as `own_values` has them.
    codes : float32 or float64, (n,)
        The same as `as_rows` has them: NaN or the length of the table for categories that it lacks.
    table : (n_categories,)

    Returns
    -------
    bool, (n,)
    """
    unknown = ~(codes < len(table))
    if shown.dtype != object:
        return unknown & ~np.isnan(shown)
    for row in np.flatnonzero(unknown):
        unknown[row] = not (shown[row] is None or shown[row] == MISSING or shown[row] != shown[row])
    return unknown


def source_values(X: Any, transform: Any, columns: str) -> dict[str, Array]:
    """Values of the columns that a pipeline's steps, or target statistics, make features of; none without these.

    Columns that hold neither numbers nor texts, such as dates, and rows without columns are left out.
    """
    if transform is None:
        return {}
    names = transform.columns
    frame = None if getattr(X, "ndim", 2) != 2 or is_sparse(X) else to_frame(X)
    if frame is None:
        values = np.empty(0) if is_sparse(X) else np.asarray(X, object if isinstance(X, list | tuple) else None)
        if values.ndim != 2 or values.shape[1] != len(names):
            return {}
        return {
            name: _values(object_column(column.astype(object))) for name, column in zip(names, values.T, strict=True)
        }
    found = {}
    by_name = columns != "position" and set(names) <= set(frame.names)
    for place, name in enumerate(names):
        if by_name or len(frame.names) == len(names):
            with contextlib.suppress(TypeError):
                found[name] = _values(frame.column(frame.names.index(name) if by_name else place))
    return found


def with_source_values(data: Array, columns: Sequence[str | None], found: Mapping[str, Array]) -> Array:
    """Put the values of a column in place of those of each feature that shows it."""
    shown = [name if name in found else None for name in columns]
    if not any(name is not None for name in shown):
        return data
    return _beside([data[:, i] if name is None else found[name] for i, name in enumerate(shown)], len(data))


def _beside(columns: list[Array], n_rows: int) -> Array:
    kind: Any = object if any(column.dtype == object for column in columns) else np.float64
    result = np.empty((n_rows, len(columns)), kind)
    for feature, column in enumerate(columns):
        result[:, feature] = column
    return result


def _values(column: Column) -> Array:
    if isinstance(column, Coded):
        return _looked_up(column.codes, column.values)
    values = column.values
    if values.dtype == object:
        present = [np.nan if value is None else value for value in values]
        return np.array(present, None if all(isinstance(value, Real) for value in present) else object)
    floats = values.astype(np.float64)
    return floats if column.absent is None else np.where(column.absent, np.nan, floats)


def _looked_up(codes: Array, values: list[Any]) -> Array:
    table = np.empty(len(values) + 1, object)
    table[:-1], table[-1] = values, MISSING if any(isinstance(value, str) for value in values) else np.nan
    return table[codes]


def _of_array(array: Array, forest: TreeEnsemble) -> Array:
    if array.dtype.kind in "OUSaT":
        return _beside([_values(column) for column in object_columns(array, forest)], len(array))
    if forest.categories is None or arrays_hold_values(forest):
        return to_floats(array, np.float64)
    columns = []
    for values, table in zip(array.T, forest.categories, strict=True):
        if table is None:
            columns.append(values.astype(np.float64))
            continue
        known = (values > -1) & (values < len(table))
        codes = np.where(known, np.nan_to_num(values, nan=-1, posinf=-1, neginf=-1), -1).astype(np.int64)
        columns.append(_looked_up(np.maximum(codes, -1), table.tolist()))
    return _beside(columns, len(array))
