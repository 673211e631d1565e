"""Interactions by subtree tables: every kernel and launch against the oracle, on an emulated GPU and on a GPU."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given

import glasswood.cuda.rows
import glasswood.explain.cuda.table_launches
import glasswood.explain.cuda.tables
from glasswood import Explainer
from glasswood.explain.cuda.table_launches import TableJob, choose_block
from glasswood.explain.cuda.tables import TablePlan, group_by_workspace
from glasswood.plans import plan_of
from tests.conftest import examples
from tests.explain.tolerance import assert_close
from tests.oracles import interventional, shapley
from tests.strategies import Options, chain_forest, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
few = examples(20)
SMALL_LIMITS = (glasswood.explain.cuda.tables, glasswood.explain.cuda.table_launches)


def check(forest, X, dtype="float32", **options):
    explainer = Explainer(forest, algorithm="tables", device="cuda", dtype=dtype, **options)
    expected = shapley.interactions_by_leaf(forest, shapley.sides(forest, X))
    assert_close(explainer.shap_interaction_values(X), expected, forest, dtype)
    return explainer


def job_of(explainer):
    return plan_of(explainer, "cuda").job("pairs")


def rows(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(max_rows=9))
@few
def test_interactions_match_the_oracle(dtype, example):
    check(*example, dtype)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_outputs_and_categories(vector_leaves, categorical):
    options = Options(n_trees=7, n_features=9, n_outputs=3, vector_leaves=vector_leaves, categorical=categorical)
    forest = random_forest(3, options)
    check(forest, random_rows(4, forest, 20))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [1, 2, 5, 7, 8])
def test_entries_of_any_number_of_features(n_features, dtype):
    """One kernel for up to seven features, another for more."""
    forest = chain_forest(n_features, 1e-2)
    X = np.random.default_rng(n_features).choice([-1.0, 1.0], size=(9, n_features))
    batches = job_of(check(forest, X, dtype)).plan.batches
    assert batches[-1].n_quads == (1 if n_features < 8 else 2) * (1 if dtype == "float32" else 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [3, 9, 25])
def test_forests_of_several_chunks(n_features, dtype):
    forest = full_forest(2, n_trees=12, depth=6, n_features=n_features)
    plan = job_of(check(forest, rows(40, n_features), dtype)).plan
    assert sum(batch.n_chunks for batch in plan.batches) > 1
    assert len(plan.walked_trees) == 0


def test_many_rows_take_a_kernel_of_more_rows_a_thread(monkeypatch):
    forest, X = full_forest(2, n_trees=6, depth=5, n_features=6), rows(300, 6)
    expected = check(forest, X[:9]).shap_interaction_values(X)
    plan = TablePlan(forest, "float32", 2**28, True, of_pairs=True)
    few, many = (glasswood.cuda.per_gpu.Limits(n, 200_000, 200_000, 2**34) for n in (132, 1))
    of_few, of_many = (choose_block(plan, plan.batches[0], 384, limits).rows for limits in (few, many))
    assert 2 * of_few == of_many
    monkeypatch.setattr(glasswood.explain.cuda.table_launches, "gpu_limits", lambda: many)
    found = Explainer(forest, algorithm="tables", device="cuda").shap_interaction_values(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("shared", "is_staged"), [(160 * 1024, True), (20 * 1024, False)])
def test_small_shared_memory(monkeypatch, limits, shared, is_staged):
    small = glasswood.cuda.per_gpu.Limits(4, shared, shared, 2**34)
    for module in SMALL_LIMITS:
        monkeypatch.setattr(module, "gpu_limits", lambda: small)
    limits(scratch_bytes=100_000)
    forest = full_forest(5, n_trees=5, depth=7, n_features=6)
    plan = job_of(check(forest, rows(20, 6))).plan
    for batch in plan.batches:
        block = choose_block(plan, batch, 128, small)
        assert block.is_staged == is_staged
        assert block.shared <= shared
    groups = group_by_workspace(plan, np.arange(plan.n_subtrees), plan.arrays["leaf_game_bytes"])
    assert is_staged or any(group.is_scratch for group in groups)


@pytest.mark.parametrize("features", [[0], [3, 1], [4, 0, 2], []])
def test_chosen_features_share_the_tables(features):
    forest, X = full_forest(0, n_trees=8, depth=5, n_features=5), rows(19, 5)
    explainer = check(forest, X)
    whole = explainer.shap_interaction_values(X)
    np.testing.assert_allclose(
        explainer.shap_interaction_values(X, features=features), whole[:, features], atol=1e-5 * np.abs(whole).max()
    )
    jobs = plan_of(explainer, "cuda").jobs.values()
    assert len({id(job.tables) for job in jobs}) == 1


def test_wide_results_are_zero_where_no_pair_is():
    forest = full_forest(4, n_trees=4, depth=4, n_features=300)
    assert not job_of(check(forest, rows(5, 300))).is_sparse((1, 1, 1))


def test_trees_beyond_the_budget_are_walked():
    forest, X = full_forest(7, n_trees=12, depth=6, n_features=6), rows(20, 6)
    whole = TablePlan(forest, "float32", 2**28, True, of_pairs=True)
    plan = job_of(check(forest, X, table_bytes=whole.n_bytes // 2)).plan
    assert 0 < len(plan.walked_trees) < forest.n_trees
    assert all(batch.is_kept for batch in plan.batches)
    assert plan.n_bytes <= whole.n_bytes // 2


def test_budgets_know_the_padding_of_entries():
    """Ten features have 55 pairs, their entries 56 numbers: tables that exceed the budget would be built anew."""
    forest = full_forest(8, n_trees=30, depth=8, n_features=10)
    whole = TablePlan(forest, "float32", 2**30, True, of_pairs=True)
    assert max(batch.n_quads for batch in whole.batches) == 2
    plan = TablePlan(forest, "float32", whole.n_bytes - 16, False, of_pairs=True)
    assert plan.n_subtrees > 0
    assert all(batch.is_kept for batch in plan.batches)
    assert plan.n_bytes < whole.n_bytes


def test_few_tables_beside_a_long_walk_are_none():
    forest = full_forest(7, n_trees=60, depth=6, n_features=6)
    n_bytes = TablePlan(forest, "float32", 2**28, False, of_pairs=True).n_bytes
    few, some = (TablePlan(forest, "float32", n_bytes // share, False, of_pairs=True) for share in (40, 5))
    assert few.n_subtrees == 0 < some.n_subtrees
    assert len(few.walked_trees) == 60 > len(some.walked_trees)


def test_trees_of_paths_of_many_features_are_walked_in_part():
    forest = full_forest(15, n_trees=3, depth=10, n_features=10)
    X = rows(5, 10)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    walk = Explainer(forest, algorithm="quadrature", device="cpu", dtype="float64").shap_interaction_values(X)
    assert_close(explainer.shap_interaction_values(X), walk[..., None], forest, "float32")
    plan = job_of(explainer).plan
    assert len(plan.walked_trees) == 3
    assert len(plan.arrays["cut_nodes"]) > 0


def test_sums_of_more_chunks_than_tables_gain_leave_all_to_the_walk():
    """Few rows' worth of gains beside pairs of ever other features."""
    narrow, wide = (full_forest(0, n_trees=60, depth=4, n_features=n) for n in (5, 600))
    assert TablePlan(narrow, "float32", 2**28, False, of_pairs=True).n_subtrees > 0
    plan = TablePlan(wide, "float32", 2**28, False, of_pairs=True)
    assert plan.n_subtrees == 0
    np.testing.assert_array_equal(plan.walked_trees, np.arange(60))


def test_out_of_memory_falls_back_to_the_walk(monkeypatch):
    import cupy

    def refuse(*_):
        raise cupy.cuda.memory.OutOfMemoryError(1, 2)

    forest, X = full_forest(8, n_trees=6, depth=6, n_features=6), rows(40, 6)
    monkeypatch.setattr(glasswood.explain.cuda.tables, "Tables", refuse)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    with pytest.warns(RuntimeWarning, match=r"no GPU memory for [0-9,]+ bytes of tables; interactions come"):
        found = explainer.shap_interaction_values(X)
    walked = Explainer(forest, algorithm="quadrature", device="cuda").shap_interaction_values(X)
    np.testing.assert_array_equal(found, walked)


@pytest.mark.parametrize("n_features", [5, 12])
def test_batches_repeats_and_parts_give_the_same_bits(limits, n_features):
    forest, X = full_forest(10, n_trees=10, depth=5, n_features=n_features), rows(300, n_features)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    expected = explainer.shap_interaction_values(X)
    np.testing.assert_array_equal(explainer.shap_interaction_values(X), expected)
    for first, end in [(0, 1), (1, 130), (130, 300)]:
        np.testing.assert_array_equal(explainer.shap_interaction_values(X[first:end]), expected[first:end])
    limits(table_partial_bytes=1)
    np.testing.assert_array_equal(explainer.shap_interaction_values(X), expected)
    limits(fewest_chunk_rows=32)
    everywhere = Explainer(forest, algorithm="tables", device="cuda:all")
    np.testing.assert_array_equal(everywhere.shap_interaction_values(X), expected)


def test_auto_walks_small_forests_and_has_tables_for_others():
    for n_trees, has_tables in ((3, False), (40, True)):
        forest = full_forest(11, n_trees=n_trees, depth=6, n_features=5)
        assert isinstance(job_of(Explainer(forest, device="cuda")), TableJob) == has_tables


def test_pickles_after_use():
    forest, X = full_forest(12, n_trees=6, depth=5, n_features=5), rows(30, 5)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    found = explainer.shap_interaction_values(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_interaction_values(X), found)
    assert pickle.loads(pickle.dumps(job_of(explainer))).plan.of_pairs


def test_gpu_rows_and_out_of_any_layout():
    import cupy

    forest, X = full_forest(13, n_trees=8, depth=5, n_features=5), rows(100, 5)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    expected = explainer.shap_interaction_values(X)
    for _ in range(3):
        np.testing.assert_array_equal(cupy.asnumpy(explainer.shap_interaction_values(cupy.asarray(X))), expected)
    out = np.zeros((5, 5, 100), np.float32).T
    explainer.shap_interaction_values(X, out=out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(n_features=7, min_rows=2, max_rows=9))
@few
def test_interactions_against_a_background_match_the_oracle(dtype, example):
    forest, X = example
    background = X[len(X) // 2 :]
    explainer = Explainer(forest, background, dtype=dtype, device="cuda")
    expected = interventional.interactions(forest, X, background)
    assert_close(explainer.shap_interaction_values(X), expected, forest, dtype)


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_outputs_categories_and_weights_against_a_background(vector_leaves):
    options = Options(n_trees=5, n_features=9, n_outputs=3, vector_leaves=vector_leaves, categorical=True)
    forest = random_forest(3, options)
    X = random_rows(4, forest, 40)
    weight = np.random.default_rng(2).integers(0, 9, 30) / 7
    explainer = Explainer(forest, X[10:], background_weight=weight, dtype="float64", device="cuda")
    expected = interventional.interactions(forest, X[:10], X[10:], weight)
    assert_close(explainer.shap_interaction_values(X[:10]), expected, forest, "float64")


@pytest.mark.parametrize("share", [1, 2])
def test_against_a_background_beyond_the_budget(share):
    """Nothing walks, so that tables are built anew for each call."""
    forest, X, background = full_forest(7, n_trees=8, depth=6, n_features=6), rows(20, 6), rows(100, 6, 2)
    whole = TablePlan(forest, "float32", 2**28, True, of_pairs=True, has_background=True)
    explainer = Explainer(forest, background, device="cuda", table_bytes=whole.n_bytes // share)
    exact = Explainer(forest, background, device="cpu", dtype="float64").shap_interaction_values(X)
    assert_close(explainer.shap_interaction_values(X), exact[..., None], forest, "float32")
    assert (len(job_of(explainer).plan.batches) > 2) == (share > 1)


@pytest.mark.parametrize("n_features", [9, 10])
def test_tables_against_a_background_may_exceed_shared_memory(n_features):
    forest = chain_forest(n_features, 1e-2)
    X = np.random.default_rng(n_features).choice([-1.0, 1.0], size=(40, n_features))
    explainer = Explainer(forest, X[5:], device="cuda")
    exact = Explainer(forest, X[5:], device="cpu", dtype="float64").shap_interaction_values(X[:5])
    assert_close(explainer.shap_interaction_values(X[:5]), exact[..., None], forest, "float32")


def test_trees_without_tables_have_patterns():
    forest, X = chain_forest(12, 1e-3), rows(6, 12)
    found = Explainer(forest, X, device="cuda", dtype="float64").shap_interaction_values(X)
    assert_close(found, interventional.interactions(forest, X, X), forest, "float64")
