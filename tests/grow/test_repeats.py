"""The order of rows, repeated rows and weights that are whole numbers."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.data.repeats import in_order
from tests.grow.engines import piecewise

FAST = {"n_iter_no_change": 20, "n_jobs": 1}


@pytest.fixture(scope="module")
def data():
    X, y = piecewise(400)
    X[::7, 2] = np.nan
    return X, y + 0.3 * np.random.default_rng(1).standard_normal(400)


def fitted(X, y, weight=None):
    return glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=weight)


def assert_same(one, other, X):
    np.testing.assert_array_equal(one.forest_.ensemble.threshold, other.forest_.ensemble.threshold)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-12, atol=1e-12)


def test_the_order_of_rows_does_not_matter(data):
    X, y = data
    order = np.random.default_rng(0).permutation(len(y))
    assert_same(fitted(X, y), fitted(X[order], y[order]), X)


def test_a_row_of_weight_two_is_two_rows(data):
    X, y = data
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    order = np.random.default_rng(3).permutation(int(weight.sum()))
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))[order]
    assert_same(fitted(X, y, weight), fitted(X[repeated], y[repeated]), X)


def test_repeated_rows_make_no_leaves_of_noise():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + rng.standard_normal(150)
    times = rng.integers(5, 15, 150)
    assert fitted(X, y).n_leaves_ == 1
    assert fitted(np.repeat(X, times, axis=0), np.repeat(y, times)).n_leaves_ == 1


def test_relative_weights_have_no_scale(data):
    X, y = data
    weight = np.random.default_rng(5).uniform(0.5, 2, len(y))
    assert_same(fitted(X, y, weight), fitted(X, y, weight * 8), X)


@pytest.mark.parametrize("discrete", [True, False])
def test_copies_are_told_from_rows_that_agree_by_chance(discrete):
    """Few distinct rows whose targets differ are observations; rows repeated with their target are copies."""
    rng = np.random.default_rng(6)
    X = rng.integers(0, 2, (400, 2)).astype(float) if discrete else np.repeat(rng.normal(size=(100, 2)), 4, axis=0)
    y = rng.integers(0, 2, 400).astype(float) if discrete else np.repeat(rng.integers(0, 2, 100).astype(float), 4)
    rows, weight, copies = in_order(X, y, np.ones(400))
    assert copies == 1
    assert len(rows) == len(weight) == (400 if discrete else 100)
    once = np.ones(400)
    once[0] = 2
    assert in_order(X, y, once)[2] == (1 if discrete else pytest.approx(4.01))


def test_rows_that_are_ready_are_only_ordered():
    """Each of them once, copies too."""
    X = np.repeat(np.random.default_rng(7).normal(size=(50, 2)), np.tile([1, 2], 25), axis=0)
    rows, _, _ = in_order(X, X[:, 0], np.ones(len(X)))
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(X)))


def test_both_zeros_are_one_value_and_so_are_all_missing_values():
    X = np.array([[0.0, np.nan], [-0.0, -np.nan], [1.0, 2.0]])
    rows, weight, copies = in_order(X, np.array([3.0, 3.0, 4.0]), np.ones(3))
    assert sorted(rows.tolist()) == [0, 1, 2]
    assert (weight == 1).all()
    assert copies == 1.5
