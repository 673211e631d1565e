"""Tables of many columns, and searches that the time limit ends before they have begun."""

import warnings

import numpy as np
import pytest

from tests.sizes import rest_slow

pytest.importorskip("sklearn")
from sklearn.tree import DecisionTreeRegressor

import glasswood
from glasswood.grow.search.screening import ALWAYS, screened

AT_ONCE = {"time_limit": 1e-6, "n_jobs": 1, "verbose": False}


def table(n, p, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 7] * 2 + (X[:, 9] > 0) * 3 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("p", rest_slow(1, [600, 1500, 3000]))
def test_greedy_trees_come_first(p):
    X, y = table(300, p)
    with pytest.warns(RuntimeWarning, match="time limit ended the search after 0 generations .time_limit=1e-06."):
        tree = glasswood.ModelTreeRegressor(max_leaves=4, **AT_ONCE).fit(X, y)
    assert tree.score(X, y) > DecisionTreeRegressor(max_depth=2).fit(X, y).score(X, y)
    assert "The time limit ended the search, which had hardly begun." in glasswood.export_text(tree)


def test_texts_do_not_say_that_nothing_paid_off():
    X, y = table(60, 10)
    with pytest.warns(RuntimeWarning, match="time limit"):
        tree = glasswood.ModelTreeRegressor(max_leaves=1, **AT_ONCE).fit(X, y)
    assert "No split paid off" not in glasswood.export_text(tree)
    with pytest.warns(RuntimeWarning, match="time limit"):
        classes = glasswood.ModelTreeClassifier(max_leaves=1, **AT_ONCE).fit(X, y > 1)
    assert "No split paid off" not in glasswood.export_text(classes)


def test_searches_that_end_by_themselves_say_nothing():
    X, y = table(60, 10)
    for changes in ({"time_limit": None, "generations": 1}, {"time_limit": 1e3, "n_iter_no_change": 1}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = glasswood.ModelTreeRegressor(**{**AT_ONCE, **changes}).fit(X, y)
        assert "time limit" not in glasswood.export_text(tree)


@pytest.mark.parametrize("p", [1, 50, ALWAYS])
def test_narrow_tables_keep_their_columns(p):
    X, y = table(40, max(p, 10))
    linear = np.ones(X.shape[1], bool)
    found = screened(X, y, np.ones(40), linear, linear, 5.0)
    assert found.linear.all()
    assert not found.trees


@pytest.mark.parametrize("n", [30, 300, 6000])
def test_screening_keeps_what_counts(n):
    X, y = table(n, 900)
    X[::5, 3] = np.nan
    X[:, 11] = 1.0
    linear = np.ones(900, bool)
    linear[20] = False
    found = screened(X, y, np.ones(n), linear, np.ones(900, bool), 5.0)
    assert ALWAYS <= found.linear.sum() < 900
    assert found.linear[7]
    assert not found.linear[20]
    assert {tuple(tree["feature"]) for tree in found.trees} >= {(-1,)}


def test_searches_of_wide_tables_find_the_tree():
    X, y = table(300, 700)
    tree = glasswood.ModelTreeRegressor(generations=2, time_limit=None, max_leaves=4, n_jobs=1).fit(X, y)
    assert tree.score(X, y) > 0.99
    assert tree.n_leaves_ == 2
