"""Probabilities against background rows on a GPU: beside the cores' in float64, emulated and on a GPU."""

from __future__ import annotations

import dataclasses
import functools
import pickle

import numpy as np
import pytest

import glasswood
import glasswood.explain.cuda.responses
from glasswood.plans import plan_of
from tests.cuda.test_divided import deep_forest
from tests.oracles import evaluate, interventional
from tests.strategies import full_forest

Explainer = functools.partial(glasswood.Explainer, rule="rescale")

pytestmark = pytest.mark.usefixtures("gpu")
METHODS = ("shap_values", "shap_interaction_values")


def classifier(n_features=5, **link):
    forest = full_forest(1, n_trees=9, depth=5, n_features=n_features)
    return dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value * 30, **({"link": "logistic"} | link))


def rows(n, n_features=5, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


def pair_of_explainers(forest, background, dtype, output="probability", **options):
    return [
        Explainer(forest, background, output=output, device=device, dtype=of_results, **options)
        for device, of_results in (("cuda", dtype), ("cpu", "float64"))
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-11)])
@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_probabilities_are_those_of_the_cores(method, dtype, tolerance, slope):
    """As exact as sums of thousands of times their size can be."""
    forest, X = classifier(link_scale=slope), rows(30)
    weight = np.random.default_rng(2).integers(1, 9, 50) / 7
    on_gpu, on_cpu = pair_of_explainers(forest, rows(50, seed=2), dtype, background_weight=weight)
    found, expected = (getattr(each, method)(X) for each in (on_gpu, on_cpu))
    assert found.dtype == dtype
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance
    assert np.abs(found).max() > 0.01
    assert on_gpu.algorithm_ == "tables"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_losses_are_those_of_the_cores(method, dtype, tolerance):
    import cupy

    forest, X = classifier(link_scale=2.0), rows(30)
    y = np.random.default_rng(3).integers(0, 2, 30)
    on_gpu, on_cpu = pair_of_explainers(forest, rows(50, seed=2), dtype, "log_loss")
    found, expected = (getattr(each, method)(X, y=y) for each in (on_gpu, on_cpu))
    assert found.dtype == dtype
    assert np.abs(found - expected).max() <= tolerance
    assert np.abs(found).max() > 0.1
    on_device = getattr(on_gpu, method)(cupy.asarray(X), y=cupy.asarray(y))
    np.testing.assert_array_equal(cupy.asnumpy(on_device), found)
    for wrong in (None, y[:5], y + 1):
        with pytest.raises(ValueError, match="y"):
            getattr(on_gpu, method)(X, y=wrong)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("output", ["probability", "log_loss"])
def test_pairs_of_equal_margins_have_the_factor_0(method, output):
    """As in shap: leaves of few values give many rows the margin of others."""
    forest, X, other = classifier(), rows(30), rows(50, seed=2)
    forest = dataclasses.replace(forest, leaf_value=np.sign(forest.ensemble.leaf_value))
    given = {"y": np.arange(30) % 2} if output == "log_loss" else {}
    on_gpu, on_cpu = pair_of_explainers(forest, other, "float64", output)
    tied = np.isin(forest.predict(X, "margin"), forest.predict(other, "margin"))
    assert tied.sum() > 3
    found, expected = (getattr(each, method)(X, **given) for each in (on_gpu, on_cpu))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    on_cpu._engines.cpu.ties = lambda _: ()
    assert np.abs(getattr(on_cpu, method)(X, **given) - expected).max() > 1e-3


def test_forests_of_one_value():
    forest = classifier()
    forest = dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value * 0)
    for explainer in pair_of_explainers(forest, rows(50, seed=2), "float64"):
        assert not explainer.shap_values(rows(3)).any()


def test_strongest_pairs_of_losses():
    forest, X = classifier(), rows(12)
    y = np.arange(12) % 2
    on_gpu, on_cpu = pair_of_explainers(forest, rows(30, seed=2), "float64", "log_loss")
    (found, strengths), (expected, wanted) = (each.shap_interaction_values(X, y=y, top=3) for each in (on_gpu, on_cpu))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(strengths, wanted, atol=1e-10)


def test_values_add_up_to_the_probability():
    forest, X = classifier(), rows(20)
    explainer = Explainer(forest, rows(30, seed=2), output="probability", device="cuda", dtype="float64")
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    margin = Explainer(forest, rows(30, seed=2), device="cpu", dtype="float64")
    logits = margin.shap_values(X).sum(axis=1) + margin.expected_value
    np.testing.assert_allclose(total, 1 / (1 + np.exp(-logits)), atol=1e-9)


def test_chosen_features_rows_of_a_gpu_and_any_layout():
    import cupy

    forest, X = classifier(), rows(20)
    explainer = Explainer(forest, rows(30, seed=2), output="probability", device="cuda").prepare()
    whole = explainer.shap_interaction_values(X)
    part = explainer.shap_interaction_values(X, features=[3, 1])
    np.testing.assert_allclose(part, whole[:, [3, 1]], atol=1e-6)
    for _ in range(2):
        np.testing.assert_array_equal(cupy.asnumpy(explainer.shap_interaction_values(cupy.asarray(X))), whole)
    out = np.zeros((5, 20), np.float32).T
    explainer.shap_values(X, out=out)
    np.testing.assert_array_equal(out, explainer.shap_values(X))
    assert explainer.shap_values(X[:0]).shape == (0, 5)


def test_batches_and_pickles_give_the_same_bits(limits):
    forest, X = classifier(), rows(150)
    explainer = Explainer(forest, rows(30, seed=2), output="probability", device="cuda")
    expected = explainer.shap_values(X)
    np.testing.assert_array_equal(explainer.shap_values(X[7:20]), expected[7:20])
    limits(response_part_bytes=10_000)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), expected)


def test_tables_beyond_their_share_of_the_budget_are_built_for_each_call():
    forest, X = classifier(), rows(9)
    small, whole = (
        Explainer(forest, rows(30, seed=2), output="probability", device="cuda", table_bytes=table_bytes)
        for table_bytes in (300_000, 2**28)
    )
    np.testing.assert_allclose(small.shap_values(X), whole.shap_values(X), atol=1e-7)
    plan = plan_of(small, "cuda").job("values").values.plan
    assert len(plan.batches) > 2
    assert plan.n_bytes * (len(plan_of(small).parts.nodes) + 1) <= 300_000


@pytest.mark.parametrize("options", [{}, {"table_bytes": 0}])
def test_trees_without_tables(options):
    """Weighted backgrounds have patterns, of weights below 0 too: beside the sum over pairs, and the cores.

    Pairs of equal margins count nothing.
    """
    forest = dataclasses.replace(deep_forest(5, 24, (3, 12, 20)), link="logistic")
    X, background, y = rows(5, 24), rows(60, 24, 2), np.arange(5) % 2
    a, c = (evaluate.margins(forest, each)[:, 0] for each in (X, background))
    a, c = np.meshgrid(a, c, indexing="ij")
    ratio = (interventional.sigmoid(a) - interventional.sigmoid(c)) / np.where(a == c, 1, a - c)
    expected = (interventional.values_of_pairs(forest, X, background)[..., 0] * ratio[..., None]).mean(axis=1)
    on_gpu, _ = pair_of_explainers(forest, background, "float64", **options)
    np.testing.assert_allclose(on_gpu.shap_values(X), expected, atol=1e-7)
    assert on_gpu.algorithm_ == ("patterns" if options else "tables")
    for method in METHODS:
        on_gpu, on_cpu = pair_of_explainers(forest, background, "float64", output="log_loss", **options)
        found, expected = (getattr(each, method)(X, y=y) for each in (on_gpu, on_cpu))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_what_a_gpu_refuses():
    forest, X = classifier(), rows(9)
    with pytest.raises(ValueError, match="y is for output='log_loss'"):
        Explainer(forest, X, output="probability", device="cuda").shap_values(X, y=np.ones(9))


def test_margins_far_apart_take_more_tables_than_a_gpu_adds_up():
    forest = classifier()
    forest = dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value * 100)
    background, X = rows(300, seed=2), rows(9)
    with pytest.raises(NotImplementedError, match="margins so far apart need 64 tables, a GPU adds up 48 at most"):
        Explainer(forest, background, output="probability", device="cuda").shap_values(X)
    exact = Explainer(forest, background, output="probability", device="cpu").shap_values(X)
    np.testing.assert_array_equal(Explainer(forest, background, output="probability").shap_values(X), exact)
