"""The oracles against each other, against closed forms and against shap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.oracles import evaluate, shapley
from tests.strategies import Node, chain_forest, flatten, forests_and_rows, random_rows

ROUNDING = 1e-13
"""A few hundred operations of 1.1e-16 each, all of one sign."""


@given(forests_and_rows())
def test_both_oracles_agree_on_values(example):
    forest, X = example
    sides = shapley.sides(forest, X)
    difference = np.abs(shapley.values(forest, sides) - shapley.values_by_leaf(forest, sides))
    assert (difference <= ROUNDING * shapley.leaf_spread(forest)).all()


@given(forests_and_rows(shape="bushy", max_rows=4))
def test_both_oracles_agree_on_interactions(example):
    forest, X = example
    sides = shapley.sides(forest, X)
    difference = np.abs(shapley.interactions(forest, sides) - shapley.interactions_by_leaf(forest, sides))
    assert (difference <= ROUNDING * shapley.leaf_spread(forest)).all()


@given(forests_and_rows())
def test_values_add_up_to_the_margin(example):
    forest, X = example
    total = shapley.values(forest, shapley.sides(forest, X)).sum(axis=1) + shapley.expected_value(forest)
    scale = shapley.leaf_spread(forest) + np.abs(forest.base_score)
    assert (np.abs(total - evaluate.margins(forest, X)) <= ROUNDING * scale).all()


@pytest.mark.parametrize("d", [1, 2, 8, 33])
@pytest.mark.parametrize("P", [1e-3, 1e-9])
@pytest.mark.parametrize("go_left", [False, True])
def test_chain_has_its_closed_form(d, P, go_left):
    forest = chain_forest(d, P, go_left=go_left)
    row = np.full((1, d), 0.0 if go_left else 1.0)
    phi = shapley.values_by_leaf(forest, shapley.sides(forest, row))
    np.testing.assert_allclose(phi, np.full((1, d, 1), shapley.chain_values(d, P)), rtol=ROUNDING)


def test_two_features_by_hand():
    """v(both) = 7 and v(none) = (1 + 3 + 5 + 7) / 4; v(first) = 6 and v(second) = 5."""
    pairs = [(Node(1, 1.0), Node(1, 3.0)), (Node(1, 5.0), Node(1, 7.0))]
    inner = tuple(Node(2, feature=1, threshold=0.5, children=pair) for pair in pairs)
    forest = flatten([Node(4, feature=0, threshold=0.5, children=inner)], n_features=2)
    sides = shapley.sides(forest, [[1.0, 1.0]])
    np.testing.assert_allclose(shapley.values(forest, sides)[0, :, 0], [2, 1], rtol=ROUNDING)
    np.testing.assert_allclose(shapley.interactions(forest, sides)[0, :, :, 0], [[2, 0], [0, 1]], atol=ROUNDING)
    assert shapley.expected_value(forest) == 4


def test_game_without_cover():
    """A node without cover shares evenly, a child without cover gets nothing."""
    halves = Node(0, feature=1, threshold=0.5, children=(Node(0, 2.0), Node(0, 4.0)))
    forest = flatten([Node(1, feature=0, threshold=0.5, children=(Node(1, 0.0), halves))], n_features=2)
    assert shapley.expected_value(forest) == 0
    phi = shapley.values(forest, shapley.sides(forest, [[1.0, 1.0]]))[0, :, 0]
    np.testing.assert_allclose(phi, [(3 + 4) / 2, (0 + 1) / 2], rtol=ROUNDING)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_oracle_agrees_with_shap(n_targets):
    shap = pytest.importorskip("shap")
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = X[:, :n_targets] * X[:, 1:2] + np.sin(3 * X[:, 2:3]) + 0.1 * rng.normal(size=(300, n_targets))
    model = RandomForestRegressor(n_estimators=4, max_depth=6, random_state=0).fit(X, np.squeeze(y))
    forest = flatten(
        [_from_sklearn(tree.tree_) for tree in model.estimators_], 6, "float64", tree_weight=np.full(4, 0.25)
    )
    rows = X[:20].astype(np.float32).astype(np.float64)
    sides = shapley.sides(forest, rows)
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    scale = 1e-9 * shapley.leaf_spread(forest).max()
    expected = np.asarray(explainer.shap_values(rows)).reshape(20, 6, n_targets)
    np.testing.assert_allclose(shapley.values(forest, sides), expected, rtol=0, atol=scale)
    pairs = np.asarray(explainer.shap_interaction_values(rows)).reshape(20, 6, 6, n_targets)
    np.testing.assert_allclose(shapley.interactions(forest, sides), pairs, rtol=0, atol=scale)


def _from_sklearn(tree, node=0) -> Node:
    """scikit-learn tests x <= t: x < u, with u the next number after t."""
    cover, value = float(tree.weighted_n_node_samples[node]), tree.value[node, :, 0]
    if tree.children_left[node] < 0:
        return Node(cover, value)
    children = (_from_sklearn(tree, tree.children_left[node]), _from_sklearn(tree, tree.children_right[node]))
    above = float(np.nextafter(tree.threshold[node], np.inf))
    return Node(cover, feature=int(tree.feature[node]), threshold=above, children=children)


def test_random_rows_reach_both_sides_of_ties():
    forest = flatten([Node(2, feature=0, threshold=0.5, children=(Node(1, 0.0), Node(1, 1.0)))], n_features=1)
    rows = random_rows(0, forest, 200)
    assert {0.5, float(np.nextafter(0.5, 0)), float(np.nextafter(0.5, 1))} <= set(rows[:, 0].tolist())
