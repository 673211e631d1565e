"""Missing values from similar rows."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood


def test_values_are_means_of_the_most_similar_rows(booster, numbers):
    X, _, rows, _ = numbers
    neighbors = glasswood.Neighbors(booster, X)
    asked = rows[:10].copy()
    asked[np.arange(10), np.arange(10) % 5] = np.nan
    found = neighbors.impute(asked, n_neighbors=8, max_iter=1)
    similarity, places = neighbors.kneighbors(asked, 8)
    for i in range(10):
        expected = np.average(X[places[i], i % 5], weights=similarity[i])
        assert found[i, i % 5] == pytest.approx(expected, rel=1e-5)
    known = ~np.isnan(asked)
    np.testing.assert_array_equal(found[known], asked[known])


def test_forests_that_refuse_missing_values_start_from_medians(numbers):
    from sklearn.ensemble import GradientBoostingRegressor

    X, y, rows, _ = numbers
    model = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X, y)
    asked = rows[:20].copy()
    asked[:, 3] = np.nan
    found = glasswood.Neighbors(model, X).impute(asked)
    assert not np.isnan(found).any()


def test_imputation_beats_the_median_of_a_related_feature():
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).astype(np.float32)
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=600)
    y = X[:, 0] + X[:, 1]
    neighbors = glasswood.Neighbors(RandomForestRegressor(30, random_state=0).fit(X[:500], y[:500]), X[:500])
    asked = X[500:].copy()
    asked[:, 1] = np.nan
    error = np.abs(neighbors.impute(asked)[:, 1] - X[500:, 1]).mean()
    assert error < 0.5 * np.abs(np.median(X[:500, 1]) - X[500:, 1]).mean()


def test_categories_get_the_most_frequent():
    import pandas

    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({"x": rng.normal(size=300), "c": pandas.Categorical(rng.choice(list("abc"), 300))})
    y = frame["x"] + (frame["c"] == "b") * 5
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1).fit(frame, y)
    neighbors = glasswood.Neighbors(model, frame)
    asked = frame[:20].copy()
    asked.loc[:, "c"] = None
    found = neighbors.impute(asked)
    assert set(found[:, 1]) <= {0.0, 1.0, 2.0}


def test_rows_without_missing_values_stay(random_forest, numbers):
    rows = numbers[2]
    np.testing.assert_array_equal(glasswood.Neighbors(random_forest, numbers[0]).impute(rows), rows)
