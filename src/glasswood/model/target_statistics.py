"""Tables of target statistics (CatBoost's CTR): features that a model computes from categories before its trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from glasswood.base.typing import Array

if TYPE_CHECKING:
    import numpy as np

BORDERS, BUCKETS, MEAN, COUNTER, FREQUENCY = "Borders", "Buckets", "BinarizedTargetMeanValue", "Counter", "FeatureFreq"
KINDS = (BORDERS, BUCKETS, MEAN, COUNTER, FREQUENCY)


@dataclass(frozen=True)
class Projection:
    """What a row's key in a table is made of, in this order.

    Attributes
    ----------
    categories : tuple of int
        Columns whose categories are combined.
    borders : tuple of (column, border)
        Numbers, of which only counts whether they are greater.
    equals : tuple of (column, hash)
        Categories, of which only counts whether they are this one.
    """

    categories: tuple[int, ...]
    borders: tuple[tuple[int, float], ...] = ()
    equals: tuple[tuple[int, int], ...] = ()

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns, rising."""
        return tuple(sorted({*self.categories, *(column for column, _ in self.borders), *(c for c, _ in self.equals)}))


@dataclass(frozen=True, eq=False)
class StatisticTable:
    """What training has counted for each combination.

    Attributes
    ----------
    projection : Projection
    keys : uint64, (n,)
        Rising.
    counts : (n, width), int64 or float32
        Rows by class of the target; for `MEAN` the sum of targets and the number of rows; for counters one number.
    denominator : int
        Denominator of counters.
    """

    projection: Projection
    keys: NDArray[np.uint64]
    counts: Array
    denominator: int


@dataclass(frozen=True)
class Statistic:
    """A feature: the value of a table's entry, (count of the class + prior) / (count + weight), shifted and scaled.

    Attributes
    ----------
    table : int
    kind : str
        One of `KINDS`.
    target_border : int
        Class of the target at which its classes are divided.
    prior, prior_weight, shift, scale : float
    """

    table: int
    kind: str
    target_border: int
    prior: float
    prior_weight: float
    shift: float
    scale: float


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """How rows of a model's columns become rows of its forest: the columns themselves, then the statistics.

    Attributes
    ----------
    names : tuple of str, or None
        Names of the columns.
    hashes : tuple
        Per column None where it holds numbers; otherwise the hashes of the categories that splits test for equality,
        int64, whose positions the forest routes.
    nan_above : tuple of bool
        Columns in which missing numbers lie above all borders; below them elsewhere.
    tables, statistics : tuple
    """

    names: tuple[str, ...] | None
    hashes: tuple[Array | None, ...]
    nan_above: tuple[bool, ...]
    tables: tuple[StatisticTable, ...]
    statistics: tuple[Statistic, ...]

    @property
    def n_columns(self) -> int:
        """Number of the model's columns."""
        return len(self.hashes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; x0, x1, ... where they have none."""
        return tuple(map(self.name, range(self.n_columns)))

    @property
    def shown_columns(self) -> tuple[str | None, ...]:
        """Column that each feature of the forest shows the value of; None of statistics."""
        return (*self.columns, *[None] * len(self.statistics))

    def name(self, column: int) -> str:
        """Name a column."""
        return self.names[column] if self.names else f"x{column}"

    @property
    def source_columns(self) -> tuple[tuple[str, ...], ...]:
        """Columns that each feature of the forest comes from.

        Of statistics the categories that they combine alone, as in CatBoost's ShapValues: a number or a category of
        which only one test counts is not a source.
        """
        of_statistics = [sorted(set(self.tables[one.table].projection.categories)) for one in self.statistics]
        own = [[column] for column in range(self.n_columns)]
        return tuple(tuple(map(self.name, columns)) for columns in own + of_statistics)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the forest's features."""
        made = [
            f"{one.kind}({', '.join(map(self.name, self.tables[one.table].projection.columns))}) {number}"
            for number, one in enumerate(self.statistics)
        ]
        return (*self.columns, *made)
