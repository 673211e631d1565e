"""Exact values of responses on a GPU beside the cores' in float64, emulated and on a GPU."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import glasswood
import glasswood.explain.cuda.coalitions
from tests.strategies import Options, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def check(forest, X, background, output="probability", dtype="float32", y=None, **settings):
    on_gpu, on_cpu = (
        glasswood.Explainer(forest, background, output=output, dtype=of_results, device=device, **settings)
        for device, of_results in (("cuda", dtype), ("cpu", "float64"))
    )
    labels = {} if y is None else {"y": y}
    found, expected = (each.shap_values(X, **labels) for each in (on_gpu, on_cpu))
    assert found.dtype == dtype
    size = max(1.0, float(np.abs(expected).sum(axis=1).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=(1e-6 if dtype == "float32" else 1e-12) * size)
    assert np.abs(found).max() > 0.001
    return found


def check_sets(forest, X, background, output="probability", dtype="float32", y=None, **settings):
    """Pairs, those of some players, and indices of sets."""
    on_gpu, on_cpu = (
        glasswood.Explainer(forest, background, output=output, dtype=of_results, device=device, **settings)
        for device, of_results in (("cuda", dtype), ("cpu", "float64"))
    )
    labels = {} if y is None else {"y": y}
    n = len(on_cpu.players)
    sets = [[i] for i in range(n)] + list(itertools.combinations(range(n), 3))[:12] + [tuple(range(n))[-4:]]
    calls = [
        lambda each: each.shap_interaction_values(X, **labels),
        lambda each: each.shap_interaction_values(X, features=[n - 1, 0], **labels),
        *(lambda each, kind=kind: each.interaction_index(X, sets, kind, **labels) for kind in ("shapley", "banzhaf")),
    ]
    for call in calls:
        found, expected = call(on_gpu), call(on_cpu)
        assert found.dtype == dtype
        size = max(1.0, float(np.abs(on_cpu.shap_values(X, **labels)).sum(axis=1).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=(2e-6 if dtype == "float32" else 1e-12) * size)
        assert np.abs(found).max() > 0.0001


def two_classes(n_features=6, depth=5, **meaning):
    forest = full_forest(1, n_trees=9, depth=depth, n_features=n_features)
    return dataclasses.replace(forest, leaf_value=forest.leaf_value * 10, **({"link": "logistic"} | meaning))


def normal(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output", ["probability", "log_loss"])
def test_two_classes(dtype, output):
    forest, X = two_classes(link_scale=0.7), normal(90, 6)
    y = np.arange(12) % 2 if output == "log_loss" else None
    check(forest, X[:12], X[12:], output, dtype, y, background_weight=1.0 + np.arange(78) % 4)
    check_sets(forest, X[:12], X[12:], output, dtype, y, background_weight=1.0 + np.arange(78) % 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_several_classes_categories_and_missing_values(dtype, vector_leaves):
    options = Options(
        n_trees=9, n_features=5, n_outputs=3, vector_leaves=vector_leaves, categorical=True, meaning={"link": "softmax"}
    )
    forest = random_forest(5, options)
    X = random_rows(4, forest, 24)
    check(forest, X[:8], X[8:], "probability", dtype)
    check(forest, X[:8], X[8:], "log_loss", dtype, np.arange(8) % 3)
    check(forest, X[:8], X[8:], "probability", dtype, groups={"a": [0, 3]})
    check_sets(forest, X[:8], X[8:], "probability", dtype)
    check_sets(forest, X[:8], X[8:], "log_loss", dtype, np.arange(8) % 3)
    check_sets(forest, X[:8], X[8:], "probability", dtype, groups={"a": [0, 3]})


@pytest.mark.parametrize("n_features", [11, 14, 20])
def test_larger_teams_and_wider_masks(n_features):
    forest, X = two_classes(n_features, depth=4), normal(7, n_features)
    check(forest, X[:2], X[2:], "probability", "float32")
    check_sets(forest, X[:2], X[2:4], "probability", "float32")
    check(
        dataclasses.replace(forest, link="exp", leaf_value=forest.leaf_value / 10), X[:2], X[2:4], "response", "float64"
    )


@pytest.mark.parametrize("name", ["gpu_mask_bytes", "gpu_cube_bytes"])
def test_rows_and_cubes_in_parts(monkeypatch, limits, name):
    forest, X = two_classes(10), normal(30, 10)
    whole = check(forest, X[:12], X[12:])
    limits(**{name: 2**15})
    monkeypatch.setattr(glasswood.explain.cuda.coalitions, "gpu_limits", lambda: Limits(2**12))
    np.testing.assert_array_equal(check(forest, X[:12], X[12:]), whole)
    check_sets(forest, X[:12], X[12:])


def test_values_beyond_shared_memory(monkeypatch):
    """One team a block adds to sums in global memory where those of its teams do not fit."""
    forest, X = two_classes(), normal(30, 6)
    whole = check(forest, X[:12], X[12:], dtype="float64")
    monkeypatch.setattr(glasswood.explain.cuda.coalitions, "gpu_limits", lambda: Limits(3500))
    assert (check(forest, X[:12], X[12:], dtype="float64") != whole).any()  # sums in another order
    check(forest, X[:12], X[12:])


@dataclasses.dataclass
class Limits:
    shared_per_block: int


def test_pairs_beyond_the_limit_and_what_only_cores_explain(limits):
    forest, X = two_classes(), normal(20, 6)
    limits(most_players=3)
    explainer = glasswood.Explainer(forest, X[5:], output="probability", device="cuda")
    with pytest.raises(NotImplementedError, match="rows differ from background rows on up to 6 features, GPUs are"):
        explainer.shap_values(X[:5])
    with pytest.raises(NotImplementedError, match="GPUs are exact up to 3 and estimate nothing"):
        explainer.shap_interaction_values(X[:5])
    with pytest.raises(NotImplementedError, match="exact values of output tanh run on the CPU only"):
        glasswood.Explainer(forest, X[5:], output=np.tanh, device="cuda").shap_values(X[:5])


def test_players_that_no_split_asks_for():
    forest, X = two_classes(3), normal(20, 5)
    forest = dataclasses.replace(forest, n_features=5)
    check_sets(forest, X[:4], X[4:])
    explainer = glasswood.Explainer(forest, X[4:], output="probability", device="cuda")
    pairs = explainer.shap_interaction_values(X[:4])
    assert pairs[:, :3, :3].any()
    assert not pairs[:, 3:].any()
    np.testing.assert_array_equal(pairs, pairs.swapaxes(1, 2))
    assert not explainer.interaction_index(X[:4], [[3], [0, 4]]).any()


def test_standard_errors_are_those_of_the_background():
    forest, X = two_classes(), normal(20, 6)
    explainer = glasswood.Explainer(forest, X[5:], output="probability", device="cuda")
    values, errors = explainer.shap_values(X[:5], standard_errors=True)
    np.testing.assert_array_equal(values, explainer.shap_values(X[:5]))
    on_cpu = glasswood.Explainer(forest, X[5:], output="probability", device="cpu")
    _, expected = on_cpu.shap_values(X[:5], standard_errors=True)
    # Pairs of rows tell them on the CPU, batches of the background on GPUs.
    np.testing.assert_allclose(errors, expected, rtol=0.7, atol=1e-3)
    assert np.corrcoef(errors.ravel(), expected.ravel())[0, 1] > 0.8
    explanation = explainer(X[:5])
    np.testing.assert_array_equal(explanation.values, values)
    assert (explanation.error_std is None) == (on_cpu(X[:5]).error_std is None)


def test_a_forest_without_splits():
    leaf = dataclasses.replace(random_forest(1, Options(shape="leaf")), link="logistic")
    X = normal(20, 3)
    explainer = glasswood.Explainer(leaf, X[5:], output="probability", device="cuda")
    assert not explainer.shap_values(X[:5]).any()
    assert not explainer.shap_interaction_values(X[:5]).any()
    assert not explainer.interaction_index(X[:5], [[0, 1]]).any()
