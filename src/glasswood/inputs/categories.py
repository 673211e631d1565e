"""Columns of numbers or categories to rows of floats, by the category tables of a forest."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.escapes import quoted, shown
from glasswood.base.sources import BY_CODE, BY_VALUE
from glasswood.base.typing import Array, Bools
from glasswood.inputs.arrays import objects_to_floats, to_floats
from glasswood.inputs.tables import tables_at
from glasswood.model.ensemble import TreeEnsemble

ABSENT = ("", "None", "nan", "<NA>")
"""What NumPy makes of a missing value beside text."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column as positions in a list of values.

    Attributes
    ----------
    codes : integers, (n_rows,)
        -1 where the value is missing.
    values : list
        What the codes stand for.
    is_categorical : bool
        Whether the codes are the frame's own; False for text that was only coded to be read once.
    """

    codes: Array
    values: list[Any]
    is_categorical: bool


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of real numbers or Python objects; `absent` marks rows without a value."""

    values: Array
    absent: Bools | None = None


Column = Coded | Numbers


def array_to_rows(array: Array, forest: TreeEnsemble) -> Array:
    """Make rows of an array of numbers or objects with the right number of columns."""
    kind = array.dtype.kind
    if kind in "OUSaT":
        return columns_to_rows(object_columns(array, forest), len(array), forest)
    if arrays_hold_values(forest):
        return columns_to_rows([Numbers(column) for column in array.T], len(array), forest)
    is_lightgbm = forest.source.lower().startswith("lightgbm")
    return to_floats(array, np.float32 if is_lightgbm else forest.threshold.dtype)


def arrays_hold_values(forest: TreeEnsemble) -> bool:
    """Whether the source library expects the values of categories in arrays of numbers, not their codes."""
    return forest.categories is not None and forest.source.lower().startswith(BY_VALUE)


def columns_to_rows(columns: Sequence[Column], n_rows: int, forest: TreeEnsemble) -> Array:
    """Make rows of the forest's row type from the columns of its features."""
    tables = _tables(columns, n_rows, forest) or (None,) * len(columns)
    rows = np.empty((n_rows, len(columns)), forest.threshold.dtype, order="F")
    with np.errstate(over="ignore"):
        for feature, (column, table) in enumerate(zip(columns, tables, strict=True)):
            rows[:, feature] = column_floats(column, table, feature, forest)
    return rows


def _tables(columns: Sequence[Column], n_rows: int, forest: TreeEnsemble) -> tuple[Array | None, ...] | None:
    """Tables of the features; open ones go to the columns of categories and texts. Columns without rows need none."""
    if not forest.open_tables:
        return forest.categories
    places = category_columns(columns)
    return tables_at(places, forest) if places or n_rows else None


def category_columns(columns: Iterable[Column]) -> list[int]:
    """Which columns hold categories, or texts, which nothing else can be."""
    return [place for place, column in enumerate(columns) if isinstance(column, Coded)]


def object_column(values: NDArray[np.object_]) -> Column:
    """Text is coded; everything else is read number by number."""
    found = _core.object_codes(values)
    return Numbers(values) if found is None else Coded(*found, is_categorical=False)


def object_columns(array: Array, forest: TreeEnsemble) -> list[Column]:
    """Columns of an array of objects or text; NumPy makes text of numbers beside the texts of categories."""
    columns = list(array.astype(object).T)
    if forest.categories is not None and array.dtype.kind in "UT":
        columns = [
            _numbers_of_text(column) if table is None else column
            for column, table in zip(columns, forest.categories, strict=True)
        ]
    return [object_column(column) for column in columns]


def _numbers_of_text(values: NDArray[np.object_]) -> NDArray[np.object_]:
    """Numbers again; a column with other texts stays as it is."""
    try:
        return np.array([np.nan if value in ABSENT else float(value) for value in values], object)
    except ValueError:
        return values


def column_floats(
    column: Column, table: Array | None, feature: int, forest: TreeEnsemble, whole: str = "column {} of X"
) -> Array:
    """Numbers of a feature's column, or positions in its table; messages call it `whole`.

    Raises
    ------
    TypeError
        If values are of other types than the table's, or are texts or categories without one.
    ValueError
        If the source library would read codes that are not those of training.
    """
    where = whole.format(_name(feature, forest))
    if table is not None and forest.category_hash:
        return _hashed_positions(column, table, forest.threshold.dtype, where)
    if isinstance(column, Numbers):
        if table is None:
            return number_floats(column, forest.threshold.dtype, where)
        return _positions_of_numbers(number_floats(column, np.float64, where), table, forest, where)
    if table is not None:
        return _positions(column, table, forest, where)
    if column.is_categorical and forest.source.lower().startswith(BY_CODE):
        return _codes(column, feature, forest, where)
    return _category_numbers(column, where)


def number_floats(column: Column, row_type: DTypeLike, where: str) -> Array:
    """Numbers of a column as floats.

    Raises
    ------
    TypeError
        If it holds categories that are not numbers.
    """
    if isinstance(column, Coded):
        return _category_numbers(column, where)
    if column.values.dtype.kind == "O":
        return objects_to_floats(column.values, row_type, where)
    floats = to_floats(column.values, row_type)
    return floats if column.absent is None else np.where(column.absent, floats.dtype.type(np.nan), floats)


def _positions(column: Coded, table: Array, forest: TreeEnsemble, where: str) -> Array:
    """Position of each value in the table, NaN if it is missing; if it is not there NaN, or the table's length."""
    position = {value: float(i) for i, value in enumerate(table.tolist())}
    unseen = float(len(table)) if forest.unseen_apart else np.nan
    if forest.empty_missing:
        position[""] = np.nan
    _check_kinds(column.values, table, where)
    translated = np.array([position.get(value, unseen) for value in column.values] + [np.nan], forest.threshold.dtype)
    return translated.take(column.codes, mode="wrap")


def _positions_of_numbers(floats: Array, table: Array, forest: TreeEnsemble, where: str) -> Array:
    """Position of each number in a table of numbers; if it is not there NaN, or the table's length."""
    values, codes = np.unique(floats, return_inverse=True)
    if table.dtype.kind not in "biuf" and np.isnan(values).all():
        return np.full(len(floats), np.nan)
    codes = np.where(np.isnan(floats), -1, codes)
    return _positions(Coded(codes, values.tolist(), is_categorical=False), table, forest, where)


def _hashed_positions(column: Column, table: Array, row_type: DTypeLike, where: str) -> Array:
    """Position of each value's hash in the table, the table's length if it is not there.

    Raises
    ------
    TypeError
        If a value is neither text nor a whole number, which CatBoost refuses too.
    ValueError
        If a row has none.
    """
    codes, hashes = category_hashes(column, where)
    position = {number: i for i, number in enumerate(table.tolist())}
    positions = np.array([position.get(number, len(table)) for number in hashes.tolist()], row_type)
    found: Array = positions.take(codes, mode="clip")  # no code is out of range, which the default would look for
    return found


def category_hashes(column: Column, where: str) -> tuple[Array, Array]:
    """Codes of the rows, and the hash of each code's category as CatBoost has it: uint32 in int64.

    Raises
    ------
    TypeError, ValueError
        If a value is missing, or neither text nor a whole number.
    """
    coded = with_values(column, where)
    texts = [value if type(value) is str else _category_text(value, where) for value in coded.values]
    return coded.codes, _core.category_hashes(texts)


def with_values(column: Column, where: str) -> Coded:
    """Distinct values of a column of CatBoost's categories.

    Raises
    ------
    ValueError
        If a row has none.
    """
    coded = column if isinstance(column, Coded) else _coded_numbers(column, where)
    if coded.codes.min(initial=0) < 0:
        lacking = int(np.argmax(coded.codes < 0))
        raise ValueError(
            f"{shown(where)} has no value in row {lacking}, and CatBoost does not accept missing categories; "
            "fill them with the text that they had in training"
        )
    return coded


def _coded_numbers(column: Numbers, where: str) -> Coded:
    """Distinct values of a column of numbers or objects, -1 where there is none."""
    values = column.values
    if values.dtype.kind != "O":
        if values.dtype.kind == "f" and len(values):
            _category_text(float(values[0]), where)
        distinct, codes = np.unique(values, return_inverse=True)
        codes = codes if column.absent is None else np.where(column.absent, -1, codes)
        return Coded(codes, distinct.tolist(), is_categorical=False)
    table: dict[object, int] = {}
    places = []
    for value in values:
        try:
            places.append(-1 if _is_missing(value) else table.setdefault(value, len(table)))
        except TypeError:  # a list, which has no hash
            _category_text(value, where)
            raise
    return Coded(np.array(places, np.int64), list(table), is_categorical=False)


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, numbers.Real | Decimal) and value != value


def _category_text(value: object, where: str) -> str:
    """Text that CatBoost makes of a category; True is "1"."""
    if isinstance(value, str):
        return value
    if isinstance(value, numbers.Integral | np.bool_):
        return str(int(value))
    raise TypeError(
        f"{shown(where)} holds {quoted(value)} ({type(value).__name__}); CatBoost's categories are text or "
        "whole numbers, convert the column as for training"
    )


def _check_kinds(values: Sequence[Any], table: Array, where: str) -> None:
    """Numbers never equal text: every row would silently be missing."""
    known = table.tolist()
    if not known or not values or isinstance(values[0], str) == isinstance(known[0], str):
        return
    raise TypeError(
        f"{shown(where)} holds {quoted(values[0])} ({type(values[0]).__name__}), the model was trained on "
        f"categories like {quoted(known[0])} ({type(known[0]).__name__}); pass those values"
    )


def _codes(column: Coded, feature: int, forest: TreeEnsemble, where: str) -> Array:
    """Codes of a column of categories that the model has no table for, as XGBoost before 3.1 reads them.

    They are those of training only where the column has the categories of training, in their order, which nothing
    tells: so much is checked as can be, and the rest said.

    Raises
    ------
    TypeError
        Where the library refuses the column, or would read codes in place of numbers.
    ValueError
        Where the column has fewer categories than training had.
    """
    tests = forest.feature == feature
    is_set = forest.is_categorical and bool((forest.category_set[tests] >= 0).any())
    if forest.source.lower().startswith("lightgbm") or forest.categories is not None or not is_set:
        raise TypeError(
            f"{shown(where)} is of dtype category, and the model has no table of categories for it; pass the "
            "numbers that it "
            "was trained on, for example by .astype(float), or by .cat.codes of the categories of training"
        )
    fewest = forest.fewest_categories[feature]
    if len(column.values) < fewest:
        raise ValueError(
            f"{shown(where)} has {len(column.values)} categories, the model was trained on {fewest} or more "
            "and, written "
            "before XGBoost 3.1 or trained on codes, does not hold them; pass a column with the categories of training "
            "in their order, by .astype(the dtype of training)"
        )
    warnings.warn(
        f"{shown(where)} is read by the codes of its own categories, as XGBoost does, because the model holds "
        "none; they must "
        "be the categories of training in their order (models of XGBoost 3.1 and later that were trained on frames "
        "match them by value)",
        stacklevel=2,
    )
    return np.where(column.codes < 0, np.nan, column.codes)


def _category_numbers(column: Coded, where: str) -> Array:
    """Decode a categorical column of numbers."""
    text = next((value for value in column.values if isinstance(value, str)), None)
    if text is not None:
        raise TypeError(
            f"{shown(where)} holds text ({quoted(text)}), and the forest has no table of categories for it; "
            "convert the column to the numbers that the model was trained on"
        )
    try:
        values = np.array([*column.values, np.nan], np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{shown(where)} holds categories that are not numbers: {shown(error)}") from error
    return values.take(column.codes, mode="wrap")


def _name(feature: int, forest: TreeEnsemble) -> str:
    return repr(forest.feature_names[feature]) if forest.feature_names else str(feature)
