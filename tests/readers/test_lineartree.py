"""linear-tree: leaves that hold linear models. They need the environment of `make test-others`."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.exceptions import NotFittedError
from tests.oracles import coalitions, linear_shapley
from tests.readers.adversarial import adversarial_rows
from tests.readers.forests import BACKGROUND, EXPLAINED, MODELS, make_rows, signal

import glasswood

lineartree = pytest.importorskip("lineartree", reason="needs scikit-learn before 1.7: make test-others")
pytestmark = pytest.mark.filterwarnings("ignore")
SINGLE = 1e-5
"""Linear models of the library add up in float32."""


def check(model, respond, X, output="margin"):
    """Compare predictions and values with those of the library, which reads rows in float32."""
    forest = glasswood.load(model, check=X)
    rows = adversarial_rows(forest, X, allow_nan=False, allow_inf=False, max_rows=1000)
    rows = rows[np.abs(rows).max(axis=1) < 1e3]
    np.testing.assert_allclose(forest.predict(rows, output=output), respond(rows), rtol=SINGLE, atol=SINGLE)
    played = coalitions.game(lambda hybrids, _: respond(hybrids), X[EXPLAINED], X[BACKGROUND], np.arange(X.shape[1]))
    values = glasswood.Explainer(forest, X[BACKGROUND], dtype="float64", output=output).shap_values(X[EXPLAINED])
    scale = 10 * SINGLE * max(1, np.abs(X).max())
    np.testing.assert_allclose(values.reshape(-1), coalitions.values(played).reshape(-1), atol=scale)
    return forest


@pytest.mark.parametrize("seed", MODELS)
def test_linear_trees(seed):
    X = make_rows(seed)
    base = (linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(0.01))[seed % 3]
    features = {"linear_features": [0, 2]} if seed % 2 else {}
    model = lineartree.LinearTreeRegressor(base, max_depth=1 + seed % 4, **features).fit(X, signal(X))
    forest = check(model, model.predict, X)
    np.testing.assert_array_equal(forest.predict(X, output="leaf")[:, 0], model.apply(X))
    with_means = forest.with_means(X)
    found = glasswood.Explainer(with_means, dtype="float64").shap_values(X[EXPLAINED])
    np.testing.assert_allclose(found, linear_shapley.values(with_means, X[EXPLAINED])[:, :, 0], atol=1e-9)


@pytest.mark.parametrize("seed", MODELS)
def test_linear_forests(seed):
    X = make_rows(seed)
    options = {"n_estimators": 1 + seed, "max_depth": 1 + seed % 3, "max_features": None, "random_state": seed}
    model = lineartree.LinearForestRegressor(linear_model.Ridge(), **options).fit(X, signal(X))
    check(model, model.predict, X)
    labels = np.where(signal(X) > 1, "yes", "no")
    model = lineartree.LinearForestClassifier(linear_model.Ridge(), **options).fit(X, labels)
    forest = check(model, model.decision_function, X)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


def test_a_tree_of_one_leaf():
    X = make_rows(0)
    model = lineartree.LinearTreeRegressor(linear_model.LinearRegression(), min_samples_leaf=150).fit(X, signal(X))
    assert check(model, model.predict, X).n_leaves == 1


def test_bad_input():
    X, y = make_rows(0), signal(make_rows(0))
    line = linear_model.LinearRegression()
    for kind in (lineartree.LinearTreeRegressor, lineartree.LinearForestRegressor):
        with pytest.raises(NotFittedError):
            glasswood.load(kind(line))
    for kind in (lineartree.LinearBoostRegressor, lineartree.LinearTreeClassifier):
        with pytest.raises(
            NotImplementedError, match=f"{kind.__name__} of linear-tree is not supported; glasswood reads"
        ):
            glasswood.load(kind(line))
    several = lineartree.LinearTreeRegressor(line, max_depth=2).fit(X, np.column_stack([y, -y]))
    with pytest.raises(NotImplementedError, match="LinearTreeRegressor of 2 targets is not supported; fit one each"):
        glasswood.load(several)
    forest = lineartree.LinearForestRegressor(line, n_estimators=2, max_features=None).fit(X, np.column_stack([y, -y]))
    with pytest.raises(NotImplementedError, match="LinearForestRegressor of 2 targets is not supported; fit one each"):
        glasswood.load(forest)
    linked = lineartree.LinearTreeRegressor(linear_model.PoissonRegressor(), max_depth=2).fit(X, np.exp(y / 9))
    with pytest.raises(
        NotImplementedError, match="leaves of PoissonRegressor are not supported; glasswood reads linear"
    ):
        glasswood.load(linked)
    model = lineartree.LinearTreeRegressor(line, max_depth=2).fit(X, y)
    del model._nodes[""]
    with pytest.raises(NotImplementedError, match=r"this layout of linear-tree .* is not read; upgrade glasswood"):
        glasswood.load(model)
