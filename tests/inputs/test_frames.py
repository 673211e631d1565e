"""What `as_rows` makes of frames and tables."""

from __future__ import annotations

import dataclasses
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import glasswood
from glasswood.inputs import as_rows
from tests.inputs.forests import HUGE, NAN, named, stump
from tests.strategies import Options, random_forest


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

    def test_other_names_are_taken_by_position_on_request(self, frame):
        X = frame({"p": [3.0, 0.0], "q": [0.0, 10.0], "r": [2.0, 20.0]})
        forest = named()
        message = r"X has the columns 'p', 'q', 'r', none named .* features 'a', 'b', 'c'; .* columns='position'\)"
        explainer = glasswood.Explainer(forest)
        for call in (forest.predict, explainer, explainer.shap_values, explainer.shap_interaction_values):
            with pytest.raises(ValueError, match=message):
                call(X)
        array = np.array([[3.0, 0, 2], [0, 10, 20]])
        placed = glasswood.load(forest, columns="position")
        assert placed.predict(X).tolist() == [2, 1]
        by_place = glasswood.Explainer(placed)
        for name in ("shap_values", "shap_interaction_values"):
            np.testing.assert_array_equal(getattr(by_place, name)(X), getattr(explainer, name)(array))
        against = glasswood.Explainer(placed, X), glasswood.Explainer(forest, array)
        np.testing.assert_array_equal(against[0].shap_values(X), against[1].shap_values(array))
        assert forest.ensemble.columns == "name"

    def test_names_do_not_matter_to_a_forest_without(self, frame):
        X = frame({"p": [3.0, 30.0], "q": [1.0, 10.0], "r": [2.0, 20.0]})
        assert as_rows(X, stump()).tolist() == [[3, 1, 2], [30, 10, 20]]

    def test_position_overrules_names(self, frame):
        X = frame({"c": [3.0], "b": [1.0], "a": [0.0]})
        placed = glasswood.load(named(), columns="position")
        assert named().predict(X).tolist() == [1]
        assert placed.predict(X).tolist() == [2]
        with pytest.raises(ValueError, match="X has 2 columns, the forest was trained on 3"):
            placed.predict(frame({"c": [3.0], "b": [1.0]}))
        assert glasswood.load(placed, columns="name").predict(X).tolist() == [1]

    @pytest.mark.parametrize("columns", ["name", "subset", "position"])
    def test_files_copies_and_what_is_made_of_a_forest_keep_the_match(self, columns, tmp_path):
        forest = glasswood.load(named(), columns=columns)
        forest.save(tmp_path / "forest.glasswood")
        glasswood.Explainer(forest).save(tmp_path / "explainer.glasswood")
        X = np.array([[0.0, 0, 0], [5, 5, 5]])
        glasswood.Neighbors(forest, X, check=False).save(tmp_path / "neighbors.glasswood")
        for one in (
            glasswood.load(tmp_path / "forest.glasswood"),
            glasswood.load(glasswood.load(tmp_path / "forest.glasswood", mmap=True), names={"a": "first"}),
            glasswood.Explainer.load(tmp_path / "explainer.glasswood").forest,
            glasswood.Neighbors.load(tmp_path / "neighbors.glasswood").forest,
            forest.with_covers(X),
            pickle.loads(pickle.dumps(forest)),
        ):
            assert one.ensemble.columns == columns
        assert pickle.loads(pickle.dumps(forest.mapper()))._engine.forest.columns == columns
        assert glasswood.load(tmp_path / "forest.glasswood", columns="position").ensemble.columns == "position"

    def test_a_match_that_is_none_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="columns is 'order', expected one of name, subset, position"):
            glasswood.load(named(), columns="order")
        dataclasses.replace(named().ensemble, columns="order")
        path = tmp_path / "forest.glasswood"
        glasswood.Forest(dataclasses.replace(named().ensemble, columns="order")).save(path)
        with pytest.raises(ValueError, match="corrupt: columns is 'order', expected one of name, subset, position"):
            glasswood.load(path)

    def test_numbered_columns(self):
        X = pd.DataFrame([[1.0, 2.0, 3.0]])
        assert as_rows(X, named()).tolist() == [[1, 2, 3]]
        assert as_rows(X[[2, 1, 0]], stump(feature_names=("0", "1", "2"))).tolist() == [[1, 2, 3]]

    def test_some_names_agree(self, frame):
        with pytest.raises(ValueError, match=r"X lacks 'c' and has 'd', which the forest was not trained on"):
            as_rows(frame({"a": [1, 2], "b": [1, 2], "d": [1, 2]}), named())
        with pytest.raises(ValueError, match=r"X lacks 'c'; pass exactly the columns of forest.feature_names"):
            as_rows(frame({"a": [1, 2], "b": [1, 2]}), named())
        with pytest.raises(ValueError, match=r"X has 'd', .* glasswood\.load\(model, columns='subset'\)"):
            as_rows(frame({"a": [1, 2], "b": [1, 2], "c": [1, 2], "d": [1, 2]}), named())

    def test_columns_beyond_the_features_are_ignored_on_request(self, frame):
        exact, forest = frame({"c": [3.0], "a": [1.0], "b": [2.0]}), glasswood.load(named(), columns="subset")
        wide = frame({"c": [3.0], "note": ["text"], "a": [1.0], "b": [2.0], "y": [0.0]})
        assert forest.predict(wide) == forest.predict(exact)
        explainer = glasswood.Explainer(forest)
        for call in (explainer.shap_values, explainer.shap_interaction_values):
            np.testing.assert_array_equal(call(wide), call(exact))
        found, expected = explainer(wide), explainer(exact)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.data, expected.data)
        assert found.feature_names == ["a", "b", "c"]
        lacking = frame({"a": [1.0], "b": [2.0], "y": [0.0]})
        with pytest.raises(ValueError, match=r"X lacks 'c' and has 'y'"):
            forest.predict(lacking)
        found, expected = explainer.shap_values(wide, as_frame=True), explainer.shap_values(exact, as_frame=True)
        assert found.equals(expected) if hasattr(found, "equals") else found == expected
        row = {"c": 3.0, "note": "text", "a": 1.0, "b": 2.0}
        assert forest.predictor(names=True)(row) == forest.predict(exact)[0]

    def test_other_calls_ignore_further_columns_too(self, frame, tmp_path):
        columns = {"c": [3.0, 0.0, 1.0, 5.0], "a": [1.0, 0.0, 1.0, 0.0], "b": [2.0, 9.0, 4.0, 4.0]}
        exact, wide = frame(columns), frame(columns | {"note": list("stuv")})
        forest = glasswood.load(named(), columns="subset")
        against = glasswood.Explainer(forest, wide)
        np.testing.assert_array_equal(against.shap_values(exact), glasswood.Explainer(forest, exact).shap_values(exact))
        found, expected = glasswood.effects(forest, wide), glasswood.effects(forest, exact)
        np.testing.assert_array_equal(found.dependence("a").average, expected.dependence("a").average)
        changes = [glasswood.compare(one, one, model=forest, n_batches=2) for one in (wide, exact)] + [
            glasswood.compare(forest, forest, X=one, background=one, n_batches=2) for one in (wide, exact)
        ]
        assert changes[0].to_dict() == changes[1].to_dict()
        assert changes[2].to_dict() == changes[3].to_dict()
        y, paths = np.arange(4.0), (tmp_path / "wide.html", tmp_path / "exact.html")
        glasswood.report(forest, wide, y, paths[0], test=(wide, y), before=wide)
        glasswood.report(forest, exact, y, paths[1], test=(exact, y), before=exact)
        assert len(paths[0].read_bytes()) == len(paths[1].read_bytes())  # the seconds in which they were written differ
        forest = named()
        for call in (
            lambda: glasswood.Explainer(forest, wide),
            lambda: glasswood.effects(forest, wide),
            lambda: glasswood.report(forest, wide, path=tmp_path / "r.html"),
            lambda: glasswood.compare(wide, wide, model=forest),
        ):
            with pytest.raises(ValueError, match=r"has 'note', .* glasswood\.load\(model, columns='subset'\)"):
                call()

    def test_results_are_frames_on_request(self, frame):
        forest, X = named(), frame({"c": [3.0, 5.0], "a": [1.0, 0.0], "b": [2.0, 9.0]})
        explainer = glasswood.Explainer(forest)
        for found, names, expected in (
            (forest.predict(X, as_frame=True), ["prediction"], forest.predict(X)[:, None]),
            (forest.predict(X, "leaf", as_frame=True), ["leaf_0"], forest.predict(X, "leaf").reshape(2, 1)),
            (explainer.shap_values(X, as_frame=True), ["a", "b", "c"], explainer.shap_values(X)),
        ):
            assert type(found) is type(X)
            table = pa.table(found)
            assert table.column_names == names
            np.testing.assert_array_equal(np.column_stack([column.to_numpy() for column in table.columns]), expected)
        values, errors = explainer.shap_values(X, as_frame=True, standard_errors=True)
        assert type(values) is type(errors) is type(X)
        with pytest.raises(ValueError, match="leave out sparse_output and out"):
            explainer.shap_values(X, as_frame=True, sparse_output=True)

    def test_frames_keep_the_index_and_name_outputs(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(6, 3)), columns=list("abc"), index=list("uvwxyz"))
        forest = dataclasses.replace(
            random_forest(0, Options(n_trees=3, n_features=3, n_outputs=2)),
            classes=(np.array(["no", "yes"]),),
            prediction="argmax",
            link="softmax",
        )
        explainer = glasswood.Explainer(forest)
        found = explainer.shap_values(X, as_frame=True)
        assert found.index.equals(X.index)
        assert list(found) == ["a_no", "a_yes", "b_no", "b_yes", "c_no", "c_yes"]
        np.testing.assert_array_equal(found, explainer.shap_values(X).reshape(6, 6))
        row = explainer.shap_values(X.iloc[2], as_frame=True)
        assert row.equals(found.iloc[2])
        labels = glasswood.Forest(forest).predict(X, as_frame=True)
        assert labels["prediction"].tolist() == glasswood.Forest(forest).predict(X).tolist()
        shares = glasswood.Forest(forest).predict(X, "probability", as_frame=True)
        assert list(shares) == ["probability_no", "probability_yes"]
        assert shares.index.equals(X.index)

    def test_arrays_have_no_frames(self):
        for call in (named().predict, glasswood.Explainer(named()).shap_values):
            with pytest.raises(TypeError, match=r"a frame like X, which is a numpy.ndarray; pass a frame of pandas"):
                call(np.zeros((2, 3)), as_frame=True)

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


@pytest.mark.parametrize("values", [[False, True], [False], [True]])
def test_truth_values_are_categories_of_lightgbm(values):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"is": pd.Categorical(rng.choice(values, 200)), "x": rng.normal(size=200)})
    y = frame["is"].astype(float) + frame["x"]
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 2}, lightgbm.Dataset(frame, y.to_numpy()), 5)
    np.testing.assert_allclose(glasswood.load(booster).predict(frame), booster.predict(frame), rtol=1e-12)
