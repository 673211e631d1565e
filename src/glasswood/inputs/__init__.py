"""From whatever holds rows to the two-dimensional floats that a forest routes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glasswood.base import escapes
from glasswood.base.typing import Array, Rows
from glasswood.base.wording import spelled
from glasswood.inputs.arrays import checked_array, to_array, to_floats
from glasswood.inputs.categories import array_to_rows, category_columns, columns_to_rows
from glasswood.inputs.dmatrix import is_dmatrix, rows_of_dmatrix
from glasswood.inputs.frames import to_frame
from glasswood.inputs.matching import check_width, column_order, refuse_repeated
from glasswood.inputs.sparse import is_sparse, made_dense
from glasswood.inputs.statistics import statistic_rows
from glasswood.inputs.tables import with_tables_at
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import column_names
from glasswood.model.target_statistics import TargetStatistics

__all__ = ["arranged", "as_rows", "name_by_position", "refuse_transform", "with_tables"]


def as_rows(X: Rows, forest: TreeEnsemble) -> Array:
    """Turn `X` into the rows that `forest` routes.

    Parameters
    ----------
    X : NumPy array, pandas or polars frame, pyarrow Table or RecordBatch, list of rows, or any object with
        ``__array__``, ``__arrow_c_stream__``, ``__dataframe__`` or DLPack on the CPU; (n_rows, n_features)
        Columns of a frame are matched by name where both sides have names, by position otherwise. A frame's
        column holds values: categories are translated by value with the forest's tables. An array holds what the source
        library expects in arrays: codes of categories (XGBoost, LightGBM) or their values (scikit-learn, CatBoost).
    forest : TreeEnsemble

    Returns
    -------
    float32 or float64, (n_rows, n_features), any strides
        In the order of the forest's features, missing values as NaN. It is `X` itself if that is such an array already.

    Raises
    ------
    ValueError
        If the shape or the names do not fit, or NaN meets a forest whose library refuses it.
    TypeError
        If values are not numbers (complex, dates, text without a category table).
    NotImplementedError
        For sparse matrices and arrays on a GPU.

    Notes
    -----
    Integers are cast to the type of the thresholds in one step. LightGBM reads arrays of integers as float32, and so
    does this. A category that is not in the forest's table counts as missing.
    """
    if type(X) is np.ndarray and X.dtype.char in "fd" and X.dtype.isnative and X.flags.aligned and X.ndim == 2:
        if X.shape[1] != forest.n_features:
            check_width(X.shape[1], forest)
        rows = X
        if forest.categories is not None:
            rows = array_to_rows(X, forest)
    else:
        rows = _convert(X, forest)
    if forest.missing == forest.missing:
        rows = _mark_missing(rows, forest)
    if not forest.nan_allowed:
        _refuse_nan(rows, forest)
    return rows


def arranged(X: Rows, forest: TreeEnsemble, keeps_sparse: bool = False, keeps_statistics: bool = False) -> Any:
    """Give `X` the features of the forest: a pipeline's rows through its steps, columns as `forest.columns` says.

    Sparse rows that the steps have made of others are made dense, and target statistics are looked up, unless the
    caller takes them as they are.
    """
    X = without_extra(X, forest) if forest.columns == "subset" else X
    if isinstance(forest.transform, TargetStatistics):
        rows = statistic_rows(X, forest.transform, forest.columns)
        return rows if keeps_statistics else rows.whole()
    if forest.transform is not None:
        rows = forest.transform(X)
        return rows if keeps_sparse or not is_sparse(rows) else made_dense(rows, forest)
    if is_dmatrix(X):
        return rows_of_dmatrix(X, forest)
    return name_by_position(X, forest) if forest.columns == "position" else X


def without_extra(X: Rows, forest: TreeEnsemble) -> Any:
    """Leave out the columns of a frame that the forest was not trained on; others than frames stay as they are.

    Raises
    ------
    ValueError
        If names repeat.
    """
    has_names = forest.feature_names is not None or forest.transform is not None
    if not has_names or is_dmatrix(X) or (frame := to_frame(X)) is None:
        return X
    wanted = set(column_names(forest))
    kept = [i for i, name in enumerate(spelled(frame.names, wanted)) if name in wanted]
    if len(kept) < len(wanted) or len(kept) == len(frame.names):
        return X  # it has all columns of the forest and no others, or lacks some, which is said later
    refuse_repeated([frame.names[i] for i in kept])
    if hasattr(X, "iloc"):
        return X.iloc[:, kept]
    if hasattr(X, "select"):  # polars, pyarrow
        return X.select([frame.names[i] for i in kept])
    block = None if frame.block is None else frame.block[:, kept]
    names = tuple(frame.names[i] for i in kept)
    return dataclasses.replace(frame, names=names, column=lambda i: frame.column(kept[i]), block=block)


def with_tables(X: Rows, forest: TreeEnsemble) -> TreeEnsemble:
    """Give open tables to the columns of categories of a frame; the forest itself where none are open, or X has none.

    Raises
    ------
    ValueError
        If the frame has other columns than the forest, or as `tables_at`.
    """
    if not forest.open_tables or (frame := to_frame(X)) is None:
        return forest
    placed: Any = frame
    frame = to_frame(arranged(placed, forest)) or frame
    order = column_order(frame.names, forest)
    columns = (frame.column(i) for i in order or range(len(frame.names)))
    return with_tables_at(category_columns(columns), forest)


def refuse_transform(forest: TreeEnsemble, what: str, instead: str, takes_statistics: bool = False) -> None:
    """Raise NotImplementedError where features are computed from columns, by a pipeline's steps or from categories."""
    if forest.transform is None or (takes_statistics and isinstance(forest.transform, TargetStatistics)):
        return
    made = "target statistics of categories" if isinstance(forest.transform, TargetStatistics) else "a pipeline's steps"
    trees = (
        "" if isinstance(forest.transform, TargetStatistics) else ", or glasswood.load(pipeline[-1]) and its own rows"
    )
    raise NotImplementedError(
        f"{what} expects the rows that the trees see, but this model computes them from its columns by {made}; use "
        f"{instead}{trees}"
    )


def name_by_position(X: Rows, forest: TreeEnsemble) -> Any:
    """Give the columns of a frame the names of the forest's features, in their order.

    Raises
    ------
    ValueError
        If there are more or fewer columns than features.
    """
    if forest.feature_names is None or (frame := to_frame(X)) is None:
        return X
    check_width(len(frame.names), forest)
    return dataclasses.replace(frame, names=forest.feature_names)


def _convert(X: Rows, forest: TreeEnsemble) -> Array:
    frame = to_frame(X)
    if frame is not None:
        order = column_order(frame.names, forest)
        if frame.block is not None and forest.categories is None and not forest.open_tables:
            return to_floats(frame.block if order is None else frame.block[:, order], forest.threshold.dtype)
        return columns_to_rows([frame.column(i) for i in order or range(len(frame.names))], frame.n_rows, forest)
    array = checked_array(to_array(X))
    check_width(array.shape[1], forest)
    return array_to_rows(array, forest)


def _mark_missing(rows: Array, forest: TreeEnsemble) -> Array:
    """NaN in place of the forest's marker, compared in the type of the thresholds as the source library does."""
    row_type = forest.threshold.dtype
    with np.errstate(over="ignore"):
        marked = rows.astype(row_type, copy=False) == row_type.type(forest.missing)
    return np.where(marked, rows.dtype.type(np.nan), rows) if marked.any() else rows


def _refuse_nan(rows: Array, forest: TreeEnsemble) -> None:
    smallest = rows.min(initial=np.inf)  # NaN if any value is
    if smallest == smallest:
        return
    refused = np.isnan(rows)
    if len(forest.nan_allowed_in):
        refused &= ~forest.nan_allowed_in
        if not refused.any():
            return
    row, feature = np.argwhere(refused)[0]
    name = f" ({escapes.shown(forest.feature_names[feature])})" if forest.feature_names else ""
    library = escapes.shown(forest.source or "the source library")
    if forest.categories is not None and forest.categories[feature] is not None:
        raise ValueError(
            f"X is missing in row {row}, column {feature}{name}, or has a category there that was not in training, and "
            f"{library} refuses both in this model; give it one of the model's categories"
        )
    raise ValueError(
        f"X is NaN in row {row}, column {feature}{name}, and {library} refuses missing values "
        "in this model; impute or drop them, or train the model with missing values"
    )
