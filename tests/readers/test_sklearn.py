"""The scikit-learn readers against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, tree
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.sklearn_models import (
    MAX_ROWS,
    N_ROWS,
    N_TREES,
    check,
    takes,
    three,
    two,
)

import glasswood
from glasswood.readers import sklearn as reader

pytestmark = pytest.mark.filterwarnings("ignore:.*SAMME:FutureWarning")


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
    forest = glasswood.load(model)
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
    assert forest.ensemble.nan_allowed
    assert forest.ensemble.default_left[forest.ensemble.feature >= 0].any()


def test_sparse_training(X, y):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    model = ensemble.RandomForestRegressor(N_TREES, max_depth=5, random_state=0).fit(scipy_sparse.csr_matrix(X), y)
    check(model, X, margins=model.predict, leaves=model.apply)


def test_covers_are_the_weights_of_the_nodes(X, y):
    weights = np.random.default_rng(0).random(N_ROWS)
    forest = glasswood.load(tree.DecisionTreeRegressor(max_depth=4).fit(X, y, sample_weight=weights))
    for _, node, rows in evaluate.visits(forest, X):
        assert forest.ensemble.cover[node] == pytest.approx(weights[rows].sum(), rel=1e-12)


def test_column_names(X, y):
    frame = pd.DataFrame(X, columns=list("abcde"))
    assert reader.read(tree.DecisionTreeRegressor(max_depth=2).fit(frame, y)).feature_names == tuple("abcde")
    assert reader.read(tree.DecisionTreeRegressor(max_depth=2).fit(X, y)).feature_names is None


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
    allow_inf = takes(model, np.inf)  # since scikit-learn 1.6
    forest = check(model, X, margins=lambda rows: -np.log2(-model.score_samples(rows)), allow_inf=allow_inf)
    # The logarithm has lost a few units in the last place of the scores; the leaves say it exactly.
    rows = adversarial_rows(forest, X, allow_nan=forest.ensemble.nan_allowed, allow_inf=allow_inf, max_rows=MAX_ROWS)
    with np.errstate(invalid="ignore"):
        scores = model.score_samples(rows)
    np.testing.assert_allclose(-(2.0 ** -evaluate.margins(forest, rows)[:, 0]), scores, rtol=1e-14)
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
    np.testing.assert_array_equal(evaluate.leaf_ids(glasswood.Forest(reader.read(model)), X), np.column_stack(expected))


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
    "stack": (
        ensemble.StackingRegressor([("tree", tree.DecisionTreeRegressor(max_depth=2))]),
        TypeError,
        r"pass one of model\.estimators_ instead",
    ),
    "line": (LinearRegression(), TypeError, "expected one of DecisionTreeClassifier, "),
    "embedding": (ensemble.RandomTreesEmbedding(2), TypeError, "not a tree ensemble"),
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
