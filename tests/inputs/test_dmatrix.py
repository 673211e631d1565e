"""Rows in an xgboost.DMatrix, whose categories are codes of that matrix; against Booster.predict of the same matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

import glasswood

N = 240
TELLS = hasattr(xgboost.DMatrix, "get_categories")
"""Whether this XGBoost (3.1 or later) says what a matrix's codes stand for."""

pytestmark = pytest.mark.skipif(not TELLS, reason="before XGBoost 3.1 a DMatrix does not tell its categories")


def matrix(rows, **settings):
    return xgboost.DMatrix(rows, enable_categorical=True, nthread=1, **settings)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "city": pd.Categorical(rng.choice(list("abcd"), N)),
            "x": rng.normal(size=N),
            "size": pd.Categorical(rng.choice([10, 20, 30], N), ordered=True),
            "n": rng.integers(0, 9, N),
        }
    )
    made.loc[::17, "city"] = None
    made.loc[::13, "x"] = np.nan
    return made


@pytest.fixture(scope="module")
def booster(frame):
    y = np.array([3.0, -1, 0, 7, 2])[frame["city"].cat.codes] + frame["size"].astype(float) / 10 + frame["n"] / 5
    settings = {"nthread": 1, "max_depth": 5, "max_cat_to_onehot": 1}
    return xgboost.train(settings, matrix(frame, label=y), 12)


def batches(frame):
    """The same columns with categories in another order, unused ones left out, and in other libraries' frames."""
    two = frame[frame["city"].isin(["b", "d"])].copy()
    two["city"] = two["city"].astype(str).astype("category")
    fewer = frame[frame["size"].astype(int) > 10]
    return {
        "training": frame,
        "other order": frame.assign(city=frame["city"].cat.reorder_categories(list("dcba"))),
        "two categories": two,
        "unused left out": fewer.assign(size=fewer["size"].cat.remove_unused_categories()),
    }


NAMES = ["training", "other order", "two categories", "unused left out"]


@pytest.mark.parametrize("name", NAMES)
def test_d1_categories_of_a_dmatrix_are_codes_of_that_matrix(name, frame, booster):
    given = matrix(batches(frame)[name])
    forest, explainer = glasswood.load(booster), glasswood.TreeExplainer(booster)
    np.testing.assert_allclose(forest.predict(given), booster.predict(given), rtol=1e-5)
    expected = booster.predict(given, pred_contribs=True)[:, :-1]
    np.testing.assert_allclose(explainer.shap_values(given), expected, atol=1e-4)
    values, source = explainer(given).data[:, 0], batches(frame)[name]
    assert (values == source["city"].astype(object).fillna("missing").to_numpy()).all()


def test_matrices_of_polars_and_arrow(frame):
    texts = frame.assign(size=frame["size"].astype(str))[["city", "size", "x"]]
    kinds = [pl.col(name).cast(pl.Enum(sorted(texts[name].dropna().astype(str).unique()))) for name in ("city", "size")]
    city = [None if pd.isna(name) else str(name) for name in texts["city"]]
    given = pl.from_pandas(texts.assign(city=city)).with_columns(kinds)
    booster = xgboost.train({"nthread": 1, "max_cat_to_onehot": 1}, matrix(given, label=frame["n"]), 8)
    forest, few = glasswood.load(booster), given.filter(pl.col("city").is_in(["d", "b"]))
    for rows in (given, few, few.with_columns(pl.col("city").cast(pl.Enum(["d", "c", "b"])))):
        np.testing.assert_allclose(forest.predict(matrix(rows)), booster.predict(matrix(rows)), rtol=1e-5)
        np.testing.assert_array_equal(forest.predict(matrix(rows)), forest.predict(rows))
    columns = {name: pa.array(few[name].cast(pl.String).to_list()).dictionary_encode() for name in ("city", "size")}
    table = pa.table({**columns, "x": few["x"].to_numpy()})
    np.testing.assert_allclose(forest.predict(matrix(table)), booster.predict(matrix(few)), rtol=1e-5)


def test_columns_are_matched_by_name(frame, booster):
    other = frame[["n", "size", "x", "city"]].assign(city=frame["city"].cat.reorder_categories(list("dcba")))
    forest = glasswood.load(booster)
    np.testing.assert_array_equal(forest.predict(matrix(other)), forest.predict(frame))
    with pytest.raises(ValueError, match="column 'city' of X, a DMatrix, holds numbers"):
        glasswood.load(forest, columns="position").predict(matrix(other))


def test_categories_that_training_did_not_have(frame, booster):
    """XGBoost refuses them; they are missing, as in a frame, and change nothing where no row has them."""
    forest = glasswood.load(booster)
    more = frame.assign(city=frame["city"].cat.set_categories(list("zdacb")))
    np.testing.assert_array_equal(forest.predict(matrix(more)), forest.predict(frame))
    more.loc[::2, "city"] = "z"
    np.testing.assert_array_equal(forest.predict(matrix(more)), forest.predict(more))


def test_array_holds_codes(frame, booster):
    codes = np.column_stack([column.cat.codes if column.dtype == "category" else column for _, column in frame.items()])
    given = matrix(np.where(codes == -1, np.nan, codes), feature_types=["c", "q", "c", "q"])
    expected = booster.predict(given, validate_features=False)
    np.testing.assert_allclose(glasswood.load(booster).predict(given), expected, rtol=1e-5)


def test_rows_are_those_of_a_slice(frame, booster):
    given = matrix(batches(frame)["other order"]).slice([5, 3, 17])
    np.testing.assert_allclose(glasswood.load(booster).predict(given), booster.predict(given), rtol=1e-5)


def test_d5_base_margin_is_refused(frame, booster):
    given = matrix(frame, base_margin=np.ones(N))
    for call in (glasswood.load(booster).predict, glasswood.TreeExplainer(booster).shap_values):
        with pytest.raises(ValueError, match="a base_margin, from which XGBoost starts"):
            call(given)


def test_labels_and_weights_change_nothing(frame, booster):
    given = matrix(frame, label=np.arange(N), weight=np.arange(1, N + 1))
    np.testing.assert_array_equal(glasswood.load(booster).predict(given), glasswood.load(booster).predict(frame))


@pytest.mark.parametrize("missing", [0.0, 1.0])
def test_missing_value_of_the_matrix(missing):
    rows = np.random.default_rng(0).integers(0, 3, (N, 3)).astype(float)
    given = xgboost.DMatrix(rows, label=rows[:, 0] * rows[:, 1], missing=missing)
    booster = xgboost.train({"nthread": 1}, given, 6)
    np.testing.assert_allclose(glasswood.load(booster).predict(given), booster.predict(given), rtol=1e-5)
    model = xgboost.XGBRegressor(n_estimators=4, missing=missing, n_jobs=1).fit(rows, rows[:, 0] * rows[:, 1])
    forest = glasswood.load(model)
    np.testing.assert_allclose(forest.predict(given), model.predict(rows), rtol=1e-5)
    with pytest.raises(ValueError, match="as a number, and the model's estimator takes it as missing"):
        forest.predict(xgboost.DMatrix(rows))


def test_columns_of_other_kinds_are_refused(frame, booster):
    forest = glasswood.load(booster)
    with pytest.raises(ValueError, match="holds numbers, and in training it held categories"):
        forest.predict(matrix(frame.assign(size=frame["size"].astype(int))))
    with pytest.raises(TypeError, match="has no table of categories"):
        forest.predict(matrix(frame.assign(n=frame["n"].astype("category"))))
    with pytest.raises(TypeError, match="trained on categories like 10"):
        forest.predict(matrix(frame.assign(size=frame["size"].astype(str).astype("category"))))


def test_quantised_matrix_is_refused(frame, booster):
    given = xgboost.QuantileDMatrix(frame, enable_categorical=True, nthread=1)
    with pytest.raises(TypeError, match="whose values only its own library reads"):
        glasswood.load(booster).predict(given)


def test_subclass_is_a_matrix(frame, booster):
    class Named(xgboost.DMatrix):
        pass

    given = Named(batches(frame)["other order"], enable_categorical=True)
    np.testing.assert_allclose(glasswood.load(booster).predict(given), booster.predict(given), rtol=1e-5)


def test_forests_of_other_libraries_take_categories_by_value(frame):
    model = HistGradientBoostingRegressor(max_iter=5).fit(frame, frame["n"])
    other = frame.assign(city=frame["city"].cat.reorder_categories(list("dcba")))
    x = frame["x"].astype(np.float32).astype(float)
    expected = model.predict(frame.assign(x=x))
    np.testing.assert_allclose(glasswood.load(model).predict(matrix(other)), expected)


def test_model_without_tables_reads_codes(frame):
    """As XGBoost does, whose model of an array knows no categories; a batch with too few shows that it is another."""
    codes = np.column_stack([frame["city"].cat.codes, frame["n"]]).astype(float)
    given = matrix(np.where(codes < 0, np.nan, codes), feature_types=["c", "q"], feature_names=["city", "n"])
    given.set_label(np.array([3.0, -1, 0, 7, 2])[frame["city"].cat.codes])
    booster = xgboost.train({"nthread": 1, "max_cat_to_onehot": 1}, given, 8)
    forest, rows = glasswood.load(booster), frame[["city", "n"]]
    for one in (rows, matrix(rows)):
        with pytest.warns(UserWarning, match="read by the codes of its own categories"):
            found = forest.predict(one)
        np.testing.assert_allclose(found, booster.predict(matrix(rows)), rtol=1e-5)
    two = rows[rows["city"].isin(["b", "d"])].assign(city=lambda one: one["city"].cat.remove_unused_categories())
    for one in (two, matrix(two)):
        with pytest.raises(ValueError, match="has 2 categories, the model was trained on 4 or more"):
            forest.predict(one)
