"""SHAP values of linear leaves, on an emulated GPU and where there is one on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.plans import plan_of
from tests.example_forests import with_models
from tests.explain import linear_cases
from tests.explain.linear_cases import rows_of
from tests.explain.tolerance import assert_close
from tests.strategies import Options, chain_forest, full_forest, random_forest

pytestmark = pytest.mark.usefixtures("gpu")
KINDS = ["values", "interactions"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_explanations_match_the_oracle(seed, kind, row_type, dtype):
    forest, X = linear_cases.plain(seed, row_type)
    linear_cases.check(Explainer(forest, dtype=dtype, device="cuda"), X, kind)


@pytest.mark.parametrize("case", linear_cases.CASES[1:])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_special_leaves(seed, kind, case):
    forest, X = case(seed)
    explainer = Explainer(forest, dtype="float64", device="cuda")
    linear_cases.check(explainer, X, kind)
    explainer.shap_values(X, check_additivity=True)


@pytest.mark.parametrize("shared_bytes", [24 * 1024, 0], ids=["shared", "global"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_several_numbers_of_points(limits, kind, shared_bytes):
    """Many parts, several kernels, paths of 40 features, accumulators in shared and in global memory."""
    limits(tiny_splits=0, few_splits=0, fewest_chunk_splits=5, small_bucket=0, fewest_pair_splits=5)
    limits(walk_shared_bytes=shared_bytes, walk_pair_shared_bytes=shared_bytes)
    for forest in (full_forest(1, n_trees=3, depth=4, n_features=9), chain_forest(40, 1e-2)):
        linear = with_models(forest, 2, -1, 1)
        X = rows_of(linear, 3, 35)  # more than a warp
        on_gpu = Explainer(linear, device="cuda", dtype="float64")
        explain = "shap_values" if kind == "values" else "shap_interaction_values"
        found, expected = getattr(on_gpu, explain)(X), getattr(Explainer(linear, dtype="float64"), explain)(X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        job = plan_of(on_gpu, "cuda").job("values" if kind == "values" else "pairs")
        assert sum(len(tape.slot_offsets) - 1 for tape in job.tapes) > 5


def test_trees_of_one_leaf_and_rows_on_the_gpu():
    import cupy

    forest = with_models(full_forest(4, n_trees=6, depth=0, n_features=30), 5, -1, 1)
    X = rows_of(forest, 6, 300)
    expected = Explainer(forest, dtype="float64").shap_values(X)
    explainer = Explainer(forest, device="cuda")
    rows = cupy.asarray(X)
    first = cupy.asnumpy(explainer.shap_values(rows))
    np.testing.assert_allclose(first, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    others = cupy.asarray(X[::-1].copy())
    kept = plan_of(explainer, "cuda").again(others, "values", "auto", "cuda")
    np.testing.assert_array_equal(cupy.asnumpy(kept), first[::-1])
    assert explainer.shap_values(rows[:0]).shape == (0, 30)


LINEAR = ("feature", "category", "coefficient", "mean")


def test_no_models_are_constant_leaves():
    constant = random_forest(7, Options(n_trees=4, n_features=6))
    none = np.zeros(constant.n_leaves + 1, np.int64)
    empty = {f"linear_{name}": getattr(with_models(constant, 8), f"linear_{name}")[:0] for name in LINEAR}
    forest = dataclasses.replace(with_models(constant, 8), linear_offsets=none, **empty)
    X = rows_of(forest, 9, 50)
    expected = Explainer(constant, dtype="float64").shap_values(X).reshape(50, 6, -1)
    assert_close(Explainer(forest, device="cuda").shap_values(X), expected, constant, "float32")


def test_what_is_left_to_the_cpu_says_so():
    forest = with_models(full_forest(1, n_trees=1, depth=2, n_features=3), 2)
    X = rows_of(forest, 3, 4)
    for what, options in {"against a background": {"background": X}, "by groups": {"groups": {"a": [0, 1]}}}.items():
        with pytest.raises(NotImplementedError, match=f"explanations of linear leaves {what} run on the CPU only"):
            Explainer(forest, device="cuda", **options).shap_values(X)
