"""Rows between rows: what a model is asked beyond the rows that there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.grow.data.columns import as_floats, named_columns, read_columns
from glasswood.inputs.arrays import type_name
from glasswood.inputs.categories import Numbers
from glasswood.inputs.frames import to_frame

CANDIDATES = 8
"""Rows that the nearest one is chosen from."""


class RowsBetween:
    """Rows of a table, and rows on the way from one to another, in the table's own kind of container.

    Parameters
    ----------
    X : array-like, or frame of pandas, polars or pyarrow
    categorical : sequence of int or str, optional
        Columns of numbers that are categories.
    """

    def __init__(self, X: Any, categorical: Sequence[int | str] | None) -> None:
        self._is_frame = to_frame(X) is not None
        if not self._is_frame and not isinstance(X, np.ndarray | list | tuple):
            raise TypeError(f"X is a {type_name(X)}, expected a NumPy array or a frame of pandas, polars or pyarrow")
        self._X = X if self._is_frame else np.asarray(X)
        names, columns = read_columns(self._X)
        named = named_columns(categorical, names) or set()
        self._numbers: dict[int, Doubles] = {}
        self._categories: list[Array] = []
        for i, column in enumerate(columns):
            if isinstance(column, Numbers) and column.values.dtype.kind != "b" and i not in named:
                self._numbers[i] = as_floats(column)
            else:
                self._categories.append(column.values if isinstance(column, Numbers) else column.codes)

    def __len__(self) -> int:
        return len(self._X)

    def pairs(self, rows: Int64s, n: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
        """Choose n pairs among these rows: each row in turn, and the nearest of `CANDIDATES` others.

        The distance is the sum over the columns of the difference in standard deviations, or 1 between different
        categories and where one value is missing.
        """
        first = np.resize(rng.permutation(rows), n)
        others = rows[rng.integers(len(rows), size=(n, CANDIDATES))]
        distance = np.where(others == first[:, None], np.inf, 0.0)
        for values in self._numbers.values():
            known = values[rows][~np.isnan(values[rows])]
            apart = np.abs(values[others] - values[first, None]) / ((known.std() if len(known) else 0.0) or 1.0)
            is_missing = np.isnan(values[others]) ^ np.isnan(values[first, None])
            distance += np.where(np.isnan(apart), is_missing, apart)
        for codes in self._categories:
            distance += codes[others] != codes[first, None]
        return first, np.take_along_axis(others, distance.argmin(axis=1)[:, None], axis=1)[:, 0]

    def rows(self, first: Int64s, second: Int64s, way: Doubles) -> Any:
        """Rows on the way from the first ones (0) to the second ones (1).

        Numbers move in proportion, in columns of whole numbers to whole ones; everything else jumps in the middle.
        """
        nearer = np.where(way < 0.5, first, second)
        moved = {}
        for i, values in self._numbers.items():
            with np.errstate(invalid="ignore"):
                found = values[first] + way * (values[second] - values[first])
            found = np.where(np.isnan(found), values[nearer], found)
            known = values[~np.isnan(values)]
            moved[i] = np.rint(found) if (known == np.rint(known)).all() else found
        return self._replaced(nearer, moved)

    def _replaced(self, places: Int64s, columns: dict[int, Doubles]) -> Any:
        """Take whole rows, and put these columns in place of theirs."""
        rows = taken(self._X, places)
        if hasattr(rows, "iloc"):
            rows = rows.reset_index(drop=True)
        for i, values in columns.items():
            if not self._is_frame:
                rows[:, i] = values
            elif hasattr(rows, "iloc"):
                rows.isetitem(i, sys.modules["pandas"].array(values, rows.dtypes.iloc[i]))
            elif hasattr(rows, "with_columns"):
                series = sys.modules["polars"].Series(rows.columns[i], values, nan_to_null=True)
                rows = rows.with_columns(series.cast(rows.dtypes[i]))
            else:
                field = rows.schema.field(i)
                array = sys.modules["pyarrow"].array(values, from_pandas=True)
                rows = rows.set_column(i, field, array.cast(field.type))
        return rows


def taken(X: Any, places: Int64s) -> Any:
    """Rows of an array or a frame."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X.take(places) if hasattr(X, "num_rows") else X[places]
