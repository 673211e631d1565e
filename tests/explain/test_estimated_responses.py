"""Values of pairs of rows that differ on too many features for all coalitions."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

import glasswood
from glasswood.explain.responses.permutations import EstimateWarning
from tests.example_forests import with_models
from tests.strategies import Options, full_forest, random_forest


@pytest.fixture
def explainer_of(limits):
    """Explainers that estimate pairs that differ on more than a few features."""

    def make(forest, background, output="probability", most=20, tolerance=0.01):
        limits(most_players=most, coalition_tolerance=tolerance)
        return glasswood.Explainer(forest, background, output=output, dtype="float64")

    return make


def two_classes(n_features=8, spread=20.0, **meaning):
    forest = full_forest(3, n_trees=30, depth=5, n_features=n_features)
    return dataclasses.replace(forest, leaf_value=forest.leaf_value * spread, link="logistic", **meaning)


@pytest.mark.parametrize("case", ["two classes", "log-loss", "three classes", "vector leaves", "callable"])
def test_standard_errors_are_what_they_say(case, explainer_of):
    """Of all values, 95 % are within two standard errors of the truth, however few orders are asked for."""
    output, labels = "probability", {}
    forest = two_classes()
    if case in {"three classes", "vector leaves"}:
        of_leaves = {"n_outputs": 3, "vector_leaves": case == "vector leaves", "meaning": {"link": "softmax"}}
        forest = random_forest(2, Options(n_trees=40, n_features=8, **of_leaves))
    if case == "callable":
        output = lambda m: np.tanh(m / 3)  # noqa: E731
    X = np.random.default_rng(1).normal(size=(60, 8))
    rows, background = X[:25], X[25:]
    if case == "log-loss":
        output, labels = "log_loss", {"y": np.arange(25) % 2}
    exact = explainer_of(forest, background, output).shap_values(rows, **labels)
    estimated = explainer_of(forest, background, output, most=3, tolerance=0.02)
    found, errors = estimated.shap_values(rows, standard_errors="estimates", **labels)
    is_estimate = errors > 0
    assert is_estimate.mean() > 0.7
    distance = (np.abs(found - exact)[is_estimate]) / errors[is_estimate]
    assert (distance < 2).mean() > 0.9
    assert 0.7 < np.sqrt((distance**2).mean()) < 1.3
    np.testing.assert_allclose(found.sum(axis=1), exact.sum(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[~is_estimate], exact[~is_estimate], rtol=0, atol=1e-12)


def test_a_smaller_tolerance_takes_more_orders(explainer_of):
    forest = two_classes()
    X = np.random.default_rng(1).normal(size=(30, 8))
    errors = [
        explainer_of(forest, X[10:], most=3, tolerance=tolerance)
        .shap_values(X[:10], standard_errors="estimates")[1]
        .max()
        for tolerance in (0.01, 0.001)
    ]
    assert errors[1] < errors[0] / 3


def test_estimates_are_said_and_do_not_depend_on_what_is_explained_together(explainer_of):
    forest = two_classes()
    X = np.random.default_rng(1).normal(size=(30, 8))
    explainer = explainer_of(forest, X[10:], most=3)
    with pytest.warns(EstimateWarning, match="10 of 10 rows differ from background rows on more than 3 features"):
        found = explainer.shap_values(X[:10])
    with pytest.warns(EstimateWarning):
        np.testing.assert_array_equal(explainer.shap_values(X[4:5])[0], found[4])


@pytest.mark.parametrize("has_shap", [True, False])
def test_explanations_hold_standard_errors(explainer_of, has_shap, monkeypatch):
    if has_shap:
        pytest.importorskip("shap")
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    forest, X = two_classes(), np.random.default_rng(1).normal(size=(30, 8))
    explainer = explainer_of(forest, X[10:], most=3)
    values, errors = explainer.shap_values(X[:10], standard_errors="estimates")
    with pytest.warns(EstimateWarning):
        explanation = explainer(X[:10])
    np.testing.assert_array_equal(explanation.values, values)
    np.testing.assert_array_equal(explanation.error_std, errors)
    np.testing.assert_array_equal(explanation[2:4, 1].error_std, errors[2:4, 1])
    with pytest.warns(EstimateWarning):
        np.testing.assert_array_equal(explainer(X[3]).error_std, errors[3])
    assert explainer_of(forest, X[10:])(X[:10]).error_std is None


def test_what_has_no_estimates_is_refused(explainer_of):
    forest = two_classes()
    X = np.random.default_rng(1).normal(size=(30, 8))
    explainer = explainer_of(forest, X[10:], most=3)
    expected = (
        "interactions of output probability are exact up to 3 features on which two rows differ, these differ on 8"
    )
    with pytest.raises(NotImplementedError, match=expected):
        explainer.shap_interaction_values(X[:10])
    with_equations = with_models(random_forest(4, Options(n_trees=3, n_features=8)), 4)
    linear = explainer_of(dataclasses.replace(with_equations, link="exp"), X[10:], "response", most=2)
    with pytest.raises(NotImplementedError, match="linear leaves of output response are exact up to 2 features"):
        linear.shap_values(X[:10])
