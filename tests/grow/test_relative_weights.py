"""Weights that differ in scale alone grow the same trees."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone

import glasswood
from tests.grow.test_row_order import fits

N_ROWS = 160
FACTORS = [1e-6, 1 / 300, 7.3, 1e6]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    return X, X[:, 0] - X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=N_ROWS), rng.random(N_ROWS) + 0.1


def models():
    counts = {
        loss: (glasswood.ModelTreeRegressor(loss=loss, generations=2, population_size=8, n_jobs=1), False)
        for loss in ("poisson", "gamma")
    }
    summed = {f"sum {loss}": (glasswood.ModelTreeEnsembleRegressor(
        glasswood.ModelTreeRegressor(generations=2, population_size=4, max_leaves=4), 2, method=method, loss=loss,
        max_trees=3, n_jobs=1,
    ), False) for loss, method in (("poisson", "boosting"), ("gamma", "mean"), ("quantile", "mean"))}  # fmt: skip
    balanced = {"balanced": (glasswood.ModelTreeClassifier(generations=2, n_jobs=1, class_weight="balanced"), True)}
    return {**fits(), **counts, **summed, **balanced}


def predicted(model, X, y, weight):
    model = model.fit(X, y, sample_weight=weight)
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", list(models()))
def test_weights_have_no_scale(name, factor, data, request):
    if name != "smooth":
        request.getfixturevalue("unjudged")
    model, is_classifier = models()[name]
    X, y, weight = data
    y = np.digitize(y, [-0.5, 0.8]) if is_classifier else np.exp(y).round(2) + 0.01
    expected = predicted(clone(model), X, y, weight)
    np.testing.assert_allclose(predicted(clone(model), X, y, weight * factor), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("name", ["tree", "classes", "boosting", "boosted classes", "mean"])
@pytest.mark.parametrize("weight", [0.5, 1 / 300, 1000.5, 1e6])
def test_equal_weights_are_none(name, weight, data):
    model, is_classifier = models()[name]
    X, y, _ = data
    y = y > 0 if is_classifier else y
    expected = predicted(clone(model), X, y, None)
    np.testing.assert_allclose(predicted(clone(model), X, y, np.full(N_ROWS, weight)), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [2, 1000, 10**6])
def test_counts_have_no_common_divisor(factor, data):
    X, y, _ = data
    counts = np.random.default_rng(1).integers(0, 4, N_ROWS)
    tree = glasswood.ModelTreeRegressor(generations=2, n_jobs=1)
    expected = predicted(clone(tree), X, y, counts)
    np.testing.assert_array_equal(predicted(clone(tree), X, y, counts * factor), expected)
