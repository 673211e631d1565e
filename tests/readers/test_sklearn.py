"""The scikit-learn readers against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn import ensemble, tree
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees

reader = pytest.importorskip("silva.readers.sklearn")
pytestmark = pytest.mark.filterwarnings("ignore:.*SAMME:FutureWarning")

N_ROWS, N_TREES = 300, 7
MAX_ROWS = 4000


@pytest.fixture(scope="module", name="X")
def ordinary_rows():
    """Rows with ties, and numbers that lie between two float32 ones."""
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(N_ROWS, 5)), 1)
    X[:, 1] = rng.normal(size=N_ROWS)
    X[:, 2] = rng.integers(0, 8, N_ROWS) * 0.1
    X[:, 3] *= 1e-37
    return X


@pytest.fixture(scope="module")
def y(X):
    return X[:, 0] + np.sin(3 * X[:, 1]) + 5 * X[:, 2] + 1e36 * X[:, 3]


@pytest.fixture(scope="module")
def holes(X):
    """The same rows with missing entries in two columns."""
    result = X.copy()
    result[::5, 0] = np.nan
    result[::3, 2] = np.nan
    return result


def two(y):
    return np.where(y > 1.5, "yes", "no")


def three(y):
    return np.array([30, 10, 20])[np.digitize(y, [1, 2.5])]


def check(model, X, *, margins=None, leaves=None, allow_inf=False, max_rows=MAX_ROWS):
    """Compare with a fitted estimator on adversarial rows; `margins` and `leaves` are functions of rows."""
    forest = reader.read(model)
    rows = adversarial_rows(forest, X, allow_nan=forest.nan_allowed, allow_inf=allow_inf, max_rows=max_rows)
    with np.errstate(invalid="ignore"):  # the library adds all entries up to look for NaN, also -3.4e38 and 3.4e38
        expected = {
            "leaves": None if leaves is None else leaves(rows),
            "margins": None if margins is None else margins(rows),
            "predictions": model.predict(rows),
            "probabilities": model.predict_proba(rows) if hasattr(model, "predict_proba") else None,
        }
    assert_agrees(forest, rows, **expected, sums="float64")
    assert forest.nan_allowed == _takes(model, np.nan)
    assert forest.source.startswith("scikit-learn")
    for classes, expected in zip(forest.classes, _classes(model), strict=True):
        np.testing.assert_array_equal(classes, expected)
    return forest


def _classes(model):
    classes = getattr(model, "classes_", [])
    return classes if isinstance(classes, list) else [classes]


def joined_probabilities(model):
    def margins(rows):
        probabilities = model.predict_proba(rows)
        return np.concatenate(probabilities, axis=1) if isinstance(probabilities, list) else probabilities

    return margins


REGRESSORS = {
    "decision tree": tree.DecisionTreeRegressor(max_depth=6, random_state=0),
    "decision tree, absolute error": tree.DecisionTreeRegressor(criterion="absolute_error", max_depth=4),
    "decision tree, poisson": tree.DecisionTreeRegressor(criterion="poisson", max_depth=4),
    "decision tree, best first": tree.DecisionTreeRegressor(max_leaf_nodes=12, random_state=0),
    "decision tree, monotone": tree.DecisionTreeRegressor(max_depth=5, monotonic_cst=[1, 0, 0, 0, -1]),
    "decision tree, pruned": tree.DecisionTreeRegressor(ccp_alpha=0.01),
    "stump": tree.DecisionTreeRegressor(max_depth=1),
    "root only": tree.DecisionTreeRegressor(min_samples_split=N_ROWS + 1),
    "extra tree": tree.ExtraTreeRegressor(max_depth=6, random_state=0),
    "random forest": ensemble.RandomForestRegressor(N_TREES, max_depth=6, random_state=0),
    "random forest, monotone": ensemble.RandomForestRegressor(N_TREES, monotonic_cst=[1, 0, 0, 0, 0], random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(N_TREES, max_depth=6, random_state=0),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressor_agrees(name, X, y):
    model = REGRESSORS[name].fit(X, y + 3)
    check(model, X, margins=model.predict, leaves=model.apply)


CLASSIFIERS = {
    "decision tree": tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    "decision tree, entropy, weights": tree.DecisionTreeClassifier(
        criterion="entropy", max_depth=5, class_weight="balanced"
    ),
    "extra tree": tree.ExtraTreeClassifier(max_depth=6, random_state=0),
    "random forest": ensemble.RandomForestClassifier(N_TREES, max_depth=5, random_state=0),
    "extra trees": ensemble.ExtraTreesClassifier(N_TREES, max_depth=5, random_state=0),
}


@pytest.mark.parametrize("labels", [two, three])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier_agrees(name, labels, X, y):
    model = CLASSIFIERS[name].fit(X, labels(y))
    forest = check(model, X, margins=model.predict_proba, leaves=model.apply)
    assert forest.n_outputs == len(model.classes_)


@pytest.mark.parametrize(
    "labels",
    [np.array([True, False]), np.array([2.0, -1.0]), np.array(["b", "a"], object)],
    ids=["bool", "float", "object"],
)
def test_labels_of_any_dtype(labels, X, y):
    model = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, labels[(y > 1).astype(int)])
    check(model, X, margins=model.predict_proba)
    assert reader.read(model).classes[0].dtype == model.classes_.dtype


def test_one_class(X):
    model = ensemble.RandomForestClassifier(3).fit(X, ["only"] * N_ROWS)
    check(model, X, margins=model.predict_proba, leaves=model.apply)


@pytest.mark.parametrize("kind", [tree.DecisionTreeRegressor, ensemble.RandomForestRegressor])
def test_several_outputs(kind, X, y):
    model = kind(max_depth=5, random_state=0).fit(X, np.column_stack([y, -y, X[:, 0]]))
    assert check(model, X, margins=model.predict, leaves=model.apply, max_rows=1000).n_outputs == 3


@pytest.mark.parametrize("kind", [tree.DecisionTreeClassifier, ensemble.RandomForestClassifier])
def test_several_classifications(kind, X, y):
    model = kind(max_depth=4, random_state=0).fit(X, np.column_stack([y > 1, three(y), X[:, 2] > 0.3]).astype(int))
    forest = reader.read(model)
    assert [len(classes) for classes in forest.classes] == [2, 3, 2]
    rows = adversarial_rows(forest, X, allow_inf=False, max_rows=1000)
    assert_agrees(forest, rows, leaves=model.apply(rows), margins=joined_probabilities(model)(rows), sums="float64")
    if hasattr(forest, "predict"):
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
        for found, expected in zip(forest.predict(rows, output="probability"), model.predict_proba(rows), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=200 * 2.0**-53)


MISSING = {
    "decision tree": tree.DecisionTreeRegressor(max_depth=6),
    "extra tree": tree.ExtraTreeRegressor(max_depth=6, random_state=0),
    "random forest": ensemble.RandomForestRegressor(N_TREES, max_depth=6, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(N_TREES, max_depth=6, random_state=0),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_values_in_training(name, holes, y):
    try:
        model = MISSING[name].fit(holes, y)
    except ValueError:
        pytest.skip("this version of scikit-learn refuses NaN here")
    forest = check(model, holes, margins=model.predict, leaves=model.apply)
    assert forest.nan_allowed
    assert forest.default_left[forest.feature >= 0].any()


def _takes(model, value):
    try:
        model.predict(np.full((1, model.n_features_in_), value))
    except ValueError:
        return False
    return True


def test_sparse_training(X, y):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    model = ensemble.RandomForestRegressor(N_TREES, max_depth=5, random_state=0).fit(scipy_sparse.csr_matrix(X), y)
    check(model, X, margins=model.predict, leaves=model.apply)


def test_covers_are_the_weights_of_the_nodes(X, y):
    weights = np.random.default_rng(0).random(N_ROWS)
    forest = reader.read(tree.DecisionTreeRegressor(max_depth=4).fit(X, y, sample_weight=weights))
    for _, node, rows in evaluate.visits(forest, X):
        assert forest.cover[node] == pytest.approx(weights[rows].sum(), rel=1e-12)


def test_column_names(X, y):
    frame = pd.DataFrame(X, columns=list("abcde"))
    assert reader.read(tree.DecisionTreeRegressor(max_depth=2).fit(frame, y)).feature_names == tuple("abcde")
    assert reader.read(tree.DecisionTreeRegressor(max_depth=2).fit(X, y)).feature_names is None


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
    forest = reader.read(model)
    assert forest.threshold.dtype == np.float64
    return check(model, X, margins=model._raw_predict, leaves=lambda rows: hist_leaves(model, rows), allow_inf=True)


def hist_leaves(model, rows):
    """Index of the node that each row ends in: the library's own walk with the indices as the values."""
    if model.is_categorical_ is not None:
        rows = model._preprocessor.transform(rows)
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
    assert np.isposinf(check_hist(model, X).threshold).any()


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
    forest = reader.read(model)
    assert forest.is_categorical
    rows = with_odd_categories(adversarial_rows(forest, encoded(model, X), max_rows=MAX_ROWS), forest)
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
        table = forest.categories[feature]
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
    forest = reader.read(model)
    tables = [None if table is None else table.tolist() for table in forest.categories]
    assert tables == [None, ["x", "y", "z"], None, [10, 20, 30]]
    assert forest.feature_names == ("number", "letter", "other", "size")
    other = frame.copy()
    other["letter"] = pd.Categorical(np.resize(["y", "new", "x", None], N_ROWS))
    other["size"] = pd.Categorical(np.resize([20, 40, 10], N_ROWS))
    assert_agrees(
        forest,
        encoded(model, other),
        leaves=hist_leaves(model, other),
        margins=model._raw_predict(other),
        predictions=model.predict(other),
        given=other,
        sums="float64",
    )


def test_hist_refuses_none_as_a_category(y):
    values = np.array([["a"], ["b"], [None]], object)
    model = ensemble.HistGradientBoostingRegressor(categorical_features=[0], max_iter=2)
    model.fit(values[np.arange(N_ROWS) % 3], y)
    with pytest.raises(NotImplementedError, match="column 0 has None as a category"):
        reader.read(model)


ISOLATION = {
    "default": {},
    "features": {"max_features": 0.5},
    "contamination": {"contamination": 0.1, "max_samples": 50},
    "bootstrap": {"bootstrap": True, "max_features": 3},
    "single samples": {"max_samples": 1},
}


@pytest.mark.parametrize("name", ISOLATION)
def test_isolation_forest_agrees(name, X):
    model = ensemble.IsolationForest(n_estimators=9, random_state=0, **ISOLATION[name]).fit(X)
    allow_inf = _takes(model, np.inf)  # since scikit-learn 1.6
    forest = check(model, X, margins=lambda rows: -np.log2(-model.score_samples(rows)), allow_inf=allow_inf)
    # The logarithm has lost a few units in the last place of the scores; the leaves say it exactly.
    rows = adversarial_rows(forest, X, allow_nan=forest.nan_allowed, allow_inf=allow_inf, max_rows=MAX_ROWS)
    np.testing.assert_allclose(-(2.0 ** -evaluate.margins(forest, rows)[:, 0]), model.score_samples(rows), rtol=1e-14)
    single = rows.astype(np.float32)
    for number, (member, features) in enumerate(zip(model.estimators_, model.estimators_features_, strict=True)):
        given = single if model._max_features == X.shape[1] else single[:, features]
        np.testing.assert_array_equal(evaluate.leaf_ids(forest, rows)[:, number], member.tree_.apply(given))


BAGGING = {
    "regressor": ensemble.BaggingRegressor(n_estimators=N_TREES, random_state=0),
    "features": ensemble.BaggingRegressor(n_estimators=N_TREES, max_features=3, random_state=0),
    "features with repetition": ensemble.BaggingRegressor(
        n_estimators=N_TREES, bootstrap_features=True, random_state=0
    ),
    "extra trees": ensemble.BaggingRegressor(
        tree.ExtraTreeRegressor(max_depth=5), n_estimators=N_TREES, random_state=0
    ),
    "forests": ensemble.BaggingRegressor(
        ensemble.RandomForestRegressor(3, max_depth=4), n_estimators=3, max_features=3, random_state=0
    ),
    "bagging": ensemble.BaggingRegressor(
        ensemble.BaggingRegressor(max_features=2, n_estimators=3), max_features=3, n_estimators=3, random_state=0
    ),
}


@pytest.mark.parametrize("name", BAGGING)
def test_bagging_agrees(name, X, y):
    model = BAGGING[name].fit(X, y)
    check(model, X, margins=model.predict)


def test_bagging_of_several_outputs(X, y):
    model = ensemble.BaggingRegressor(n_estimators=3, random_state=0).fit(X, np.column_stack([y, -y]))
    check(model, X, margins=model.predict)


class Unweighted(tree.DecisionTreeClassifier):
    """Bagging gives each of these only the rows of its bag, where it would give others weights of 0."""

    def fit(self, X, y):
        return super().fit(X, y)


@pytest.mark.parametrize("kind", [tree.DecisionTreeClassifier, Unweighted])
def test_bagging_of_classifiers(kind, X, y):
    """Bags that lack a class give it the probability 0."""
    labels = np.where(np.arange(N_ROWS) < 2, "rare", three(y).astype(str))
    model = ensemble.BaggingClassifier(
        kind(max_depth=4), n_estimators=N_TREES, max_samples=0.2, max_features=4, random_state=0
    ).fit(X, labels)
    assert any(len(member.classes_) < 4 for member in model.estimators_) == (kind is Unweighted)
    check(model, X, margins=model.predict_proba)


def test_leaf_ids_of_bagging_are_those_of_its_trees(X, y):
    model = ensemble.BaggingRegressor(n_estimators=3, max_features=2, random_state=0).fit(X, y)
    expected = [
        e.apply(X[:, columns]) for e, columns in zip(model.estimators_, model.estimators_features_, strict=True)
    ]
    np.testing.assert_array_equal(evaluate.leaf_ids(reader.read(model), X), np.column_stack(expected))


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
    forest = reader.read(model.fit(rows, np.resize(["no", "yes"], N_ROWS)))
    assert np.ptp(evaluate.margins(forest, rows)) == 0
    assert set(model.predict(rows)) == {label}
    if hasattr(forest, "predict"):
        assert set(forest.predict(rows)) == {label}


REFUSED = {
    "AdaBoostRegressor": (ensemble.AdaBoostRegressor(n_estimators=2), NotImplementedError, "weighted median"),
    "AdaBoost of forests": (
        ensemble.AdaBoostClassifier(ensemble.RandomForestClassifier(2), n_estimators=2),
        NotImplementedError,
        "AdaBoostClassifier of RandomForestClassifier is not supported",
    ),
    "bagging of lines": (
        ensemble.BaggingRegressor(LinearRegression(), n_estimators=2),
        NotImplementedError,
        "BaggingRegressor of LinearRegression is not supported",
    ),
    "bagging of boosting": (
        ensemble.BaggingRegressor(ensemble.GradientBoostingRegressor(n_estimators=2), n_estimators=2),
        NotImplementedError,
        "BaggingRegressor of GradientBoostingRegressor is not supported",
    ),
    "pipeline": (
        make_pipeline(StandardScaler(), tree.DecisionTreeRegressor(max_depth=2)),
        TypeError,
        r"pass its last step, model\[-1\] \('decisiontreeregressor': DecisionTreeRegressor\)",
    ),
    "search": (
        GridSearchCV(tree.DecisionTreeRegressor(), {"max_depth": [1, 2]}),
        TypeError,
        r"pass model\.best_estimator_ instead",
    ),
    "stack": (
        ensemble.StackingRegressor([("tree", tree.DecisionTreeRegressor(max_depth=2))]),
        TypeError,
        r"pass one of model\.estimators_ instead",
    ),
    "line": (LinearRegression(), TypeError, "expected one of DecisionTreeClassifier, "),
    "embedding": (ensemble.RandomTreesEmbedding(2), TypeError, "no tree ensemble"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, X, y):
    model, error, message = REFUSED[name]
    target = two(y) if "Classifier" in str(model) else y
    with pytest.raises(error, match=message):
        reader.read(model.fit(X, target))


@pytest.mark.parametrize(
    "model",
    [
        tree.DecisionTreeRegressor(),
        ensemble.RandomForestClassifier(),
        ensemble.GradientBoostingRegressor(),
        ensemble.HistGradientBoostingClassifier(),
        ensemble.IsolationForest(),
        ensemble.BaggingRegressor(),
        ensemble.AdaBoostClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_unfitted(model):
    with pytest.raises(NotFittedError):
        reader.read(model)


def test_derived_classes_are_read_as_their_bases(X, y):
    class Mine(ensemble.RandomForestRegressor):
        pass

    model = Mine(3, max_depth=3, random_state=0).fit(X, y)
    check(model, X, margins=model.predict, leaves=model.apply)


def test_broken_estimators_are_refused(X, y):
    model = ensemble.HistGradientBoostingRegressor(max_iter=2).fit(X, y)
    nodes = model._predictors[0][0].nodes
    nodes["left"][0] = len(nodes) + 5
    with pytest.raises(ValueError, match="tree 0 names child"):
        reader.read(model)
    nodes["left"][0] = 0
    with pytest.raises(ValueError, match="tree 0 reaches node 0 twice"):
        reader.read(model)
    nodes["feature_idx"][0] = 77
    with pytest.raises(ValueError, match="a tree splits on feature 77"):
        reader.read(model)
