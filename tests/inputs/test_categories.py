"""Categories and missing values of frames and arrays, and what the source libraries make of the same rows."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

import glasswood
from glasswood.inputs import as_rows
from tests.inputs.forests import BIG, LETTERS, NAN, categories, named, set_stump, stump


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

    @pytest.mark.parametrize("n_before", [0, 1000])
    def test_codes_of_a_polars_categorical_are_in_the_order_of_the_process(self, n_before):
        table = np.array([f"{word} of {n_before}" for word in ("alder", "beech", "cedar")])
        alder, beech, cedar = table.tolist()
        others = [f"{i} others of {n_before}" for i in range(n_before)]
        before = pl.Series([cedar, *others, beech], dtype=pl.Categorical)
        values = [None, alder, cedar, None, beech, alder, "unseen"]
        series = pl.Series("a", values, dtype=pl.Categorical)
        physical = dict(zip(values, series.to_physical().to_list(), strict=True))
        assert physical[cedar] == before.to_physical()[0] < physical[beech] < physical[alder]
        expected = np.array([NAN, 0, 2, NAN, 1, 0, NAN])
        for rows in (slice(None), slice(1, 3), slice(3, 4), slice(0, 0)):
            X = pl.DataFrame({"a": series[rows]})
            np.testing.assert_array_equal(as_rows(X, categories(table))[:, 0], expected[rows])

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
    def test_codes_where_xgboost_reads_them(self, kind):
        X = categorical(kind, ["z", "x", None], ["y", "z", "x"])
        with pytest.warns(UserWarning, match="column 0 of X is read by the codes of its own categories"):
            rows = as_rows(X, set_stump(source="XGBoost 3.2.0"))
        np.testing.assert_array_equal(rows[:, 0], [1, 2, NAN])
        with pytest.raises(ValueError, match="has 1 categories, the model was trained on 2 or more"):
            as_rows(categorical(kind, ["y"], ["y"]), set_stump(source="XGBoost 3.2.0"))
        with pytest.raises(TypeError, match="has no table of categories for it"):
            as_rows(X, set_stump(source="LightGBM 4.7.0"))

    @pytest.mark.parametrize("source", ["XGBoost 3.2.0", "LightGBM 4.7.0"])
    def test_categories_of_a_column_that_is_compared_with_thresholds_are_refused(self, source):
        """Both libraries read their codes where they refuse none; the values are as likely meant."""
        for values in ([30, 10, None], ["x", "y", None]):
            with pytest.raises(TypeError, match=r"of dtype category.*pass the numbers that it was trained on"):
                as_rows(pd.DataFrame({"a": pd.Categorical(values)}), stump(1, source=source))

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
        forest = glasswood.load(model)
        codes = np.column_stack([frame["number"], frame["kind"].cat.codes.replace(-1, np.nan)])
        self.check(model.predict(frame), forest, [frame, other, pl.from_pandas(other), pa.Table.from_pandas(other)])
        self.check(model.get_booster().inplace_predict(codes), forest, [codes])

    def test_lightgbm(self, frames):
        frame, other, target = frames
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, target)
        forest = glasswood.load(model)
        codes = np.column_stack([frame["number"], frame["kind"].cat.codes.replace(-1, np.nan)])
        self.check(model.predict(frame), forest, [frame, other, pl.from_pandas(other), pa.Table.from_pandas(other)])
        self.check(model.booster_.predict(codes), forest, [codes])

    def test_scikit_learn(self, frames):
        frame, other, target = frames
        model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(frame, target)
        self.check(model.predict(frame), glasswood.load(model), [frame, other, pl.from_pandas(other)])
        if frame["kind"].cat.categories.dtype != object and frame["kind"].cat.categories.dtype.kind in "if":
            values = frame.astype(float).to_numpy()
            model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(values, target)
            self.check(model.predict(values), glasswood.load(model), [values, values.tolist(), frame])

    def test_unseen_categories(self, frames):
        frame, _, target = frames
        new = frame["kind"].cat.rename_categories({frame["kind"].cat.categories[1]: "new"})
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, target)
        self.check(model.predict(frame.assign(kind=new)), glasswood.load(model), [frame.assign(kind=new)])

    @pytest.mark.parametrize("missing", [0.0, -1.5])
    def test_missing_marker(self, missing):
        rng = np.random.default_rng(0)
        X = np.round(rng.normal(size=(300, 2)) * 2) / 2
        X[::9, 1] = np.nan
        model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, missing=missing).fit(X, X[:, 0] + np.nan_to_num(X[:, 1]))
        forest = glasswood.load(model)
        self.check(model.predict(X), forest, [X, X.astype(np.float32), pd.DataFrame(X), X.tolist()])

    def test_large_integers(self):
        X = 2**25 + np.arange(64)[:, None]
        data = lightgbm.Dataset(X.astype(float), X[:, 0] % 2, params={"min_data_in_bin": 1})
        model = lightgbm.train({"num_threads": 1, "verbose": -1, "min_data_in_leaf": 1}, data, 5)
        forest = glasswood.load(model)
        self.check(model.predict(X), forest, [X, X.tolist()])
        self.check(model.predict(X.astype(float)), forest, [X.astype(float)])
        self.check(model.predict(pd.DataFrame(X)), forest, [pd.DataFrame(X)])

    def check(self, expected, forest, inputs):
        for X in inputs:
            np.testing.assert_allclose(forest.predict(X), expected, rtol=2e-6, atol=1e-6)
