"""Every operator alone: what it changes, and what it must leave."""

import numpy as np
import pytest

from tests.grow import oracle
from tests.grow.engines import engine_of, given, piecewise, single_leaf, stump


@pytest.fixture(scope="module")
def data():
    return piecewise(600)


@pytest.fixture
def engine(data):
    return engine_of(*data)[0]


def applied(engine, name, tree, node=0, other=None, other_node=0, seed=0):
    return engine.apply(name, given(tree), node, None if other is None else given(other), other_node, seed)


def four_leaves(engine):
    """A tree of three tests: x0, then x1 on both sides."""
    model = np.zeros((7, 3), np.uint8)
    model[[2, 3, 5, 6]] = 1
    tree = {
        "feature": np.array([0, 1, -1, -1, 1, -1, -1], np.int32),
        "threshold": np.array([250, 300, 0, 0, 350, 0, 0], np.int32),
        "missing_left": np.zeros(7, np.uint8),
        "left": np.array([1, 2, -1, -1, 5, -1, -1], np.int32),
        "right": np.array([4, 3, -1, -1, 6, -1, -1], np.int32),
        "model": model.reshape(-1),
    }
    return applied(engine, "evaluate", tree)[0]


def test_new_test_replaces_one_test(engine):
    tree = four_leaves(engine)
    changed = {tuple(applied(engine, "new_split", tree, 0, seed=s)[0]["threshold"]) for s in range(10)}
    assert len(changed) > 5


def test_dipole_tests_part_two_rows(engine):
    """A stump's new test leaves rows on both sides, or the stump would have been cut off."""
    tree = applied(engine, "evaluate", stump(0, 300, 3))[0]
    attributes = set()
    for seed in range(30):
        new = applied(engine, "new_split", tree, 0, seed=seed)[0]
        assert (new["n_rows"][new["feature"] < 0] >= 5).all()
        attributes.add(int(new["feature"][0]))
    assert attributes == {0, 1, 2}


def test_shift_threshold_keeps_the_attribute_and_the_rest(engine, data):
    tree = four_leaves(engine)
    for seed in range(20):
        new = applied(engine, "shift_threshold", tree, 4, seed=seed)[0]
        if len(new["threshold"]) == 7:
            np.testing.assert_array_equal(new["feature"], tree["feature"])
            np.testing.assert_array_equal(new["threshold"][:4], tree["threshold"][:4])
            assert new["threshold"][4] != tree["threshold"][4]
            assert new["error"] == pytest.approx(oracle.tree_error(new, *data, np.ones(600)), rel=1e-9)


def test_shift_reads_only_the_rows_between(engine):
    tree = four_leaves(engine)
    before = engine.counters[3]
    new = applied(engine, "shift_threshold", tree, 0, seed=3)[0]
    assert engine.counters[3] - before <= 2 * abs(int(new["threshold"][0]) - 250)


def test_prune_makes_a_leaf_without_reading_rows(engine):
    tree = four_leaves(engine)
    before = engine.counters[3]
    new = applied(engine, "prune", tree, 4)[0]
    assert engine.counters[3] == before
    assert list(new["feature"]) == [0, 1, -1, -1, -1]
    assert new["n_rows"][4] == tree["n_rows"][4]


def test_expand_splits_the_leaf(engine):
    new = [applied(engine, "expand", four_leaves(engine), 2, seed=s)[0] for s in range(10)]
    assert {len(tree["feature"]) for tree in new} <= {7, 9}
    assert any(len(tree["feature"]) == 9 for tree in new)


def test_change_model_reads_no_rows_and_makes_all_changes(engine):
    tree = four_leaves(engine)
    before = engine.counters[3]
    models = {tuple(applied(engine, "change_model", tree, 2, seed=s)[0]["model"].reshape(7, 3)[2]) for s in range(60)}
    assert engine.counters[3] == before
    assert {(0, 0, 0), (1, 1, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0)} <= models


def test_sweep_finds_the_best_threshold_of_all(engine, data):
    """Brute force over every cut that leaves enough rows."""
    X, y = data
    tree = applied(engine, "evaluate", stump(0, 400, 3))[0]
    swept = applied(engine, "search_threshold", tree)[0]
    errors = [oracle.tree_error(stump(0, cut, 3), X, y, np.ones(600)) for cut in range(5, 596)]
    assert swept["error"] == pytest.approx(min(errors), rel=1e-9)


def test_sweep_moves_leaves_on_both_sides(engine, data):
    X, y = data
    tree = four_leaves(engine)
    swept = applied(engine, "search_threshold", tree)[0]
    errors = []
    for cut in range(20, 581):
        candidate = {**given(tree), "threshold": np.array([cut, *tree["threshold"][1:]], np.int32)}
        rows = oracle.leaf_rows(candidate, X)
        if min(len(at) for at in rows.values()) >= 5:
            errors.append(oracle.tree_error(candidate, X, y, np.ones(600)))
    assert swept["error"] == pytest.approx(min(errors), rel=1e-9)


def test_swap_subtrees(engine):
    one, two = four_leaves(engine), applied(engine, "evaluate", stump(2, 300, 3))[0]
    a, b = applied(engine, "swap_subtrees", one, 4, two, 1)
    assert list(a["feature"]) == [0, 1, -1, -1, -1]
    assert list(b["feature"])[:2] == [2, 1]


def test_swap_tests(engine):
    one, two = four_leaves(engine), applied(engine, "evaluate", stump(2, 300, 3))[0]
    a, b = applied(engine, "swap_splits", one, 0, two, 0)
    assert (a["feature"][0], a["threshold"][0]) == (2, 300)
    assert (b["feature"][0], b["threshold"][0]) == (0, 250)


def test_swap_branches(engine):
    one, two = four_leaves(engine), applied(engine, "evaluate", stump(2, 300, 3))[0]
    for seed in range(4):
        a, b = applied(engine, "swap_branches", one, 0, two, 0, seed=seed)
        assert len(a["feature"]) + len(b["feature"]) == 10
        assert a["feature"][0] == 0
        assert b["feature"][0] == 2


def test_copy_better_keeps_the_better_subtree(engine):
    good, bad = four_leaves(engine), applied(engine, "evaluate", single_leaf(3))[0]
    a, b = applied(engine, "copy_better", good, 0, bad, 0)
    np.testing.assert_array_equal(a["feature"], good["feature"])
    np.testing.assert_array_equal(b["feature"], good["feature"])


def test_polish_never_worsens_and_finds_the_planes(engine):
    polished = applied(engine, "polish", four_leaves(engine))[0]
    assert (polished["feature"] < 0).sum() == 3
    assert sorted(polished["feature"][polished["feature"] >= 0]) == [0, 1]
    again = applied(engine, "polish", polished)[0]
    assert again["fitness"] == polished["fitness"]


@pytest.mark.parametrize(
    "name", ["new_split", "shift_threshold", "prune", "expand", "change_model", "search_threshold", "polish"]
)
def test_offspring_are_scored_right(engine, data, name):
    X, y = data
    tree = four_leaves(engine)
    node = 2 if name in {"expand", "change_model"} else 0
    for seed in range(5):
        new = applied(engine, name, tree, node, seed=seed)[0]
        assert new["error"] == pytest.approx(oracle.tree_error(new, X, y, np.ones(600)), rel=1e-9)


def test_same_seed_same_offspring(engine):
    tree = four_leaves(engine)
    one, two = (applied(engine, "new_split", tree, 0, seed=5)[0] for _ in range(2))
    assert one["fitness"] == two["fitness"]
