"""Equations from rows on which nothing was chosen."""

import numpy as np
import pandas as pd
import pytest

from glasswood import ModelTreeEnsembleRegressor, ModelTreeRegressor

SETTINGS = {"n_jobs": 1, "honest": 0.5, "n_iter_no_change": 30}


def piecewise(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n_rows, 3))
    return X, np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0]) + 0.3 * rng.standard_normal(n_rows)


def test_half_of_the_rows_make_the_equations():
    X, y = piecewise(800)
    tree = ModelTreeRegressor(**SETTINGS).fit(X, y)
    assert tree.n_leaves_ == 2
    assert tree.leaf_summary_["n_rows"].sum() == 400
    assert np.sqrt(np.mean((tree.predict(X) - y) ** 2)) < 0.35


def test_equations_do_not_see_the_rows_of_the_search():
    """The rows of the equations are the same whatever is found on the others; so are their leaf's means."""
    X, y = piecewise(400)
    y[:] = np.random.default_rng(1).standard_normal(400)
    tree = ModelTreeRegressor(**{**SETTINGS, "honest": 0.25}).fit(X, y)
    assert tree.leaf_summary_["n_rows"].sum() == 100
    assert tree.forest_.n_leaves == 1
    values = {round(float(tree.leaf_summary_[name][0]), 12) for name in ("low", "high")}
    assert values <= set(np.round(y, 12))


def test_standard_errors_hold_what_they_say():
    """Terms that noise chose among 30 features: their coefficients are 0, and so they are found to be."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((200, 30)), rng.standard_normal(200)
        tree = ModelTreeRegressor(**{**SETTINGS, "penalty": 0.3, "max_leaves": 1, "smoothing": 0}, noise="uniform")
        leaves = pd.DataFrame(tree.fit(X, y).leaves_)
        chosen = leaves[leaves.feature != "(intercept)"]
        held += list(np.abs(chosen.coefficient) < 2 * chosen.standard_error)
    assert len(held) > 20
    assert np.mean(held) > 0.88


def test_categories_and_missing_values_go_along():
    rng = np.random.default_rng(3)
    kinds = np.array([f"k{i}" for i in range(14)])
    code = rng.integers(0, 14, 1500)
    x = rng.uniform(0, 5, 1500)
    y = np.where(code % 3 == 0, 2 * x, -x) + code + np.where(rng.random(1500) < 0.1, 20, 0)
    frame = pd.DataFrame({"kind": kinds[code], "x": np.where(y > 25, np.nan, x), "two": np.where(x < 2, "a", "b")})
    tree = ModelTreeRegressor(**SETTINGS).fit(frame, y)
    assert tree.n_leaves_ > 1
    assert tree.leaf_summary_["n_rows"].sum() == 750
    np.testing.assert_allclose(tree.forest_.predict(frame), tree.predict(frame), rtol=1e-12)


def test_order_of_rows_does_not_matter():
    X, y = piecewise(300)
    order = np.random.default_rng(5).permutation(300)
    trees = [ModelTreeRegressor(**SETTINGS).fit(X[rows], y[rows]) for rows in (np.arange(300), order)]
    np.testing.assert_array_equal(trees[0].predict(X), trees[1].predict(X))


def test_leaves_that_no_other_row_reaches_go():
    X, y = piecewise(60)
    X[:6, 2] = 99
    y[:6] += 50
    tree = ModelTreeRegressor(**{**SETTINGS, "honest": 0.1}, min_samples_leaf=2).fit(X, y)
    assert (tree.leaf_summary_["n_rows"] >= 2).all()


def test_too_few_rows():
    with pytest.raises(ValueError, match=r"honest=0\.5 divides 1 rows"):
        ModelTreeRegressor(**SETTINGS).fit([[1.0]], [1.0])


def test_members_of_an_ensemble_are_what_their_estimator_says():
    X, y = piecewise(300)
    y[::50] += 1000
    off = {}
    for loss in ("squared", "huber"):
        member = ModelTreeRegressor(loss=loss, n_iter_no_change=30)
        predicted = ModelTreeEnsembleRegressor(member, n_estimators=2, n_jobs=1).fit(X, y).predict(X)
        off[loss] = np.median(np.abs(predicted - y))
    assert off["huber"] < 2 < 10 < off["squared"]  # outliers move the mean by 20
    honest = ModelTreeEnsembleRegressor(ModelTreeRegressor(**SETTINGS), n_estimators=2, n_jobs=1).fit(X, y)
    assert honest.estimators_[0].leaf_summary_["n_rows"].sum() == 120
