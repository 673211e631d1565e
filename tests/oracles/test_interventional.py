"""The background oracles against each other, against additivity and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.oracles import evaluate, interventional, shapley
from tests.strategies import Node, flatten, forests_and_rows

ROUNDING = 1e-13


def halves(X):
    """Rows and background rows, with weights, of one draw."""
    n = max(1, len(X) // 2)
    background = X[::-1]
    return X[:n], background, 1.0 + np.arange(len(background)) % 3


@given(forests_and_rows(shape="bushy", min_rows=1))
def test_both_oracles_agree_on_values(example):
    forest, X = example
    X, background, weight = halves(X)
    difference = np.abs(
        interventional.values(forest, X, background, weight)
        - interventional.values_by_pair(forest, X, background, weight)
    )
    assert (difference <= ROUNDING * shapley.leaf_spread(forest)).all()


@given(forests_and_rows(shape="bushy", min_rows=1))
def test_both_oracles_agree_on_interactions(example):
    forest, X = example
    X, background, weight = halves(X)
    difference = np.abs(
        interventional.interactions(forest, X, background, weight)
        - interventional.interactions_by_pair(forest, X, background, weight)
    )
    assert (difference <= ROUNDING * shapley.leaf_spread(forest)).all()


@given(forests_and_rows(min_rows=1))
def test_values_add_up_to_the_margin(example):
    forest, X = example
    X, background, weight = halves(X)
    base = interventional.expected_value(forest, background, weight)
    total = interventional.values_by_pair(forest, X, background, weight).sum(axis=1) + base
    scale = shapley.leaf_spread(forest) + np.abs(forest.base_score)
    assert (np.abs(total - evaluate.margins(forest, X)) <= ROUNDING * scale).all()


def two_features():
    """Margins 1 and 3, 5 and 7 of the second feature below and above, for the first feature below and above."""
    pairs = [(Node(1, 1.0), Node(1, 3.0)), (Node(1, 5.0), Node(1, 7.0))]
    inner = tuple(Node(2, feature=1, threshold=0.5, children=pair) for pair in pairs)
    return flatten([Node(4, feature=0, threshold=0.5, children=inner)], n_features=2)


def test_two_features_by_hand():
    """Of the weighted background 1 is (0, 0), 3 are (1, 0): v(none) = 4, v(first) = 5, v(second) = 6, v(both) = 7."""
    forest, X, background, weight = two_features(), [[1.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]], [1, 3]
    found = interventional.values(forest, X, background, weight)
    np.testing.assert_allclose(found[0, :, 0], [1, 2], rtol=ROUNDING)
    assert interventional.expected_value(forest, background, weight) == 4


@pytest.mark.parametrize("kind", ["shapley", "banzhaf"])
def test_a_product_is_all_interaction(kind):
    """v = 1 for both features known, else 0."""
    values = np.array([0.0, 0, 0, 1]).reshape(1, 4, 1)
    assert interventional.index(values, 2, kind)[0, 1] == 1
    assert interventional.index(values, 1, kind)[0,] == 0.5


def test_losses_of_probabilities():
    margins = np.array([[0.0], [2.0]])
    np.testing.assert_allclose(
        interventional.log_loss(margins, [0, 1]), -np.log([[0.5], [interventional.sigmoid(2.0)]]), rtol=ROUNDING
    )
