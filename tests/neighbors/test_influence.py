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


def boosted_once(library, **settings):
    if library == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBRegressor(n_estimators=1, max_depth=2, base_score=0.0, n_jobs=1, **settings)
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMRegressor(
        n_estimators=1, num_leaves=4, boost_from_average=False, n_jobs=1, verbosity=-1, **settings
    )


@pytest.mark.parametrize("penalty", [0.0, 5.0])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_one_boosted_round_is_no_average(library, penalty, few):
    """A single tree is boosted unless its leaves are means: without the row, a leaf is -rate G / (H + penalty)."""
    X, y, rows = few
    model = boosted_once(library, learning_rate=0.3, reg_lambda=penalty).fit(X, y)
    leaf_of = model.apply if library == "xgboost" else (lambda Z: model.predict(Z, pred_leaf=True))
    training, own = np.asarray(leaf_of(X)).reshape(-1), np.asarray(leaf_of(rows)).reshape(-1)
    expected = np.zeros((len(rows), N))
    for i, leaf in enumerate(own):
        held = training == leaf
        value = 0.3 * y[held].sum() / (held.sum() + penalty)
        for row in np.flatnonzero(held):
            expected[i, row] = value - 0.3 * (y[held].sum() - y[row]) / (held.sum() - 1 + penalty)
    np.testing.assert_allclose(glasswood.Neighbors(model, X, y).influence(rows, None), expected, atol=1e-6)


def test_leaves_that_are_no_means_of_the_rows_are_refused(few):
    from sklearn.tree import DecisionTreeRegressor

    lightgbm = pytest.importorskip("lightgbm")
    X, y, rows = few
    sampled = lightgbm.LGBMRegressor(
        n_estimators=10, boosting_type="rf", bagging_freq=1, bagging_fraction=0.5, num_leaves=5, n_jobs=1, verbosity=-1
    )
    with pytest.raises(ValueError, match="not the means of y"):
        glasswood.Neighbors(sampled.fit(X, y), X, y).influence(rows)
    with pytest.raises(ValueError, match="not Newton steps"):
        glasswood.Neighbors(boosted_once("xgboost", subsample=0.5, random_state=0).fit(X, y), X, y).influence(rows)
    tree = DecisionTreeRegressor(max_depth=3).fit(X, y)
    with pytest.raises(ValueError, match="the rows and targets of the training"):
        glasswood.Neighbors(tree, X, np.random.default_rng(0).permutation(y)).influence(rows)


def _shares_in_leaves(tree, X, labels, count):
    """Share of class b among the rows of each row's leaf."""
    leaf = tree.apply(X)
    return np.array([np.average(labels == "b", weights=np.where(leaf == one, count, 0)) for one in leaf])


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("weight", [None, "balanced", "balanced_subsample", {"a": 5.0, "b": 1.0}])
def test_class_weights_count_in_influence(weight, bootstrap):
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 3))
    labels = np.array(["a", "b", "c"])[(X[:, 0] > -1) * 1 + (X[:, 0] + rng.normal(size=150) > 1)]
    model = RandomForestClassifier(6, max_depth=3, class_weight=weight, bootstrap=bootstrap, random_state=0)
    model.fit(X, labels)
    neighbors = glasswood.Neighbors(model, X, labels)
    glasswood.Neighbors(model, X)  # which class a row has is not known: weights are not compared
    found = neighbors.influence(X[:3], None, output=1)
    draws = model.estimators_samples_ if bootstrap else [np.arange(150)] * 6
    expected = np.zeros((3, 150))
    for tree, draw in zip(model.estimators_, draws, strict=True):
        count = np.bincount(draw, minlength=150).astype(float)
        drawn = count.copy() if weight == "balanced_subsample" and bootstrap else np.ones(150)
        weighted = count.copy()
        for label in "abc":
            if isinstance(weight, str):
                weighted[labels == label] *= drawn.sum() / (3 * drawn[labels == label].sum())
            elif weight is not None:
                weighted[labels == label] *= weight.get(label, 1.0)
        # Versions of scikit-learn weigh the rows that they draw, or draw rows by their weight: the tree tells which.
        shares = tree.predict_proba(X)[:, 1]
        fits = [one for one in (weighted, count) if np.allclose(_shares_in_leaves(tree, X, labels, one), shares)]
        count = fits[0]
        leaf = tree.apply(X)
        for i in range(3):
            mine = np.where(leaf == leaf[i], count, 0)
            for row in np.flatnonzero(mine):
                left = np.where(np.arange(150) == row, 0, mine)
                if left.any():
                    is_b = labels == "b"
                    expected[i, row] += (np.average(is_b, weights=mine) - np.average(is_b, weights=left)) / 6
    np.testing.assert_allclose(found, expected, atol=1e-9)
