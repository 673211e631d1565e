"""What `as_rows` makes of arrays and lists, and what it refuses."""

from __future__ import annotations

import decimal
import subprocess
import sys
from datetime import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import glasswood
from glasswood.inputs import as_rows
from tests.inputs.forests import BIG, HUGE, NAN, named, stump


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
                return np.asarray(self.array, dtype=dtype)

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
            (None, r"X is None, expected a two-dimensional array"),
            ("rows.parquet", r"X is the text 'rows.parquet'.*read a file first"),
            ({"a": 1, "b": "x"}, r"X is a dict, expected .*pandas.DataFrame\(\[X\]\)"),
            ({"a": [1]}, r"X is a dict, expected .*pandas.DataFrame\(X\)"),
            ([{"a": 1}, {"a": 2}], r"X holds dictionaries, expected .*pandas.DataFrame\(X\)"),
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
            (
                pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": 0, "c": 0}),
                r"'a' of X has dtype datetime64.*days",
            ),
            (pd.DataFrame({"a": ["p"], "b": 0, "c": 0}), r"column 'a' of X holds text \('p'\)"),
            (pl.DataFrame({"a": [datetime(2020, 1, 1)], "b": 0, "c": 0}), r"'a' of X has dtype Datetime.*days since"),
            (pl.DataFrame({"a": ["p"], "b": 0, "c": 0}), r"column 'a' of X holds text \('p'\)"),
            (
                pl.DataFrame({"a": [1]}).lazy(),
                r"LazyFrame, which is not computed yet; pass X.collect\(\), or map it",
            ),
            (pa.table({"a": [datetime(2020, 1, 1)], "b": [0], "c": [0]}), r"'a' of X has dtype timestamp.*days since"),
            (pa.table({"a": [[1]], "b": [0], "c": [0]}), r"'a' of X has dtype list"),
        ],
    )
    def test_kinds(self, X, message):
        with pytest.raises(TypeError, match=message):
            as_rows(X, named())

    @pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
    def test_sparse(self, make):
        with pytest.raises(NotImplementedError, match=r"sparse matrix.*only predict, shap_values and"):
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


def test_nothing_is_imported_for_arrays_and_lists():
    script = (
        "import sys, numpy as np\n"
        "from glasswood.inputs import as_rows\n"
        "class F:\n"
        "    threshold = np.zeros(1, 'f4'); n_features = 2; feature_names = None; categories = None\n"
        "    missing = float('nan'); nan_allowed = True; source = ''\n"
        "as_rows(np.zeros((2, 2), int), F()); as_rows([[1, 2.5]], F())\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_rows_in_a_librarys_own_form_are_refused_by_name(library):
    name = {"xgboost": "QuantileDMatrix", "lightgbm": "Dataset", "catboost": "Pool"}[library]
    X = getattr(pytest.importorskip(library), name)(np.zeros((2, 3)))
    with pytest.raises(
        TypeError, match=f"X is a _?{library}.{name}, whose values only its own library reads; pass the"
    ):
        stump().predict(X)


@pytest.mark.parametrize("kind", [np.ndarray, pd.DataFrame, pl.DataFrame, pa.Table, list])
def test_classes_are_no_rows(kind):
    forest = stump()
    for call in (forest.predict, glasswood.Explainer(forest).shap_values, lambda X: as_rows(X, forest)):
        with pytest.raises(TypeError, match=rf"X is the class .*{kind.__name__}, expected rows; pass an object of it"):
            call(kind)


class Lazy:
    """A frame as Dask's: its number of rows is still to be computed."""

    columns = ("a", "b", "c")
    shape = (object(), 3)

    def compute(self):
        return np.zeros((2, 3))

    def __array__(self, dtype=None, copy=None):
        return self.compute()


def test_frames_that_are_not_computed_yet():
    forest = stump()
    for call in (forest.predict, glasswood.Explainer(forest).shap_values, lambda X: as_rows(X, forest)):
        with pytest.raises(TypeError, match=r"X is a .*Lazy, which is not computed yet; pass it to glasswood\.dask"):
            call(Lazy())
    assert forest.predict(Lazy().compute()).tolist() == [1, 1]
