"""Values and interactions against a background of what has no tables, on a GPU, by patterns: beside the oracles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glasswood.cuda.per_gpu
from glasswood import Explainer
from glasswood.explain.cuda.patterns import MOST_WORDS, PatternPlan
from glasswood.explain.players import make_players
from glasswood.plans import plan_of
from tests.conftest import examples
from tests.cuda.test_divided import deep_forest, rows
from tests.explain.tolerance import assert_close
from tests.oracles import interventional, players
from tests.strategies import Node, Options, flatten, forests_and_rows, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


def by_patterns(forest, background, **options):
    """Explainer without any tables."""
    return Explainer(forest, background, table_bytes=0, device="cuda", **options)


def patterns_of(explainer, kind="values"):
    """What the job has collected on the current GPU."""
    return plan_of(explainer, "cuda").job(kind).patterns.patterns.on_gpu()


def check(forest, X, background, weight=None, dtype="float64"):
    explainer = by_patterns(forest, background, background_weight=weight, dtype=dtype)
    expected = interventional.values_by_pair(forest, X, background, weight)
    assert_close(explainer.shap_values(X), expected, forest, dtype)
    assert explainer.algorithm_ == "patterns"
    return explainer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(min_rows=2, max_rows=9))
@examples(20)
def test_values_match_the_oracle(dtype, example):
    forest, X = example
    background = X[len(X) // 2 :]
    check(forest, X, background, 1.0 + np.arange(len(background)) % 3, dtype)


@given(example=forests_and_rows(min_rows=2, max_rows=9))
@examples(20)
def test_interactions_match_the_oracle(example):
    forest, X = example
    background = X[len(X) // 2 :]
    weight = 1.0 + np.arange(len(background)) % 3
    explainer = by_patterns(forest, background, background_weight=weight, dtype="float64")
    expected = interventional.interactions_by_pair(forest, X, background, weight)
    assert_close(explainer.shap_interaction_values(X), expected, forest, "float64")
    chosen = [forest.n_features - 1, 0][: forest.n_features]
    found = explainer.shap_interaction_values(X, features=chosen)
    assert_close(found, expected[:, chosen], forest, "float64")


@given(example=forests_and_rows(min_rows=2, max_rows=8, n_features=5), of=st.permutations([0, 0, 1, 1, 2]))
@examples(10)
def test_groups_match_the_oracle(example, of):
    (forest, X), player_of = example, np.array(of)
    background = X[len(X) // 2 :]
    groups = {name: np.flatnonzero(player_of == p).tolist() for p, name in enumerate("abc")}
    explainer = by_patterns(forest, background, groups=groups, dtype="float64")
    game = players.interventional(forest, X, background, player_of)
    game = game - game[:, :1]
    assert_close(explainer.shap_values(X), players.values(game), forest, "float64")
    assert_close(explainer.shap_interaction_values(X), players.interactions(game), forest, "float64")


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_outputs_and_categories(vector_leaves):
    options = Options(n_trees=7, n_features=9, n_outputs=3, vector_leaves=vector_leaves, categorical=True)
    forest = random_forest(3, options)
    X = random_rows(4, forest, 60)
    explainer = check(forest, X[:20], X[20:])
    pairs = interventional.interactions_by_pair(forest, X[:3], X[20:])
    assert_close(explainer.shap_interaction_values(X[:3]), pairs, forest, "float64")


@pytest.mark.parametrize("depth", [33, 62, 70])
def test_paths_of_more_features_than_a_word_has_bits(depth):
    """Sets of two, two and four words; rows that meet nearly all conditions, so that patterns let some pass."""
    n_features = depth + 2
    forest = deep_forest(depth, n_features, (depth, 5))
    X, background = rows(9, n_features) - 2, rows(40, n_features, 2) - 2
    explainer = check(forest, X, background)
    pairs = interventional.interactions_by_pair(forest, X[:3], background)
    assert_close(explainer.shap_interaction_values(X[:3]), pairs, forest, "float64")


def test_trees_without_splits():
    leaf = [Node(10.0, 1.5)]
    X = rows(5, 4)
    assert not by_patterns(flatten(leaf, 4), X).shap_values(X).any()
    assert not by_patterns(flatten(leaf, 4), X).shap_interaction_values(X).any()
    split = Node(10.0, 0.0, 2, 0.1, False, -1, (Node(4.0, 1.0), Node(6.0, 3.0)))
    check(flatten([leaf[0], split, leaf[0]], 4), X, X[2:])


@pytest.mark.parametrize("n_rows", [1, 31, 33, 128, 300])
def test_any_number_of_rows_gives_the_same_bits(n_rows, limits):
    forest, X, background = deep_forest(3, 24, (12, 22)), rows(300, 24), rows(30, 24, 2)
    explainer = by_patterns(forest, background)
    whole = explainer.shap_values(X)
    assert_close(whole, interventional.values_by_pair(forest, X, background), forest, "float32")
    np.testing.assert_array_equal(explainer.shap_values(X[:n_rows]), whole[:n_rows])
    limits(pattern_partial_bytes=1)
    np.testing.assert_array_equal(by_patterns(forest, background).shap_values(X[:n_rows]), whole[:n_rows])


@pytest.mark.parametrize("kind", ["values", "pairs"])
def test_sums_in_shared_and_in_global_memory_have_the_same_bits(kind, limits):
    forest, X, background = deep_forest(4, 8, (5, 7)), rows(40, 8), rows(50, 8, 2)
    method = "shap_values" if kind == "values" else "shap_interaction_values"
    in_shared = by_patterns(forest, background)
    assert patterns_of(in_shared, kind).plan.shared(4) > 0
    found = getattr(in_shared, method)(X)
    limits(pattern_shared_bytes=0)
    np.testing.assert_array_equal(getattr(by_patterns(forest, background), method)(X), found)


@pytest.mark.parametrize("kind", ["values", "pairs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_patterns_beyond_the_memory_are_collected_for_each_call(kind, weighted, monkeypatch):
    forest, X, background = deep_forest(5, 12, (7, 11, 9)), rows(40, 12), rows(60, 12, 2)
    weight = np.random.default_rng(3).integers(0, 4, 60) / 3 if weighted else None
    method = "shap_values" if kind == "values" else "shap_interaction_values"
    kept = by_patterns(forest, background, background_weight=weight)
    found = getattr(kept, method)(X)
    assert len(patterns_of(kept, kind).batches) == 1
    less = glasswood.cuda.per_gpu.Limits(4, 48 * 1024, 48 * 1024, 40_000)
    monkeypatch.setattr("glasswood.explain.cuda.patterns.gpu_limits", lambda: less)
    collected = by_patterns(forest, background, background_weight=weight)
    np.testing.assert_array_equal(getattr(collected, method)(X), found)
    assert len(patterns_of(collected, kind).batches) > 1


@pytest.mark.parametrize("depth", [4, 20])
def test_more_background_rows_than_a_block_sorts(depth, limits):
    """Of few patterns, which join each other, and of many, which do not all."""
    limits(pattern_capacity=32, patterns_in_flight=1)
    forest, X, background = deep_forest(6, 24, (depth,)), rows(9, 24) - 1, rows(500, 24, 2) - 1
    weight = np.random.default_rng(3).integers(0, 4, len(background)) / 3
    check(forest, X, background)
    check(forest, X, background, weight)


def test_equal_sets_are_one_pattern_with_the_sum_of_their_weights():
    forest, background = deep_forest(7, 12, (7,)), rows(40, 12, 2)
    once, thrice = by_patterns(forest, background), by_patterns(forest, np.tile(background, (3, 1)))
    X = rows(5, 12)
    np.testing.assert_array_equal(once.shap_values(X), thrice.shap_values(X))
    n_patterns = [len(patterns_of(each).batches[0].patterns) for each in (once, thrice)]
    assert n_patterns[0] == n_patterns[1] < 40 * forest.n_leaves


def test_the_same_bits_in_any_order_of_background_rows():
    forest, background, X = deep_forest(8, 24, (12, 20)), rows(300, 24), rows(40, 24, 2)
    values = [by_patterns(forest, some).shap_values(X) for some in (background, background[::-1])]
    np.testing.assert_array_equal(*values)


def test_rows_and_background_on_a_gpu_and_on_several():
    import cupy

    forest, background, X = deep_forest(9, 24, (12, 22)), rows(60, 24), rows(300, 24, 2)
    explainer = by_patterns(forest, background)
    expected = explainer.shap_values(X)
    on_gpu = Explainer(forest, cupy.asarray(background), table_bytes=0).shap_values(cupy.asarray(X)[:, ::-1][:, ::-1])
    np.testing.assert_array_equal(cupy.asnumpy(on_gpu), expected)
    several = Explainer(forest, background, table_bytes=0, device="cuda:all")
    np.testing.assert_array_equal(several.shap_values(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), expected)


def test_calls_like_earlier_ones():
    import cupy

    forest, X = deep_forest(9, 24, (12, 22)), cupy.asarray(rows(60, 24))
    explainer = by_patterns(forest, rows(50, 24, 2), dtype="float64")
    expected = explainer.shap_values(cupy.asnumpy(X))
    for scale in (1, 1, 2):
        X[:] = scale * X
        expected = expected if scale == 1 else explainer.shap_values(cupy.asnumpy(X))
        np.testing.assert_array_equal(cupy.asnumpy(explainer.shap_values(X)), expected)


@pytest.mark.parametrize("groups", [None, {"a": [0, 5]}])
def test_auto_moves_rows_of_the_host_for_values_and_not_for_pairs(limits, groups):
    limits(worthwhile_nodes=0)
    forest, X = deep_forest(10, 24, (20, 22)), rows(40, 24)
    settings = {"background": None if groups else X, "groups": groups, "table_bytes": 0}
    explainer, on_cpu = Explainer(forest, **settings), Explainer(forest, **settings, device="cpu")
    expected = on_cpu.shap_values(X)
    np.testing.assert_allclose(explainer.shap_values(X), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert list(plan_of(explainer, "cuda").jobs) == ["values"]
    np.testing.assert_array_equal(explainer.shap_interaction_values(X[:3]), on_cpu.shap_interaction_values(X[:3]))
    assert list(plan_of(explainer, "cuda").jobs) == ["values"]


def test_the_strongest_pairs():
    forest, X = deep_forest(11, 12, (11,)), rows(9, 12)
    explainer = by_patterns(forest, X)
    pairs = explainer.shap_interaction_values(X)
    _, strongest = explainer.shap_interaction_values(X, top=2)
    assert np.isin(strongest, pairs).all()


def test_sets_that_a_block_sorts_fit_into_the_shared_memory_of_any_gpu():
    forest = deep_forest(12, 8, (5,)).ensemble
    plan = PatternPlan(forest, make_players(None, forest), pairs=False)
    found = []
    while plan.n_words <= MOST_WORDS:
        capacity = plan.capacity(1000)
        assert 2 * capacity * plan.pattern_bytes <= 48 * 1024
        assert plan.capacity(100) == min(capacity, 128)
        found.append(capacity)
        plan.n_words *= 2
    assert found == [1024, 1024, 512, 512, 256, 128, 64, 32]


def test_longer_paths_than_a_gpu_takes_are_refused_by_name(limits):
    limits(most_pattern_words=1)
    forest, X = deep_forest(12, 40, (38,)), rows(3, 40)
    with pytest.raises(NotImplementedError, match="a path of the forest has 38 features, a GPU takes 32 against"):
        by_patterns(forest, X).shap_values(X)
