"""Trees, 16 in lanes at a time, reach the oracle's leaves and add their values up in one order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glasswood.base.typing import Choice
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.evaluate.evaluator import Evaluator
from glasswood.evaluate.predictor import make_predictor
from tests.oracles import evaluate
from tests.strategies import Node, flatten

BY_NODE, SERIAL = Choice(0, "cpu", "by_node"), Choice(0, "cpu", "serial")


def shapes():
    """Draw trees that are complete, ragged or a chain: few or more than 64 splits, of up to 8 levels."""
    return [("complete", 0), ("complete", 1), ("complete", 5), ("complete", 8), ("ragged", 6), ("ragged", 8),
            ("chain", 3), ("chain", 7), ("chain", 8)]  # fmt: skip


def grow(rng, shape, levels, n_features):
    if levels == 0 or (shape == "ragged" and rng.random() < 0.2):
        return Node(1.0, float(rng.normal()))
    below = [grow(rng, shape, levels - 1, n_features) for _ in range(2 if shape != "chain" else 1)]
    if shape == "chain":
        below.insert(int(rng.integers(2)), Node(1.0, float(rng.normal())))
    threshold = float(np.round(2 * rng.normal()) / 2)
    return Node(
        sum(node.cover for node in below),
        feature=int(rng.integers(n_features)),
        threshold=threshold,
        default_left=bool(rng.random() < 0.5),
        children=tuple(below),
    )


def grow_by_leaf(rng, n_leaves, n_features, skew=0.5):
    """Grow a tree as libraries do that split the best leaf: its depth is far from even."""
    if n_leaves == 1:
        return Node(1.0, float(rng.normal()))
    left = int(np.clip(round(n_leaves * rng.beta(skew, skew)), 1, n_leaves - 1))
    below = tuple(grow_by_leaf(rng, n, n_features, skew) for n in (left, n_leaves - left))
    return Node(
        float(n_leaves),
        feature=int(rng.integers(n_features)),
        threshold=float(np.round(2 * rng.normal()) / 2),
        default_left=bool(rng.random() < 0.5),
        children=below,
    )


def mixed_forest(seed, n_trees, n_features, n_outputs=1, most_levels=8, row_type="float32", leaves=()):
    """Draw trees of up to 8 levels, or of so many leaves each."""
    rng = np.random.default_rng(seed)
    drawn = [shape for shape in shapes() if shape[1] <= most_levels]
    trees = [grow(rng, *drawn[int(rng.integers(len(drawn)))], n_features) for _ in range(n_trees)]
    for at, n in zip(rng.permutation(n_trees), leaves, strict=False):
        trees[at] = grow_by_leaf(rng, n, n_features)
    forest = flatten(trees, n_features, row_type)
    outputs = rng.integers(0, n_outputs, n_trees).astype(np.int32)
    return dataclasses.replace(forest, tree_output=outputs, base_score=rng.normal(size=n_outputs))


def rows_of(seed, forest, n_rows, share_missing):
    rng = np.random.default_rng(seed)
    rows = np.round(2 * rng.normal(size=(n_rows, forest.n_features)), 1).astype(np.float32)
    rows[rng.random(rows.shape) < share_missing] = np.nan
    return rows


def check(forest, rows):
    ensemble = forest.ensemble
    evaluator = CpuEvaluator(ensemble)
    np.testing.assert_array_equal(evaluator.leaves(rows, BY_NODE, 1), evaluate.leaf_ids(forest, rows))
    for n_jobs in (1, 2):
        found, expected = (evaluator.margins(rows, choice, n_jobs) for choice in (BY_NODE, SERIAL))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("n_trees", [1, 2, 15, 16, 17, 63, 64, 65, 150])
@pytest.mark.parametrize("share_missing", [0, 0.1])
def test_groups_of_every_size(n_trees, share_missing):
    forest = mixed_forest(n_trees, n_trees, n_features=5)
    for n_rows in (1, 2, 3, 4, 5, 9, 70):
        check(forest, rows_of(n_rows, forest, n_rows, share_missing))


@pytest.mark.parametrize("most_levels", [0, 1, 5, 6, 7])
@pytest.mark.parametrize("share_missing", [0, 0.3])
def test_groups_without_lower_levels_stand_beside_others(most_levels, share_missing):
    forest = mixed_forest(1, 40, 4, most_levels=most_levels)
    check(forest, rows_of(2, forest, 33, share_missing))


@pytest.mark.parametrize("n_features", [1, 64, 65, 127, 128, 129, 300])
@pytest.mark.parametrize("share_missing", [0, 0.1])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_rows_of_one_and_two_registers(n_features, share_missing, row_type):
    forest = mixed_forest(3, 60, n_features, row_type=row_type)
    for n_rows in (1, 7, 40):
        check(forest, rows_of(4, forest, n_rows, share_missing))


@pytest.mark.parametrize("n_outputs", [2, 7])
def test_several_outputs(n_outputs):
    forest = mixed_forest(5, 90, 6, n_outputs=n_outputs)
    for n_rows in (1, 6, 300):
        check(forest, rows_of(6, forest, n_rows, 0.1))


def linked(seed, n_trees, n_features, **options):
    """Draw trees grown leaf by leaf, the largest that by_node takes among them, beside shallow ones."""
    leaves = [256, 200, 2, 66, 256, 1, 100, 33, 9] * n_trees
    return mixed_forest(seed, n_trees, n_features, leaves=leaves[: max(1, 3 * n_trees // 4)], **options)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("n_trees", [1, 2, 15, 16, 17, 63, 64, 65, 150])
@pytest.mark.parametrize("share_missing", [0, 0.1])
def test_trees_that_are_deeper_go_on_in_blocks(n_trees, share_missing):
    forest = linked(n_trees, n_trees, n_features=5)
    evaluator = CpuEvaluator(forest.ensemble)
    assert forest.depth > 8
    shallow = CpuEvaluator(mixed_forest(0, n_trees, 5).ensemble)
    assert evaluator.node_plan(BY_NODE).trees_in_lanes == shallow.node_plan(BY_NODE).trees_in_lanes
    for n_rows in (1, 2, 3, 4, 5, 9, 70):
        check(forest, rows_of(n_rows, forest, n_rows, share_missing))


@pytest.mark.parametrize("n_features", [1, 64, 65, 128, 129])
@pytest.mark.parametrize("share_missing", [0, 0.1])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_blocks_of_rows_of_one_and_two_registers(n_features, share_missing, row_type):
    forest = linked(3, 40, n_features, row_type=row_type)
    for n_rows in (1, 7, 40):
        check(forest, rows_of(4, forest, n_rows, share_missing))


@pytest.mark.parametrize("levels", [9, 11, 12, 40, 255])
def test_blocks_of_a_chain(levels):
    rng = np.random.default_rng(levels)
    forest = flatten([grow(rng, "chain", levels, 3), grow_by_leaf(rng, 256, 3)], 3)
    for n_rows in (1, 50):
        check(forest, rows_of(5, forest, n_rows, 0.2))


@pytest.mark.parametrize("n_trees", [1024, 1025, 1100])
def test_a_row_alone_in_more_trees_than_go_together(n_trees):
    forest = mixed_forest(2, n_trees, 4, most_levels=3, leaves=[256, 66, 100, 256] * 10)
    rows, evaluator = rows_of(1, forest, 20, 0.1), CpuEvaluator(forest.ensemble)
    expected = evaluator.margins(rows, SERIAL, 1)
    for i, leaves in enumerate(evaluate.leaf_ids(forest, rows)):
        row = rows[i : i + 1]
        np.testing.assert_array_equal(evaluator.leaves(row, BY_NODE, 1)[0], leaves)
        np.testing.assert_array_equal(evaluator.margins(row, BY_NODE, 1)[0], expected[i])


def test_a_row_for_a_predictor():
    for forest in (mixed_forest(7, 200, 9), linked(7, 100, 9, n_outputs=1)):
        rows = rows_of(8, forest, 30, 0.05)
        expected = CpuEvaluator(forest.ensemble).margins(rows, SERIAL, 1)[:, 0].astype(forest.ensemble.result_dtype)
        for algorithm in ("auto", "by_node"):
            predict = make_predictor(Evaluator(forest.ensemble), "margin", algorithm)
            np.testing.assert_array_equal([predict(row) for row in rows], expected)
