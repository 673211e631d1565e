"""Many attributes: splits ranked by scores, sums of the columns that a model takes, solutions by panels of pivots."""

import numpy as np
import pytest

from tests.grow import oracle
from tests.grow.engines import engine_of, given, single_leaf, stump

N_FEATURES = 30


def planted(n_rows, seed, attribute, threshold):
    """Two planes over all attributes, parted by one of them, and as much of it again in a correlated one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, 0] = 0.7 * X[:, attribute] + 0.7 * rng.standard_normal(n_rows)
    first, second = rng.standard_normal((2, N_FEATURES))
    y = np.where(X[:, attribute] < threshold, X @ first, X @ (first + 0.3 * second))
    return X, y + 0.5 * rng.standard_normal(n_rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [False, True])
def test_the_planted_split_is_found(seed, missing):
    attribute = 5 + seed
    X, y = planted(6000, seed, attribute, 0.4)
    if missing:
        X[::9, attribute] = np.nan
    engine, rows = engine_of(X, y, rows_per_parameter=5)
    tree = engine.apply("polish", single_leaf(N_FEATURES), 0, None, 0, 0)[0]
    assert tree["feature"][0] == attribute
    assert rows.distinct(attribute)[tree["threshold"][0]] == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("n_used", [1, 3, 4, 11, 30])
def test_sweeps_solve_models_of_any_size(n_used):
    """The error of the cut is the oracle's, and smaller than where the sweep began."""
    X, y = planted(900, 7, 6, 0.4)
    models = np.zeros((2, N_FEATURES), np.uint8)
    models[0, 30 - n_used :] = models[1, :n_used] = 1
    engine, _ = engine_of(X, y)
    swept = engine.apply("search_threshold", stump(6, 400, N_FEATURES, models), 0, None, 0, 0)[0]
    assert swept["error"] == pytest.approx(oracle.tree_error(given(swept), X, y, np.ones(900)), rel=1e-9)
    start = oracle.tree_error(stump(6, 400, N_FEATURES, models), X, y, np.ones(900))
    assert swept["error"] < start * (1 - 1e-6)


def test_columns_that_are_constant_in_a_leaf_are_left_out():
    """They are neither read again nor kept by the backward elimination."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, N_FEATURES))
    X[:, 3:] = X[:, 3:] > 1
    X[X[:, 0] < 0, 3:20] = 0
    y = np.where(X[:, 0] < 0, X[:, 1], X[:, 3] + X[:, 25]) + 0.1 * rng.standard_normal(2000)
    engine, _ = engine_of(X, y)
    tree = stump(0, int((X[:, 0] < 0).sum()), N_FEATURES)
    scored = engine.apply("evaluate", tree, 0, None, 0, 0)[0]
    assert scored["error"] == pytest.approx(oracle.tree_error(tree, X, y, np.ones(2000)), rel=1e-9)
    polished = engine.apply("polish", tree, 0, None, 0, 0)[0]
    models = polished["model"].reshape(-1, N_FEATURES)
    assert not models[1, 3:20].any()
    assert models[1, 1]
    assert models[2, [3, 25]].all()
