"""From what users pass to the columns that the engine reads, and back at prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Bools, Doubles, Int32s, Int64s
from glasswood.grow.data.repeats import MOST_ORDERED, in_order, without_scale
from glasswood.grow.data.rows import columns_with, gathered
from glasswood.grow.data.sorting import KnownRanks, Sorter
from glasswood.inputs.arrays import objects_to_floats
from glasswood.inputs.categories import Coded, Numbers, array_to_rows, columns_to_rows, object_column
from glasswood.inputs.frames import to_frame
from glasswood.inputs.matching import check_width, listed, refuse_repeated
from glasswood.model.ensemble import LOGARITHM, TreeEnsemble

if TYPE_CHECKING:
    from glasswood.inputs.frames import Frame

MEAN_BITS = 40
"""Bits in which mean targets of categories are told apart."""

LEAST_NUMBERS, NUMBERS_A_TEXT = 20, 10
"""Different numbers of a column, and those for each of its texts, from which on the texts are mistakes."""


@dataclass(frozen=True, eq=False)
class Derived:
    """A column that follows from a feature.

    Attributes
    ----------
    source : int
        The feature.
    category : int
        The category that the column is 1 for, MISSING for 1 where the feature is missing, LOGARITHM for the feature's
        logarithm, NUMBER for codes.
    codes : float64, (n_categories + 1,), or None
        Value of each category and, last, of rows without any.
    """

    source: int
    category: int
    codes: Doubles | None = None

    @property
    def is_testable(self) -> bool:
        """Whether splits may test it: where no set of the feature's own tests does the same."""
        return self.category >= 0


@dataclass(frozen=True, eq=False)
class TrainingColumns:
    """Training columns.

    Attributes
    ----------
    X : float64, (n_rows, n_features)
        Numbers as they are; a categorical column holds its rows' places in the order of mean targets. NaN is missing.
    categories : tuple
        Per feature None or the category values.
    order : tuple
        Per feature None or, per category, its place in the order of mean targets.
    derived : tuple of Derived
        What the columns of X behind the features are (`glasswood.grow.data.derived`).
    signs : int, (n_features,), or None
        1 where predictions must rise with a feature, -1 where they must fall.
    term_signs : int, (n_features,), or None
        1 or -1 where coefficients of a feature must have this sign, those of `signs` included.
    tests_constrained : bool
        Whether splits may test such features.
    groups : tuple of tuples of int
        Features of which a tree may use those of one group; if there is one group only, these. None: all features.
    ranks : KnownRanks, optional
        Those of numbers, if several searches see these rows.
    """

    X: Doubles
    categories: tuple[Array | None, ...]
    order: tuple[Int64s | None, ...]
    derived: tuple[Derived, ...] = ()
    signs: Int64s | None = None
    term_signs: Int64s | None = None
    tests_constrained: bool = True
    groups: tuple[tuple[int, ...], ...] = ()
    ranks: KnownRanks | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether predictions must rise or fall with any feature."""
        return self.signs is not None

    @property
    def column_signs(self) -> Int64s:
        """Direction of predictions by column: 0 for any."""
        signs = np.zeros(self.X.shape[1], np.int64)
        if self.signs is not None:
            signs[: self.n_features] = self.signs
        return signs

    @property
    def coefficient_signs(self) -> Int64s:
        """Sign of each column's coefficients: 0 for any; logarithms have that of their feature."""
        if self.term_signs is None:
            return np.zeros(self.X.shape[1], np.int64)
        of_derived = [self.term_signs[column.source] * (column.category == LOGARITHM) for column in self.derived]
        return np.append(self.term_signs, of_derived).astype(np.int64)

    @property
    def n_features(self) -> int:
        """Number of features, derived columns left out."""
        return len(self.categories)

    def taken(self, rows: Int32s) -> TrainingColumns:
        """Take these rows of all columns."""
        return replace(self, X=gathered(self.X, rows), ranks=self.ranks and self.ranks.taken(rows))

    def ranked(self, n_threads: int, sorter: Sorter | None = None) -> TrainingColumns:
        """Rank the numbers, for several searches; categories have other places in each."""
        is_number = np.array([table is None for table in self.categories], bool)
        return replace(self, ranks=KnownRanks.of(self.X, is_number, n_threads, sorter or Sorter()))

    def as_rows(self) -> Doubles:
        """Rows as a forest routes them: categories by their positions in the tables; there are no derived columns."""
        rows = self.X.copy()
        for feature, codes in self._codes().items():
            rows[:, feature] = np.where(codes < 0, np.nan, codes)
        return rows

    def ordered_by(self, y: Doubles, weight: Doubles) -> TrainingColumns:
        """Put the categories into the order of the means of another target; there are no derived columns yet."""
        codes = self._codes()
        orders = [
            None if order is None else _order_by_target(codes[feature], len(order), y, weight)
            for feature, order in enumerate(self.order)
        ]
        return self.ordered_like(tuple(orders))

    def ordered_like(self, orders: tuple[Int64s | None, ...]) -> TrainingColumns:
        """Put the categories into these orders; there are no derived columns yet."""
        X, codes = self.X.copy(), self._codes()
        for feature, order in enumerate(orders):
            if order is not None:
                present = codes[feature] >= 0
                X[present, feature] = order[codes[feature][present]]
        return replace(self, X=X, order=orders)

    def _codes(self) -> dict[int, Int64s]:
        """Category of each row by categorical feature, -1 where missing."""
        codes = {}
        for feature, order in enumerate(self.order):
            if order is None:
                continue
            places = self.X[:, feature]
            present = ~np.isnan(places)
            codes[feature] = np.full(len(places), -1, np.int64)
            codes[feature][present] = np.argsort(order)[places[present].astype(np.intp)]
        return codes

    @property
    def is_categorical(self) -> Bools:
        """Which columns of X are categorical features."""
        return np.array([*(table is not None for table in self.categories), *(False for _ in self.derived)], bool)

    @property
    def sources(self) -> Int64s:
        """Which feature each column of X is of: columns of one feature make one term."""
        return np.array([*range(self.n_features), *(column.source for column in self.derived)], np.int64)

    @property
    def is_testable(self) -> Bools:
        """Which columns of X splits may test."""
        testable = np.array([*(True for _ in self.categories), *(column.is_testable for column in self.derived)], bool)
        testable &= self.is_usable
        return testable if self.tests_constrained else testable & (self.column_signs == 0)

    @property
    def is_usable(self) -> Bools:
        """Which columns of X a tree may use at all."""
        if len(self.groups) != 1:
            return np.ones(self.X.shape[1], bool)
        return np.isin(self.sources, self.groups[0])


def has_categories(X: object, categorical_features: Sequence[int | str] | None) -> bool:
    """Whether any column holds categories, or Python objects, which are read one by one too."""
    frame = to_frame(X)
    if frame is not None:
        refuse_repeated(frame.names)
    if categorical_features is not None and len(categorical_features):
        return True
    columns = [] if frame is None else _columns(frame)
    is_named = categorical_features is not None
    return any(column.values.dtype.kind == "O" if isinstance(column, Numbers) else not is_named for column in columns)


def numeric_columns(X: Doubles) -> TrainingColumns:
    """Columns of numbers alone."""
    return TrainingColumns(X, (None,) * X.shape[1], (None,) * X.shape[1])


def categorical_columns(
    X: object, y: Doubles, weight: Doubles, categorical_features: Sequence[int | str] | None
) -> TrainingColumns:
    """Columns some of which are categories: those named, or those that a frame holds as text or categories.

    Raises
    ------
    ValueError
        If X has no rows, a named column does not exist, or a column of text is not named.
    """
    names, columns = read_columns(X)
    named = named_columns(categorical_features, names)
    read = [
        _read(column, name, i in named if named is not None else None, y, weight)
        for i, (column, name) in enumerate(zip(columns, names, strict=True))
    ]
    values = np.column_stack([values for values, _, _ in read])
    return TrainingColumns(values, tuple(table for _, table, _ in read), tuple(order for _, _, order in read))


def read_columns(X: object) -> tuple[Sequence[str | int], list[Coded | Numbers]]:
    """Names, or positions, and columns of a frame or an array."""
    frame = to_frame(X)
    if frame is not None:
        return frame.names, _columns(frame)
    columns = _array_columns(_values(X))
    return range(len(columns)), columns


def _columns(frame: Frame) -> list[Coded | Numbers]:
    return [frame.column(i) for i in range(len(frame.names))]


def _values(X: object) -> Array:
    """Rows of a list stay what they are: NumPy would turn the numbers beside a text into text."""
    values = np.asarray(X, object if isinstance(X, list | tuple) else None)
    if values.ndim != 2:
        raise ValueError(f"X is {values.ndim}-dimensional, expected rows and columns")
    return values


def _array_columns(values: Array) -> list[Coded | Numbers]:
    if values.dtype.kind in "OUS":
        return [object_column(column) for column in values.astype(object).T]
    return [Numbers(column) for column in values.T]


def named_columns(categorical_features: Sequence[int | str] | None, names: Sequence[str | int]) -> set[int] | None:
    """Positions of the named columns."""
    if categorical_features is None:
        return None
    known, positions = [name for name in names if isinstance(name, str)], set()
    for feature in categorical_features:
        if not (feature in known if isinstance(feature, str) else 0 <= feature < len(names)):
            raise ValueError(
                f"categorical_features names {quoted(feature)}, expected columns of X: "
                f"{listed(known) if isinstance(feature, str) else f'0 to {len(names) - 1}'}"
            )
        positions.add(known.index(feature) if isinstance(feature, str) else int(feature))
    return positions


def _read(
    column: Coded | Numbers, name: object, categorical: bool | None, y: Array, weight: Doubles
) -> tuple[Doubles, Array | None, Int64s | None]:
    """Read a column's values, categories and their order; `categorical` None asks the column itself."""
    if isinstance(column, Numbers) and not categorical:
        return as_floats(column, f"column {name!r} of X"), None, None
    if categorical is False:
        raise ValueError(
            f"column {quoted(name)} of X holds text; name it in categorical_features or convert it to numbers"
        )
    if categorical is None and isinstance(column, Coded) and not column.is_categorical:
        _refuse_few_texts(column, name)
    codes, table = _codes(column)
    order = _order_by_target(codes, len(table), y, weight)
    return np.where(codes < 0, np.nan, order[codes] if len(order) else np.nan), table, order


def _refuse_few_texts(column: Coded, name: object) -> None:
    """Raise ValueError for numbers that a few texts, such as 'n/a', would make categories."""
    is_text = np.array([isinstance(value, str) and not is_text_of_number(value) for value in column.values], bool)
    n_texts, n_numbers = int(is_text.sum()), int((~is_text).sum())
    if not n_texts or n_numbers < max(LEAST_NUMBERS, NUMBERS_A_TEXT * n_texts):
        return
    codes = np.asarray(column.codes)
    rows = np.flatnonzero(is_text[codes] & np.greater_equal(codes, 0))
    raise ValueError(
        f"column {quoted(name)} of X holds {n_numbers:,} different numbers and text, such as "
        f"{quoted(column.values[column.codes[rows[0]]])} in row {rows[0]}; mark missing numbers by NaN, or name "
        "the column in categorical_features to make each number a category"
    )


def is_text_of_number(text: str) -> bool:
    """Whether a text is one of a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_floats(column: Numbers, where: str = "a column of X") -> Doubles:
    """Numbers of a column, NaN where there is none.

    Raises
    ------
    TypeError
        If it holds Python objects that are no numbers, such as dates.
    """
    values = column.values
    floats = objects_to_floats(values, np.float64, where) if values.dtype.kind == "O" else values.astype(np.float64)
    return floats if column.absent is None else np.where(column.absent, np.nan, floats)


def _codes(column: Coded | Numbers) -> tuple[Int64s, Array]:
    """Codes of the categories that occur, -1 where missing, and the categories in the order of their labels.

    Frames code texts as they come, or as threads find them; no tree must depend on that.
    """
    if isinstance(column, Coded):
        used, codes = np.unique(column.codes, return_inverse=True)
        names = [column.values[code] for code in used if code >= 0]
        order = _by_label(names)
        places = np.append(np.argsort(order), -1)  # of no category, last
        mixed = len({isinstance(name, str) for name in names}) > 1
        codes = places[codes - int(len(used) > 0 and used[0] < 0)]
        return codes, np.array([names[place] for place in order], object if mixed else None)
    values = as_floats(column)
    present = ~np.isnan(values)
    table, codes = np.unique(values[present], return_inverse=True)
    result = np.full(len(values), -1, np.int64)
    result[present] = codes
    return result, table


def _by_label(names: list[Any]) -> list[int]:
    """Places of labels in their own order; of numbers and texts beside each other, numbers come first."""
    places = range(len(names))
    try:
        return sorted(places, key=names.__getitem__)
    except TypeError:
        return sorted(places, key=lambda place: _label_key(names[place]))


def _label_key(label: Any) -> tuple[int, float, str, str]:
    is_number = isinstance(label, Real)
    kind = 0 if is_number else 2 - isinstance(label, str)
    return kind, float(label) if is_number else 0.0, type(label).__name__, str(label)


def _order_by_target(codes: Int64s, n_categories: int, y: Doubles, weight: Doubles) -> Int64s:
    """Place of each category by its mean target: the best split of a regression lies along it (Fisher 1958).

    Sums that differ only in their rounding, as those of rows in another order do, are equal: categories of the same
    mean stand in the order of their labels.
    """
    at = np.flatnonzero(codes >= 0)
    if len(at) <= MOST_ORDERED:
        at = at[np.lexsort((weight[at], y[at]))]
    scale = float(np.abs(y).max(initial=0)) or 1.0
    total = np.bincount(codes[at], weight[at] * (y[at] / scale), n_categories)
    count = np.bincount(codes[at], weight[at], n_categories)
    digits, exponent = np.frexp(total / np.maximum(count, 1e-300))
    means = np.ldexp(np.rint(digits * 2.0**MEAN_BITS), exponent)
    return np.argsort(np.argsort(means, kind="stable"), kind="stable").astype(np.int64)


class TrainingData(NamedTuple):
    """Rows to grow trees on: their columns, targets and positive weights."""

    columns: TrainingColumns
    target: Doubles
    weight: Doubles

    def taken(self, rows: Int32s) -> TrainingData:
        """Take these rows."""
        return TrainingData(self.columns.taken(rows), self.target[rows], self.weight[rows])

    def in_order(self) -> tuple[TrainingData, Int32s, float]:
        """Put the rows into the order of what they hold (`repeats.in_order`); also their places, and their copies."""
        order, weight, copies = in_order(self.columns.X, self.target, self.weight)
        return TrainingData(self.columns.taken(order), gathered(self.target, order), weight), order, copies

    def by_target(self) -> TrainingData:
        """Put the categories into the order of their mean targets; there are no derived columns yet."""
        return self._replace(columns=self.columns.ordered_by(self.target, self.weight))

    def with_columns(self, **changes: Any) -> TrainingData:
        """Change fields of the columns."""
        return self._replace(columns=replace(self.columns, **changes))


def weighted_rows(columns: TrainingColumns, y: Doubles, weight: Doubles) -> TrainingData:
    """Keep the rows of positive weight.

    Raises
    ------
    ValueError
        If X is infinite anywhere or no row is left.
    """
    if columns_with(np.isinf, columns.X).any():
        row, column = np.argwhere(np.isinf(columns.X))[0]
        raise ValueError(f"X is infinite in row {row}, column {column}; mark missing values by NaN, clip others")
    used = weight > 0
    if not used.any():
        raise ValueError("sample_weight is 0 everywhere, expected a positive weight for at least one row")
    if used.all():
        return TrainingData(columns, y, without_scale(weight))
    return TrainingData(replace(columns, X=columns.X[used]), y[used], without_scale(weight[used]))


def rows_of_values(X: object, forest: TreeEnsemble) -> Doubles:
    """Rows for a forest from an array that holds the values of categories, not their codes."""
    values = _values(X)
    check_width(values.shape[1], forest)
    if values.dtype.kind in "OUS":
        return np.asarray(array_to_rows(values, forest))
    return np.asarray(columns_to_rows([Numbers(column) for column in values.T], len(values), forest))
