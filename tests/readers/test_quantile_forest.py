"""Forests of quantile-forest, as means of what their leaves keep."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.readers.forests import MODELS, check_rows, check_values, make_rows, signal

import glasswood

quantile_forest = pytest.importorskip("quantile_forest")
KEPT = (1, None, 3, 0.1)
"""Training targets that a leaf keeps."""


def means(model):
    return lambda rows: model.predict(rows, quantiles="mean", aggregate_leaves_first=False)


def random_forest(seed, **options):
    rng = np.random.default_rng(seed)
    kind = (quantile_forest.RandomForestQuantileRegressor, quantile_forest.ExtraTreesQuantileRegressor)[seed % 2]
    return kind(
        n_estimators=int(rng.integers(1, 8)),
        max_depth=int(rng.integers(1, 6)),
        max_samples_leaf=KEPT[seed % 4],
        default_quantiles=[0.1, 0.9],
        random_state=seed,
        **options,
    )


@pytest.mark.parametrize("seed", MODELS)
def test_means(seed):
    X = make_rows(seed)
    model = random_forest(seed).fit(X, signal(X))
    forest = glasswood.load(model, check=X)
    assert forest.source.startswith("quantile-forest")
    check_rows(forest, means(model), X)
    check_values(forest, means(model), X)


def test_what_leaves_keep_decides_not_what_they_were_grown_of():
    X = make_rows(0)
    model = quantile_forest.RandomForestQuantileRegressor(4, max_depth=2, max_samples_leaf=1, random_state=0)
    model.fit(X, signal(X))
    grown = np.mean([tree.predict(X) for tree in model.estimators_], axis=0)
    assert np.abs(glasswood.load(model, check=X).predict(X) - grown).max() > 0.1


def test_several_targets_and_monotone_constraints():
    X = make_rows(0)
    several = random_forest(1).fit(X, np.column_stack([signal(X), -X[:, 0]]))
    assert glasswood.load(several, check=X).n_outputs == 2
    model = quantile_forest.RandomForestQuantileRegressor(
        5, max_depth=4, monotonic_cst=[1, 0, 0, 0], random_state=0
    ).fit(X, signal(X))
    check_rows(glasswood.load(model, check=X), means(model), X)


def test_weights_of_training_rows():
    X = make_rows(0)
    model = random_forest(1).fit(X, signal(X), sample_weight=np.arange(len(X)) % 3)
    check_rows(glasswood.load(model, check=X), means(model), X)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_quantiles_come_from_neighbors(bootstrap):
    X = make_rows(0)
    model = quantile_forest.RandomForestQuantileRegressor(
        20, max_samples_leaf=None, min_samples_leaf=4, bootstrap=bootstrap, random_state=0
    ).fit(X, signal(X))
    neighbors = glasswood.Neighbors(model, X, signal(X))
    found = neighbors.quantile(X[:50], [0.1, 0.5, 0.9], weighted_leaves=True)
    expected = model.predict(X[:50], quantiles=[0.1, 0.5, 0.9], weighted_leaves=True)
    # Where cumulated fractions reach a quantile exactly, rounding decides in quantile-forest.
    assert (np.abs(found - expected) > 1e-6).mean() <= 0.02


def test_bad_input():
    X = make_rows(0)
    with pytest.raises(NotFittedError):
        glasswood.load(quantile_forest.RandomForestQuantileRegressor())
    model = random_forest(0).fit(X, signal(X))
    with pytest.raises(TypeError, match="got QuantileForest of quantile-forest, expected a quantile regressor"):
        glasswood.load(model.forest_)
    kept = np.asarray(model.forest_.y_train_leaves)
    model.forest_ = SimpleNamespace(y_train_leaves=kept[0], y_train=model.forest_.y_train)
    with pytest.raises(NotImplementedError, match=r"this layout of quantile-forest .* is not read; upgrade glasswood"):
        glasswood.load(model)
