"""Subtree tables of interactions: layouts of the result, budget, bits; that they are right: test_interactions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.plans import plan_of
from tests.explain.test_tables import wide_forest
from tests.explain.tolerance import assert_close, tolerance
from tests.oracles import shapley
from tests.strategies import chain_forest, full_forest, random_rows

DTYPES = ("float32", "float64")


def pair_tables(explainer):
    """The compiled tables of interactions."""
    return plan_of(explainer).tables("pairs").compiled


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_a_wide_forest_of_several_outputs(dtype, vector_leaves):
    """More pairs than a tile's totals have room for in the first-level cache."""
    forest = wide_forest(3, vector_leaves)
    X = random_rows(4, forest, 70)
    expected = shapley.interactions_by_leaf(forest, shapley.sides(forest, X))
    explainer = Explainer(forest, algorithm="tables", dtype=dtype)
    assert_close(explainer.shap_interaction_values(X), expected, forest, dtype)
    assert len(pair_tables(explainer).walked_trees) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [4, 12, 30])
def test_same_bits_for_any_share_of_the_rows(dtype, n_features):
    forest = full_forest(0, n_trees=40, depth=5, n_features=n_features)
    X = np.random.default_rng(1).normal(size=(1300, n_features))
    expected = Explainer(forest, algorithm="tables", dtype=dtype, n_jobs=1).shap_interaction_values(X)
    for n_jobs in (1, 2, 3):
        explain = Explainer(forest, algorithm="tables", dtype=dtype, n_jobs=n_jobs).shap_interaction_values
        for size in (1, 40, 511, 1300):
            found = np.concatenate(
                [explain(X[start : start + size]) for start in range(0, min(len(X), 4 * size), size)]
            )
            np.testing.assert_array_equal(found, expected[: len(found)], err_msg=f"{n_jobs} threads, batches of {size}")


@pytest.mark.parametrize("n_features", [1, 2, 5, 6, 7, 8, 9, 10, 11, 13, 15, 16, 40])
def test_entries_of_any_number_of_features(n_features):
    """From one vector a state to eight; paths of more features are walked."""
    forest = chain_forest(n_features, 1e-2)
    X = np.random.default_rng(n_features).choice([-1.0, 1.0], size=(9, n_features))
    explainer = Explainer(forest, algorithm="tables", dtype="float64")
    expected = shapley.interactions_by_leaf(forest, shapley.sides(forest, X))
    assert_close(explainer.shap_interaction_values(X), expected, forest, "float64")
    assert (pair_tables(explainer) is None) == (n_features > 14)


def test_rows_of_the_matrix_add_up_to_the_values():
    forest = full_forest(2, n_trees=30, depth=8, n_features=9)
    X = np.random.default_rng(1).normal(size=(200, 9))
    for dtype in DTYPES:
        explainer = Explainer(forest, algorithm="tables", dtype=dtype)
        pairs = explainer.shap_interaction_values(X).astype(np.float64)
        np.testing.assert_array_equal(pairs, pairs.swapaxes(1, 2))
        assert np.abs(pairs.sum(axis=2) - explainer.shap_values(X)).max() <= tolerance(forest, dtype)[0]


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("features", [None, [3], [5, 0, 2]])
@pytest.mark.parametrize("table_bytes", [2**28, 200_000])
def test_results_of_any_strides_hold_the_same(n_outputs, features, table_bytes):
    """Written where all trees have tables, added where some are walked."""
    forest = dataclasses.replace(
        full_forest(0, n_trees=12, depth=6, n_features=6),
        tree_output=(np.arange(12) % n_outputs).astype(np.int32),
        base_score=np.zeros(n_outputs),
    )
    X = np.random.default_rng(1).normal(size=(50, 6))
    explainer = Explainer(forest, algorithm="tables", table_bytes=table_bytes)
    expected = explainer.shap_interaction_values(X, features=features)
    memory = np.full((*expected.shape[:-1], 2 * expected.shape[-1]), np.nan, np.float32)
    order = np.random.default_rng(2).permutation(expected.ndim)
    shuffled = np.full([expected.shape[axis] for axis in order], np.nan, np.float32).transpose(np.argsort(order))
    for out in (memory[..., ::2], shuffled):
        explainer.shap_interaction_values(X, features=features, out=out)
        np.testing.assert_array_equal(out, expected)
    assert np.isnan(memory[..., 1::2]).all()
    assert (len(pair_tables(explainer).walked_trees) > 0) == (table_bytes < 2**28)


def test_each_kind_of_tables_has_the_whole_budget():
    forest = full_forest(0, n_trees=20, depth=6, n_features=6)
    X = np.random.default_rng(1).normal(size=(20, 6))
    explainer = Explainer(forest, table_bytes=2**19, algorithm="tables")
    explainer.shap_values(X)
    of_values = plan_of(explainer).n_bytes
    explainer.shap_interaction_values(X)
    of_pairs = plan_of(explainer).n_bytes - of_values
    assert 0 < of_values <= 2**19
    assert 0 < of_pairs <= 2**19
    assert f"{(of_values + of_pairs) / 1e6:.1f} MB of tables" in repr(explainer)
