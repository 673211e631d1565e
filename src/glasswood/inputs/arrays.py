"""Arrays, lists and objects that become arrays."""

from __future__ import annotations

import math
import numbers
import sys
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array

CPU = 1
"""DLPack's number of the device that is host memory."""

KINDS = {
    "c": "complex numbers",
    "M": "dates",
    "m": "time differences",
    "U": "text",
    "S": "bytes",
    "V": "records",
    "T": "text",
}


OPAQUE = (
    "xgboost.DMatrix",
    "xgboost.QuantileDMatrix",
    "xgboost.ExtMemQuantileDMatrix",
    "lightgbm.Dataset",
    "catboost.Pool",
    "_catboost.Pool",
)
"""Rows in a library's own form."""


def type_name(X: object) -> str:
    """Name the type of `X` as its users do: pandas.DataFrame."""
    kind = type(X)
    root = kind.__module__.partition(".")[0]
    return kind.__name__ if root == "builtins" else f"{root}.{kind.__name__}"


def to_array(X: object) -> Array:
    """Make a NumPy array of an array-like object, without a copy where possible.

    Raises
    ------
    NotImplementedError
        For sparse matrices and arrays on a GPU.
    TypeError, ValueError
        If `X` is not an array, or a list whose rows have different lengths.
    """
    if isinstance(X, np.ma.MaskedArray):
        return _fill_masked(X)
    if isinstance(X, np.ndarray):
        return np.asarray(X)
    _refuse_sparse(X)
    _refuse_device(X)
    if isinstance(X, list | tuple):
        return _list_to_array(X)
    try:
        if hasattr(X, "__array__") or not hasattr(X, "__dlpack__"):
            return np.asarray(X)
        return np.from_dlpack(X)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"X is a {type_name(X)}, which does not become a NumPy array: {shown(error)}") from error


def refuse_no_rows(X: object) -> None:
    """Raise TypeError for what looks like rows but holds none: classes, frames that are still to be computed."""
    if isinstance(X, type):
        raise TypeError(f"X is the class {X.__module__}.{X.__qualname__}, expected rows; pass an object of it")
    if hasattr(X, "columns") and hasattr(X, "compute"):
        raise TypeError(
            f"X is a {type_name(X)}, which is not computed yet; pass it to glasswood.dask.predict(forest, X) or "
            "glasswood.dask.explain(explainer, X), or pass X.compute()"
        )
    if (name := type_name(X)) in OPAQUE:
        raise TypeError(
            f"X is a {name}, whose values only its own library reads; pass the array or frame that it was made from"
        )
    if hasattr(X, "mapInArrow"):
        raise TypeError(
            f"X is a {type_name(X)} of Spark, whose rows are on its workers; map it there: "
            "X.mapInArrow(mapper.iter, mapper.ddl) with mapper = forest.mapper()"
        )
    if hasattr(X, "map_batches") and hasattr(X, "iter_batches"):
        raise TypeError(
            f"X is a {type_name(X)} of Ray, whose rows are on its workers; map it there: "
            "X.map_batches(forest.mapper(), batch_format='pyarrow')"
        )


def checked_array(array: Array) -> Array:
    """Raise unless the array is two-dimensional and of numbers or objects."""
    kind = array.dtype.kind
    if kind == "V":
        raise TypeError("X is a structured array; pass a two-dimensional array, or pandas.DataFrame(X)")
    if array.ndim != 2:
        raise ValueError(_shape_message(array))
    if kind in "cMm":
        raise TypeError(f"X holds {KINDS[kind]} ({array.dtype}), expected real numbers; convert them to float first")
    return array


def to_floats(array: Array, row_type: DTypeLike) -> Array:
    """Return the array itself if it is native float32 or float64, a copy of the row type otherwise."""
    if array.dtype.char in "fd":
        is_native = array.dtype.isnative and array.flags.aligned
        return array if is_native else array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "biu":  # of which none is too large for a float
        return array.astype(row_type)
    with np.errstate(over="ignore"):
        return array.astype(row_type)


def objects_to_floats(values: NDArray[np.object_], row_type: DTypeLike, where: str) -> Array:
    """Convert one column of Python numbers; None becomes NaN.

    Raises
    ------
    TypeError
        If a value is not a real number.
    ValueError
        If a Python integer or fraction is too large for a float.
    """
    if (floats := _core.object_floats(values)) is not None:
        return floats.astype(row_type)
    result = np.empty(len(values), row_type)
    for row, value in enumerate(values):
        if value is None or type(value).__name__ in {"NAType", "NaTType"}:
            result[row] = np.nan
        elif isinstance(value, numbers.Real | np.bool_ | Decimal):
            try:
                result[row] = _finite_float(value) if isinstance(value, Decimal) else value
            except OverflowError:
                raise ValueError(
                    f"{shown(where)} holds a number beyond float64 in row {row}; clip the column"
                ) from None
        else:
            raise TypeError(
                f"{shown(where)} holds {quoted(value)} ({type(value).__name__}) in row {row}, expected numbers; "
                "convert the column to numbers, or to the categories that the model was trained on"
            )
    return result


def _finite_float(value: Decimal) -> float:
    """Convert a Decimal as other exact numbers are: not a number is missing, a finite number never becomes infinite."""
    if value.is_nan():
        return math.nan
    result = float(value)
    if math.isinf(result) and value.is_finite():
        raise OverflowError
    return result


def _fill_masked(X: Any) -> Array:
    """Masked entries are missing; integers go to long double on the way, which holds all of them exactly."""
    if X.dtype.kind == "O" or not np.ma.is_masked(X):
        return np.ma.filled(X, None) if X.dtype.kind == "O" else np.asarray(X)
    floats = X if X.dtype.kind == "f" else X.astype(np.longdouble)
    return np.asarray(floats.filled(np.nan))


def _list_to_array(X: Any) -> Array:
    lengths = {_length(row) for row in X}
    if len(lengths) > 1:
        raise ValueError(
            f"X is a list of rows of different lengths ({min(lengths)} to {max(lengths)}); give every row one value "
            "per feature, None or NaN if it is missing"
        )
    try:
        array = np.asarray(X)
        return array if array.dtype.kind not in "US" else np.array(X, dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X is a list that does not become an array of numbers: {shown(error)}") from error


def _length(row: Any) -> int:
    """Count the values of a row: 1 for a bare value."""
    try:
        return 1 if isinstance(row, str | bytes) else len(row)
    except TypeError:
        return 1


def _shape_message(array: Array) -> str:
    expected = "expected a two-dimensional array (rows, features)"
    if array.ndim == 0:
        if array.dtype.kind == "U":
            return (
                f"X is the text {array.item()!r}, {expected}; read a file first, as by pandas.read_parquet, or use the "
                "command line: glasswood predict, glasswood explain"
            )
        if array.dtype.kind == "O" and array.item() is None:
            return f"X is None, {expected}; pass rows"
        if isinstance(array.item(), dict):
            return records_message(array.item())
        if array.dtype.kind == "O":
            return f"X is a {type_name(array.item())}, {expected}; pass an array, a frame or a list of rows"
        return f"X is a single value, {expected}; pass [[value]] for one row of one feature"
    if array.ndim == 1 and len(array) and isinstance(array[0], dict):
        return records_message(array)
    if array.ndim == 1:
        return (
            f"X is one-dimensional with {len(array)} values, {expected}; "
            "pass X.reshape(1, -1) ([X] for a list) if it is one row, X.reshape(-1, 1) if it is one feature"
        )
    return f"X is {array.ndim}-dimensional (shape {array.shape}), {expected}; reshape it to X.reshape(len(X), -1)"


def records_message(X: Any) -> str:
    """Say how a frame is made of a dictionary, a row or columns, or of a list of them."""
    is_row = isinstance(X, dict) and all(isinstance(value, str) or np.ndim(value) == 0 for value in X.values())
    what = "is a dict" if isinstance(X, dict) else "holds dictionaries"
    frame = "pandas.DataFrame([X])" if is_row else "pandas.DataFrame(X)"
    return f"X {what}, expected a two-dimensional array (rows, features); pass {frame}"


def _refuse_sparse(X: object) -> None:
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise NotImplementedError(
            f"X is a sparse matrix ({type_name(X)}): only predict, shap_values and explainer(X) accept sparse rows; "
            "pass X.toarray()"
        )


def _refuse_device(X: object) -> None:
    """GPU arrays announce themselves by one of two protocols; asking must not copy."""
    on_gpu = type(X).__module__.partition(".")[0] == "cudf" or hasattr(X, "__cuda_array_interface__")
    if not on_gpu and not hasattr(X, "__array__") and hasattr(X, "__dlpack_device__"):
        on_gpu = X.__dlpack_device__()[0] != CPU
    if on_gpu:
        raise NotImplementedError(
            f"X is a {type_name(X)} in the memory of a GPU: not supported yet; copy it to the host first, "
            "for example by cupy.asnumpy(X)"
        )


def checked_row(row: object, n_features: int, takes_objects: bool = False) -> Array:
    """Make a row of what the compiled predictor takes, (1, n_features); refuse what it refuses.

    `takes_objects`: texts of categories, too.
    """
    if not isinstance(row, np.ndarray):
        raise TypeError(
            f"the row is a {type(row).__name__}, expected a float32 or float64 array of its values, "
            "as numpy.asarray makes; names=True accepts rows by name"
        )
    if not (row.dtype.char in "fd" and row.dtype.isnative) and not (takes_objects and row.dtype == object):
        others = (
            " (or object, for categories); cast it"
            if takes_objects
            else "; cast it, or use names=True, which accepts texts of categories"
        )
        raise TypeError(f"the row holds {row.dtype}, expected float32 or float64{others}")
    if row.size != n_features:
        raise ValueError(
            f"the row has {row.size} values, expected {n_features}; pass several rows to the call that takes many"
        )
    return row.reshape(1, -1)
