"""Rows of a model with target statistics: its columns, and what its tables say of their categories."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.typing import Array, Rows
from glasswood.inputs.arrays import checked_array, to_array
from glasswood.inputs.categories import Numbers, category_hashes, number_floats, object_column
from glasswood.inputs.frames import to_frame
from glasswood.inputs.matching import check_width, column_order
from glasswood.model.target_statistics import BORDERS, BUCKETS, COUNTER, FREQUENCY

if TYPE_CHECKING:
    from glasswood.inputs.categories import Column
    from glasswood.model.target_statistics import Projection, Statistic, StatisticTable, TargetStatistics


class StatisticRows:
    """Rows of a model's columns; the forest's are made of all of them, or chunk by chunk.

    Parameters
    ----------
    columns : sequence of columns
        In the model's order.
    n_rows : int
    model : TargetStatistics

    Raises
    ------
    ValueError, TypeError
        If a category is missing, or neither text nor a whole number.
    """

    def __init__(self, columns: Sequence[Column], n_rows: int, model: TargetStatistics) -> None:
        categories: dict[int, tuple[Array, Array]] = {}
        self._own = np.empty((model.n_columns, n_rows), np.float32)
        with np.errstate(over="ignore"):
            for place, (column, tested) in enumerate(zip(columns, model.hashes, strict=True)):
                where = f"column {model.name(place)!r} of X"
                if tested is None:
                    self._own[place] = number_floats(column, np.float32, where)
                else:
                    codes, hashes = categories[place] = category_hashes(column, where)
                    self._own[place] = _positions(hashes, tested)[codes]
        self._lookup = _lookup_of(model)
        self._n_statistics = len(model.statistics)
        self._keys = _keys_of(self._own, categories, model, self._lookup.parts)
        self._statistics: Any = None

    def __len__(self) -> int:
        return self._own.shape[1]

    def whole(self, n_jobs: int | None = None) -> NDArray[np.float32]:
        """Make all rows of the forest: float32, (n, n_columns + n_statistics)."""
        return self._fill(np.empty((len(self._own) + self._n_statistics, len(self)), np.float32), 0, n_jobs)

    def chunks(self, n_jobs: int | None = None) -> Iterator[NDArray[np.float32]]:
        """Make them some thousand at a time in the same memory."""
        width, step = len(self._own) + self._n_statistics, CHUNK * n_threads(n_jobs)
        memory = np.empty(width * min(step, len(self)), np.float32)
        for first in range(0, max(len(self), 1), step):
            n = min(step, len(self) - first)
            yield self._fill(memory[: width * n].reshape(width, n), first, n_jobs)

    def _fill(self, features: NDArray[np.float32], first: int, n_jobs: int | None) -> NDArray[np.float32]:
        n_own = len(self._own)
        features[:n_own] = self._own[:, first : first + features.shape[1]]
        if self._statistics is None:
            self._statistics = _core.StatisticRows(self._lookup.tables, *self._keys)
        self._statistics.look_up(first, features[n_own:], n_threads(n_jobs))
        return features.T

    def rank_tables(self, plan: _core.NodePlan) -> _core.RankTables | None:
        """Tables of the statistics' ranks among the plan's thresholds; None where bytes do not hold them."""
        return self._lookup.rank_tables(plan)

    def ranked_chunks(
        self, tables: _core.RankTables, n_jobs: int | None = None
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.uint8]]]:
        """Make rows of the columns, (n, n_columns), beside ranks of the statistics, (n_statistics, n), as `chunks`."""
        rows = _core.RankRows(tables, *self._keys)
        step = CHUNK * n_threads(n_jobs)
        memory = np.empty(self._n_statistics * min(step, len(self)), np.uint8)
        for first in range(0, max(len(self), 1), step):
            n = min(step, len(self) - first)
            ranks = memory[: self._n_statistics * n].reshape(self._n_statistics, n)
            rows.look_up(first, ranks, n_threads(n_jobs))
            yield self._own[:, first : first + n].T, ranks


CHUNK = 2048
"""Rows of a thread whose features stay in its cache; to get new pages of memory takes longer than to fill them."""


def statistic_rows(X: Rows, model: TargetStatistics, columns: str) -> StatisticRows:
    """Read the rows of a model with target statistics.

    Categories that splits test for equality become their positions.

    Raises
    ------
    ValueError, TypeError
        If X does not fit the model's columns, or a category is missing, or neither text nor a whole number.
    """
    return StatisticRows(*columns_of_statistics(X, model, columns), model)


def _keys_of(
    own: Array, categories: dict[int, tuple[Array, Array]], model: TargetStatistics, parts_of_keys: list[Part]
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
    """Codes of the rows, (n_parts, n), and the numbers that each part's codes stand for."""
    values: list[Array] = []
    parts = np.empty((len(parts_of_keys), own.shape[1]), np.int32)
    for part, (kind, at, value) in zip(parts, parts_of_keys, strict=True):
        if kind == BORDER:
            x = own[at]
            part[:] = x > np.float32(value)
            if model.nan_above[at]:
                part |= np.isnan(x)
            values.append(NO_OR_YES)
            continue
        part[:], hashes = categories[at]
        values.append(hashes.astype(np.uint32).view(np.int32) if kind == CATEGORY else hashes == value % 2**32)
    return parts, [each.astype(np.int32, copy=False) for each in values]


Part = tuple[int, int, float]
CATEGORY, BORDER, EQUAL = range(3)
NO_OR_YES = np.arange(2, dtype=np.int32)

_LOOKUPS: weakref.WeakKeyDictionary[TargetStatistics, Lookup] = weakref.WeakKeyDictionary()
"""What a model's rows are looked up in, made once."""


class Lookup:
    """Tables laid out for look-ups, as values or as their ranks among a forest's thresholds.

    Parameters
    ----------
    parts : list of (kind, column, value)
        What keys are combined of: a category, whether a number is above a border, whether a category is this one.
    projections : list of list of int
        Parts of each.
    keys : list of (projection, keys)
    values : list of (table, values)
        By statistic.
    first : int
        The forest's feature that is the first statistic.
    """

    parts: list[Part]

    def __init__(
        self,
        parts: list[Part],
        projections: list[list[int]],
        keys: list[tuple[int, NDArray[np.uint64]]],
        values: list[tuple[int, NDArray[np.float32]]],
        first: int,
    ) -> None:
        self.parts, self._first = parts, first
        self._projections, self._keys, self._values = projections, keys, values
        self._ranks: weakref.WeakKeyDictionary[Any, _core.RankTables | None] = weakref.WeakKeyDictionary()

    @cached_property
    def tables(self) -> _core.StatisticTables:
        """The values, laid out."""
        return _core.StatisticTables(self._projections, self._keys, self._values)

    def rank_tables(self, plan: _core.NodePlan) -> _core.RankTables | None:
        """Lay the ranks out, once a plan; None where bytes do not hold them."""
        if plan not in self._ranks:
            ranks = [plan.ranks(self._first + number, values) for number, (_, values) in enumerate(self._values)]
            known = [(table, of_it) for (table, _), of_it in zip(self._values, ranks, strict=True) if of_it is not None]
            complete = len(known) == len(ranks)
            self._ranks[plan] = _core.RankTables(self._projections, self._keys, known) if complete else None
        return self._ranks[plan]


def _lookup_of(model: TargetStatistics) -> Lookup:
    if (found := _LOOKUPS.get(model)) is None:
        found = _LOOKUPS.setdefault(model, _make_lookup(model))
    return found


def _make_lookup(model: TargetStatistics) -> Lookup:
    parts: dict[tuple[int, int, float], int] = {}
    projections: dict[Projection, int] = {}
    order = sorted(range(len(model.tables)), key=lambda table: model.tables[table].projection.columns)
    for table in order:
        projections.setdefault(model.tables[table].projection, len(projections))
    order.sort(key=lambda table: projections[model.tables[table].projection])
    combined = [
        [
            parts.setdefault(part, len(parts))
            for part in (
                *((CATEGORY, column, 0) for column in one.categories),
                *((BORDER, column, border) for column, border in one.borders),
                *((EQUAL, column, value) for column, value in one.equals),
            )
        ]
        for one in projections
    ]
    place = {table: number for number, table in enumerate(order)}
    tables = [(projections[model.tables[table].projection], model.tables[table].keys) for table in order]
    values = [(place[one.table], _values(one, model.tables[one.table])) for one in model.statistics]
    return Lookup(list(parts), combined, tables, values, model.n_columns)


def columns_of_statistics(X: Rows, model: TargetStatistics, columns: str) -> tuple[Sequence[Column], int]:
    """Columns in the model's order, matched as `TreeEnsemble.columns` says, and the number of rows."""
    given: Any = SimpleNamespace(feature_names=model.names, n_features=model.n_columns, source="CatBoost")
    frame = to_frame(X)
    if frame is not None:
        order = None if columns == "position" else column_order(frame.names, given)
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


def _values(one: Statistic, table: StatisticTable) -> NDArray[np.float32]:
    """Values by entry, computed in float32 as CatBoost does; then that of what training lacks, which counts nothing."""
    good, total = _counts(one, table)
    rest = table.denominator if one.kind in {COUNTER, FREQUENCY} else 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        good, total = np.append(good, 0).astype(np.float32), np.append(total, rest).astype(np.float32)
        ratio = (good + np.float32(one.prior)) / (total + np.float32(one.prior_weight))
        values: NDArray[np.float32] = ((ratio + np.float32(one.shift)) * np.float32(one.scale)).astype(np.float32)
    return values


def _counts(one: Statistic, table: StatisticTable) -> tuple[Array, Array]:
    """Count of the class, and of all, for each entry of a table."""
    counts: Any = table.counts
    if one.kind in {COUNTER, FREQUENCY}:
        return counts[:, 0], np.full(len(counts), table.denominator)
    if one.kind == BUCKETS:
        return counts[:, one.target_border], counts.sum(axis=1)
    if one.kind == BORDERS:
        return counts[:, one.target_border + 1 :].sum(axis=1), counts.sum(axis=1)
    return counts[:, 0], counts[:, 1]
