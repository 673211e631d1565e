"""What is cut off a tree where the noise is not the same everywhere."""

import numpy as np
import pytest

from glasswood import ModelTreeRegressor
from glasswood.grow.tree import pruning
from glasswood.grow.tree.pruning import Prices
from glasswood.grow.tree.refit import Design

PRICES = Prices(penalty=1.0, test_weight=2.0, n_rows=400.0)


def growing_noise(seed, n_rows=600):
    """One linear equation in all rows, whose noise grows with the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n_rows, 5))
    return X, X[:, 0] + X[:, 1] + np.exp(X[:, 0] - 1) * rng.standard_normal(n_rows)


def leaf_of(X, y, prices, limits=(-np.inf, np.inf)):
    design = Design.of(X, y, np.ones(len(y)), np.arange(X.shape[1]), 1.0)
    return pruning._leaf(design, np.arange(X.shape[1]), prices, limits)


def cost_by_rows(X, y, price):
    """Sum of squares and price of a regression, each row left out in turn."""
    columns = np.column_stack([np.ones(len(y)), X])
    hat = columns @ np.linalg.pinv(columns)
    squares = []
    for row in range(len(y)):
        others = np.delete(np.arange(len(y)), row)
        solution = np.linalg.lstsq(columns[others], y[others], rcond=None)[0]
        squares.append((y[row] - columns[row] @ solution) ** 2)
    return np.sum((y - hat @ y) ** 2) + price * np.diag(hat) @ squares


def test_cost_of_a_leaf_is_that_of_rows_left_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X @ [3, -2, 4] + rng.standard_normal(40) * (1 + (X[:, 0] > 0))
    leaf = leaf_of(X, y, PRICES)
    np.testing.assert_array_equal(leaf.features, [0, 1, 2])
    assert leaf.cost == pytest.approx(cost_by_rows(X, y, PRICES.parameter), rel=1e-10)


def test_left_out_rows_are_predicted_within_the_limits():
    """One row lies far out along a feature, off the line: without it, the line would pass it by far."""
    X = np.append(np.linspace(-1, 1, 40), 30.0)[:, None]
    y = np.append(np.linspace(-1, 1, 40) + 0.1 * np.sin(np.arange(40)), 2.0)
    free, confined = (leaf_of(X, y, PRICES, limits) for limits in ((-np.inf, np.inf), (-1.2, 2.2)))
    assert confined.cost < free.cost


def test_terms_of_noise_go():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 6))
    y = 2 * X[:, 4] + rng.standard_normal(400)
    leaf = leaf_of(X, y, PRICES)
    np.testing.assert_array_equal(leaf.features, [4])


@pytest.mark.parametrize(("apart", "n_terms"), [(0.3, 2), (0.04, 1), (0.002, 1)])
def test_of_nearly_collinear_columns_one_stays(apart, n_terms):
    """The second column adds as much to the fit each time: its Wald statistic is 16, and the price 6."""
    rng = np.random.default_rng(4)
    noise = rng.standard_normal((400, 3))
    first, other, noise = np.linalg.qr(noise - noise.mean(axis=0))[0].T * 20  # orthogonal, of variance 1
    X = np.column_stack([first, first + apart * other])
    y = 5 * first - 0.2 * other + noise
    assert 1 / (1 - np.corrcoef(X.T)[0, 1] ** 2) == pytest.approx(1 + 1 / apart**2)
    assert len(leaf_of(X, y, PRICES).features) == n_terms
    clear = leaf_of(X, y + 2 * other, PRICES)  # a difference that is certain stays
    np.testing.assert_array_equal(clear.features, [0, 1])


def test_a_term_that_one_row_decides_goes():
    """Squares alone would keep it: it explains the outlier."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.arange(60) == 7, rng.standard_normal(60)]).astype(float)
    y = 5 * X[:, 1] + 0.1 * rng.standard_normal(60) + 1000 * X[:, 0]
    leaf = leaf_of(X, y, PRICES)
    assert 0 not in leaf.features


@pytest.mark.slow
def test_uneven_noise_makes_few_leaves():
    counts = {}
    for noise in ("any", "uniform"):
        counts[noise] = [ModelTreeRegressor(noise=noise, n_jobs=1).fit(*growing_noise(s)).n_leaves_ for s in range(4)]
    assert np.median(counts["any"]) == 1
    assert sum(counts["any"]) < sum(counts["uniform"]) / 2


def test_copies_leave_together():
    """Rows that are repeated cost what they do once."""
    X, y = growing_noise(0, 100)
    once = leaf_of(X, y, Prices(1.0, 2.0, 100.0))
    twice = np.repeat(np.arange(100), 2)
    double = leaf_of(X[twice], y[twice], Prices(1.0, 2.0, 100.0, 2.0))
    np.testing.assert_array_equal(double.features, once.features)
    assert double.cost == pytest.approx(2 * once.cost, rel=1e-10)


def test_pruned_trees_predict_and_tell_their_leaves():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 5, (500, 3))
    y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0]) + rng.standard_normal(500) * np.where(X[:, 2] < 1, 5, 0.1)
    model = ModelTreeRegressor(n_jobs=1).fit(X, y)
    assert model.n_leaves_ == len(model.leaf_summary_["n_rows"]) == model.forest_.n_leaves
    assert model.leaf_summary_["n_rows"].sum() == 500
    assert set(model.apply(X)) == set(range(model.n_leaves_))


def test_large_nodes_stay(limits):
    X, y = growing_noise(1)
    sizes = {}
    for most in (0, 10**6):
        limits(pruning_rows=most)
        sizes[most] = ModelTreeRegressor(n_jobs=1, n_iter_no_change=20).fit(X, y).n_leaves_
    assert sizes[0] > sizes[10**6]


def test_noise_is_a_choice():
    with pytest.raises(ValueError, match="noise is 'none', expected one of any, uniform"):
        ModelTreeRegressor(noise="none").fit(np.zeros((9, 1)), np.arange(9.0))
