"""The difference of two forests as one forest, beside both."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, random_forest, random_rows

FORESTS = {
    "numbers": Options(n_trees=7, n_features=4),
    "categories, three outputs": Options(n_trees=5, n_features=3, row_type="float64", categorical=True, n_outputs=3),
}


def margins(model, rows):
    return np.asarray(glasswood.load(model).predict(rows, "margin"), np.float64)


@pytest.mark.parametrize("name", FORESTS)
def test_margins_and_values_are_differences(name):
    options = FORESTS[name]
    for seed in range(3):
        a, b = (random_forest(seed + n, options) for n in (0, 100))
        rows = random_rows(seed, a, 60, dtype=options.row_type)
        change = glasswood.difference(a, b)
        assert change.n_trees == a.n_trees + b.n_trees
        size = np.abs(margins(a, rows)).max() + np.abs(margins(b, rows)).max()
        expected = margins(b, rows) - margins(a, rows)
        np.testing.assert_allclose(change.predict(rows), expected, rtol=0, atol=1e-5 * size)
        values = [glasswood.Explainer(one, rows[:20], dtype="float64").shap_values(rows) for one in (change, b, a)]
        np.testing.assert_allclose(values[0], values[1] - values[2], rtol=0, atol=1e-9 * size)


def test_a_new_model_is_explained_against_the_old_one(tmp_path):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = glasswood.datasets.california()
    models = [
        ensemble.HistGradientBoostingRegressor(max_iter=n, random_state=n).fit(X[:2000], y[:2000]) for n in (8, 12)
    ]
    change = glasswood.difference(*models)
    np.testing.assert_allclose(
        change.predict(X[:300]), models[1].predict(X[:300]) - models[0].predict(X[:300]), atol=1e-12
    )
    compared = glasswood.compare(*models, X=X[:300])
    np.testing.assert_allclose(
        glasswood.Explainer(change, dtype="float64").shap_values(X[:300]).mean(axis=0), compared.change[:, 0], atol=1e-9
    )
    change.save(tmp_path / "change.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "change.glasswood").predict(X[:9]), change.predict(X[:9]))


def test_models_that_read_rows_differently():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100.0)
    forest = ensemble.RandomForestRegressor(3, random_state=0).fit(X, y)
    boosted = glasswood.datasets.DATA / "california_housing.json"
    with pytest.raises(ValueError, match="and b of xgboost, which compare numbers differently"):
        glasswood.difference(forest, boosted)
    with pytest.raises(ValueError, match="n_features of a is 3, of b 2"):
        glasswood.difference(forest, ensemble.RandomForestRegressor(3).fit(X[:, :2], y))
    with pytest.raises(ValueError, match="n_outputs of a is 1, of b 2"):
        glasswood.difference(forest, ensemble.RandomForestRegressor(3).fit(X, np.stack([y, y], axis=1)))
