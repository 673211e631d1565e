"""Covers of a forest by other rows: how many of them pass each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import glasswood
from tests.oracles import evaluate
from tests.strategies import forests_and_rows, full_forest


def passed(forest, X):
    """Rows that pass each node, one row and one node after the other."""
    routed = evaluate.routed_values(forest, X)
    counts = np.zeros(forest.n_nodes)
    for tree in range(forest.n_trees):
        start = forest.ensemble.tree_offsets[tree]
        reaching = {start: np.arange(len(X))}
        for node in range(start, forest.ensemble.tree_offsets[tree + 1]):
            rows = reaching[node]
            counts[node] = len(rows)
            if forest.ensemble.feature[node] >= 0:
                left = evaluate.goes_left(forest, node, routed[rows, forest.ensemble.feature[node]])
                child = start + forest.ensemble.left[node]
                reaching[child], reaching[child + 1] = rows[left], rows[~left]
    return counts


@given(example=forests_and_rows(min_rows=1))
def test_covers_count_the_rows_that_pass(example):
    forest, X = example
    known = forest.with_covers(X)
    np.testing.assert_array_equal(known.ensemble.cover, passed(forest, X))
    np.testing.assert_array_equal(known.predict(X, "margin"), forest.predict(X, "margin"))


def test_rows_in_parts_and_columns_by_name(limits):
    pandas = pytest.importorskip("pandas")
    forest = full_forest(0, n_trees=3, depth=4, n_features=3)
    X = np.random.default_rng(0).normal(size=(100, 3))
    expected = forest.with_covers(X).ensemble.cover
    limits(positions_together=50)
    np.testing.assert_array_equal(forest.with_covers(pandas.DataFrame(X)).ensemble.cover, expected)


def test_rows_that_tell_nothing_are_refused():
    forest = full_forest(0, n_trees=1, depth=2, n_features=3)
    with pytest.raises(ValueError, match="X has no rows to count; pass training rows"):
        forest.with_covers(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="X has 2"):
        forest.with_covers(np.zeros((5, 2)))


def test_expected_values_are_the_rows_mean_of_one_tree():
    forest = full_forest(0, n_trees=1, depth=4, n_features=3)
    X = np.random.default_rng(1).normal(size=(50, 3)) + 1
    explainer = glasswood.Explainer(forest.with_covers(X), dtype="float64")
    np.testing.assert_allclose(explainer.expected_value, forest.predict(X, "margin").mean(), rtol=1e-12)
