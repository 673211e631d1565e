"""Rows of a model with target statistics: its columns, and what its tables say of their categories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.inputs.arrays import checked_array, to_array
from silva.inputs.categories import Numbers, category_hashes, number_floats, object_column
from silva.inputs.frames import to_frame
from silva.inputs.matching import check_width, column_order
from silva.target_statistics import BORDERS, BUCKETS, COUNTER, FREQUENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from silva.inputs.categories import Column
    from silva.target_statistics import Projection, Statistic, Table, TargetStatistics
    from silva.typing import Array, Rows

MIX = np.uint64(0x4906BA494954CB65)


def rows_of_statistics(X: Rows, model: TargetStatistics, by_position: bool) -> NDArray[np.float32]:
    """Make the forest's rows: float32, (n, n_columns + n_statistics).

    Categories that splits test for equality become their positions.

    Raises
    ------
    ValueError, TypeError
        If X does not fit the model's columns, or a category is missing, or neither text nor a whole number.
    """
    columns, n_rows = _columns(X, model, by_position)
    hashes: dict[int, Array] = {}
    rows = np.empty((n_rows, model.n_columns + len(model.statistics)), np.float32, order="F")
    with np.errstate(over="ignore"):
        for place, (column, tested) in enumerate(zip(columns, model.hashes, strict=True)):
            where = f"column {model.name(place)!r} of X"
            if tested is None:
                rows[:, place] = number_floats(column, np.float32, where)
            else:
                hashes[place] = category_hashes(column, where)
                rows[:, place] = _positions(hashes[place], tested)
    keys: dict[Projection, Array] = {}
    found: dict[int, tuple[Array, Array]] = {}
    for place, one in enumerate(model.statistics):
        table = model.tables[one.table]
        if table.projection not in keys:
            keys[table.projection] = _keys(table.projection, hashes, rows, model)
        if one.table not in found:
            found[one.table] = _look_up(table.keys, keys[table.projection])
        rows[:, model.n_columns + place] = _values(one, table, *found[one.table])
    return rows


def _columns(X: Rows, model: TargetStatistics, by_position: bool) -> tuple[Sequence[Column], int]:
    """Columns in the model's order."""
    given: Any = SimpleNamespace(feature_names=model.names, n_features=model.n_columns, source="CatBoost")
    frame = to_frame(X)
    if frame is not None:
        order = None if by_position else column_order(frame.names, given)
        check_width(len(frame.names), given)
        return [frame.column(i) for i in order or range(len(frame.names))], frame.n_rows
    array = checked_array(to_array(X))
    check_width(array.shape[1], given)
    if array.dtype.kind in "OUSaT":
        return [object_column(column) for column in array.astype(object).T], len(array)
    return [Numbers(column) for column in array.T], len(array)


def _positions(hashes: Array, table: Array) -> Array:
    """Position of each hash in a table, the table's length if it is not there."""
    order = np.argsort(table, kind="stable")
    if not len(order):
        return np.zeros(len(hashes))
    at = np.minimum(np.searchsorted(table[order], hashes), len(order) - 1)
    return np.where(table[order[at]] == hashes, order[at], len(order))


def _keys(projection: Projection, hashes: dict[int, Array], rows: Array, model: TargetStatistics) -> NDArray[np.uint64]:
    """Combine hashes, borders and equalities of each row to one number, as CatBoost does."""
    key = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in projection.categories:
            # CatBoost extends the sign of 32 bits.
            key = _mix(key, hashes[column].astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64))
        for column, border in projection.borders:
            x = rows[:, column]
            key = _mix(key, np.where(np.isnan(x), model.nan_above[column], x > np.float32(border)).astype(np.uint64))
        for column, one in projection.equals:
            key = _mix(key, (hashes[column] == one % 2**32).astype(np.uint64))
    return key


def _mix(key: NDArray[np.uint64], value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return MIX * (key + MIX * value)


def _look_up(known: NDArray[np.uint64], keys: NDArray[np.uint64]) -> tuple[Array, Array]:
    """Place of each key, and whether it is known."""
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return at, known[at] == keys


def _values(one: Statistic, table: Table, at: Array, is_known: Array) -> NDArray[np.float32]:
    """Values of a statistic, computed in float32 as CatBoost does; combinations that training lacks count nothing."""
    good, total = _counts(one, table)
    rest = table.denominator if one.kind in {COUNTER, FREQUENCY} else 0
    good, total = np.append(good, 0).astype(np.float32), np.append(total, rest).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (good + np.float32(one.prior)) / (total + np.float32(one.prior_weight))
        values = (ratio + np.float32(one.shift)) * np.float32(one.scale)
    result: NDArray[np.float32] = values.astype(np.float32)[np.where(is_known, at, len(values) - 1)]
    return result


def _counts(one: Statistic, table: Table) -> tuple[Array, Array]:
    """Count of the class, and of all, for each entry of a table."""
    counts: Any = table.counts
    if one.kind in {COUNTER, FREQUENCY}:
        return counts[:, 0], np.full(len(counts), table.denominator)
    if one.kind == BUCKETS:
        return counts[:, one.target_border], counts.sum(axis=1)
    if one.kind == BORDERS:
        return counts[:, one.target_border + 1 :].sum(axis=1), counts.sum(axis=1)
    return counts[:, 0], counts[:, 1]
