"""What shap's own users and tests read of shap.TreeExplainer, and frames under other names."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, random_forest

shap = pytest.importorskip("shap")
pandas = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")
ensemble = pytest.importorskip("sklearn.ensemble")

OTHER = r"has the names 'p', 'q', 'r', 's', none of them one of the forest's features 'a', 'b', 'c', 'd', and is taken"
ARRAYS = ("children_left", "children_right", "children_default", "features", "thresholds", "values")


@pytest.fixture(scope="module", name="X")
def rows():
    return pandas.DataFrame(np.random.default_rng(0).normal(size=(200, 4)), columns=list("abcd"))


@pytest.fixture(scope="module")
def model(X):
    return xgboost.XGBRegressor(n_estimators=8, max_depth=3).fit(X, X["a"] * X["b"])


@pytest.fixture(scope="module")
def other(X):
    return X.set_axis(list("pqrs"), axis=1)


def test_frames_with_other_names_are_taken_by_position(X, other, model):
    """As shap does, which asks no names; it says so each time."""
    ours = glasswood.TreeExplainer(model)
    for call in (ours.shap_values, ours.shap_interaction_values, lambda given: ours(given).values):
        expected = call(X)
        for given, wanted in ((other, expected), (other.iloc[3], expected[3])):
            with pytest.warns(UserWarning, match=OTHER) as caught:
                np.testing.assert_array_equal(call(given), wanted)
            assert len(caught) == 1
    np.testing.assert_allclose(ours.shap_values(X), shap.TreeExplainer(model).shap_values(X), atol=1e-5)


def test_the_warning_names_the_callers_line(other, model):
    explainer = glasswood.TreeExplainer(model)
    for call in (explainer.shap_values, explainer, lambda X: glasswood.TreeExplainer(model, X)):
        with pytest.warns(UserWarning, match=OTHER) as caught:
            call(other)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("perturbation", ["interventional", "tree_path_dependent"])
def test_backgrounds_with_other_names_are_taken_by_position(X, other, model, perturbation):
    expected = glasswood.TreeExplainer(model, X, feature_perturbation=perturbation).shap_values(X)
    with pytest.warns(UserWarning, match=f"data {OTHER}"):
        explainer = glasswood.TreeExplainer(model, other, feature_perturbation=perturbation)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)


def test_names_count_where_any_is_a_features(X, model, tmp_path):
    explainer = glasswood.TreeExplainer(model)
    explainer.save(tmp_path / "explainer.glasswood")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = explainer.shap_values(X)
        np.testing.assert_array_equal(explainer.shap_values(X[list("dbca")]), expected)
        np.testing.assert_array_equal(explainer.shap_values(X.set_axis(range(4), axis=1)), expected)
        with pytest.raises(ValueError, match="lacks 'a'"):
            explainer.shap_values(X.rename(columns={"a": "z"}))
        with pytest.raises(ValueError, match="X has 3 columns"):
            explainer.shap_values(X[["a", "b", "c"]].set_axis(list("xyz"), axis=1))
        with pytest.raises(ValueError, match="none named like one of the forest's features"):
            glasswood.Explainer(model).shap_values(X.set_axis(list("pqrs"), axis=1))
    loaded = glasswood.TreeExplainer.load(tmp_path / "explainer.glasswood")
    with pytest.warns(UserWarning, match=OTHER):
        np.testing.assert_array_equal(loaded.shap_values(X.set_axis(list("pqrs"), axis=1)), expected)


@pytest.mark.parametrize("max_features", [1.0, 0.6])
def test_isolation_forests_are_explained_in_path_lengths(X, max_features, tmp_path):
    """glasswood's own margin is divided by the path length of a failed search."""
    forest = ensemble.IsolationForest(n_estimators=20, max_features=max_features, random_state=0).fit(X)
    theirs, ours = shap.TreeExplainer(forest), glasswood.TreeExplainer(forest)
    np.testing.assert_allclose(ours.shap_values(X), theirs.shap_values(X), atol=1e-5)
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, rtol=1e-6)
    np.testing.assert_allclose(ours.model.predict(X), theirs.model.predict(X.to_numpy()), rtol=1e-6)
    unit = ours.expected_value / glasswood.Explainer(forest).expected_value
    scores = -(2.0 ** (-(ours.shap_values(X).sum(axis=1) + ours.expected_value) / unit))
    np.testing.assert_allclose(scores, forest.score_samples(X), atol=1e-6)
    ours.save(tmp_path / "explainer.glasswood")
    again = glasswood.TreeExplainer.load(tmp_path / "explainer.glasswood")
    np.testing.assert_array_equal(again.shap_values(X), ours.shap_values(X))


def test_isolation_forests_of_single_samples_have_no_unit(X):
    forest = ensemble.IsolationForest(n_estimators=3, max_samples=1, random_state=0).fit(X)
    assert not glasswood.TreeExplainer(forest).shap_values(X).any()


@pytest.mark.parametrize("kind", ["xgboost", "classes", "vectors"])
def test_arrays_of_nodes_are_those_of_shap(X, kind):
    y = X["a"] * X["b"] + X["c"]
    if kind == "vectors":
        fitted = ensemble.RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, np.stack([y, -y, y**2], axis=1))
    else:
        wanted = np.digitize(y, [-1, 1]) if kind == "classes" else y > 0
        fitted = xgboost.XGBClassifier(n_estimators=6, max_depth=3).fit(X, wanted)
    ours, theirs = glasswood.TreeExplainer(fitted).model, shap.TreeExplainer(fitted).model
    holes = X.mask(X > 1).to_numpy() if kind != "vectors" else X.to_numpy()
    for row in holes[:20]:
        np.testing.assert_allclose(routed(ours, row), routed(theirs, row), atol=1e-6)
    np.testing.assert_allclose(routed(ours, holes[0]) + ours.base_offset, ours.predict(holes[:1])[0], atol=1e-5)
    np.testing.assert_allclose(np.sort(ours.node_sample_weight.sum(axis=1)), np.sort(covers(theirs)), rtol=1e-4)
    sizes = {getattr(ours, name).shape[:2] for name in (*ARRAYS, "node_sample_weight")}
    assert sizes == {theirs.features.shape}


def routed(model, row):
    """Sum of the leaves that a row reaches by shap's arrays of nodes."""
    left, right, default, features, thresholds, values = (getattr(model, name) for name in ARRAYS)
    total = np.zeros(values.shape[2])
    for tree in range(len(left)):
        node = 0
        while left[tree, node] >= 0:
            x = row[features[tree, node]]
            sides = right[tree, node], left[tree, node]
            node = default[tree, node] if np.isnan(x) else sides[int(x <= thresholds[tree, node])]
        total += values[tree, node]
    return total


def covers(model):
    return model.node_sample_weight.sum(axis=1)


def test_arrays_of_nodes_say_what_they_lack():
    forest = random_forest(0, Options(n_trees=2, n_features=3, categorical=True))
    with pytest.raises(NotImplementedError, match="no splits by categories, which this forest has; read explainer"):
        _ = glasswood.TreeExplainer(forest).model.features


def test_sparse_rows_become_explanations(X):
    sparse = pytest.importorskip("scipy.sparse")
    some = np.where(np.abs(X) > 0.7, X, 0.0)
    ranker = xgboost.XGBRegressor(n_estimators=4, max_depth=3).fit(sparse.csr_matrix(some), X["a"])
    forest = ensemble.RandomForestRegressor(3, max_depth=3, random_state=0).fit(some, X["a"])
    for fitted, absent in ((ranker, np.nan), (forest, 0.0)):
        explainer = glasswood.TreeExplainer(fitted)
        for kind in (sparse.csr_matrix, sparse.csc_array):
            found = explainer(kind(some))
            dense = np.where(some == 0, absent, some)
            np.testing.assert_array_equal(found.values, explainer.shap_values(dense))
            np.testing.assert_allclose(found.data, dense, rtol=1e-7)
            total = found.values.sum(axis=1) + found.base_values
            np.testing.assert_allclose(total, fitted.predict(kind(some)), atol=1e-5)


@pytest.mark.parametrize("bounds", [[0], [-1, 1]])
def test_predict_proba_has_an_output_a_class(X, bounds):
    y = np.digitize(X["a"], bounds)
    average = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    boosted = ensemble.HistGradientBoostingClassifier(max_iter=3).fit(X, y)
    for fitted in (average, boosted):
        explainer = glasswood.TreeExplainer(fitted, X[:20], model_output="predict_proba")
        values = explainer.shap_values(X)
        total = values.sum(axis=1) + explainer.expected_value
        np.testing.assert_allclose(total, fitted.predict_proba(X), atol=1e-6)
        sums = explainer.shap_interaction_values(X[:5]).sum(axis=2)
        np.testing.assert_allclose(sums, values[:5], atol=1e-6)
    with pytest.raises(NotImplementedError, match="rule='exact'"):
        glasswood.TreeExplainer(boosted, X[:20], model_output="predict_proba", rule="rescale")


def test_predict_proba_of_two_classes_is_exact(X):
    fitted = ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, X["a"] > 0)
    both = glasswood.TreeExplainer(fitted, X[:20], model_output="predict_proba").shap_values(X)
    second = glasswood.Explainer(fitted, X[:20], output="probability").shap_values(X)
    np.testing.assert_allclose(both, np.stack([-second, second], axis=2), atol=1e-7)


def test_boosters_stop_at_their_best_round_as_in_shap():
    """An estimator predicts so too; a Booster's own predict goes on."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=300)
    train, test = (xgboost.DMatrix(X[part], y[part], feature_names=names) for part in (slice(200), slice(200, None)))
    options = {"evals": [(test, "test")], "early_stopping_rounds": 5, "verbose_eval": False}
    booster = xgboost.train({"eta": 0.3, "num_parallel_tree": 2, "nthread": 1}, train, 100, **options)
    rounds = (0, booster.best_iteration + 1)
    assert rounds[1] < booster.num_boosted_rounds()
    explainer = glasswood.TreeExplainer(booster)
    assert explainer.model.tree_limit == 2 * rounds[1]
    assert explainer.forest.feature_names == tuple(names)
    expected = booster.predict(test, pred_contribs=True, iteration_range=rounds)
    np.testing.assert_allclose(explainer.shap_values(X[200:]), expected[:, :-1], atol=1e-5)
    margin = booster.predict(test, output_margin=True, iteration_range=rounds)
    np.testing.assert_allclose(explainer.model.predict(X[200:]), margin, atol=1e-5)
    assert glasswood.Explainer(booster).forest.n_trees == 2 * booster.num_boosted_rounds()
