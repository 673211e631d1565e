"""Coverage of intervals and sets, and their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import glasswood


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(4000, 4)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=4000) * (0.2 + np.abs(X[:, 0]))
    return X, y


def share_inside(intervals, y):
    return np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1]))


@pytest.mark.parametrize("library", ["forest", "xgboost", "lightgbm"])
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_split_conformal_covers_and_adapts(library, coverage, many):
    X, y = many
    model = regressor(library).fit(X[:1500], y[:1500])
    neighbors = glasswood.Neighbors(model, X[:1500], y[:1500]).conformalize(X[1500:2700], y[1500:2700])
    intervals = neighbors.predict_interval(X[2700:], coverage)
    assert abs(share_inside(intervals, y[2700:]) - coverage) < 0.025
    width, noise = np.diff(intervals, axis=1)[:, 0], np.abs(X[2700:, 0])
    assert width[noise > 1.5].mean() > 1.4 * width[noise < 0.3].mean()


def regressor(library):
    from sklearn.ensemble import RandomForestRegressor

    if library == "forest":
        return RandomForestRegressor(50, min_samples_leaf=5, random_state=0, n_jobs=2)
    module = pytest.importorskip(library)
    settings = {"n_estimators": 60, "max_depth": 4, "learning_rate": 0.1, "n_jobs": 2}
    return module.XGBRegressor(**settings) if library == "xgboost" else module.LGBMRegressor(verbose=-1, **settings)


def test_half_width_is_the_quantile_of_scores_in_units_of_the_scale(booster, numbers):
    X, y, rows, targets = numbers
    neighbors = glasswood.Neighbors(booster, X, y).conformalize(rows[:60], targets[:60])
    forest = glasswood.load(booster)
    training, leaves = forest.predict(X, output="leaf"), forest.predict(rows, output="leaf")
    residual = np.abs(y - booster.predict(X))
    scale = np.full(len(rows), 0.1 * residual.mean())
    for tree, weight in enumerate(neighbors.tree_weight):
        scale += weight * np.array([residual[training[:, tree] == leaf].mean() for leaf in leaves[:, tree]])
    scores = np.sort(np.abs(targets - booster.predict(rows))[:60] / scale[:60])
    half = scores[math.ceil(61 * 0.9) - 1] * scale
    found = neighbors.predict_interval(rows, 0.9)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], 2 * half, rtol=1e-5)
    np.testing.assert_allclose(found.mean(axis=1), booster.predict(rows), rtol=1e-5, atol=1e-6)
    assert np.isinf(neighbors.predict_interval(rows, 0.99)).all()  # 60 rows cannot tell


def test_jackknife_plus_is_that_of_trees_without_each_row(random_forest, numbers):
    X, y, rows, targets = numbers
    neighbors = glasswood.Neighbors(random_forest, X, y)
    out = np.stack([np.bincount(draw, minlength=400) == 0 for draw in random_forest.estimators_samples_], axis=1)
    of_training, of_rows = (
        np.stack([t.predict(part) for t in random_forest.estimators_], axis=1) for part in (X, rows)
    )
    low, high = [], []
    for i in range(400):
        residual = abs(y[i] - of_training[i, out[i]].mean())
        middle = of_rows[:, out[i]].mean(axis=1)
        low.append(middle - residual)
        high.append(middle + residual)
    place = math.ceil(0.9 * 401)
    expected = np.stack([np.sort(low, axis=0)[400 - place], np.sort(high, axis=0)[place - 1]], axis=1)
    found = neighbors.predict_interval(rows, 0.9)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert share_inside(found, targets) > 0.82


def test_what_intervals_need(booster, random_forest, classifier, numbers, classes):
    X, y, rows, targets = numbers
    boosted = glasswood.Neighbors(booster, X, y)
    for method in ("auto", "jackknife+"):
        with pytest.raises(ValueError, match="pass held-out rows to conformalize"):
            boosted.predict_interval(rows, method=method)
    with pytest.raises(ValueError, match="call conformalize"):
        boosted.predict_interval(rows, method="split")
    with pytest.raises(ValueError, match="method is 'cv'"):
        boosted.predict_interval(rows, method="cv")
    with pytest.raises(ValueError, match="X has no rows, expected held-out"):
        boosted.conformalize(rows[:0], targets[:0])
    forest = glasswood.Neighbors(random_forest, X, y)
    np.testing.assert_allclose(forest.predict_interval(rows, 0.8, method="quantile"), forest.quantile(rows, [0.1, 0.9]))
    with pytest.raises(ValueError, match="these are classes"):
        glasswood.Neighbors(classifier, X, classes).predict_interval(rows)
    with pytest.raises(ValueError, match="call conformalize"):
        glasswood.Neighbors(classifier, X, classes).predict_set(rows)


@pytest.mark.parametrize("library", ["forest", "xgboost"])
def test_sets_of_classes_cover(library, many):
    from sklearn.ensemble import RandomForestClassifier

    X, y = many
    labels = np.digitize(y, [-1.0, 0.0, 1.0])
    if library == "forest":
        model = RandomForestClassifier(50, min_samples_leaf=5, random_state=0, n_jobs=2)
    else:
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, max_depth=3, n_jobs=2)
    model.fit(X[:1500], labels[:1500])
    neighbors = glasswood.Neighbors(model, X[:1500], labels[:1500]).conformalize(X[1500:2700], labels[1500:2700])
    sets = neighbors.predict_set(X[2700:], 0.9)
    assert sets.shape == (1300, 4)
    assert abs(sets[np.arange(1300), labels[2700:]].mean() - 0.9) < 0.025
    assert sets.sum(axis=1).mean() < 4
