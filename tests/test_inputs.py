"""What `as_rows` makes of arrays, frames and lists, and what it refuses."""

from __future__ import annotations

import decimal
import subprocess
import sys
from datetime import datetime
from fractions import Fraction

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

import silva
from silva.forest import Forest
from silva.inputs import as_rows

NAN = float("nan")
NAMES = ("a", "b", "c")
BIG = 2**24 + 1
"""The smallest integer that float32 does not hold: float32 gives 2**24."""
HUGE = 2**60 + 2**36 + 1
"""float32 gives 2**60 + 2**37; by way of float64, which drops the last 1, the tie goes to even: 2**60."""


def stump(n_features=3, row_type=np.float32, **meaning):
    """A forest of one split on feature 0."""
    return Forest(
        tree_offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], np.int32),
        threshold=np.array([0.5, 0, 0], row_type),
        left=np.array([1, 0, 0], np.int32),
        default_left=np.zeros(3, np.bool_),
        cover=np.ones(3),
        leaf_value=np.array([[1.0], [2.0]]),
        leaf_id=np.array([1, 2], np.int32),
        tree_output=np.zeros(1, np.int32),
        tree_weight=np.ones(1),
        base_score=np.zeros(1),
        n_features=n_features,
        **meaning,
    )


def named(**meaning):
    return stump(feature_names=NAMES, **meaning)


def categories(*tables, row_type=np.float32, source="XGBoost 3.2.0", **meaning):
    return stump(len(tables), row_type, categories=tables, source=source, **meaning)


LETTERS = np.array(["x", "y", "z"], object)


class TestArrays:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("row_type", [np.float32, np.float64])
    def test_floats_are_not_copied(self, dtype, row_type):
        X = np.arange(12, dtype=dtype).reshape(4, 3)
        X.flags.writeable = False
        for view in (X, X[::-2], np.asfortranarray(X), np.broadcast_to(X[:1], (5, 3))):
            assert as_rows(view, stump(row_type=row_type)) is view

    @pytest.mark.parametrize("dtype", [">f4", ">f8", "<f2", ">i4", "?", "u1", "i8", "u8", "g"])
    @pytest.mark.parametrize("row_type", [np.float32, np.float64])
    def test_other_numbers_become_native_floats(self, dtype, row_type):
        X = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        rows = as_rows(X, stump(row_type=row_type))
        assert rows.dtype in (np.float32, np.float64)
        assert rows.dtype.isnative
        assert rows.tolist() == [[0, 1, 1], [1, 0, 1]]

    def test_unaligned_rows_are_copied(self):
        records = np.zeros(4, np.dtype([("pad", "u1"), ("x", "<f8", 3)]))
        records["x"] = np.arange(12).reshape(4, 3)
        rows = as_rows(records["x"], stump())
        assert rows.flags.aligned
        assert rows.tolist() == np.arange(12).reshape(4, 3).tolist()

    @pytest.mark.parametrize("row_type", [np.float32, np.float64])
    @pytest.mark.parametrize("dtype", [np.int64, np.uint64])
    def test_integers_are_rounded_once(self, row_type, dtype):
        rows = as_rows(np.array([[HUGE]], dtype), stump(1, row_type))
        expected = 2**60 + 2**37 if row_type == np.float32 else 2**60 + 2**36
        assert rows.dtype == row_type
        assert int(rows[0, 0]) == expected

    def test_decimals_are_numbers(self):
        column = [decimal.Decimal(text) for text in ("1.5", "NaN", "-Infinity", "0.1", "sNaN")]
        rows = as_rows(np.array([[value] for value in column], object), stump(1, np.float64))
        np.testing.assert_array_equal(rows[:, 0], [1.5, NAN, -np.inf, 0.1, NAN])

    @pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400, 3), decimal.Decimal("1e400")])
    def test_python_numbers_beyond_float64_are_refused(self, value):
        with pytest.raises(ValueError, match="column 1 of X holds a number beyond float64 in row 0"):
            as_rows([[0, value, 0]], stump())

    def test_lightgbm_reads_arrays_of_integers_as_float32(self):
        forest = stump(1, np.float64, source="LightGBM 4.7.0")
        assert as_rows(np.array([[BIG]]), forest)[0, 0] == 2**24
        assert as_rows([[BIG]], forest)[0, 0] == 2**24
        assert as_rows(np.array([[float(BIG)]]), forest)[0, 0] == BIG
        assert as_rows(pd.DataFrame([[BIG]]), forest)[0, 0] == BIG

    def test_masked_entries_are_missing(self):
        X = np.ma.masked_array([[1, 2, 3]], mask=[[False, True, False]])
        np.testing.assert_array_equal(as_rows(X, stump()), [[1, NAN, 3]])
        np.testing.assert_array_equal(as_rows(X.astype(float), stump()), [[1, NAN, 3]])

    def test_subclasses_and_protocols(self):
        class Holder:
            def __init__(self, array):
                self.array = array

            def __array__(self, dtype=None, copy=None):
                return np.array(self.array, dtype=dtype, copy=copy)

        class Capsule:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        X = np.arange(6.0).reshape(2, 3)
        memory = X.view(np.memmap)
        for holder in (Holder(X), Capsule(X), memory):
            rows = as_rows(holder, stump())
            assert type(rows) is np.ndarray
            assert rows.tolist() == X.tolist()

    @pytest.mark.parametrize("shape", [(0, 3), (1, 3)])
    def test_no_rows_give_no_rows(self, shape):
        for X in (np.zeros(shape), np.zeros(shape, int), pd.DataFrame(np.zeros(shape)), np.zeros(shape, object)):
            assert as_rows(X, stump()).shape == shape

    @pytest.mark.parametrize("rows", [[[1, 2, 3]], [(1.0, None, 3)], ((1, NAN, 3),), [np.array([1, 2, 3])]])
    def test_lists(self, rows):
        expected = [[NAN if value is None else value for value in rows[0]]]
        np.testing.assert_array_equal(as_rows(rows, stump()), np.array(expected, float))

    def test_object_arrays_of_numbers(self):
        X = np.array([[1, 2.5, None], [True, np.float32(3), NAN]], object)
        np.testing.assert_array_equal(as_rows(X, stump()), [[1, 2.5, NAN], [1, 3, NAN]])

    def test_a_number_beyond_float32_is_infinite(self):
        assert as_rows(np.array([[1e300, -1e300, 1]], object), stump()).tolist() == [[np.inf, -np.inf, 1]]
        assert as_rows(pd.DataFrame([[1e300]]), stump(1)).tolist() == [[1e300]]
        assert as_rows(pd.DataFrame([[1e300, 1]]), stump(2)).tolist() == [[np.inf, 1]]


class TestRefusals:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (
                np.zeros((2, 2)),
                r"X has 2 columns, the forest was trained on 3; pass the columns of forest.feature_names",
            ),
            (np.zeros((2, 1), int), r"X has 1 column, the forest was trained on 3"),
            (np.zeros((5, 0)), r"X has 0 columns"),
            (np.zeros(3), r"X is one-dimensional with 3 values.*X.reshape\(1, -1\)"),
            ([1.0, 2.0, 3.0], r"X is one-dimensional with 3 values.*X.reshape\(1, -1\)"),
            ([], r"X is one-dimensional with 0 values"),
            (pd.Series([1.0, 2.0, 3.0]), r"X is one-dimensional \(pandas.Series with 3 values\)"),
            (pl.Series([1.0, 2.0, 3.0]), r"X is one-dimensional \(polars.Series with 3 values\)"),
            (pa.array([1.0]), r"X is one-dimensional \(pyarrow.DoubleArray with 1 values\)"),
            (np.float64(3), r"X is a single value"),
            (3, r"X is a single value"),
            (None, r"X is a NoneType, expected a two-dimensional array"),
            ({"a": [1]}, r"X is a dict, expected"),
            (np.zeros((2, 3, 4)), r"X is 3-dimensional \(shape \(2, 3, 4\)\).*X.reshape\(len\(X\), -1\)"),
            ([[1, 2, 3], [1, 2]], r"rows of different lengths \(2 to 3\)"),
            ([[1, 2, 3], 4], r"rows of different lengths \(1 to 3\)"),
            ([[[1], [2, 3], [4]]], r"X is a list that does not become an array"),
        ],
    )
    def test_shapes(self, X, message):
        with pytest.raises(ValueError, match=message):
            as_rows(X, named())

    def test_width_without_names(self):
        with pytest.raises(ValueError, match="pass its 3 features in that order"):
            as_rows(np.zeros((2, 2)), stump())

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.zeros((2, 3), complex), r"X holds complex numbers \(complex128\)"),
            (np.zeros((2, 3), "M8[s]"), r"X holds dates"),
            (np.zeros((2, 3), "m8[s]"), r"X holds time differences"),
            (np.array([["1", "2", "3"]]), r"column 'a' of X holds text \('1'\).*convert"),
            (np.array([["1", "2", "3"]], "S"), r"column 'a' of X holds b'1' \(bytes\)"),
            ([[1, "p", 3]], r"column 'b' of X holds text \('p'\)"),
            (np.array([[1, 2, object()]], object), r"column 'c' of X holds <object.*in row 0, expected numbers"),
            (np.array([[1, 2, datetime(2020, 1, 1)]], object), r"column 'c' of X holds .*datetime"),
            (np.zeros(2, [("a", "f8"), ("b", "f8")]), r"X is a structured array"),
            (pd.DataFrame({"a": [1j], "b": [0], "c": [0]}), r"column 'a' of X has dtype complex128"),
            (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": 0, "c": 0}), r"'a' of X has dtype datetime64"),
            (pd.DataFrame({"a": ["p"], "b": 0, "c": 0}), r"column 'a' of X holds text \('p'\)"),
            (pl.DataFrame({"a": [datetime(2020, 1, 1)], "b": 0, "c": 0}), r"'a' of X has dtype Datetime"),
            (pl.DataFrame({"a": ["p"], "b": 0, "c": 0}), r"column 'a' of X holds text \('p'\)"),
            (pl.DataFrame({"a": [1]}).lazy(), r"X is a polars.LazyFrame; pass X.collect\(\)"),
            (pa.table({"a": [datetime(2020, 1, 1)], "b": [0], "c": [0]}), r"'a' of X has dtype timestamp"),
            (pa.table({"a": [[1]], "b": [0], "c": [0]}), r"'a' of X has dtype list"),
        ],
    )
    def test_kinds(self, X, message):
        with pytest.raises(TypeError, match=message):
            as_rows(X, named())

    @pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
    def test_sparse(self, make):
        with pytest.raises(NotImplementedError, match=r"sparse matrix.*not supported yet; pass X.toarray\(\)"):
            as_rows(make(np.eye(3)), stump())

    def test_gpu_arrays(self):
        class Interface:
            __cuda_array_interface__ = {}  # noqa: RUF012

        class DLPack:
            def __dlpack__(self, **options):
                raise AssertionError("the data must not be asked for")

            def __dlpack_device__(self):
                return 2, 0

        for X in (Interface(), DLPack()):
            with pytest.raises(NotImplementedError, match=f"{type(X).__name__} in the memory of a GPU"):
                as_rows(X, stump())

    def test_arrays_that_do_not_convert(self):
        class Stubborn:
            def __array__(self, dtype=None, copy=None):
                raise RuntimeError("call detach() first")

        with pytest.raises(TypeError, match=r"Stubborn, which does not become a NumPy array: call detach\(\) first"):
            as_rows(Stubborn(), stump())


FRAMES = {
    "pandas": lambda data: pa.table(data).to_pandas(),
    "pandas-arrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "table": pa.table,
    "batch": lambda data: pa.table(data).to_batches()[0],
    "chunks": lambda data: pa.concat_tables([pa.table(data).slice(0, 1), pa.table(data).slice(1)]),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


class TestFrames:
    def test_columns_are_matched_by_name(self, frame):
        X = frame({"c": [3, 30], "a": [1.5, 10], "b": [True, False]})
        for row_type in (np.float32, np.float64):
            rows = as_rows(X, named(row_type=row_type))
            assert rows.dtype == row_type
            assert rows.tolist() == [[1.5, 1, 3], [10, 0, 30]]

    def test_equal_types_are_matched_by_name(self, frame):
        X = frame({"c": [3.0, 30.0], "a": [1.0, 10.0], "b": [2.0, 20.0]})
        assert as_rows(X, named()).tolist() == [[1, 2, 3], [10, 20, 30]]

    def test_other_names_are_matched_by_position(self, frame):
        X = frame({"p": [3.0, 30.0], "q": [1.0, 10.0], "r": [2.0, 20.0]})
        assert as_rows(X, named()).tolist() == [[3, 1, 2], [30, 10, 20]]
        assert as_rows(X, stump()).tolist() == [[3, 1, 2], [30, 10, 20]]

    def test_numbered_columns(self):
        X = pd.DataFrame([[1.0, 2.0, 3.0]])
        assert as_rows(X, named()).tolist() == [[1, 2, 3]]
        assert as_rows(X[[2, 1, 0]], stump(feature_names=("0", "1", "2"))).tolist() == [[1, 2, 3]]

    def test_some_names_agree(self, frame):
        with pytest.raises(ValueError, match=r"X lacks 'c' and has 'd', which the forest was not trained on"):
            as_rows(frame({"a": [1, 2], "b": [1, 2], "d": [1, 2]}), named())
        with pytest.raises(ValueError, match=r"X lacks 'c'; pass exactly the columns of forest.feature_names"):
            as_rows(frame({"a": [1, 2], "b": [1, 2]}), named())
        with pytest.raises(ValueError, match=r"X has 'd'"):
            as_rows(frame({"a": [1, 2], "b": [1, 2], "c": [1, 2], "d": [1, 2]}), named())

    def test_long_lists_of_names_are_cut(self, frame):
        forest = stump(20, feature_names=tuple(f"x{i}" for i in range(20)))
        with pytest.raises(ValueError, match=r"'x8' and 11 more"):
            as_rows(frame({"x0": [1, 2]}), forest)

    def test_wrong_number_of_unnamed_columns(self, frame):
        with pytest.raises(ValueError, match="X has 2 columns, the forest was trained on 3"):
            as_rows(frame({"p": [1, 2], "q": [1, 2]}), named())

    def test_repeated_names(self):
        X = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"])
        with pytest.raises(ValueError, match="several columns named 'b'"):
            as_rows(X, named())

    def test_nulls_are_missing_and_integers_rounded_once(self, frame):
        X = frame({"a": pa.array([HUGE, None]), "b": pa.array([None, True]), "c": pa.array([None, 0.5])})
        rows = as_rows(X, named())
        is_float = isinstance(X, pd.DataFrame) and X["a"].dtype == np.float64
        assert int(rows[0, 0]) == 2**60 + (0 if is_float else 2**37)
        np.testing.assert_array_equal(rows[:, 1:], [[NAN, NAN], [1, 0.5]])
        assert np.isnan(rows[1, 0])

    def test_pandas_nullable_types(self):
        X = pd.DataFrame({"a": [HUGE, None], "b": [None, True], "c": [None, 0.5]}, dtype=object)
        rows = as_rows(X.astype({"a": "Int64", "b": "boolean", "c": "Float32"}), named())
        assert int(rows[0, 0]) == 2**60 + 2**37
        np.testing.assert_array_equal(rows[:, 1:], [[NAN, NAN], [1, 0.5]])

    def test_pandas_sparse_and_object_columns(self):
        X = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 2.0]), "b": [1, None], "c": [pd.NA, 2]})
        X["b"] = X["b"].astype(object)
        np.testing.assert_array_equal(as_rows(X, named()), [[0, 1, NAN], [2, NAN, 2]])

    def test_homogeneous_pandas_is_not_copied(self):
        X = pd.DataFrame(np.zeros((4, 3), np.float32))
        assert np.shares_memory(as_rows(X, stump()), X.to_numpy())

    def test_decimals_and_null_columns(self):
        data = {"a": pa.array([decimal.Decimal("1.5"), None]), "b": pa.nulls(2), "c": pa.array([1, 2], pa.uint8())}
        for X in (pa.table(data), pl.from_arrow(pa.table(data))):
            np.testing.assert_array_equal(as_rows(X, named()), [[1.5, NAN, 1], [NAN, NAN, 2]])

    def test_foreign_frames(self):
        class Stream:
            def __init__(self, table):
                self.table = table

            def __arrow_c_stream__(self, requested_schema=None):
                return self.table.__arrow_c_stream__(requested_schema)

        class Interchange:
            def __init__(self, table):
                self.table = table

            def __dataframe__(self, **options):
                return self.table.__dataframe__(**options)

        table = pa.table({"c": [3, 30], "a": [1.5, 10], "b": [2, 20]})
        for X in (Stream(table), Interchange(table)):
            assert as_rows(X, named()).tolist() == [[1.5, 2, 3], [10, 20, 30]]


def categorical(kind, values, order):
    """One categorical column `a` whose codes follow `order`."""
    if kind == "pandas":
        return pd.DataFrame({"a": pd.Categorical(values, categories=order)})
    if kind == "polars":
        return pl.DataFrame({"a": pl.Series(values, dtype=pl.Enum(order))})
    if kind == "polars-categorical":
        return pl.DataFrame({"a": pl.Series(values, dtype=pl.Categorical)})
    codes = pa.array([None if v is None else order.index(v) for v in values], pa.int8())
    table = pa.table({"a": pa.DictionaryArray.from_arrays(codes, pa.array(order))})
    if kind == "pandas-arrow":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return pa.concat_tables([table.slice(0, 2), table.slice(2)])


CATEGORICAL = ["pandas", "pandas-arrow", "polars", "polars-categorical", "table"]


class TestCategories:
    @pytest.mark.parametrize("kind", CATEGORICAL)
    @pytest.mark.parametrize("order", [["x", "y", "z", "new"], ["new", "z", "x", "y"]])
    @pytest.mark.parametrize("source", ["XGBoost 3.2.0", "LightGBM 4.7.0", "scikit-learn 1.9.0"])
    def test_translated_by_value(self, kind, order, source):
        X = categorical(kind, ["z", "x", None, "new", "y"], order)
        rows = as_rows(X, categories(LETTERS, source=source))
        np.testing.assert_array_equal(rows[:, 0], [2, 0, NAN, NAN, 1])

    def test_text_is_translated_by_value(self, frame):
        X = frame({"a": pa.array(["z", "x", None, "new", "y"])})
        np.testing.assert_array_equal(as_rows(X, categories(LETTERS))[:, 0], [2, 0, NAN, NAN, 1])

    def test_text_in_arrays_and_lists(self):
        forest = categories(LETTERS, None)
        expected = [[2, 1.5], [NAN, 2]]
        np.testing.assert_array_equal(as_rows([["z", 1.5], ["new", 2]], forest), expected)
        np.testing.assert_array_equal(as_rows(np.array([["z", 1.5], [None, 2]], object), forest), expected)

    def test_tables_of_numbers_take_values_from_frames(self, frame):
        forest = categories(np.array([10, 20, 30]), row_type=np.float64)
        rows = as_rows(frame({"a": pa.array([30, 10, None, 15, 20])}), forest)
        np.testing.assert_array_equal(rows[:, 0], [2, 0, NAN, NAN, 1])

    def test_tables_of_large_numbers_are_exact(self):
        forest = categories(np.array([2**24, BIG]))
        assert as_rows(pd.DataFrame({"a": [BIG, 2**24]}), forest)[:, 0].tolist() == [1, 0]

    def test_arrays_hold_codes_except_for_scikit_learn(self):
        X = np.array([[10.0, 20.0], [20.0, 10.0], [5.0, NAN]])
        table = np.array([10.0, 20.0])
        assert as_rows(X, categories(table, None)) is X
        assert as_rows(X, categories(table, None, source="LightGBM 4.7.0")) is X
        rows = as_rows(X, categories(table, None, source="scikit-learn 1.9.0", row_type=np.float64))
        np.testing.assert_array_equal(rows, [[0, 20], [1, 10], [NAN, NAN]])

    @pytest.mark.parametrize("values", [[1, 2], pd.Categorical([1, 2])])
    def test_numbers_never_equal_text(self, values):
        with pytest.raises(
            TypeError, match=r"column 0 of X holds 1.* \(\w+\), the model was trained on categories like 'x'"
        ):
            as_rows(pd.DataFrame({"a": values}), categories(LETTERS))

    def test_text_never_equals_numbers(self):
        with pytest.raises(TypeError, match=r"holds '1' \(str\), the model was trained on categories like 1 \(int\)"):
            as_rows(pd.DataFrame({"a": ["1"]}), categories(np.array([1, 2])))

    def test_a_column_without_any_value_is_missing(self):
        for values in ([None, None], [NAN, NAN], pd.Categorical([None, None], categories=["x"])):
            assert np.isnan(as_rows(pd.DataFrame({"a": values}), categories(LETTERS))).all()

    @pytest.mark.parametrize("kind", ["pandas", "pandas-arrow", "polars", "table"])
    @pytest.mark.parametrize("source", ["XGBoost 3.2.0", "LightGBM 4.7.0"])
    def test_codes_where_the_source_library_reads_them(self, kind, source):
        X = categorical(kind, ["z", "x", None], ["y", "z", "x"])
        np.testing.assert_array_equal(as_rows(X, stump(1, source=source))[:, 0], [1, 2, NAN])

    @pytest.mark.parametrize(
        "forest",
        [
            stump(1, source="scikit-learn 1.9.0"),
            stump(1, source="XGBoost 3.2.0", categories=(None,)),
            stump(1, source="LightGBM 4.7.0", categories=(None,)),
        ],
    )
    def test_no_codes_where_the_source_library_refuses_them(self, forest):
        with pytest.raises(TypeError, match="has no table of categories for it"):
            as_rows(pd.DataFrame({"a": pd.Categorical(["x", "y"])}), forest)

    def test_categories_of_numbers_without_table_are_numbers(self):
        X = pd.DataFrame({"a": pd.Categorical([30, 10, None])})
        np.testing.assert_array_equal(as_rows(X, stump(1, source="scikit-learn 1.9.0"))[:, 0], [30, 10, NAN])


class TestMissing:
    def test_marker_becomes_nan(self, frame):
        forest = stump(2, missing=-999.0)
        X = np.array([[-999.0, 1.0], [NAN, 2.0]])
        before = X.copy()
        np.testing.assert_array_equal(as_rows(X, forest), [[NAN, 1], [NAN, 2]])
        np.testing.assert_array_equal(X, before)
        rows = as_rows(frame({"a": [-999, 0], "b": [1, -999]}), forest)
        np.testing.assert_array_equal(rows, [[NAN, 1], [0, NAN]])

    def test_marker_is_compared_in_the_type_of_the_thresholds(self):
        X = np.array([[0.1], [np.float32(0.1)], [0.1 + 1e-12]])
        assert np.isnan(as_rows(X, stump(1, missing=0.1))).ravel().tolist() == [True, True, True]
        assert np.isnan(as_rows(X, stump(1, np.float64, missing=0.1))).ravel().tolist() == [True, False, False]

    def test_no_copy_without_marked_values(self):
        X = np.ones((2, 3))
        assert as_rows(X, stump(missing=0.0)) is X

    def test_marker_also_hits_category_codes(self):
        forest = categories(LETTERS, missing=0.0)
        np.testing.assert_array_equal(as_rows(pd.DataFrame({"a": ["x", "y"]}), forest)[:, 0], [NAN, 1])

    def test_refused_where_the_source_refuses_it(self):
        forest = named(nan_allowed=False, source="scikit-learn 1.9.0")
        X = np.zeros((3, 3))
        assert as_rows(X, forest) is X
        X[1, 2] = NAN
        with pytest.raises(ValueError, match=r"X is NaN in row 1, column 2 \(c\), and scikit-learn 1.9.0 refuses"):
            as_rows(X, forest)


class TestSourceLibraries:
    """What the libraries themselves make of the same frames."""

    @pytest.fixture(params=["text", "numbers"])
    def frames(self, request):
        """Training frame, the same rows with categories in another order, target."""
        rng = np.random.default_rng(0)
        values = np.array(["x", "y", "z", "w"] if request.param == "text" else [10, 20, 30, 40])
        picked = rng.integers(0, 4, 300)
        frame = pd.DataFrame({"number": rng.normal(size=300), "kind": pd.Categorical(values[picked])})
        frame.loc[::11, "kind"] = None
        other = frame.assign(kind=frame["kind"].cat.set_categories(values[::-1]))
        return frame, other, np.array([3.0, -1.0, 0.0, 7.0])[picked] + frame["number"]

    def test_xgboost(self, frames):
        frame, other, target = frames
        model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, enable_categorical=True).fit(frame, target)
        forest = silva.load(model)
        codes = np.column_stack([frame["number"], frame["kind"].cat.codes.replace(-1, np.nan)])
        self.check(model.predict(frame), forest, [frame, other, pl.from_pandas(other), pa.Table.from_pandas(other)])
        self.check(model.get_booster().inplace_predict(codes), forest, [codes])

    def test_lightgbm(self, frames):
        frame, other, target = frames
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, target)
        forest = silva.load(model)
        codes = np.column_stack([frame["number"], frame["kind"].cat.codes.replace(-1, np.nan)])
        self.check(model.predict(frame), forest, [frame, other, pl.from_pandas(other), pa.Table.from_pandas(other)])
        self.check(model.booster_.predict(codes), forest, [codes])

    def test_scikit_learn(self, frames):
        frame, other, target = frames
        model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(frame, target)
        self.check(model.predict(frame), silva.load(model), [frame, other, pl.from_pandas(other)])
        if frame["kind"].cat.categories.dtype != object and frame["kind"].cat.categories.dtype.kind in "if":
            values = frame.astype(float).to_numpy()
            model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(values, target)
            self.check(model.predict(values), silva.load(model), [values, values.tolist(), frame])

    def test_unseen_categories(self, frames):
        frame, _, target = frames
        new = frame["kind"].cat.rename_categories({frame["kind"].cat.categories[1]: "new"})
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, target)
        self.check(model.predict(frame.assign(kind=new)), silva.load(model), [frame.assign(kind=new)])

    @pytest.mark.parametrize("missing", [0.0, -1.5])
    def test_missing_marker(self, missing):
        rng = np.random.default_rng(0)
        X = np.round(rng.normal(size=(300, 2)) * 2) / 2
        X[::9, 1] = np.nan
        model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, missing=missing).fit(X, X[:, 0] + np.nan_to_num(X[:, 1]))
        forest = silva.load(model)
        self.check(model.predict(X), forest, [X, X.astype(np.float32), pd.DataFrame(X), X.tolist()])

    def test_large_integers(self):
        X = 2**25 + np.arange(64)[:, None]
        data = lightgbm.Dataset(X.astype(float), X[:, 0] % 2, params={"min_data_in_bin": 1})
        model = lightgbm.train({"num_threads": 1, "verbose": -1, "min_data_in_leaf": 1}, data, 5)
        forest = silva.load(model)
        self.check(model.predict(X), forest, [X, X.tolist()])
        self.check(model.predict(X.astype(float)), forest, [X.astype(float)])
        self.check(model.predict(pd.DataFrame(X)), forest, [pd.DataFrame(X)])

    def check(self, expected, forest, inputs):
        for X in inputs:
            np.testing.assert_allclose(forest.predict(X), expected, rtol=2e-6, atol=1e-6)


def test_nothing_is_imported_for_arrays_and_lists():
    script = (
        "import sys, numpy as np\n"
        "from silva.inputs import as_rows\n"
        "class F:\n"
        "    threshold = np.zeros(1, 'f4'); n_features = 2; feature_names = None; categories = None\n"
        "    missing = float('nan'); nan_allowed = True; source = ''\n"
        "as_rows(np.zeros((2, 2), int), F()); as_rows([[1, 2.5]], F())\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
