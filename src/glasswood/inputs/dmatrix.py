"""Rows in an xgboost.DMatrix: entries that are not stored are missing, codes of categories are the matrix's own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.sources import BY_VALUE
from glasswood.base.typing import Array
from glasswood.inputs.categories import Coded, Numbers, column_floats
from glasswood.inputs.frames import Frame
from glasswood.inputs.matching import check_width, column_order
from glasswood.inputs.tables import tables_at
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name, feature_names

if TYPE_CHECKING:
    from glasswood.inputs.categories import Column

QUANTISED = ("QuantileDMatrix", "ExtMemQuantileDMatrix", "DeviceQuantileDMatrix")
"""Matrices that hold bins in place of values."""

CATEGORICAL = "c"
"""XGBoost's type of a feature of categories."""


def is_dmatrix(X: object) -> bool:
    """Whether `X` is an xgboost.DMatrix that is not quantised."""
    if not isinstance(xgboost := sys.modules.get("xgboost"), ModuleType) or not isinstance(X, xgboost.DMatrix):
        return False
    return not any(kind.__name__ in QUANTISED for kind in type(X).__mro__)


def rows_of_dmatrix(X: Any, forest: TreeEnsemble) -> Array | Frame:
    """Copy the rows of an xgboost.DMatrix, in the order of the features, with categories as the forest's codes.

    Labels and weights do not change predictions.

    Raises
    ------
    ValueError
        If the matrix has a base margin or another number of columns, or its columns, categories or missing values are
        not those of the forest.
    TypeError
        If its categories are of another type than the forest's.
    NotImplementedError
        If this version of XGBoost does not tell what its codes stand for.
    """
    if len(X.get_base_margin()):
        raise ValueError(
            "X is a DMatrix with a base_margin, from which XGBoost starts in place of the model's base score; pass one "
            "without it, and add what it has beyond the base score to margins (output='margin')"
        )
    rows, categories = _dense(X), _categories(X)
    names = None if forest.columns == "position" else X.feature_names
    if names is None:
        check_width(rows.shape[1], forest)
    elif (order := column_order(tuple(names), forest)) is not None:
        rows, categories = rows[:, order], {at: categories[i] for at, i in enumerate(order) if i in categories}
    _check_missing(rows, forest)
    _check_codes(X, forest)
    columns = [_column(rows[:, i], categories.get(i)) for i in range(rows.shape[1])]
    if forest.source.lower().startswith(BY_VALUE):
        return Frame(feature_names(forest), len(rows), columns.__getitem__)
    tables = tables_at(sorted(categories), forest) if forest.open_tables and categories else forest.categories
    for feature, column in enumerate(columns if categories else ()):
        table = None if tables is None else tables[feature]
        if isinstance(column, Numbers) and table is not None:
            name = shown(repr(feature_name(forest, feature)))
            raise ValueError(
                f"column {name} of X, a DMatrix, holds numbers, and in training it held categories; make the matrix of "
                "a frame with the dtypes of training"
            )
        if isinstance(column, Coded):
            rows[:, feature] = column_floats(column, table, feature, forest)
    return rows


def _check_missing(rows: Array, forest: TreeEnsemble) -> None:
    """Raise ValueError where an entry is a number for the matrix and missing for the model's estimator."""
    if forest.missing == forest.missing and (rows == np.float32(forest.missing)).any():
        raise ValueError(
            f"X is a DMatrix that holds {forest.missing} as a number, and the model's estimator takes it as missing; "
            f"pass DMatrix(..., missing={forest.missing})"
        )


def _dense(X: Any) -> Array:
    """Copy the stored entries; NaN where there is none."""
    stored = X.get_data().tocoo()
    rows = np.full((X.num_row(), X.num_col()), np.nan, np.float32)
    rows[stored.row, stored.col] = stored.data
    return rows


def _categories(X: Any) -> dict[int, list[Any]]:
    """Categories by column, as far as the matrix knows them: one of a frame does, since XGBoost 3.1."""
    if CATEGORICAL not in (X.feature_types or ()) or not hasattr(X, "get_categories"):
        return {}
    try:
        found = X.get_categories(export_to_arrow=True)
    except ImportError as error:
        raise ImportError("reading the categories of a DMatrix needs pyarrow; install glasswood[files]") from error
    # A matrix of an array has the types that its user named and no categories.
    entries = found.to_arrow() if found is not None else ()
    return {at: values.to_pylist() for at, (_, values) in enumerate(entries) if values is not None}


def _check_codes(X: Any, forest: TreeEnsemble) -> None:
    """Refuse codes that may be of other categories than the forest's: XGBoost before 3.1 does not say of which."""
    has_tables = forest.categories is not None or bool(forest.open_tables)
    if has_tables and CATEGORICAL in (X.feature_types or ()) and not hasattr(X, "get_categories"):
        version = shown(str(sys.modules["xgboost"].__version__))
        raise NotImplementedError(
            f"X is a DMatrix of XGBoost {version}, which does not tell the categories that its codes stand for; pass "
            "the frame that it was made of"
        )


def _column(values: Array, categories: list[Any] | None) -> Column:
    if categories is None:
        return Numbers(values)
    return Coded(np.where(np.isnan(values), -1, values).astype(np.int64), categories, is_categorical=True)
