"""Boosted trees of scikit-learn: GradientBoosting, HistGradientBoosting, AdaBoost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn import ensemble, tree
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.sklearn_models import (
    MAX_ROWS,
    N_ROWS,
    check,
    three,
    two,
)

import glasswood
from glasswood.readers import sklearn as reader

pytestmark = pytest.mark.filterwarnings("ignore:.*SAMME:FutureWarning")


GRADIENT_BOOSTING = {
    "regressor": (ensemble.GradientBoostingRegressor, {}),
    "huber": (ensemble.GradientBoostingRegressor, {"loss": "huber"}),
    "quantile": (ensemble.GradientBoostingRegressor, {"loss": "quantile", "alpha": 0.2}),
    "absolute error": (ensemble.GradientBoostingRegressor, {"loss": "absolute_error"}),
    "from zero": (ensemble.GradientBoostingRegressor, {"init": "zero"}),
    "from a constant": (
        ensemble.GradientBoostingRegressor,
        {"init": DummyRegressor(strategy="constant", constant=4.5)},
    ),
    "stochastic": (ensemble.GradientBoostingRegressor, {"subsample": 0.5, "max_features": 2}),
    "early stopping": (
        ensemble.GradientBoostingRegressor,
        {"n_estimators": 80, "n_iter_no_change": 2, "learning_rate": 1.0},
    ),
    "two classes": (ensemble.GradientBoostingClassifier, {}),
    "two classes, exponential": (ensemble.GradientBoostingClassifier, {"loss": "exponential"}),
    "two classes from zero": (ensemble.GradientBoostingClassifier, {"init": "zero"}),
    "two classes, uniform prior": (ensemble.GradientBoostingClassifier, {"init": DummyClassifier(strategy="uniform")}),
    "two classes, early stopping": (
        ensemble.GradientBoostingClassifier,
        {"n_estimators": 80, "n_iter_no_change": 2, "learning_rate": 1.0},
    ),
    "three classes": (ensemble.GradientBoostingClassifier, {}),
    "three classes from zero": (ensemble.GradientBoostingClassifier, {"init": "zero"}),
}


@pytest.mark.parametrize("name", GRADIENT_BOOSTING)
def test_gradient_boosting_agrees(name, X, y):
    kind, params = GRADIENT_BOOSTING[name]
    is_classifier = kind is ensemble.GradientBoostingClassifier
    target = (three(y) if "three" in name else two(y)) if is_classifier else y
    model = kind(**{"n_estimators": 9, "random_state": 0} | params).fit(X, target)
    margins = model.decision_function if is_classifier else model.predict
    check(model, X, margins=margins, leaves=model.apply)
    if "early" in name:
        assert model.n_estimators_ < 80


def test_exponential_probabilities(X, y):
    model = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=3).fit(X, two(y))
    assert reader.read(model).link == "exponential"
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(2 * model.decision_function(X)), rtol=1e-15)


@pytest.mark.parametrize(
    ("kind", "init"),
    [
        (ensemble.GradientBoostingRegressor, LinearRegression()),
        (ensemble.GradientBoostingClassifier, LogisticRegression()),
        (ensemble.GradientBoostingClassifier, DummyClassifier(strategy="stratified", random_state=0)),
    ],
)
def test_initial_estimators_that_see_the_row_are_refused(kind, init, X, y):
    model = kind(n_estimators=2, init=init).fit(X, y > 1)
    with pytest.raises(NotImplementedError, match="starts from other margins for every row"):
        reader.read(model)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ensemble.GradientBoostingClassifier, {"init": "zero", "n_estimators": 5}),
        (ensemble.HistGradientBoostingClassifier, {"max_iter": 5}),
    ],
)
def test_labels_where_probabilities_tie(kind, settings, X, y):
    model = kind(learning_rate=1e-17, random_state=0, **settings).fit(X, np.argsort(np.argsort(y)) % 3)
    probabilities = model.predict_proba(X)
    assert (probabilities == probabilities[:, :1]).all()
    expected = model.predict(X)
    assert len(np.unique(expected)) == 3
    np.testing.assert_array_equal(glasswood.load(model).predict(X), expected)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ensemble.GradientBoostingClassifier, {"init": "zero", "n_estimators": 5}),
        (ensemble.HistGradientBoostingClassifier, {"max_iter": 5}),
    ],
)
def test_labels_of_two_classes_where_probabilities_tie(kind, settings, X, y):
    model = kind(learning_rate=1e-17, random_state=0, **settings).fit(X, np.argsort(np.argsort(y)) % 2)
    assert (model.predict_proba(X) == 0.5).all()
    expected = model.predict(X)
    assert len(np.unique(expected)) == 2
    np.testing.assert_array_equal(glasswood.load(model).predict(X), expected)


HIST = {
    "regressor": (ensemble.HistGradientBoostingRegressor, {}),
    "absolute error": (ensemble.HistGradientBoostingRegressor, {"loss": "absolute_error"}),
    "poisson": (ensemble.HistGradientBoostingRegressor, {"loss": "poisson"}),
    "gamma": (ensemble.HistGradientBoostingRegressor, {"loss": "gamma"}),
    "quantile": (ensemble.HistGradientBoostingRegressor, {"loss": "quantile", "quantile": 0.8}),
    "few bins": (ensemble.HistGradientBoostingRegressor, {"max_bins": 4}),
    "monotone": (ensemble.HistGradientBoostingRegressor, {"monotonic_cst": [1, 0, 0, 0, -1]}),
    "early stopping": (
        ensemble.HistGradientBoostingRegressor,
        {"early_stopping": True, "max_iter": 90, "learning_rate": 0.9, "n_iter_no_change": 2},
    ),
    "two classes": (ensemble.HistGradientBoostingClassifier, {}),
    "three classes": (ensemble.HistGradientBoostingClassifier, {}),
}


@pytest.mark.parametrize("with_holes", [False, True])
@pytest.mark.parametrize("name", HIST)
def test_hist_gradient_boosting_agrees(name, with_holes, X, y, holes):
    kind, params = HIST[name]
    model = kind(**{"max_iter": 8, "max_leaf_nodes": 9, "random_state": 0} | params)
    target = {"two classes": two(y), "three classes": three(y)}.get(name, np.abs(y) + 0.5)
    check_hist(model.fit(holes if with_holes else X, target), holes if with_holes else X)


def check_hist(model, X):
    forest = glasswood.load(model)
    assert forest.ensemble.threshold.dtype == np.float64
    return check(model, X, margins=model._raw_predict, leaves=lambda rows: hist_leaves(model, rows), allow_inf=True)


def hist_leaves(model, rows):
    """Index of the node that each row ends in: the library's own walk with the indices as the values."""
    if model.is_categorical_ is not None:
        rows = model._preprocessor.transform(rows)
    return leaves_of_codes(model, rows)


def leaves_of_codes(model, rows):
    """The same of rows that its encoder has been through, or should have been."""
    known, places = model._bin_mapper.make_known_categories_bitsets()
    result = []
    for predictor in (predictor for iteration in model._predictors for predictor in iteration):
        numbered = type(predictor)(
            predictor.nodes.copy(), predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets
        )
        numbered.nodes["value"] = np.arange(len(numbered.nodes))
        result.append(numbered.predict(rows, known, places, 1).astype(int))
    return np.column_stack(result)


def test_thresholds_that_only_tell_missing_values():
    """Where NaN alone differs, HistGradientBoosting splits at +inf: every number, +inf too, goes left."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 2))
    X[::2, 0] = np.nan
    target = np.isnan(X[:, 0]) * 5.0 + 0.01 * X[:, 1]
    model = ensemble.HistGradientBoostingRegressor(max_iter=4).fit(X, target)
    assert np.isposinf(check_hist(model, X).ensemble.threshold).any()


@pytest.fixture(scope="module")
def category_rows():
    """Two columns of categories, neither of them first, with values that are not their codes."""
    rng = np.random.default_rng(4)
    X = np.round(rng.normal(size=(N_ROWS, 4)), 1)
    X[:, 1] = rng.choice([2.0, 3.0, 5.5, 7.0, -4.0, 11.0, 40.0], N_ROWS)
    X[:, 3] = rng.integers(0, 60, N_ROWS)
    X[::7, 3] = np.nan
    effects = rng.normal(size=61) * 3
    return X, X[:, 0] + (X[:, 1] > 4) + effects[np.nan_to_num(X[:, 3], nan=60).astype(int)]


def encoded(model, rows):
    """Rows with categories as codes, columns in their own order."""
    with np.errstate(invalid="ignore"):
        values = model._preprocessor.transform(rows)
    order = np.concatenate([np.flatnonzero(model.is_categorical_), np.flatnonzero(~model.is_categorical_)])
    return values[:, np.argsort(order)]


@pytest.mark.parametrize("early_stopping", [False, True])
def test_hist_categories(category_rows, early_stopping):
    X, y = category_rows
    model = ensemble.HistGradientBoostingRegressor(
        categorical_features=[1, 3],
        max_iter=15,
        min_samples_leaf=2,
        early_stopping=early_stopping,
        validation_fraction=0.5,
        random_state=0,
    ).fit(X, y)
    forest = glasswood.load(model)
    assert forest.ensemble.is_categorical
    rows = with_odd_categories(adversarial_rows(forest, encoded(model, X), max_rows=MAX_ROWS), forest)
    assert_encoded_agree(forest, model, rows)


def test_hist_codes_that_its_encoder_never_makes(category_rows):
    """Codes without a category and negative ones go where missing values go, by the library's own walk."""
    X, y = category_rows
    model = ensemble.HistGradientBoostingRegressor(categorical_features=[1, 3], max_iter=15, min_samples_leaf=2)
    forest = glasswood.load(model.fit(X, y))
    rows = np.repeat(encoded(model, X), 3, axis=0)
    rng = np.random.default_rng(9)
    for feature in (1, 3):
        rows[:, feature] = rng.choice([-7.0, -0.5, -0.0, 2.7, 59.0, 61.0, 64.0, 100.5, 255.0, np.nan], len(rows))
    expected = leaves_of_codes(model, rows[:, [1, 3, 0, 2]])
    assert forest.ensemble.default_left[forest.ensemble.category_set >= 0].any()
    np.testing.assert_array_equal(evaluate.leaf_ids(forest, rows), expected)


def assert_encoded_agree(forest, model, rows):
    """The forest has the results of a model that encodes its rows."""
    assert_agrees(
        forest,
        encoded(model, rows),
        leaves=hist_leaves(model, rows),
        margins=model._raw_predict(rows),
        predictions=model.predict(rows),
        given=rows,
        sums="float64",
    )


def with_odd_categories(codes, forest):
    """Turn codes back to values, with unknown, negative and fractional ones among them."""
    rng = np.random.default_rng(8)
    rows = codes.copy()
    for feature in (1, 3):
        table = forest.ensemble.categories[feature]
        rows[np.isinf(rows[:, feature]), feature] = 61.0  # the encoder refuses infinity
        known = np.isin(codes[:, feature], np.arange(len(table)))
        rows[known, feature] = table[codes[known, feature].astype(int)]
        odd = rng.random(len(rows)) < 0.2
        rows[odd, feature] = rng.choice([-1.0, -0.5, 2.5, 61.0, 256.0, 1e9, np.nan], odd.sum())
    return rows


def test_hist_categories_of_frames():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=N_ROWS),
            "letter": pd.Categorical(rng.choice([*"xyz", None], N_ROWS), categories=list("zyxw")),
            "other": rng.normal(size=N_ROWS),
            "size": pd.Categorical(rng.choice([30, 10, 20], N_ROWS)),
        }
    )
    target = frame["number"] + 2.0 * (frame["letter"] == "y") + frame["size"].astype(float)
    model = ensemble.HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=15).fit(frame, target)
    forest = glasswood.load(model)
    tables = [None if table is None else table.tolist() for table in forest.ensemble.categories]
    assert tables == [None, ["x", "y", "z"], None, [10, 20, 30]]
    assert forest.feature_names == ("number", "letter", "other", "size")
    other = frame.copy()
    other["letter"] = pd.Categorical(np.resize(["y", "new", "x", None], N_ROWS))
    other["size"] = pd.Categorical(np.resize([20, 40, 10], N_ROWS))
    assert_encoded_agree(forest, model, other)


def test_hist_refuses_none_as_a_category(y):
    values = np.array([["a"], ["b"], [None]], object)
    model = ensemble.HistGradientBoostingRegressor(categorical_features=[0], max_iter=2)
    model.fit(values[np.arange(N_ROWS) % 3], y)
    with pytest.raises(NotImplementedError, match="column 0 has None as a category"):
        reader.read(model)


@pytest.mark.parametrize("labels", [two, three])
@pytest.mark.parametrize("depth", [1, 4])
def test_ada_boost_agrees(labels, depth, X, y):
    model = ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=depth), n_estimators=9, random_state=0)
    model.fit(X, labels(y))
    check(model, X, margins=model.decision_function)


def test_ada_boost_ends_early(X, y):
    """A perfect tree ends the boosting: fewer trees than weights."""
    model = ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(), n_estimators=5).fit(X, two(y))
    assert len(model.estimators_) < len(model.estimator_weights_)
    check(model, X, margins=model.decision_function)


UNDECIDED = {
    "gradient boosting": (ensemble.GradientBoostingClassifier(n_estimators=2, init="zero"), "yes"),
    "histograms": (ensemble.HistGradientBoostingClassifier(max_iter=2), "no"),
    "forest": (ensemble.RandomForestClassifier(2, bootstrap=False), "no"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_labels_of_undecided_rows(name):
    """Half of the rows of each class and nothing to tell them apart: libraries differ on which label that is."""
    model, label = UNDECIDED[name]
    rows = np.ones((N_ROWS, 2))
    forest = glasswood.load(model.fit(rows, np.resize(["no", "yes"], N_ROWS)))
    assert np.ptp(evaluate.margins(forest, rows)) == 0
    assert set(model.predict(rows)) == {label}
    assert set(forest.predict(rows)) == {label}
