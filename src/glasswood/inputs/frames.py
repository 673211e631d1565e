"""Frames of pandas, polars and pyarrow, read column by column; no library is imported that the caller did not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array
from glasswood.inputs.arrays import refuse_no_rows, type_name
from glasswood.inputs.categories import Coded, Column, Numbers, object_column

if TYPE_CHECKING:
    from polars import Series as PolarsSeries
    from pyarrow import ChunkedArray


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns. `block` is all of them as one array where the frame holds it as such."""

    names: tuple[str, ...]
    n_rows: int
    column: Callable[[int], Column]
    block: Array | None = None

    def __len__(self) -> int:
        return self.n_rows


def to_frame(X: object) -> Frame | None:
    """Read names and columns of a frame; None if `X` is not a frame.

    Raises
    ------
    ValueError
        If `X` is a single column.
    TypeError
        If `X` is a class, or a frame that is still to be computed.
    ImportError
        If a frame of another library needs pyarrow and it is not installed.
    """
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if isinstance(X, Frame):
        return X
    for library, convert in _LIBRARIES.items():
        module = sys.modules.get(library)
        if module is not None and (frame := convert(X, module)) is not None:
            return frame
    return _foreign_frame(X)


def frame_maker(X: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Make the function that makes a frame of columns: of the library of `X`, with its index if it has one.

    Raises
    ------
    TypeError
        If `X` is not a frame of pandas, polars or pyarrow.
    """
    for library, maker in _MAKERS.items():
        module = sys.modules.get(library)
        if module is not None and (make := maker(X, module)) is not None:
            return make
    raise TypeError(
        f"as_frame=True makes a frame like X, which is a {type_name(X)}; pass a frame of pandas, polars or pyarrow"
    )


def table_maker(X: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Make the function that makes a table of columns of any length: of the library of `X` if that is a frame.

    Of other rows a frame of pandas, where pandas is installed; else a dict of arrays, which others read.
    """
    for library in ("polars", "pyarrow"):
        module = sys.modules.get(library)
        if module is not None and (make := _MAKERS[library](X, module)) is not None:
            return make
    try:
        import pandas
    except ImportError:
        return lambda columns: dict(columns)
    return lambda columns: pandas.DataFrame(dict(columns))


def _refuse_series(X: Any) -> None:
    raise ValueError(
        f"X is one-dimensional ({type_name(X)} with {len(X)} values), expected a frame (rows, features); "
        "pass X.to_frame() if it is one feature, a frame with one row if it is one row"
    )


def _refuse_column(name: object, dtype: object) -> NoReturn:
    is_time = any(word in str(dtype).lower() for word in ("date", "time", "duration", "period"))
    how = "pass numbers, such as days since a date" if is_time else "convert it first"
    raise TypeError(f"column {quoted(name)} of X has dtype {shown(dtype)}, expected numbers or categories; {how}")


# --- pandas ---


def _pandas_frame(X: object, pandas: ModuleType) -> Frame | None:
    if isinstance(X, pandas.Series):
        _refuse_series(X)
    if not isinstance(X, pandas.DataFrame):
        return None
    dtypes = set(X.dtypes)
    is_block = len(dtypes) == 1 and isinstance(dtype := dtypes.pop(), np.dtype) and dtype.kind in "biuf"
    labels, is_unique = X.columns.tolist(), X.columns.is_unique

    def column(i: int) -> Column:
        # A third of the time of iloc, which counts for frames of few rows.
        is_name = is_unique and type(labels[i]) is str
        return _pandas_column(X[labels[i]] if is_name else X.iloc[:, i], pandas)

    return Frame(tuple(map(str, labels)), len(X), column, X.to_numpy() if is_block else None)


def _pandas_column(series: Any, pandas: ModuleType) -> Column:
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        values = series.array  # which pandas wraps anew whenever it is asked
        return Coded(values.codes, dtype.categories.tolist(), is_categorical=True)
    if isinstance(dtype, pandas.ArrowDtype):
        return _arrow_column(series.array.__arrow_array__(), sys.modules["pyarrow"], series.name)
    if isinstance(dtype, pandas.SparseDtype):
        return _pandas_column(series.sparse.to_dense(), pandas)
    if isinstance(dtype, pandas.StringDtype):
        codes, values = pandas.factorize(series)
        return Coded(codes, list(values), is_categorical=False)
    if dtype.kind == "O":
        return object_column(series.to_numpy())
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "biuf":
            _refuse_column(series.name, dtype)
        return Numbers(series.to_numpy())
    if pandas.api.types.is_bool_dtype(dtype) or pandas.api.types.is_numeric_dtype(dtype):
        return _pandas_nullable(series, dtype)
    _refuse_column(series.name, dtype)


def _pandas_nullable(series: Any, dtype: Any) -> Column:
    absent = series.isna().to_numpy()
    return Numbers(series.fillna(False if dtype.kind == "b" else 0).to_numpy(dtype.numpy_dtype), absent)


# --- polars ---


def _polars_frame(X: object, polars: ModuleType) -> Frame | None:
    if isinstance(X, polars.Series):
        _refuse_series(X)
    if isinstance(X, polars.LazyFrame):
        raise TypeError(
            "X is a polars.LazyFrame, which is not computed yet; pass X.collect(), or map it batch by batch: "
            "X.map_batches(mapper, schema=polars.Schema(mapper.schema)) with mapper = forest.mapper()"
        )
    if not isinstance(X, polars.DataFrame):
        return None
    return Frame(tuple(X.columns), X.height, lambda i: _polars_column(X.to_series(i), polars))


def _polars_column(series: PolarsSeries, polars: ModuleType) -> Column:
    dtype = series.dtype
    if dtype in (polars.Categorical, polars.Enum, polars.String):
        return _polars_coded(series, polars)
    if dtype == polars.Null:
        return Numbers(np.full(len(series), np.nan))
    if dtype.is_decimal():
        series, dtype = series.cast(polars.Float64), polars.Float64
    if not dtype.is_numeric() and dtype != polars.Boolean:
        _refuse_column(series.name, dtype)
    if not series.null_count():
        return Numbers(series.to_numpy())
    absent = series.is_null().to_numpy()
    return Numbers(series.fill_null(False if dtype == polars.Boolean else 0).to_numpy(), absent)


def _polars_coded(series: PolarsSeries, polars: ModuleType) -> Column:
    """Values and their positions; an Enum has codes of its own."""
    if series.dtype == polars.Categorical:
        return _polars_categorical(series, polars)
    if series.dtype == polars.Enum:
        codes, values = series.to_physical(), series.dtype.categories
    else:
        text = series.cast(polars.String)
        values = text.drop_nulls().unique()
        positions = polars.Series(range(len(values)), dtype=polars.Int64)
        codes = text.replace_strict(values, positions, default=None, return_dtype=polars.Int64)
    codes = codes.cast(polars.Int64).fill_null(-1).to_numpy()
    return Coded(codes, values.to_list(), is_categorical=series.dtype == polars.Enum)


def _polars_categorical(series: PolarsSeries, polars: ModuleType) -> Column:
    """Read a Categorical, whose codes are the process's, in no order: each value is that of a row that has its code."""
    physical = series.to_physical()
    codes = physical.fill_null(0).to_numpy()
    present = physical.is_not_null().to_numpy()
    if codes.max(initial=0) > 2 * len(codes):
        codes = np.unique(codes, return_inverse=True)[1]
    rows = np.flatnonzero(present)
    row_of = np.full(int(codes.max(initial=0)) + 1, -1)
    row_of[codes[rows]] = rows
    used = np.flatnonzero(row_of >= 0)
    place = np.zeros(len(row_of), np.int64)
    place[used] = np.arange(len(used))
    values = series.gather(row_of[used]).cast(polars.String)
    return Coded(np.where(present, place[codes], -1), values.to_list(), is_categorical=False)


# --- pyarrow ---


def _arrow_frame(X: object, pyarrow: ModuleType) -> Frame | None:
    if isinstance(X, pyarrow.Array | pyarrow.ChunkedArray):
        _refuse_series(X)
    if not isinstance(X, pyarrow.Table | pyarrow.RecordBatch):
        return None
    names = X.schema.names
    return Frame(tuple(names), X.num_rows, lambda i: _arrow_column(X.column(i), pyarrow, names[i]))


def _arrow_column(column: ChunkedArray, pyarrow: ModuleType, name: object) -> Column:
    import pyarrow.compute as compute

    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return _arrow_coded(column, pyarrow)
    if types.is_string_view(kind):
        return _arrow_coded(column.cast(pyarrow.string()), pyarrow)
    if types.is_null(kind):
        return Numbers(np.full(len(column), np.nan))
    if types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    elif types.is_boolean(kind):
        column = column.cast(pyarrow.uint8())
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        _refuse_column(name, kind)
    if not column.null_count:
        return Numbers(_arrow_numpy(column, pyarrow))
    absent = compute.is_null(column)
    filled = compute.fill_null(column, pyarrow.scalar(0).cast(column.type))
    return Numbers(_arrow_numpy(filled, pyarrow), _arrow_numpy(absent, pyarrow))


def _arrow_coded(column: ChunkedArray, pyarrow: ModuleType) -> Column:
    is_categorical = pyarrow.types.is_dictionary(column.type)
    if not is_categorical:
        column = column.dictionary_encode()
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    codes = column.indices.cast(pyarrow.int64()).fill_null(-1)
    return Coded(_arrow_numpy(codes, pyarrow), column.dictionary.to_pylist(), is_categorical)


def _arrow_numpy(column: ChunkedArray, pyarrow: ModuleType) -> Array:
    if isinstance(column, pyarrow.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


_LIBRARIES: dict[str, Callable[[Any, Any], Frame | None]] = {
    "pandas": _pandas_frame,
    "polars": _polars_frame,
    "pyarrow": _arrow_frame,
}


# --- and back ---

Make = Callable[[Mapping[str, Any]], Any]


def _make_pandas(X: Any, pandas: ModuleType) -> Make | None:
    if not isinstance(X, pandas.DataFrame):
        return None
    return lambda columns: pandas.DataFrame(dict(columns), index=X.index)


def _make_polars(X: Any, polars: ModuleType) -> Make | None:
    return (lambda columns: polars.DataFrame(dict(columns))) if isinstance(X, polars.DataFrame) else None


def _make_arrow(X: Any, pyarrow: ModuleType) -> Make | None:
    if not isinstance(X, pyarrow.Table | pyarrow.RecordBatch):
        return None
    return lambda columns: type(X).from_arrays([pyarrow.array(one) for one in columns.values()], names=list(columns))


_MAKERS: dict[str, Callable[[Any, Any], Make | None]] = {
    "pandas": _make_pandas,
    "polars": _make_polars,
    "pyarrow": _make_arrow,
}


def _foreign_frame(X: object) -> Frame | None:
    """Frames of other libraries by the Arrow or the dataframe protocol."""
    refuse_no_rows(X)
    protocol = next((name for name in ("__arrow_c_stream__", "__dataframe__") if hasattr(X, name)), None)
    if protocol is None or type(X).__module__.partition(".")[0] == "cudf":
        return None
    try:
        import pyarrow
        import pyarrow.interchange
    except ImportError as error:
        raise ImportError(
            f"reading a {type_name(X)} needs pyarrow; install glasswood[files], or pass a NumPy array"
        ) from error
    table = pyarrow.table(X) if protocol == "__arrow_c_stream__" else pyarrow.interchange.from_dataframe(X)
    return _arrow_frame(table, pyarrow)
