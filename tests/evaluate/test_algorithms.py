"""Every algorithm, layout and instruction set reaches the oracle's leaves; what cannot run says so."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasswood import _core
from glasswood.base.typing import Choice
from glasswood.evaluate.choice import runnable
from glasswood.evaluate.costs import window_levels
from tests.instruction_sets import SETS
from tests.oracles import evaluate
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

SETTINGS = [("by_node", 0), ("by_node", 1), ("by_node", 2), *(("windowed", levels) for levels in (0, 1, 2, 3, 4, 5, 6))]


def plan_leaves(forest, X, algorithm, setting, ranks):
    levels = window_levels(forest, Choice(1, "cpu", algorithm, setting)) if algorithm == "windowed" else 0
    plan = _core.NodePlan(forest, levels, setting if algorithm == "by_node" else 0, ranks)
    rows, out = np.asarray(X), np.empty((len(X), forest.n_trees), np.int32)
    if forest.ensemble.missing == forest.ensemble.missing:
        marked = rows.astype(forest.ensemble.threshold.dtype) == forest.ensemble.threshold.dtype.type(
            forest.ensemble.missing
        )
        rows = np.where(marked, rows.dtype.type(np.nan), rows)
    plan.leaves(rows, out, 2)
    return out


@pytest.mark.parametrize(("algorithm", "setting"), SETTINGS)
@given(example=forests_and_rows(max_rows=70), ranks=st.booleans())
def test_leaves_match_the_oracle_in_every_layout(algorithm, setting, ranks, example):
    forest, X = example
    if algorithm not in runnable(forest):
        return
    with np.errstate(over="ignore"):
        found = plan_leaves(forest, X, algorithm, setting, ranks)
    np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


def wide_rows(forest, n_rows):
    """Every threshold, and the numbers next to it, in some row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, forest.n_features)).astype(forest.ensemble.threshold.dtype)
    for feature in range(forest.n_features):
        values = np.unique(forest.ensemble.threshold[forest.ensemble.feature == feature])
        if len(values):
            near = np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)])
            X[:, feature] = near[rng.integers(len(near), size=n_rows)]
    X[rng.random(X.shape) < 0.02] = np.nan
    return X


@pytest.mark.parametrize("algorithm", ["by_node", "windowed"])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [3, 17, 33, 65, 129, 300])
@pytest.mark.parametrize("coarse", [True, False])
def test_rows_of_every_width(algorithm, row_type, n_features, coarse):
    """Rows in one, two, four registers and in memory; ranks of 8 and of 16 bits."""
    forest = full_forest(0, n_trees=40, depth=7, n_features=n_features, row_type=row_type)
    if coarse:
        forest = dataclasses.replace(forest, threshold=np.round(forest.ensemble.threshold * 16) / 16)
    X = wide_rows(forest, 300)
    found = forest.predict(X, output="leaf", algorithm=algorithm)
    np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


@pytest.mark.parametrize("depth", range(10))
@pytest.mark.parametrize("n_trees", [1, 20])
def test_complete_trees_of_every_depth(depth, n_trees):
    forest = full_forest(depth, n_trees, depth, n_features=9)
    X = wide_rows(forest, 333)
    expected = evaluate.leaf_ids(forest, X)
    for algorithm in ("windowed", *["by_node"] * (depth <= 8)):
        np.testing.assert_array_equal(forest.predict(X, output="leaf", algorithm=algorithm), expected)


@pytest.mark.parametrize("n_splits", [1, 7, 15, 16, 31, 32, 63, 64, 65, 127, 128, 200, 255])
@pytest.mark.parametrize("go_left", [False, True])
@pytest.mark.parametrize("n_trees", [1, 12])
def test_chains_of_every_length(n_splits, go_left, n_trees):
    """Degenerate trees: a path through all splits, also where it turns at each of them."""
    forest = chain_forest(n_splits, 0.5, go_left=go_left)
    forest = _repeat(forest, n_trees)
    X = np.full((n_splits + 2, n_splits), 0.0 if go_left else 1.0)
    X[np.arange(n_splits), np.arange(n_splits)] = 1.0 - X[0, 0]
    X[-1, n_splits // 2] = np.nan
    for algorithm in ("serial", "by_node", "windowed"):
        found = forest.predict(X, output="leaf", algorithm=algorithm)
        np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


def _repeat(forest, n):
    names = ("feature", "threshold", "left", "default_left", "cover", "leaf_value", "leaf_id", "tree_output")
    arrays = {name: np.concatenate([getattr(forest, name)] * n) for name in (*names, "tree_weight")}
    return dataclasses.replace(forest, tree_offsets=np.arange(n + 1) * forest.n_nodes, **arrays)


@pytest.mark.parametrize("algorithm", ["by_node", "windowed"])
@pytest.mark.parametrize("n_thresholds", [1, 15, 16, 17, 254, 255, 256, 257, 4095, 4096])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_ranks_of_every_size(algorithm, n_thresholds, row_type):
    """Stumps on one feature: with so many thresholds, ranks change their width and their search its height."""
    values = np.sort(np.random.default_rng(1).normal(size=n_thresholds)).astype(row_type)
    leaf = Node(1.0), Node(1.0, 1.0)
    trees = [
        Node(2.0, feature=0, threshold=float(value), children=leaf) for value in values[:: max(1, len(values) // 40)]
    ]
    trees.append(Node(2.0, feature=0, threshold=float("inf"), children=leaf))
    trees.append(Node(2.0, feature=0, threshold=float("-inf"), children=leaf))
    forest = flatten(trees + [_balanced(values)] * (n_thresholds < 256), 1, row_type)
    if n_thresholds >= 256:
        forest = flatten(
            [*trees, *(_balanced(part) for part in np.array_split(values, n_thresholds // 200 + 1))], 1, row_type
        )
    near = [values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), [np.nan, np.inf, -np.inf, 0.0, -0.0]]
    X = np.concatenate(near)[:, None]
    np.testing.assert_array_equal(forest.predict(X, output="leaf", algorithm=algorithm), evaluate.leaf_ids(forest, X))


def _balanced(values):
    if not len(values):
        return Node(1.0)
    middle = len(values) // 2
    children = _balanced(values[:middle]), _balanced(values[middle + 1 :])
    return Node(2.0, feature=0, threshold=float(values[middle]), children=children)


def test_a_tree_too_large_for_by_node_is_refused():
    forest = full_forest(0, n_trees=2, depth=9, n_features=4)
    X = np.zeros((3, 4))
    with pytest.raises(ValueError, match=r"at most 255 splits, the largest tree has 511; use algorithm='windowed'"):
        forest.predict(X, algorithm="by_node")
    np.testing.assert_array_equal(forest.predict(X, algorithm="windowed"), forest.predict(X, algorithm="serial"))


ISA = """
import sys
import numpy as np
from glasswood import _core
from tests.oracles import evaluate
from tests.strategies import Options, full_forest, random_forest, random_rows
print(_core.instruction_set())
margins = []
cases = [(full_forest(1, 12, depth, n_features), 200) for depth in (3, 6, 7, 8) for n_features in (5, 70)]
options = Options(n_trees=12, shape="mixed", categorical=True, missing="zeros")
cases += [(random_forest(seed, options), 60) for seed in (1, 2)]
for forest, n_rows in cases:
    X = random_rows(3, forest, n_rows)
    for algorithm in ("serial", "by_sample", "by_node", "windowed", "auto"):
        found = forest.predict(X, output="leaf", algorithm=algorithm)
        assert (found == evaluate.leaf_ids(forest, X)).all(), algorithm
        margins.append(forest.predict(X, output="margin", algorithm=algorithm).ravel())
np.save(sys.argv[1], np.concatenate(margins))
"""


def test_every_instruction_set_gives_the_same_bits(tmp_path):
    margins = []
    for isa in SETS:
        command, environment = [sys.executable, "-c", ISA, str(tmp_path / isa)], os.environ | {"GLASSWOOD_ISA": isa}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if "this processor runs" not in run.stderr:
            assert (run.stdout, run.stderr) == (f"{isa}\n", "")
            margins.append(np.load(tmp_path / f"{isa}.npy").tobytes())
    assert len(margins) > 1
    assert len(set(margins)) == 1


def test_categories_far_apart_and_many_sets():
    forest = random_forest(5, Options(n_trees=30, n_features=4, categorical=True, shape="bushy"))
    X = random_rows(6, forest, 500)
    expected = evaluate.leaf_ids(forest, X)
    for algorithm in ("by_node", "windowed"):
        np.testing.assert_array_equal(forest.predict(X, output="leaf", algorithm=algorithm), expected)
