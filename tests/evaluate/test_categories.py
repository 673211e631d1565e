"""Splits by sets of categories, as classes: every algorithm reaches the oracle's leaves."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from glasswood import _core
from glasswood.base.typing import Choice
from glasswood.evaluate.cpu import CpuEvaluator
from tests.instruction_sets import SETS, skip_unless_runs
from tests.oracles import evaluate
from tests.strategies import full_forest

ALGORITHMS = ("serial", "by_sample", "by_node", "windowed")
COUNTS = (1, 30, 33, 200, 700, 1800, 3000)
"""Categories: a word of classes, two, more than a group of 16 bytes, of 64 and 128 bytes, more than 16 groups."""


def forest_of_sets(n_categories, row_type="float32", depth=5, n_trees=12, n_features=5):
    """A forest whose first two features are categories, each split with a set of its own."""
    forest = full_forest(n_categories, n_trees, depth, n_features, row_type)
    rng = np.random.default_rng(n_categories)
    nodes = np.flatnonzero((forest.feature >= 0) & (forest.feature < 2))
    sizes = rng.integers(0, (n_categories + 31) // 32 + 1, len(nodes))
    sets = np.full(forest.n_nodes, -1, np.int32)
    sets[nodes] = np.arange(len(nodes))
    threshold = forest.threshold.copy()
    threshold[nodes] = np.where(rng.random(len(nodes)) < 0.5, 0, np.nextafter(threshold.dtype.type(-1), 0))
    return dataclasses.replace(
        forest,
        category_set=sets,
        threshold=threshold,
        default_left=rng.random(forest.n_nodes) < 0.5,
        set_offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        set_words=rng.integers(0, 2**32, sizes.sum(), np.uint64).astype(np.uint32),
        set_others_left=rng.random(len(nodes)) < 0.5,
    )


def rows_of_sets(forest, n_categories, n_rows):
    """Categories, and what is none: unseen ones, fractions, negative and huge numbers, NaN."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, forest.n_features)).astype(forest.threshold.dtype)
    X[:, :2] = rng.integers(-2, n_categories + 40, (n_rows, 2))
    strange = [np.nan, np.inf, -np.inf, -0.0, -0.5, 0.5, -1, -1.5, 2.0**31, 2.0**32 + 3, -(2.0**31), 1e30]
    places = rng.random((n_rows, 2)) < 0.2
    X[:, :2][places] = rng.choice(strange, places.sum())
    X[rng.random(X.shape) < 0.03] = np.nan
    return X


@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("n_categories", COUNTS)
@pytest.mark.parametrize("n_rows", [1, 7, 40, 300])
def test_leaves_are_the_oracles(n_categories, row_type, n_rows):
    forest = forest_of_sets(n_categories, row_type)
    X = rows_of_sets(forest, n_categories, n_rows)
    expected = evaluate.leaf_ids(forest, X)
    for algorithm in ALGORITHMS:
        found = CpuEvaluator(forest).leaves(X, Choice(n_rows, "cpu", algorithm), 2)
        np.testing.assert_array_equal(found, expected, algorithm)
    predictor = forest.predictor("leaf")
    np.testing.assert_array_equal([predictor(row) for row in X[:20]], expected[:20])


@pytest.mark.parametrize("n_categories", [200, 900, 3000, 20_000, 70_000])
def test_categories_beside_more_thresholds_than_a_byte_numbers(n_categories):
    forest = forest_of_sets(n_categories, depth=6, n_trees=16 if n_categories < 50_000 else 5, n_features=3)
    X = rows_of_sets(forest, n_categories, 300)
    plan = _core.NodePlan(forest, window_levels=0, reductions=0, ranks=True, lanes=True)
    found = np.empty((len(X), forest.n_trees), np.int32)
    plan.leaves(X, found, 2)
    assert plan.code_bits == 16
    np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


@pytest.mark.parametrize("n_categories", [100, 700, 3000, 70_000])
def test_sets_of_runs(n_categories):
    """All categories, none, one run, all but a run, every second one."""
    forest = forest_of_sets(n_categories)
    n_words = -(-n_categories // 32)
    n_sets = len(forest.set_others_left)
    rng = np.random.default_rng(n_categories)
    bits = np.zeros((n_sets, 32 * n_words), bool)
    for kind, own in enumerate(np.array_split(bits, 5)):
        for row in own:
            first, last = np.sort(rng.integers(0, n_categories, 2))
            row[:] = kind in {0, 3}
            row[first:last] = kind == 2
            if kind == 4:
                row[first::2] = True
    words = np.packbits(bits, axis=1, bitorder="little").view("<u4").ravel()
    forest = dataclasses.replace(forest, set_offsets=np.arange(n_sets + 1) * n_words, set_words=words)
    X = rows_of_sets(forest, n_categories, 300)
    expected = evaluate.leaf_ids(forest, X)
    for algorithm in ALGORITHMS:
        np.testing.assert_array_equal(forest.predict(X, output="leaf", algorithm=algorithm), expected, algorithm)


def test_few_trees_and_trees_without_numbers():
    """Codes of few trees are floats; splits that are all of categories still divide their rows."""
    for n_features, n_trees in ((5, 3), (2, 12), (2, 3)):
        forest = forest_of_sets(200, n_trees=n_trees, n_features=n_features)
        X = rows_of_sets(forest, 200, 150)
        expected = evaluate.leaf_ids(forest, X)
        for algorithm in ALGORITHMS:
            np.testing.assert_array_equal(forest.predict(X, output="leaf", algorithm=algorithm), expected)


ISA = """
from glasswood import _core
from tests.evaluate.test_categories import *
for n_categories in COUNTS:
    test_leaves_are_the_oracles(n_categories, "float32", 300)
print(_core.instruction_set())
"""


@pytest.mark.parametrize("isa", SETS)
def test_every_instruction_set_looks_classes_up(isa):
    skip_unless_runs(isa)
    command, environment = [sys.executable, "-c", ISA], os.environ | {"GLASSWOOD_ISA": isa}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == (f"{isa}\n", "")
