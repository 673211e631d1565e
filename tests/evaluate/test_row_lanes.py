"""Trees whose splits are asked of a vector of rows at a time reach the oracle's leaves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood import _core
from glasswood.base.typing import Choice
from glasswood.evaluate.cpu import CpuEvaluator
from tests.instruction_sets import run_again_on
from tests.oracles import evaluate
from tests.strategies import Node, Options, flatten, full_forest, random_forest, random_rows

CHOICE = Choice(1000, "cpu", "by_node")


def oblivious_forest(n_trees, depth, seed=0):
    """All nodes of a level have one split."""
    rng = np.random.default_rng(seed)

    def grow(splits):
        if not splits:
            return Node(1, float(rng.normal()))
        feature, threshold, default_left = splits[0]
        below = tuple(grow(splits[1:]) for _ in range(2))
        return Node(2.0 ** len(splits), feature=feature, threshold=threshold, default_left=default_left, children=below)

    def draw():
        return int(rng.integers(4)), float(np.round(rng.normal(), 1)), bool(rng.random() < 0.5)

    return flatten([grow([draw() for _ in range(depth)]) for _ in range(n_trees)], n_features=4)


def forests():
    yield oblivious_forest(20, 5)
    yield oblivious_forest(20, 1)
    yield full_forest(0, 12, 4, 5)
    yield full_forest(0, 12, 4, 5, "float64")
    for seed in range(6):
        mixed = Options(n_trees=12, n_features=5, shape="mixed", categorical=seed % 2 == 1,
                        row_type=("float32", "float64")[seed % 3 == 0], n_outputs=1 + seed % 2)  # fmt: skip
        yield random_forest(seed, mixed)


@pytest.mark.parametrize("forest", list(forests()), ids=str)
@pytest.mark.parametrize("n_rows", [64, 65, 130, 200, 700])
def test_leaves_are_the_oracles(forest, n_rows):
    X = random_rows(1, forest, n_rows)
    for rows in (X, np.nan_to_num(X), np.asfortranarray(X)):
        found = CpuEvaluator(forest).leaves(rows, CHOICE, 2)
        np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, rows))


def forests_by_leaves():
    """Trees of 2 to 128 leaves: up to 64, registers hold their values."""
    for depth in range(1, 8):
        yield oblivious_forest(5, depth, depth)
    for depth in (2, 3, 4, 5, 6, 7):
        yield full_forest(depth, 9, depth, 5)
    for n_leaves in (5, 15, 17, 31, 33, 63, 65):
        yield chains(n_leaves)


def chains(n_leaves):
    """Each split has a leaf; behind each other, they are as deep as there are splits."""
    rng = np.random.default_rng(n_leaves)

    def grow(n_left):
        if n_left == 1:
            return Node(1, float(rng.normal()))
        leaf, rest = Node(1, float(rng.normal())), grow(n_left - 1)
        threshold = float(np.round(rng.normal(), 1))
        children = (leaf, rest) if rng.random() < 0.5 else (rest, leaf)
        return Node(n_left, feature=int(rng.integers(4)), threshold=threshold, default_left=False, children=children)

    return flatten([grow(n_leaves) for _ in range(4)], n_features=4)


@pytest.mark.parametrize("forest", list(forests_by_leaves()), ids=str)
@pytest.mark.parametrize("n_rows", [64, 71, 200, 700])
def test_margins_are_the_oracles_sums_to_the_bit(forest, n_rows):
    X = random_rows(1, forest, n_rows)
    sums = np.tile(forest.ensemble.base_score, (n_rows, 1))
    for of_tree in evaluate.tree_values(forest, X):
        sums += of_tree
    plan = _core.NodePlan(forest.ensemble, window_levels=0, reductions=0, ranks=True, lanes=True)
    assert plan.lane_cost > 0
    found = np.empty_like(sums)
    plan.margins(X, found, 1)
    np.testing.assert_array_equal(found, sums)


def test_rows_are_taken_in_lanes_where_that_pays():
    assert CpuEvaluator(oblivious_forest(20, 6)).node_plan(CHOICE).lane_cost > 0
    assert CpuEvaluator(full_forest(0, 12, 4, 5)).node_plan(CHOICE).lane_cost > 0
    assert CpuEvaluator(full_forest(0, 12, 4, 5)).node_plan(CHOICE._replace(algorithm="windowed")).lane_cost == 0
    wide = dataclasses.replace(oblivious_forest(20, 6), n_features=3000)
    assert CpuEvaluator(wide).default_choice(1000).algorithm == "by_node"


@pytest.mark.parametrize("level", ["v2", "v3"])
def test_on_older_processors(level):
    run_again_on(level, __file__, "oracles")
