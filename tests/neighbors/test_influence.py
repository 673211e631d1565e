"""Influence beside leaves computed again without each row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

import glasswood
from tests.oracles import neighbors as oracle

N = 120


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N + 6, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N + 6)
    return X[:N], y[:N], X[N:]


def without_each_row(y, training, leaves, rate, penalty, base, loss):
    """Margins of rows with all training rows, minus those without each, (n_rows, n)."""

    def margins(kept):
        values = oracle.boosted(y, training, rate, penalty, base, kept, loss)
        return base + sum(value[leaf] for value, leaf in zip(values, leaves.T, strict=True))

    everything = np.ones(len(y), bool)
    full = margins(everything)
    return np.stack([full - margins(np.arange(len(y)) != row) for row in range(len(y))], axis=1), full


def agreement(found, expected):
    return np.mean([spearmanr(a, b).statistic for a, b in zip(found, expected, strict=True)])


@pytest.mark.parametrize("settings", [{}, {"bootstrap": False}, {"max_depth": 3}])
def test_random_forests_are_exact(settings, few):
    from sklearn.ensemble import RandomForestRegressor

    X, y, rows = few
    model = RandomForestRegressor(12, min_samples_leaf=2, random_state=0, **settings).fit(X, y)
    training, leaves = model.apply(X), model.apply(rows)
    counts = np.ones((N, 12))
    if settings.get("bootstrap", True):
        counts = np.stack([np.bincount(draw, minlength=N) for draw in model.estimators_samples_], axis=1)
    expected = np.zeros((len(rows), N))
    for tree in range(12):
        for i, leaf in enumerate(leaves[:, tree]):
            weight = (training[:, tree] == leaf) * counts[:, tree]
            for row in np.flatnonzero(weight):
                left = np.where(np.arange(N) == row, 0, weight)
                if left.any():
                    expected[i, row] += (np.average(y, weights=weight) - np.average(y, weights=left)) / 12
    neighbors = glasswood.Neighbors(model, X, y)
    np.testing.assert_allclose(neighbors.influence(rows, None), expected, atol=1e-9)
    values, places = neighbors.influence(rows, 5)
    np.testing.assert_allclose(values, np.take_along_axis(expected, places, axis=1), atol=1e-9)
    assert (np.diff(np.abs(values), axis=1) <= 1e-9).all()


def test_classes_of_a_random_forest(classifier, numbers, classes):
    X = numbers[0]
    neighbors = glasswood.Neighbors(classifier, X, classes)
    found = neighbors.influence(X[:5], None, output=2)
    own = classes == "middle"
    assert classifier.classes_[2] == "middle"
    assert (found[:, own] >= 0).all()
    assert (found[:, ~own] <= 0).all()


@pytest.mark.parametrize(
    ("library", "loss", "penalty"),
    [
        ("xgboost", "squared", 1.0),
        ("xgboost", "logistic", 1.0),
        ("lightgbm", "squared", 0.5),
        ("lightgbm", "logistic", 0.5),
        ("gradient_boosting", "squared", 0.0),
        ("gradient_boosting", "logistic", 0.0),
        ("hist", "squared", 0.0),
        ("catboost", "squared", 3.0),
    ],
)
def test_boosted_forests_rank_as_without_each_row(library, loss, penalty, few):
    X, y, rows = few
    y = y if loss == "squared" else (y > 0).astype(float)
    model = made(library, loss, penalty).fit(X, y)
    forest = glasswood.load(model)
    neighbors = glasswood.Neighbors(forest, X, y)
    training, leaves = (forest.predict(part, output="leaf").reshape(len(part), -1) for part in (X, rows))
    base = {"lightgbm": y.mean() if loss == "squared" else np.log(y.mean() / (1 - y.mean()))}
    base = float(base.get(library, forest.ensemble.base_score[0]))
    expected, full = without_each_row(y, training, leaves, 0.3, penalty, base, loss)
    np.testing.assert_allclose(full, forest.predict(rows, output="margin"), rtol=2e-3, atol=2e-3)
    found = neighbors.influence(rows, None)
    assert agreement(found, expected) >= 0.99
    largest = np.abs(expected).max(axis=1)
    assert (np.abs(found - expected).max(axis=1) <= 0.25 * largest).all()


def made(library, loss, penalty):
    from sklearn import ensemble

    kind = "Regressor" if loss == "squared" else "Classifier"
    common = {"learning_rate": 0.3, "max_depth": 3}
    if library == "gradient_boosting":
        return getattr(ensemble, f"GradientBoosting{kind}")(n_estimators=15, random_state=0, **common)
    if library == "hist":
        return getattr(ensemble, f"HistGradientBoosting{kind}")(max_iter=15, min_samples_leaf=5, **common)
    module = pytest.importorskip(library)
    if library == "xgboost":
        return getattr(module, f"XGB{kind}")(n_estimators=15, reg_lambda=penalty, n_jobs=1, **common)
    if library == "lightgbm":
        settings = {"min_child_samples": 5, "verbose": -1, "n_jobs": 1, "min_sum_hessian_in_leaf": 0}
        return getattr(module, f"LGBM{kind}")(n_estimators=15, reg_lambda=penalty, **settings, **common)
    settings = {"bootstrap_type": "No", "boosting_type": "Plain", "random_strength": 0, "verbose": False}
    settings |= {"allow_writing_files": False, "thread_count": 1, "l2_leaf_reg": penalty}
    return getattr(module, f"CatBoost{kind}")(15, **settings, **common)


def test_other_targets_are_refused(booster, numbers):
    X, y, rows, _ = numbers
    neighbors = glasswood.Neighbors(booster, X, np.random.default_rng(0).permutation(y))
    with pytest.raises(ValueError, match="are not Newton steps of the loss on X and y"):
        neighbors.influence(rows)


def test_what_is_not_known_is_refused(numbers, classes):
    xgboost = pytest.importorskip("xgboost")
    X, _, rows, _ = numbers
    labels = np.unique(classes, return_inverse=True)[1]
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, labels)
    with pytest.raises(NotImplementedError, match="3 outputs and the link 'softmax'"):
        glasswood.Neighbors(model, X, labels).influence(rows)
