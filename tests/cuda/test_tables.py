"""Values by subtree tables: every kernel and launch against the oracle, on an emulated GPU and on a GPU."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given

import glasswood.cuda.rows
import glasswood.explain.cuda.table_launches
import glasswood.explain.cuda.tables
from glasswood import Explainer
from glasswood.explain.cuda.table_launches import TableJob, choose_block
from glasswood.explain.cuda.tables import TablePlan, build_groups
from glasswood.plans import plan_of
from tests.conftest import examples
from tests.explain.tolerance import assert_close
from tests.oracles import shapley
from tests.strategies import (
    Node,
    Options,
    chain_forest,
    flatten,
    forests_and_rows,
    full_forest,
    random_forest,
    random_rows,
)

pytestmark = pytest.mark.usefixtures("gpu")
few = examples(20)


def check(forest, X, dtype="float32", **options):
    explainer = Explainer(forest, algorithm="tables", device="cuda", dtype=dtype, **options)
    assert_close(explainer.shap_values(X), shapley.values(forest, shapley.sides(forest, X)), forest, dtype)
    return explainer


def check_with_cpu(forest, X, dtype="float32", **options):
    explainer = Explainer(forest, algorithm="tables", device="cuda", dtype=dtype, **options)
    walk = Explainer(forest, algorithm="quadrature", device="cpu", dtype="float64").shap_values(X)
    assert_close(explainer.shap_values(X), walk[..., None] if forest.n_outputs == 1 else walk, forest, dtype)
    return explainer


def job_of(explainer):
    return plan_of(explainer, "cuda").job("values")


def rows(n, n_features, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(max_rows=9))
@few
def test_values_match_the_oracle(dtype, example):
    check(*example, dtype)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("n_features", [5, 30])
def test_outputs_and_categories(n_features, vector_leaves, categorical):
    options = Options(
        n_trees=7, n_features=n_features, n_outputs=3, vector_leaves=vector_leaves, categorical=categorical
    )
    forest = random_forest(3, options)
    compare = check if n_features == 5 else check_with_cpu
    job = job_of(compare(forest, random_rows(4, forest, 40)))
    assert n_features > 5 or all(batch.is_narrow for batch in job.plan.batches)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_features", "is_narrow"), [(3, True), (8, True), (9, True), (60, False)])
def test_forests_of_several_chunks(n_features, is_narrow, dtype):
    forest = full_forest(2, n_trees=20, depth=6, n_features=n_features)
    job = job_of(check_with_cpu(forest, rows(150, n_features), dtype))
    arrays = job.plan.arrays
    (batch,) = job.plan.batches
    assert batch.is_narrow == is_narrow
    assert batch.n_chunks > 1
    assert len(arrays["stages"]) > batch.n_chunks or n_features == 3
    assert len(arrays["walked_trees"]) == 0


def test_subtrees_of_few_and_of_many_features_are_added_by_kernels_of_their_own():
    forest = full_forest(2, n_trees=6, depth=9, n_features=10)
    batches = job_of(check_with_cpu(forest, rows(20, 10))).plan.batches
    by_states = [batch for batch in batches if not batch.n_points]
    assert [(batch.is_narrow, batch.most_slots > 8) for batch in by_states] == [(1, False), (0, True)]


@pytest.mark.parametrize("n_features", [4, 40])
@pytest.mark.parametrize(("shared", "is_staged"), [(160 * 1024, True), (50 * 1024, False)])
def test_small_shared_memory(monkeypatch, shared, is_staged, n_features):
    limits = glasswood.cuda.per_gpu.Limits(4, shared, shared, 2**34)
    for module in (glasswood.explain.cuda.tables, glasswood.explain.cuda.table_launches):
        monkeypatch.setattr(module, "gpu_limits", lambda: limits)
    forest = full_forest(5, n_trees=9, depth=7, n_features=n_features)
    explainer = check_with_cpu(forest, rows(70, n_features))
    plan = job_of(explainer).plan
    block = choose_block(plan, plan.batches[0], 128, limits)
    assert block.is_staged == is_staged
    assert block.shared <= shared


def test_tables_too_large_for_shared_memory_are_built_in_global_memory(monkeypatch, limits):
    small = glasswood.cuda.per_gpu.Limits(4, 8 * 1024, 8 * 1024, 2**34)
    monkeypatch.setattr(glasswood.explain.cuda.tables, "gpu_limits", lambda: small)
    limits(scratch_bytes=100_000)
    forest = full_forest(6, n_trees=5, depth=8, n_features=6)
    job = job_of(check_with_cpu(forest, rows(33, 6)))
    assert sum(group.is_scratch for _, group in build_groups(job.plan, job.plan.batches[0])) > 1


@pytest.mark.parametrize("options", [{}, {"n_outputs": 2, "vector_leaves": True}])
def test_tables_beyond_the_budget_are_built_for_each_call(options):
    forest = full_forest(7, n_trees=12, depth=7, n_features=6)
    if options:
        forest = random_forest(7, Options(n_trees=12, n_features=6, **options))
    X = random_rows(8, forest, 40)
    whole = TablePlan(forest, "float32", 2**28, True)
    expected = check_with_cpu(forest, X).shap_values(X)
    explainer = check_with_cpu(forest, X, table_bytes=whole.n_bytes // 2)
    plan = job_of(explainer).plan
    assert plan.batches[0].is_kept
    assert len(plan.batches) > 2
    assert len(plan.walked_trees) == 0
    assert plan.n_bytes <= whole.n_bytes // 2
    np.testing.assert_allclose(explainer.shap_values(X), expected, atol=1e-5 * np.abs(expected).max())


def test_trees_beyond_many_budgets_are_walked():
    forest = full_forest(7, n_trees=12, depth=7, n_features=6)
    whole = TablePlan(forest, "float32", 2**28, True)
    plan = job_of(check_with_cpu(forest, rows(30, 6), table_bytes=whole.n_bytes // 300)).plan
    assert 0 < len(plan.walked_trees) < forest.n_trees


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_features", "depth", "n_points"), [(12, 11, {0, 4, 6}), (30, 9, {0, 4, 6}), (16, 13, {8})])
def test_subtrees_below_many_features_have_tables_by_points(n_features, depth, n_points, dtype):
    forest = full_forest(15, n_trees=1, depth=depth, n_features=n_features)
    plan = job_of(check_with_cpu(forest, rows(30, n_features), dtype)).plan
    assert {batch.n_points for batch in plan.batches} >= n_points
    assert len(plan.walked_trees) == 0


def test_what_lies_below_too_many_features_is_walked_and_the_rest_of_the_tree_has_tables():
    tree = Node(value=1.0)
    for feature in reversed(range(24)):
        leaves = [Node(value=value) for value in (feature, -2.0, 3.0, 0.5)]
        halves = [Node(cover=2, feature=24 + i, threshold=0.5, children=leaves[2 * i : 2 * i + 2]) for i in range(2)]
        aside = Node(cover=4, feature=26, threshold=0.5, children=halves)
        tree = Node(cover=tree.cover + 4, feature=feature, threshold=0.5, children=(aside, tree))
    X = (np.random.default_rng(2).random((60, 27)) < np.linspace(0.4, 0.95, 60)[:, None]).astype(np.float32)
    plan = job_of(check_with_cpu(flatten([tree], 27), X)).plan
    assert plan.walked_trees.tolist() == [0]
    assert len(plan.arrays["cut_nodes"]) > 1


@pytest.mark.parametrize("covers", [0.5, 1e-9])
def test_tables_by_points_of_a_chain(covers):
    forest = chain_forest(14, covers)
    X = np.random.default_rng(2).integers(0, 2, (40, 14)).astype(np.float32)
    X[:2] = [[0], [1]]
    X[2, 3] = np.nan
    plan = job_of(check_with_cpu(forest, X)).plan
    assert any(batch.n_points for batch in plan.batches)


def test_tables_by_points_of_vector_leaves():
    forest = full_forest(16, n_trees=1, depth=10, n_features=14)
    values = np.random.default_rng(3).normal(size=(forest.n_leaves, 3))
    forest = dataclasses.replace(forest, leaf_value=values, base_score=np.zeros(3))
    plan = job_of(check_with_cpu(forest, rows(20, 14))).plan
    assert any(batch.n_points for batch in plan.batches)


def test_tables_by_points_give_the_same_bits_kept_and_built_for_each_call():
    forest, X = full_forest(15, n_trees=2, depth=10, n_features=12), rows(300, 12)
    whole = Explainer(forest, algorithm="tables", device="cuda")
    expected = whole.shap_values(X)
    assert any(batch.n_points for batch in job_of(whole).plan.batches)
    np.testing.assert_array_equal(whole.shap_values(X[130:]), expected[130:])
    part = check_with_cpu(forest, X, table_bytes=job_of(whole).plan.n_bytes // 2)
    assert any(batch.n_points and not batch.is_kept for batch in job_of(part).plan.batches)
    np.testing.assert_array_equal(part.shap_values(X[:7]), part.shap_values(X)[:7])


def test_out_of_memory_falls_back_to_the_walk_and_says_so_once(monkeypatch):
    import cupy

    def refuse(*_):
        raise cupy.cuda.memory.OutOfMemoryError(1, 2)

    forest, X = full_forest(8, n_trees=12, depth=7, n_features=6), rows(40, 6)
    monkeypatch.setattr(glasswood.explain.cuda.tables, "Tables", refuse)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    with pytest.warns(RuntimeWarning, match="no GPU memory for [0-9,]+ bytes of tables"):
        found = explainer.shap_values(X)
    walked = Explainer(forest, algorithm="quadrature", device="cuda").shap_values(X)
    np.testing.assert_array_equal(found, walked)
    np.testing.assert_array_equal(explainer.shap_values(X), walked)


def test_more_thresholds_than_halves_have_numbers():
    forest = full_forest(9, n_trees=70, depth=10, n_features=2)
    job = job_of(check_with_cpu(forest, rows(20, 2)))
    assert not job.plan.arrays["is_packed"]


@pytest.mark.parametrize("n_features", [5, 30])
def test_batches_repeats_and_parts_give_the_same_bits(limits, n_features):
    forest = full_forest(10, n_trees=15, depth=6, n_features=n_features)
    X = rows(300, n_features)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    expected = explainer.shap_values(X)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)
    for first, end in [(0, 1), (1, 130), (130, 300)]:
        np.testing.assert_array_equal(explainer.shap_values(X[first:end]), expected[first:end])
    limits(table_partial_bytes=1)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)
    limits(fewest_chunk_rows=32)
    everywhere = Explainer(forest, algorithm="tables", device="cuda:all")
    np.testing.assert_array_equal(everywhere.shap_values(X), expected)


def test_auto_walks_small_forests_and_has_tables_for_others():
    small = Explainer(full_forest(11, n_trees=3, depth=4, n_features=5), device="cuda")
    assert not isinstance(job_of(small), TableJob)
    large = Explainer(full_forest(11, n_trees=40, depth=6, n_features=5), device="cuda")
    assert isinstance(job_of(large), TableJob)
    assert large.settings.table_bytes is None
    assert job_of(large).plan.n_bytes <= 2**29
    none = Explainer(full_forest(11, n_trees=40, depth=6, n_features=5), device="cuda", table_bytes=0)
    assert not isinstance(job_of(none), TableJob)


def test_prepare_builds_tables_on_the_gpu():
    forest = full_forest(11, n_trees=40, depth=6, n_features=5)
    explainer = Explainer(forest, device="cuda").prepare()
    assert explainer.algorithm_ == "tables"
    assert job_of(explainer).tables.n_made
    assert Explainer(forest, device="cuda", table_bytes=0).prepare().algorithm_ == "quadrature"


def test_pickles_after_use():
    forest, X = full_forest(12, n_trees=15, depth=6, n_features=5), rows(50, 5)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    values = explainer.shap_values(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), values)
    assert pickle.loads(pickle.dumps(job_of(explainer))).plan.n_bytes == job_of(explainer).plan.n_bytes


def test_gpu_rows_and_out_of_any_layout():
    import cupy

    forest, X = full_forest(13, n_trees=15, depth=6, n_features=5), rows(200, 5)
    explainer = Explainer(forest, algorithm="tables", device="cuda")
    expected = explainer.shap_values(X)
    np.testing.assert_array_equal(cupy.asnumpy(explainer.shap_values(cupy.asarray(X))), expected)
    out = np.zeros((5, 200), np.float32).T
    explainer.shap_values(X, out=out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n_features", [6, 14, 30])
def test_forests_of_depth_7_have_tables_by_the_costs_of_gpus(n_features):
    """Of 14 features and more a CPU's states cost more; a GPU's do not."""
    forest = full_forest(0, n_trees=20, depth=7, n_features=n_features)
    plan = TablePlan(forest, np.dtype("float32"), 2**28, False)
    assert plan.n_subtrees > forest.n_trees
    assert len(plan.walked_trees) == 0
