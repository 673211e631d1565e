"""The columns that a model with target statistics computes its features from: they are what a report is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Array, Rows
from glasswood.inputs import as_rows
from glasswood.inputs.categories import Coded, Numbers, number_floats, with_values
from glasswood.inputs.statistics import StatisticRows, columns_of_statistics
from glasswood.inspection.rows import ChangingRows, numbers_only
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.target_statistics import TargetStatistics

if TYPE_CHECKING:
    from glasswood.inputs.categories import Column


@dataclass(frozen=True, eq=False)
class SourceColumns:
    """Columns in the model's order: categories coded, all others float64 numbers."""

    model: TargetStatistics
    columns: list[Column]
    n_rows: int

    @classmethod
    def of(cls, X: Rows, forest: TreeEnsemble) -> SourceColumns | None:
        """Read the columns of `X`; None where a model's features are its columns.

        Raises
        ------
        ValueError, TypeError
            If X does not fit the model.
        """
        model = forest.transform
        if not isinstance(model, TargetStatistics):
            return None
        columns, n_rows = columns_of_statistics(X, model, forest.columns)
        read: list[Column] = []
        for name, column, tested in zip(model.columns, columns, model.hashes, strict=True):
            where = f"column {name!r} of X"
            read.append(
                Numbers(number_floats(column, np.float64, where)) if tested is None else with_values(column, where)
            )
        return cls(model, read, n_rows)

    def features(self) -> Array:
        """Rows of the forest."""
        return StatisticRows(self.columns, self.n_rows, self.model).whole()

    def codes(self) -> Array:
        """Numbers, and codes of categories: float64, (n, C)."""
        result = np.empty((self.n_rows, len(self.columns)))
        for place, column in enumerate(self.columns):
            result[:, place] = column.codes if isinstance(column, Coded) else column.values
        return result

    def texts(self) -> Array:
        """Numbers, and categories as text: objects, (n, C)."""
        result = np.empty((self.n_rows, len(self.columns)), object)
        for place, (column, table) in enumerate(zip(self.columns, self.tables(), strict=True)):
            result[:, place] = column.values if isinstance(column, Numbers) else table[column.codes]  # type: ignore[index]
        return result

    def tables(self) -> list[Array | None]:
        """Texts of each column's codes; None for numbers."""
        return [
            np.array([*map(str, column.values)], object) if isinstance(column, Coded) else None
            for column in self.columns
        ]

    def taken(self, rows: Array) -> SourceColumns:
        """Pick some rows."""
        columns = [
            Coded(column.codes[rows], column.values, column.is_categorical)
            if isinstance(column, Coded)
            else Numbers(column.values[rows])
            for column in self.columns
        ]
        return SourceColumns(self.model, columns, len(rows))

    def replaced(self, place: int, values: Array) -> SourceColumns:
        """Give a column other numbers or codes."""
        columns, column = list(self.columns), self.columns[place]
        columns[place] = (
            Coded(values.astype(np.int64), column.values, column.is_categorical)
            if isinstance(column, Coded)
            else Numbers(values)
        )
        return SourceColumns(self.model, columns, self.n_rows)


class ChangingColumns(ChangingRows):
    """Rows whose statistics are computed again for each value of a column."""

    source: SourceColumns

    def on_grid(self, features: Sequence[int], grid: Array, output: str) -> Iterator[tuple[slice, slice, Array]]:
        """Predictions with each value of one column."""
        [column] = features
        tiled = self.source.taken(np.repeat(np.arange(len(self)), len(grid)))
        rows = tiled.replaced(column, np.tile(grid[:, 0], len(self))).features()
        found = self._evaluator.predict_rows(as_rows(rows, self.forest), output, None)
        yield slice(None), slice(None), numbers_only(found).reshape(len(self), len(grid), -1)
