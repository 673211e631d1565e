"""Rows kept as float32: what they stand for, what the search makes of them, and what stays float64."""

from fractions import Fraction

import numpy as np
import pytest

import glasswood
from glasswood.grow.data.rows import prepare
from tests.grow import oracle
from tests.grow.engines import engine_of, given, piecewise, stump


def stored(X, y=None, weight=None, storage="float32"):
    X = np.asarray(X, float)
    weight = np.ones(len(X)) if weight is None else weight
    target = np.arange(len(X)) % 7.0 if y is None else y
    return prepare(X, target, weight, np.ones(X.shape[1], bool), 1, storage)


def gapped(seed=0):
    """Missing values and weights."""
    X, y = piecewise(400, seed=seed)
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, rng.uniform(0.1, 3, len(y))


COLUMNS = {
    "whole numbers": lambda rng: rng.integers(-90_000, 4_000_000, 300),
    "years": lambda rng: rng.integers(1900, 2026, 300),
    "rare mark": lambda rng: rng.random(300) < 0.02,
    "quarters": lambda rng: rng.integers(0, 10_000, 300) / 4,
    "coordinates in float32": lambda rng: rng.uniform(64, 127, 300).astype(np.float32),
    "float32 from zero on": lambda rng: rng.uniform(0, 1, 300).astype(np.float32),
    "float32 of many sizes": lambda rng: rng.lognormal(0, 3, 300).astype(np.float32),
    "float32 about zero": lambda rng: rng.normal(0.3, 1, 300).astype(np.float32),
    "far from zero": lambda rng: 1e6 + rng.integers(0, 5000, 300) / 16,
    "tiny": lambda rng: np.ldexp(rng.integers(0, 1000, 300), -400),
    "huge": lambda rng: np.ldexp(rng.integers(0, 1000, 300), 400),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_few_digits_are_kept_exactly(kind):
    """An affine map of the column, in exact arithmetic."""
    x = COLUMNS[kind](np.random.default_rng(0)).astype(float)
    z = stored(x[:, None]).z[:, 1]
    assert z.dtype == np.float32
    assert 0.9 < np.std(z) < 2.1
    assert abs(np.mean(z)) < 2.01 * np.std(z)
    exact_x, exact_z = ([Fraction(float(value)) for value in column] for column in (x, z))
    low, high = int(np.argmin(x)), int(np.argmax(x))
    slope = (exact_z[high] - exact_z[low]) / (exact_x[high] - exact_x[low])
    assert all(value == exact_z[low] + slope * (at - exact_x[low]) for at, value in zip(exact_x, exact_z, strict=True))


def test_other_columns_are_rounded_once():
    X, y, weight = gapped()
    rows, exact = stored(X, y, weight), stored(X, y, weight, "float64")
    assert (rows.z.dtype, rows.z.nbytes) == (np.float32, exact.z.nbytes // 2)
    np.testing.assert_array_equal(rows.z[:, -1], exact.z[:, -1].astype(np.float32))
    for a in range(X.shape[1]):
        x, present = rows.z[:, 1 + a], ~np.isnan(X[:, a])
        line = np.polynomial.Polynomial.fit(X[present, a], (x / rows.z[:, 0].astype(float))[present], 1)
        np.testing.assert_allclose(line(X[present, a]), (x / rows.z[:, 0].astype(float))[present], atol=4e-7)
        np.testing.assert_array_equal(x[~present], 0)
        np.testing.assert_array_equal(rows.z[:, rows.indicator[a]], np.where(present, 0, rows.z[:, 0]))


@pytest.mark.parametrize("scale", [1e-300, 5e-324])
def test_units_below_the_smallest_normal_number(scale):
    rows = stored(np.array([[0.0], [1], [2], [1]]) * scale)
    assert np.isfinite(rows.z).all()


@pytest.mark.parametrize("qr", [0, 1])
def test_every_tree_of_a_run_has_the_fitness_of_the_stored_rows(qr):
    X, y, weight = gapped()
    engine, rows = engine_of(X, y, weight, storage="float32", polish_interval=3, qr=qr)
    engine.initialise([])
    for _ in range(8):
        engine.step(1, 1000, 1e-6, 1e9)
        for tree in engine.population():
            error = oracle.stored_error(tree, X, rows)
            assert tree["error"] == pytest.approx(error, rel=1e-9)
            assert tree["fitness"] == pytest.approx(oracle.bic(error, tree, len(y)), rel=1e-9)


def test_the_search_reads_the_stored_rows():
    X, y = piecewise(400)
    found = [engine_of(X, y, storage=storage)[0].apply("evaluate", stump(0, 200, 3), 0, None, 0, 0)[0]["error"]
             for storage in ("float64", "float32")]  # fmt: skip
    assert 1e-12 < abs(found[1] / found[0] - 1) < 1e-6


def test_wide_rows_take_smaller_blocks():
    """More columns than a block of 64 converted rows has room for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 300))
    y = X @ rng.standard_normal(300) + 0.1 * rng.standard_normal(700)
    engine, rows = engine_of(X, y, storage="float32")
    tree = engine.apply("evaluate", stump(0, 350, 300), 0, None, 0, 0)[0]
    assert tree["error"] == pytest.approx(oracle.stored_error(tree, X, rows), rel=1e-9)


def test_a_narrow_leaf_is_recentred_on_its_stored_rows():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((2000, 3))
    X[:, 0] = np.where(np.arange(2000) < 200, 1e-4 * X[:, 0], X[:, 0] + 10)
    y = X @ [1.0, -2, 0.5] + 0.1 * rng.standard_normal(2000)
    y[:200] += 1e4 * X[:200, 0]
    engine, rows = engine_of(X, y, storage="float32")
    tree = engine.apply("evaluate", stump(0, 200, 3), 0, None, 0, 0)[0]
    assert tree["error"] == pytest.approx(oracle.stored_error(tree, X, rows), rel=1e-9)


def test_same_trees_for_any_number_of_threads():
    X, y = piecewise(800)
    runs = []
    for n_threads in (1, 3):
        engine, _ = engine_of(X, y, storage="float32", n_threads=n_threads, polish_interval=3, polish_random=3)
        engine.initialise([])
        engine.step(15, 1000, 1e-6, 1e9)
        runs.append(engine.population())
    for one, two in zip(*runs, strict=True):
        assert one["fitness"] == two["fitness"]
        for name in given(one):
            np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("algorithm", ["gram", "qr"])
def test_leaves_and_thresholds_are_those_of_the_given_rows(algorithm):
    """A spread of 1e-7 of the target's is lost in float32; the leaves are fitted to what was given."""
    X, y = piecewise(600, noise=1e-9)
    trees = [glasswood.ModelTreeRegressor(generations=40, max_leaves=8, algorithm=algorithm, storage=storage).fit(X, y)
             for storage in ("float64", "float32")]  # fmt: skip
    for tree in trees:
        assert np.abs(tree.predict(X) - y).max() < 1e-8
        assert (tree.leaf_summary_["rmse"] < 2e-9).all()
    np.testing.assert_allclose(trees[1].predict(X), trees[0].predict(X), rtol=0, atol=1e-8)


def test_whole_numbers_grow_the_same_tree():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, (500, 3)).astype(float)
    y = np.where(X[:, 0] < 20, X[:, 1], 90 - 2 * X[:, 2]) + rng.normal(size=500)
    found = [
        glasswood.ModelTreeRegressor(generations=30, storage=storage).fit(X, y) for storage in ("float64", "float32")
    ]
    np.testing.assert_array_equal(found[1].predict(X), found[0].predict(X))


def offsets(rng):
    X = rng.normal((2000, 0, -500, 1e5, 3, 0), size=(3000, 6))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    X *= [1, 1, 1, 1, 1e-9, 1e8]
    return X, np.where(X[:, 2] < -500, X[:, 0] + X[:, 5] * 1e-8, 3 * X[:, 1] - 1e9 * X[:, 4]) + 0.1 * rng.normal(
        size=3000
    )


def no_noise(rng):
    X = rng.uniform(0, 5, (3000, 5))
    low = np.where(X[:, 1] < 2, 0.5 * X[:, 0] - 2.5 * X[:, 1], 0.5 * X[:, 0] + 2.5 * X[:, 1] - 10)
    return X, np.where(X[:, 0] < 1, 10 * X[:, 0] - 1.5 * X[:, 1] - 5, low)


def narrow(rng):
    X = rng.standard_normal((3000, 3))
    X[:1000, 0] = 10 + 1e-5 * X[:1000, 0]
    y = X @ [1, 2, 0.5] + 0.1 * rng.normal(size=3000)
    y[:1000] += 1e5 * (X[:1000, 0] - 10)
    return X, y


@pytest.mark.parametrize(("data", "relative"), [(offsets, 1e-3), (no_noise, 0), (narrow, 0.05)])
def test_data_that_strain_the_digits_grow_the_tree_of_float64(data, relative):
    X, y = data(np.random.default_rng(0))
    found = [glasswood.ModelTreeRegressor(generations=40, max_leaves=16, storage=storage).fit(X, y)
             for storage in ("float64", "float32")]  # fmt: skip
    assert found[0].n_leaves_ > 1
    np.testing.assert_array_equal(found[1].predict(X), found[0].predict(X))
    assert np.exp(abs(found[1].fitness_ - found[0].fitness_) / len(y)) - 1 <= relative


@pytest.mark.parametrize("value", ["float16", "auto", None, 32])
def test_an_unknown_storage_is_refused(value):
    with pytest.raises(ValueError, match=rf"storage is {value!r}, expected one of float64, float32"):
        glasswood.ModelTreeRegressor(storage=value).fit([[1.0], [2.0]], [1.0, 2.0])
