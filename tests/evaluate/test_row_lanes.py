"""Trees whose splits are asked of a vector of rows at a time reach the oracle's leaves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

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


def test_rows_are_taken_in_lanes_where_that_pays():
    assert CpuEvaluator(oblivious_forest(20, 6)).node_plan(CHOICE).lane_cost > 0
    assert CpuEvaluator(full_forest(0, 12, 4, 5)).node_plan(CHOICE).lane_cost > 0
    assert CpuEvaluator(full_forest(0, 12, 4, 5)).node_plan(CHOICE._replace(algorithm="windowed")).lane_cost == 0
    wide = dataclasses.replace(oblivious_forest(20, 6), n_features=3000)
    assert CpuEvaluator(wide).default_choice(1000).algorithm == "by_node"


@pytest.mark.parametrize("level", ["v2", "v3"])
def test_on_older_processors(level):
    run_again_on(level, __file__, "oracles")
