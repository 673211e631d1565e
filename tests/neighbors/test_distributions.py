"""Quantiles, distribution functions and samples beside quantile-forest and the definitions."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.oracles import neighbors as oracle

Q = [0.0, 0.03, 0.1, 0.25, 0.5, 0.77, 0.95, 1.0]


@pytest.mark.parametrize(
    "settings",
    [{"min_samples_leaf": 5}, {"bootstrap": False, "min_samples_leaf": 3}, {"min_samples_leaf": 120}, {}],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_are_those_of_quantile_forest(settings, weighted, numbers):
    quantile_forest = pytest.importorskip("quantile_forest")
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows, _ = numbers
    settings = {"n_estimators": 40, "random_state": 1, **settings}
    theirs = quantile_forest.RandomForestQuantileRegressor(max_samples_leaf=None, **settings).fit(X, y)
    neighbors = glasswood.Neighbors(RandomForestRegressor(**settings).fit(X, y), X, y)
    expected = theirs.predict(rows, Q, weighted_leaves=weighted)
    found = neighbors.quantile(rows, Q, weighted_leaves=weighted)
    differs = np.abs(found - expected) > 1e-6
    np.testing.assert_array_equal(glasswood.Neighbors(theirs, X, y).quantile(rows, Q, weighted_leaves=weighted), found)
    # Where cumulated fractions reach a quantile exactly, rounding decides in quantile-forest.
    assert differs.mean() <= (0.005 if weighted and "min_samples_leaf" not in settings else 0)


@pytest.mark.parametrize("name", ["random_forest", "booster"])
def test_distributions_follow_the_weights(name, numbers, request):
    model = request.getfixturevalue(name)
    X, y, rows, _ = numbers
    neighbors = glasswood.Neighbors(model, X, y)
    forest = glasswood.load(model)
    counts = np.ones((400, forest.n_trees))
    if name == "random_forest":
        counts = np.stack([np.bincount(draw, minlength=400) for draw in model.estimators_samples_], axis=1)
    weights = oracle.weights(
        forest.predict(rows, output="leaf"), forest.predict(X, output="leaf"), counts, neighbors.tree_weight
    )
    found = neighbors.quantile(rows, [0.0, 0.2, 0.61, 1.0], method="inverted_cdf")
    expected = [[y[w > 0].min(), *(oracle.inverted_cdf(y, w, q) for q in (0.2, 0.61)), y[w > 0].max()] for w in weights]
    np.testing.assert_allclose(found, expected)
    values = [-1.0, 0.5, 2.0, 99.0]
    np.testing.assert_allclose(
        neighbors.cdf(rows, values), np.stack([(weights * (y <= v)).sum(axis=1) for v in values], axis=1), atol=1e-12
    )
    drawn = neighbors.sample(rows, 4000, random_state=0)
    assert np.isin(drawn, y).all()
    np.testing.assert_allclose((drawn <= 0.5).mean(axis=1), neighbors.cdf(rows, 0.5), atol=0.04)
    np.testing.assert_array_equal(drawn, neighbors.sample(rows, 4000, random_state=0))


def test_means_of_a_random_forest_are_its_predictions(random_forest, numbers):
    X, y, rows, _ = numbers
    neighbors = glasswood.Neighbors(random_forest, X, y)
    grid = np.sort(y)
    steps = np.diff(neighbors.cdf(rows, grid), axis=1, prepend=0)
    np.testing.assert_allclose(steps @ grid, random_forest.predict(rows), atol=1e-9)


def test_shapes(random_forest, numbers):
    X, y, rows, _ = numbers
    neighbors = glasswood.Neighbors(random_forest, X, y)
    assert neighbors.quantile(rows).shape == (100,)
    assert neighbors.quantile(rows, [0.5]).shape == (100, 1)
    assert neighbors.quantile(None, 0.5).shape == (400,)
    assert neighbors.quantile(rows[:0], [0.1, 0.9]).shape == (0, 2)
    assert neighbors.cdf(rows, 0.0).shape == (100,)
    assert neighbors.sample(rows).shape == (100, 1)


def test_several_outputs(numbers):
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows, _ = numbers
    Y = np.stack([y, -2 * y], axis=1)
    neighbors = glasswood.Neighbors(RandomForestRegressor(10, random_state=0).fit(X, Y), X, Y)
    found = neighbors.quantile(rows, [0.1, 0.9], method="inverted_cdf")
    assert found.shape == (100, 2, 2)
    assert neighbors.quantile(rows).shape == (100, 2)
    assert neighbors.sample(rows, 3, random_state=0).shape == (100, 3, 2)
    np.testing.assert_allclose(neighbors.cdf(rows, 0.0)[:, 0] + neighbors.cdf(rows, 0.0)[:, 1], 1, atol=1e-12)


def test_weights_of_rows(numbers):
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows, _ = numbers
    weight = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    model = RandomForestRegressor(10, bootstrap=False, max_features=2, random_state=0).fit(X, y, weight)
    kept = np.repeat(np.arange(400), weight.astype(int))
    weighted = glasswood.Neighbors(model, X, y, sample_weight=weight)
    repeated = glasswood.Neighbors(model, X[kept], y[kept], check=False)
    np.testing.assert_allclose(
        weighted.quantile(rows, Q, method="inverted_cdf"), repeated.quantile(rows, Q, method="inverted_cdf")
    )


def test_weights_by_which_rows_were_drawn_count_once(numbers):
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows, _ = numbers
    weight = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    model = RandomForestRegressor(10, min_samples_leaf=9, random_state=0).fit(X, y, weight)
    neighbors = glasswood.Neighbors(model, X, y, sample_weight=weight)
    grid = np.sort(y)
    steps = np.diff(neighbors.cdf(rows, grid), axis=1, prepend=0)
    np.testing.assert_allclose(steps @ grid, model.predict(rows), atol=1e-9)


def test_threads_and_batches_do_not_change_bits(random_forest, numbers):
    X, y, rows, _ = numbers
    one, two = (glasswood.Neighbors(random_forest, X, y, n_jobs=n) for n in (1, 2))
    expected = one.quantile(rows, Q)
    assert expected.tobytes() == two.quantile(rows, Q).tobytes()
    assert expected.tobytes() == np.concatenate([two.quantile(rows[i : i + 7], Q) for i in range(0, 100, 7)]).tobytes()


def test_classes_are_drawn_as_labels(classifier, numbers, classes):
    neighbors = glasswood.Neighbors(classifier, numbers[0], classes)
    drawn = neighbors.sample(numbers[2], 2000, random_state=1)
    probability = classifier.predict_proba(numbers[2])
    shares = np.stack([(drawn == label).mean(axis=1) for label in classifier.classes_], axis=1)
    np.testing.assert_allclose(shares, probability, atol=0.05)
    with pytest.raises(ValueError, match="these are classes"):
        neighbors.quantile(numbers[2])
