"""SHAP values against the oracle, closed forms and the margin."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import glasswood
from glasswood import Explainer
from tests.explain.tolerance import ALGORITHMS, DTYPES, assert_all_close, assert_close, tolerance
from tests.oracles import evaluate, shapley
from tests.strategies import Node, chain_forest, flatten, forests_and_rows, full_forest


@given(example=forests_and_rows())
def test_values_match_the_sum_over_coalitions(example):
    forest, X = example
    expected = shapley.values(forest, shapley.sides(forest, X))
    assert_all_close(lambda explainer: explainer.shap_values(X), forest, expected)


@given(example=forests_and_rows(n_features=40, max_rows=5))
@settings(max_examples=10)
def test_values_match_the_oracle_where_paths_hold_many_features(example):
    forest, X = example
    expected = shapley.values_by_leaf(forest, shapley.sides(forest, X))
    assert_all_close(lambda explainer: explainer.shap_values(X), forest, expected)


@pytest.mark.parametrize("n_features", [30, 300])
def test_trees_whose_paths_repeat_few_features(n_features):
    """The walk takes their lowest splits without quadrature points."""
    forest = full_forest(0, n_trees=12, depth=6, n_features=n_features)
    X = np.random.default_rng(1).normal(size=(21, n_features))
    X[::5, ::3] = np.nan
    expected = shapley.values_by_leaf(forest, shapley.sides(forest, X))
    assert_all_close(lambda explainer: explainer.shap_values(X), forest, expected)


def ragged_tree(rng, depth, n_features, cover=1000.0):
    if depth == 0 or rng.random() < 0.15:
        return Node(cover, value=rng.normal())
    share = rng.uniform(0.05, 0.95)
    children = tuple(ragged_tree(rng, depth - 1, n_features, part * cover) for part in (share, 1 - share))
    return Node(cover, 0.0, int(rng.integers(n_features)), rng.normal(), bool(rng.random() < 0.5), children=children)


@functools.cache
def ragged_forest(n_features, n_outputs):
    """A forest, rows and their values by the oracle."""
    rng = np.random.default_rng(n_features)
    trees = [ragged_tree(rng, depth, n_features - 1) for depth in (1, 9, 8, 5, 9, 8, 7, 0, 9, 8, 2)]
    outputs = {"tree_output": np.arange(len(trees), dtype=np.int32) % n_outputs, "base_score": np.arange(n_outputs) / 2}
    forest = flatten(trees, n_features, **outputs)
    X = rng.normal(size=(37, n_features))
    X[::5, ::3] = np.nan
    return forest, X, shapley.values_by_leaf(forest, shapley.sides(forest, X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_features", "n_outputs"), [(7, 3), (60, 1), (400, 3)])
def test_ragged_trees_of_several_outputs(algorithm, n_features, n_outputs, dtype):
    """Subtrees of all heights without points, neighbours that share slots, features that some outputs' trees split."""
    forest, X, expected = ragged_forest(n_features, n_outputs)
    explainer = Explainer(forest, dtype=dtype, algorithm=algorithm)
    values = explainer.shap_values(X)
    assert_close(values, expected, forest, dtype)
    unused = (expected == 0).all(axis=0)
    assert unused.any()
    np.testing.assert_array_equal(values.reshape(expected.shape)[:, unused], 0)
    spaced = np.empty((2 * len(X), 2 * n_features, 2 * n_outputs), dtype)[::2, ::2, :: 2 if n_outputs > 1 else 1]
    out = spaced if n_outputs > 1 else spaced[..., 0]
    np.testing.assert_array_equal(explainer.shap_values(X, out=out), values)


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-6), ("float64", 1e-13)])
@given(example=forests_and_rows())
def test_expected_value_is_the_empty_coalition(dtype, relative, example):
    """In float32, covers that add up to 1e-6 of their parent's count as adding up."""
    forest, _ = example
    found = np.atleast_1d(Explainer(forest, dtype=dtype).expected_value)
    scale = (
        np.abs(forest.ensemble.base_score)
        + np.abs(forest.ensemble.leaf_value).max() * np.abs(forest.ensemble.tree_weight).sum()
    )
    assert (np.abs(found - shapley.expected_value(forest)) <= relative * scale).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("P", [1e-3, 1e-9])
@pytest.mark.parametrize("d", [1, 2, 8, 16, 17, 33, 50, 100, 200])
@pytest.mark.parametrize("go_left", [False, True])
def test_chain_of_distinct_features(algorithm, d, P, dtype, go_left):
    row = np.full((1, d), 0.0 if go_left else 1.0)
    phi = Explainer(chain_forest(d, P, go_left=go_left), dtype=dtype, algorithm=algorithm).shap_values(row)
    expected = np.full((1, d), shapley.chain_values(d, P))
    np.testing.assert_allclose(phi, expected, rtol=1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize(
    ("n_trees", "depth", "dtype"),
    [
        (10, 3, "float32"),
        (1000, 3, "float64"),
        (40, 8, "float64"),
        (80, 8, "float32"),
        pytest.param(1000, 8, "float32", marks=pytest.mark.slow),
        (3, 16, "float32"),
        (3, 16, "float64"),
    ],
)
def test_values_add_up_to_the_margin(algorithm, n_trees, depth, dtype):
    forest = full_forest(0, n_trees, depth, n_features=20)
    X = np.random.default_rng(1).normal(size=(37, 20))
    explainer = Explainer(forest, dtype=dtype, algorithm=algorithm)
    total = explainer.shap_values(X).sum(axis=1, dtype=np.float64) + explainer.expected_value
    assert np.abs(total - _margins(forest, X)).max() <= tolerance(forest, dtype)[0]


def _margins(forest, X):
    """All trees at once, level by level: the oracle's recursion takes seconds for a million nodes."""
    X = X.astype(forest.ensemble.threshold.dtype)
    roots = forest.ensemble.tree_offsets[:-1]
    node = np.tile(roots, (len(X), 1))
    for _ in range(forest.depth):
        value = np.take_along_axis(X, np.maximum(forest.ensemble.feature[node], 0), axis=1)
        child = roots + forest.ensemble.left[node] + (value >= forest.ensemble.threshold[node])
        node = np.where(forest.ensemble.feature[node] < 0, node, child)
    leaf = np.cumsum(forest.ensemble.feature < 0) - 1
    return forest.ensemble.base_score + forest.ensemble.leaf_value[leaf[node], 0].sum(axis=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("depth", [3, 8, 16])
@pytest.mark.parametrize("n_trees", [10, 100, 1000])
def test_values_of_boosted_housing_models_add_up(algorithm, n_trees, depth):
    """The models of the GPUTreeShap paper, section 4: learning rate 0.01. A third of the rows trains in minutes."""
    xgboost = pytest.importorskip("xgboost")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = Path(glasswood.__file__).parent / "data" / "california_housing.parquet"
    table = parquet.read_table(path).to_pandas().to_numpy(np.float32)
    data = xgboost.DMatrix(table[::3, :-1], table[::3, -1])
    settings = {"max_depth": depth, "eta": 0.01, "tree_method": "hist", "nthread": 1}
    forest = glasswood.load(xgboost.train(settings, data, num_boost_round=n_trees))
    X = table[::100, :-1]
    margins = _margins(forest, X)
    for dtype in DTYPES:
        explainer = Explainer(forest, dtype=dtype, algorithm=algorithm)
        total = explainer.shap_values(X).sum(axis=1, dtype=np.float64) + explainer.expected_value
        assert np.abs(total - margins).max() <= tolerance(forest, dtype)[0]


@given(example=forests_and_rows(max_rows=40))
def test_values_of_every_forest_add_up(algorithm, example):
    forest, X = example
    explainer = Explainer(forest, dtype="float64", algorithm=algorithm)
    phi = explainer.shap_values(X).reshape(len(X), forest.n_features, forest.n_outputs)
    total = phi.sum(axis=1) + explainer.expected_value
    # Both the margin and the expected value are sums over the trees themselves.
    allowed = tolerance(forest, "float64") + 2 * evaluate.summation_bound(forest, X, 2.0**-53)
    assert (np.abs(total - evaluate.margins(forest, X)) <= allowed).all()


def test_values_ignore_a_common_offset_of_the_leaves():
    """A forest that averages years or prices: leaf values are large, their differences small."""
    forest = full_forest(0, n_trees=10, depth=6, n_features=5)
    X = np.random.default_rng(1).normal(size=(20, 5))
    expected = shapley.values(forest, shapley.sides(forest, X))
    for offset, algorithm, dtype in itertools.product([10.0, 1000.0], ALGORITHMS, DTYPES):
        shifted = dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value + offset * 0.01)
        assert_close(Explainer(shifted, dtype=dtype, algorithm=algorithm).shap_values(X), expected, forest, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_game_without_cover(algorithm, dtype):
    """A node without cover shares evenly, even above children with cover; a child without cover gets nothing."""
    halves = Node(0, feature=1, threshold=0.5, children=(Node(3, 2.0), Node(0, 4.0)))
    lost = Node(5, feature=2, threshold=0.5, children=(Node(0, 1.0), Node(0, -1.0)))
    forest = flatten([Node(8, feature=0, threshold=0.5, children=(halves, lost))], n_features=3)
    X = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), axis=-1).reshape(8, 3).astype(np.float32)
    explainer = Explainer(forest, dtype=dtype, algorithm=algorithm)
    assert_close(explainer.shap_values(X), shapley.values(forest, shapley.sides(forest, X)), forest, dtype)
    assert explainer.expected_value == shapley.expected_value(forest) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_trees_of_one_leaf_explain_nothing(algorithm, dtype):
    explainer = Explainer(flatten([Node(1, 2.5), Node(0, -7.0)], n_features=3), dtype=dtype, algorithm=algorithm)
    np.testing.assert_array_equal(explainer.shap_values(np.ones((2, 3))), np.zeros((2, 3)))
    assert explainer.expected_value == -4.5
