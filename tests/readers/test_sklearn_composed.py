"""Pipelines of scikit-learn against their own predictions."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from sklearn import ensemble, tree
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from tests.readers.sklearn_cases import N_ROWS, check, columns, make_data, sources_of

import glasswood


@pytest.fixture(scope="module")
def data():
    return make_data()


LAST = {
    "random forest": lambda: ensemble.RandomForestRegressor(n_estimators=5, random_state=0),
    "gradient boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=8),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=8, verbose=-1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3),
}


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_pipelines_of_columns(name, sparse, data):
    X, y = data
    model = Pipeline([("columns", columns(sparse_output=sparse)), ("trees", LAST[name]())]).fit(X, y)
    forest = check(model, X)
    names = ("num__age", "num__income", "cat__city_Bonn", "cat__city_Lima", "cat__city_Oslo", "cat__city_Rome",
             "cat__city_kind_a", "cat__city_kind_b")  # fmt: skip
    assert forest.feature_names == names or name == "lightgbm"
    sources = ["age", "income"] + ["city"] * 4 + ["city_kind"] * 2
    assert sources_of(forest) == sources
    shuffled = X[X.columns[::-1]]
    np.testing.assert_array_equal(forest.predict(shuffled), forest.predict(X))
    unknown = X.assign(city="Paris")
    np.testing.assert_allclose(forest.predict(unknown), model.predict(unknown), rtol=1e-5)


def test_columns_are_joined_to_their_source(data):
    X, y = data
    model = make_pipeline(columns(sparse_output=False), ensemble.RandomForestRegressor(3, random_state=0)).fit(X, y)
    forest = glasswood.load(model)
    single = glasswood.Explainer(model, dtype="float64")
    assert single.shap_values(X).shape == (N_ROWS, 8)
    joined = glasswood.Explainer(model, groups="source", dtype="float64")
    assert joined.players == ("age", "income", "city", "city_kind")
    values = joined.shap_values(X)
    total = values.sum(axis=1) + joined.expected_value
    np.testing.assert_allclose(total, forest.predict(X), atol=1e-10)
    against = glasswood.Explainer(model, background=X[:30], dtype="float64")
    total = against.shap_values(X[:20]).sum(axis=1) + against.expected_value
    np.testing.assert_allclose(total, forest.predict(X[:20]), atol=1e-10)
    rows = model[:-1].transform(X[:20])
    alone = glasswood.Explainer(model[-1], groups="source", dtype="float64")  # whose features are the columns
    assert alone.groups is None
    values, names = alone.by_column(alone.shap_values(rows))
    assert names == tuple(f"x{i}" for i in range(8))
    np.testing.assert_array_equal(values, single.shap_values(X[:20]))


def test_explanations_show_the_rows_as_they_were_given(data):
    pytest.importorskip("shap")
    X, y = data
    model = make_pipeline(columns(), ensemble.RandomForestRegressor(3, random_state=0)).fit(X, y)
    first = X.iloc[1]
    for rows in (X[:5], X[X.columns[::-1]][:5]):
        shown = glasswood.Explainer(model)(rows).data[1].tolist()
        assert shown[:2] == [first["age"], first["income"]]
        assert shown[2:] == [city == first["city"] for city in ("Bonn", "Lima", "Oslo", "Rome")] + [
            kind == first["city_kind"] for kind in "ab"
        ]
        assert glasswood.Explainer(model, groups="source")(rows).data[1].tolist() == first.tolist()
    numbers = X[["age"]].to_numpy()
    scaled = make_pipeline(StandardScaler(), ensemble.RandomForestRegressor(3, random_state=0)).fit(numbers, y)
    np.testing.assert_array_equal(glasswood.Explainer(scaled)(numbers[:5]).data, numbers[:5])


def test_what_steps_leave_sparse_is_explained_as_dense_rows(data, tmp_path):
    pytest.importorskip("shap")
    X, y = data
    steps = [columns(sparse_output=sparse).set_params(sparse_threshold=1.0).fit(X) for sparse in (True, False)]
    forest = ensemble.RandomForestRegressor(3, random_state=0).fit(steps[1].transform(X), y)
    sparse, dense = (make_pipeline(step, forest) for step in steps)
    assert scipy.sparse.issparse(sparse[:-1].transform(X))
    few = X[:20]
    for groups in (None, "source"):
        found, expected = (glasswood.Explainer(model, background=few, groups=groups) for model in (sparse, dense))
        np.testing.assert_array_equal(found(few).values, expected(few).values)
        np.testing.assert_array_equal(found.shap_interaction_values(few), expected.shap_interaction_values(few))
    assert glasswood.report(sparse, few, y[:20], tmp_path / "report.html").exists()


def test_what_sparse_rows_lack_stays_missing_for_xgboost(data):
    pytest.importorskip("shap")
    X, y = data
    model = make_pipeline(columns().set_params(sparse_threshold=1.0), xgboost.XGBRegressor(n_estimators=5)).fit(X, y)
    total = glasswood.Explainer(model)(X).values.sum(axis=1) + glasswood.Explainer(model).expected_value
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-4)
    interactions = glasswood.Explainer(model).shap_interaction_values(X).sum(axis=(1, 2))
    np.testing.assert_allclose(interactions + glasswood.Explainer(model).expected_value, model.predict(X), rtol=1e-4)


def test_what_takes_the_rows_of_trees_refuses_pipelines(data):
    X, y = data
    model = make_pipeline(StandardScaler(), ensemble.RandomForestRegressor(3, random_state=0))
    model.fit(X[["age", "income"]].fillna(0), y)
    forest, explainer = glasswood.load(model), glasswood.Explainer(model)
    for make in (forest.mapper, forest.predictor, explainer.mapper, explainer.row):
        with pytest.raises(
            NotImplementedError, match=rf"^{make.__name__} expects .* a pipeline's steps; .*pipeline\[-1\]"
        ):
            make()


def test_columns_that_are_called_like_several(data):
    X, y = data
    numbers = X[["age", "income"]].fillna(0).set_axis(["a + b", "c"], axis=1)
    model = make_pipeline(StandardScaler(), ensemble.RandomForestRegressor(3, random_state=0)).fit(numbers, y)
    explainer = glasswood.Explainer(model, groups="source")
    values = explainer.shap_values(numbers)
    found, columns = explainer.by_column(values)
    assert columns == ("a + b", "c")
    np.testing.assert_array_equal(found, values)
    mixed = make_pipeline(PCA(2), ensemble.RandomForestRegressor(3, random_state=0)).fit(numbers, y)
    explainer = glasswood.Explainer(mixed, groups="source")
    values = explainer.shap_values(numbers)
    found, columns = explainer.by_column(values)
    assert columns == ("a + b", "c")
    np.testing.assert_array_equal(found, np.repeat(values / 2, 2, axis=1))
    own = glasswood.Explainer(mixed, groups={"both": [0, 1]})
    with pytest.raises(ValueError, match='groups="source"'):
        own.by_column(values)


STEPS = {
    "scaler": (lambda: StandardScaler(), ["age", "income"]),
    "function": (lambda: FunctionTransformer(np.log1p, feature_names_out="one-to-one"), ["age", "income"]),
    "selection": (lambda: SelectKBest(f_regression, k=1), ["income"]),
    "projection": (lambda: PCA(2), ["age + income"] * 2),
    "union": (lambda: FeatureUnion([("one", StandardScaler()), ("two", PCA(1))]), ["age + income"] * 3),
    "passthrough": (lambda: "passthrough", None),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_and_what_features_come_from(name, data):
    X, y = data
    step, sources = STEPS[name]
    numbers = X[["age", "income"]].fillna(0)
    model = Pipeline([("step", step()), ("trees", tree.DecisionTreeRegressor(max_depth=4))]).fit(numbers, y)
    forest = check(model, numbers)
    assert (forest.ensemble.transform and sources_of(forest)) == sources


IMPUTED = {
    "with indicator": (lambda: SimpleImputer(add_indicator=True), ["age", "income", "income"]),
    "behind another": (lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), None),
    "by neighbours": (lambda: KNNImputer(n_neighbors=2, add_indicator=True), ["age + income"] * 2 + ["income"]),
    "binned": (lambda: make_pipeline(SimpleImputer(), bins("onehot")), ["age"] * 3 + ["income"] * 3),
    "ranks of bins": (lambda: make_pipeline(SimpleImputer(), bins("ordinal")), ["age", "income"]),
    "splines": (lambda: make_pipeline(SimpleImputer(), SplineTransformer(3)), ["age"] * 5 + ["income"] * 5),
    "products": (lambda: make_pipeline(SimpleImputer(), PolynomialFeatures(2)), ["age + income"] * 6),
}


def bins(encode):
    return KBinsDiscretizer(3, encode=encode, quantile_method="averaged_inverted_cdf")


@pytest.mark.parametrize("name", IMPUTED)
def test_columns_of_imputed_and_divided_features(name, data):
    X, y = data
    step, sources = IMPUTED[name]
    model = Pipeline([("step", step()), ("trees", tree.DecisionTreeRegressor(max_depth=4))])
    forest = check(model.fit(X[["age", "income"]], y), X[["age", "income"]])
    assert sources_of(forest) == (sources or ["age", "income", "income"])


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_columns_that_an_imputer_drops(data):
    """The first model has as many features as columns, but not one of each."""
    X, y = data
    for names, sources in ((["age"], ["age", "empty"]), (["age", "income"], ["age", "income", "empty", "income"])):
        numbers = pd.DataFrame({"empty": np.nan, **X[names]})
        model = make_pipeline(SimpleImputer(add_indicator=True), tree.DecisionTreeRegressor(max_depth=4))
        assert sources_of(check(model.fit(numbers, y), numbers)) == sources
        model = make_pipeline(SimpleImputer(), tree.DecisionTreeRegressor(max_depth=4)).fit(numbers, y)
        assert sources_of(check(model, numbers)) == names


def test_dropped_and_rare_categories(data):
    X, y = data
    for options in ({"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 20}):
        encoder = OneHotEncoder(sparse_output=False, **options)
        transformer = ColumnTransformer(
            [("cat", encoder, make_column_selector(dtype_exclude=float)), ("rest", "passthrough", slice("age", "age"))]
        )
        model = make_pipeline(transformer, tree.DecisionTreeRegressor(max_depth=4)).fit(X, y)
        forest = check(model, X)
        first = [name.removeprefix("cat__").removeprefix("rest__") for name in forest.feature_names]
        for name, source in zip(first, sources_of(forest), strict=True):
            assert name.startswith(source)
        assert sources_of(forest)[-1] == "age"


def test_classifiers_in_pipelines(data):
    X, y = data
    labels = np.where(y > np.median(y), "high", "low")
    model = make_pipeline(columns(), ensemble.GradientBoostingClassifier(n_estimators=5)).fit(X, labels)
    forest = check(model, X)
    np.testing.assert_allclose(forest.predict(X, output="probability"), model.predict_proba(X), atol=1e-12)


def test_texts_stay_sparse(data):
    texts = ["red apple", "green pear", "red pear tree", "apple tree"] * 20
    y = np.tile([1.0, 2, 3, 4], 20)
    model = make_pipeline(TfidfVectorizer(), ensemble.RandomForestRegressor(3, random_state=0)).fit(texts, y)
    forest = check(model, texts)
    assert glasswood.Explainer(model).shap_values(texts).shape == (80, forest.n_features)
    del data


def test_rows_on_their_way(data, tmp_path):
    X, y = data
    model = make_pipeline(columns(), ensemble.RandomForestRegressor(3, random_state=0)).fit(X, y)
    forest = glasswood.load(model)
    row = model[:-1].transform(X[:1])
    row = np.ascontiguousarray(row.toarray() if hasattr(row, "toarray") else row, np.float32)[0]
    assert glasswood.load(model[-1]).predictor()(row) == pytest.approx(forest.predict(X[:1])[0])
    tuned = forest.tune(X, seconds=0.02)
    np.testing.assert_array_equal(tuned.predict(X), forest.predict(X))
    with pytest.raises(TypeError, match=r"is the last step of a pipeline.*glasswood\.load\(pipeline\[-1\]\)"):
        forest.save(tmp_path / "model.glasswood")
    glasswood.load(model[-1]).save(tmp_path / "model.glasswood")


def test_what_changes_the_number_of_rows_is_refused(data):
    X, y = data
    numbers = X[["age"]].to_numpy()

    class Halving(FunctionTransformer):
        def transform(self, X):
            return X if len(X) < 10 else X[::2]

    model = make_pipeline(Halving(), tree.DecisionTreeRegressor(max_depth=2))
    model.steps[1][1].fit(numbers, y)
    with pytest.raises(ValueError, match="make 125 rows of 250"):
        glasswood.load(model).predict(numbers)
