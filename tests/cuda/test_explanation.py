"""Every kernel and launch of explanations against the oracle, on an emulated GPU and where there is one on a GPU."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

import glasswood.cuda.buffers
import glasswood.cuda.rows
import glasswood.explain.cuda.explainer
import glasswood.explain.cuda.quadrature
import glasswood.explain.cuda.tapes
from glasswood import Explainer
from glasswood.base.device import DeviceError, import_cupy
from glasswood.inputs.placed import PlacedRows
from glasswood.plans import plan_of
from tests.conftest import examples, repeats
from tests.explain.tolerance import assert_close
from tests.oracles import shapley
from tests.strategies import Options, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
# Each kind of forest may compile a kernel: few examples.
few = examples(10)
OPTIONS = Options(n_trees=9, n_features=6, n_outputs=3)


def check(forest, X, kind, dtype="float64", algorithm="quadrature"):
    explainer = Explainer(forest, dtype=dtype, device="cuda", algorithm=algorithm)
    sides = shapley.sides(forest, X)
    if kind == "values":
        assert_close(explainer.shap_values(X), shapley.values(forest, sides), forest, dtype)
    else:
        assert_close(explainer.shap_interaction_values(X), shapley.interactions(forest, sides), forest, dtype)
    return explainer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["values", "interactions"])
@given(example=forests_and_rows(max_rows=5))
@few
def test_explanations_match_the_oracle(kind, dtype, example):
    check(*example, kind, dtype)


@pytest.mark.parametrize("kind", ["values", "interactions"])
@given(example=forests_and_rows(max_rows=3))
@few
def test_paths_match_the_oracle(kind, example):
    check(*example, kind, algorithm="paths")


@pytest.mark.parametrize("kind", ["values", "interactions"])
def test_trees_in_parts_of_several_buckets(limits, kind):
    """Kernels for larger forests: chunks hold parts of trees, sums have many chunks, points differ by tree."""
    limits(tiny_splits=0, few_splits=0, fewest_chunk_splits=3, fewest_pair_splits=3, small_bucket=0)
    forest = random_forest(5, OPTIONS)
    explainer = check(forest, random_rows(6, forest, 40), kind)
    job = plan_of(explainer, "cuda").job("values" if kind == "values" else "pairs")
    assert len(job.tapes) > 1
    assert sum(len(tape.chunk_starts) for tape in job.tapes) > forest.n_trees


@pytest.mark.parametrize("kind", ["values", "pairs"])
@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
@pytest.mark.parametrize("n_small", [0, 10**6], ids=["several tapes", "one launch"])
@pytest.mark.parametrize("kept_share", [1, 2**50], ids=["kept buffers", "new buffers"])
def test_calls_like_earlier_ones(limits, kind, algorithm, n_small, kept_share):
    """The launches of one call answer rows like its own, whose results stay; no others."""
    import cupy

    limits(tiny_splits=n_small, small_bucket=0, kept_share=kept_share)
    forest = random_forest(5, OPTIONS)
    explainer = Explainer(forest, device="cuda", algorithm=algorithm)
    explain = explainer.shap_values if kind == "values" else explainer.shap_interaction_values
    rows = random_rows(6, forest, 40, "float32")
    X, others, expected = cupy.asarray(rows), cupy.asarray(rows[::-1].copy()), explain(rows)
    request = kind, algorithm, "cuda"
    assert plan_of(explainer, "cuda").again(X, *request) is None
    np.testing.assert_array_equal(cupy.asnumpy(explain(X)), expected)
    again = plan_of(explainer, "cuda").again
    kept = again(X, *request)
    np.testing.assert_array_equal(cupy.asnumpy(again(others, *request)), expected[::-1])
    np.testing.assert_array_equal(cupy.asnumpy(kept), expected)
    for other in (X[:5], X[::2], X.astype(np.float64), rows, None):
        assert again(other, *request) is None
    for changed in (("margin", algorithm, "cuda"), (kind, algorithm, "cuda:0"), (1, 2, 3)):
        assert again(X, *changed) is None
    explain(X, out=cupy.empty(expected.shape, np.float32))
    if kind == "pairs":
        np.testing.assert_array_equal(cupy.asnumpy(explain(X, features=[2])), expected[:, [2]])


@pytest.mark.parametrize(("most", "is_cut"), [(12, True), (2, False)])
def test_chunks_of_wide_forests_are_cut_until_their_sums_fit_shared_memory(limits, most, is_cut):
    limits(tiny_splits=0, narrow_slots=most, narrowest_splits=5)
    forest = full_forest(5, n_trees=6, depth=6, n_features=40)
    X = np.random.default_rng(6).normal(size=(40, forest.n_features))
    explainer = Explainer(forest, device="cuda", algorithm="quadrature")
    assert_close(
        explainer.shap_values(X), Explainer(forest, dtype="float64").shap_values(X)[..., None], forest, "float32"
    )
    (tape,) = plan_of(explainer, "cuda").job("values").tapes
    assert (tape.most_slots <= most) == is_cut
    assert len(tape.chunk_starts) > forest.n_trees if is_cut else len(tape.chunk_starts) < forest.n_trees


def test_many_chunks_are_added_in_eighths(limits):
    limits(tiny_splits=0, fewest_chunk_splits=1)
    forest = full_forest(1, n_trees=80, depth=3, n_features=3)
    check(forest, np.random.default_rng(2).normal(size=(33, 3)), "values")


def test_one_launch_and_several_give_the_same_bits(limits):
    forest = random_forest(7, OPTIONS)
    X = random_rows(8, forest, 70)
    found = Explainer(forest, device="cuda").shap_values(X)
    limits(launched_splits=0)
    np.testing.assert_array_equal(Explainer(forest, device="cuda").shap_values(X), found)


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("n_features", [3, 12, 200])
def test_rows_of_any_width_most_of_them_zeros(limits, n_features, is_small):
    if not is_small:
        limits(launched_splits=0, sum_blocks=1)
    forest = full_forest(11, n_trees=6, depth=3, n_features=n_features)
    explainer = check(forest, np.random.default_rng(12).normal(size=(37, n_features)), "values")
    assert (plan_of(explainer, "cuda").job("values").small is not None) == is_small


@pytest.mark.parametrize("method", ["shap_values", "shap_interaction_values"])
def test_all_gpus_and_chunks_give_the_bits_of_one(limits, method):
    forest = random_forest(9, OPTIONS)
    X = random_rows(10, forest, 301)
    expected = getattr(Explainer(forest, device="cuda:0"), method)(X)
    limits(fewest_chunk_rows=32)
    explain = getattr(Explainer(forest, device="cuda:all"), method)
    for _ in range(repeats(5)):
        np.testing.assert_array_equal(explain(X), expected)


def test_an_explainer_and_its_forest_pickle_after_use():
    forest = full_forest(3, n_trees=5, depth=4, n_features=4)
    explainer = Explainer(forest, device="cuda")
    X = np.random.default_rng(4).normal(size=(40, 4))
    values, margins = explainer.shap_values(X), forest.predict(X, output="margin", device="cuda")
    copy = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(copy.shap_values(X), values)
    np.testing.assert_array_equal(copy.forest.predict(X, output="margin", device="cuda"), margins)
    plan = pickle.loads(pickle.dumps(plan_of(explainer, "cuda")))
    np.testing.assert_array_equal(plan.values(PlacedRows(X, (0,))), values)


@pytest.mark.parametrize(
    ("n_rows", "row_bytes", "expected"),
    [
        (1_000_000, 64, 125_000),
        (10_000, 64, 10_000),
        (10_000_000, 64, 2**25 // 64),
        (10_000, 784 * 785 * 4, 128),
        (10_000, 784 * 785 * 40, 2**29 // (784 * 785 * 40)),
        (3, 2**31, 1),
    ],
)
def test_chunks_between_host_and_gpu(n_rows, row_bytes, expected):
    assert glasswood.cuda.rows.chunk_rows(n_rows, row_bytes) == expected


def test_out_on_another_gpu_is_refused():
    import cupy

    forest = full_forest(2, n_trees=3, depth=4, n_features=4)
    rows = cupy.asarray(np.ones((5, 4), np.float32))
    out = Explainer(forest, device="cuda").shap_values(rows)
    if hasattr(cupy, "__file__"):
        if cupy.cuda.runtime.getDeviceCount() < 2:
            pytest.skip("one GPU")
        with cupy.cuda.Device(1):
            out = cupy.zeros(out.shape, out.dtype)
    else:
        out.device = SimpleNamespace(id=1)
    with pytest.raises(DeviceError, match="out lies on cuda:1, X on cuda:0; use an array beside X"):
        Explainer(forest).shap_values(rows, out=out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_checked_where_the_rows_are(monkeypatch, dtype):
    forest = random_forest(3, OPTIONS)
    X = random_rows(4, forest, 30)
    explainer = Explainer(forest, dtype=dtype, device="cuda")
    explainer.shap_values(X, check_additivity=True)
    for rows in (X, import_cupy().asarray(X)):
        found = explainer.shap_values(rows, check_additivity=True)
        assert type(found) is type(rows)
    compute = plan_of(explainer, "cuda").values

    def spoiled(*arguments):
        values = compute(*arguments)
        values[[7, 9], 0, 1] += 1
        return values

    monkeypatch.setattr(plan_of(explainer, "cuda"), "values", spoiled)
    for rows in (X, import_cupy().asarray(X)):
        with pytest.raises(ArithmeticError, match=r"the values of row 7 and .* for output 1, .*2 of 30 rows"):
            explainer.shap_values(rows, check_additivity=True)
