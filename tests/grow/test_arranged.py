"""Rows of similar ranks lie together."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood import ModelTreeRegressor
from glasswood.grow.data import rows as data
from glasswood.grow.data.rows import rank_zones
from tests.grow.engines import piecewise


def prepared(X, y):
    return data.prepare(X, y, np.ones(len(y)), np.ones(X.shape[1], bool), 2)


@pytest.fixture(scope="module")
def many_rows():
    rng = np.random.default_rng(0)
    X = rng.random((200_000, 4))
    return X, np.sign(X[:, 0] - 0.5) + 2 * np.sign(X[:, 2] - 0.3) + 0.1 * rng.standard_normal(len(X))


def test_rows_are_those_that_were_given(many_rows):
    X, y = many_rows
    rows = prepared(X, y)
    np.testing.assert_array_equal(np.sort(rows.source), np.arange(len(y)))
    plain = np.argsort(np.argsort(X, axis=0), axis=0).T
    np.testing.assert_array_equal(rows.ranks, plain[:, rows.source])
    for a in range(X.shape[1]):
        np.testing.assert_array_equal(rows.ranks[a][rows.order[a]], np.arange(len(y)))
    np.testing.assert_array_equal(rows.y, data.standardised(y, rows.target)[rows.source])
    np.testing.assert_array_equal(rows.z[:, rows.width - 1], rows.y)
    np.testing.assert_array_equal(rows.z[:, 1], data.standardised(X[rows.source, 0], rows.attributes[0]))


def test_zones_are_narrow_where_the_target_changes(many_rows):
    X, y = many_rows
    zones = rank_zones(prepared(X, y).ranks)
    spread = (zones[..., 1] - zones[..., 0]).mean(axis=1) / len(y)
    assert (spread[[0, 2]] < 0.25).all()
    assert (spread[[1, 3]] > 0.9).all()


def test_any_stretch_of_rows_is_spread_over_all_ranks(many_rows):
    X, y = many_rows
    rows = prepared(X, y)
    for part in np.array_split(rows.ranks, 4, axis=1):
        layouts = [np.histogram(rank, 4, (0, len(y)))[0] / part.shape[1] for rank in part]
        np.testing.assert_allclose(layouts, 0.25, atol=0.05)


@pytest.mark.parametrize("shape", [(1000, 2), (200_000, 0), (140_000, 13)])
def test_rows_that_stay(shape):
    ranks = np.zeros((shape[1], shape[0]), np.int32)
    assert data.arranged(ranks, np.ones(shape[1], int), np.arange(shape[0], dtype=float)) is None


def test_leaves_hold_the_rows_that_reach_them(monkeypatch, limits):
    """The equations are fitted to the right rows, whatever their order, and missing values and weights go along."""
    limits(least_arranged=0)
    X, y = piecewise(1000, 3)
    rng = np.random.default_rng(2)
    X[rng.random(X.shape) < 0.05] = np.nan
    weight = rng.uniform(0.5, 2, len(y))
    settings = {"generations": 12, "n_jobs": 1, "random_state": 0, "clip": "none", "smoothing": 0, "noise": "uniform"}
    model = ModelTreeRegressor(**settings).fit(X, y, sample_weight=weight)
    error = np.sqrt(np.average((y - model.predict(X)) ** 2, weights=weight))
    assert error == pytest.approx(model.history_["rmse"][-1], rel=1e-9)
    monkeypatch.undo()
    assert len(y) < data.LEAST_ARRANGED
    plain = ModelTreeRegressor(**settings).fit(X, y, sample_weight=weight)
    assert model.fitness_ == pytest.approx(plain.fitness_, rel=0.05)
