"""Categories that no two rows share, and categories that were not there."""

import numpy as np
import pandas as pd
import pytest

import glasswood

FAST = {"n_iter_no_change": 20, "n_jobs": 1}
GROWN = {
    "tree": (glasswood.ModelTreeRegressor, FAST),
    "honest": (glasswood.ModelTreeRegressor, {**FAST, "honest": 0.5}),
    "huber": (glasswood.ModelTreeRegressor, {**FAST, "loss": "huber"}),
    "classes": (glasswood.ModelTreeClassifier, FAST),
}


def rows(n_rows, seed=0):
    """An own key in every row beside a feature that tells the target."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n_rows)
    keys = [f"key{i}" for i in rng.permutation(n_rows)]
    return pd.DataFrame({"key": keys, "x": x}), x + 0.1 * rng.standard_normal(n_rows)


def target_of(model, y):
    return (y > 0).astype(int) if "Classifier" in model.__name__ else y


@pytest.mark.parametrize("name", GROWN)
def test_a_category_with_as_many_levels_as_rows_tells_nothing(name):
    model, settings = GROWN[name]
    X, y = rows(200)
    fitted = model(**settings).fit(X, target_of(model, y))
    assert fitted.n_leaves_ <= 2
    other, other_y = rows(500, 1)
    score = fitted.score(other, target_of(model, other_y))
    assert score > 0.85


@pytest.mark.parametrize("name", GROWN)
def test_unseen_categories_count_as_missing(name):
    model, settings = GROWN[name]
    X, y = rows(300)
    X["key"] = np.where(X["x"] > 0, "up", np.where(np.arange(300) % 2, "down", "down too"))
    fitted = model(**settings).fit(X, target_of(model, y))
    unseen, missing = X.assign(key="elsewhere"), X.assign(key=pd.Series([None] * 300, dtype=object))
    np.testing.assert_array_equal(fitted.predict(unseen), fitted.predict(missing))
    assert np.isfinite(fitted.predict(unseen)).all()


def test_intervals_of_unseen_categories():
    X, y = rows(300)
    trees = glasswood.ModelTreeEnsembleRegressor(glasswood.ModelTreeRegressor(**FAST), n_estimators=2, n_jobs=1).fit(
        X, y
    )
    for model in (trees, trees.estimators_[0]):
        assert np.isfinite(model.predict_interval(X.assign(key="elsewhere"))).all()
