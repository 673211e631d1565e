"""A model of what evaluation costs on the CPU: counted terms, each with a constant in nanoseconds.

Algorithms are compared with each other, so that only ratios matter on other processors (docs/internals/evaluate.md).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Choice, Doubles, Int64s
from glasswood.evaluate.choice import most_splits
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood import _core

MOST_ROWS = (1, 2, 8, 63, 1_000, 8_000)
"""Most rows of each kind of batch except the last, in which a row costs the same."""

TYPICAL_ROWS = (1, 2, 5, 24, 250, 3_000, 20_000)
"""Rows of each kind of batch that the choice for it is made for."""

FEW, SEVERAL = 2, 8
"""Rows up to which lanes of splits, and walks of rows side by side, are not filled: terms "few rows"."""

CONSTANTS = {
    "call": 1200,
    "cast": 0.99,
    "halves": 5.7,
    "rank": 2.5,
    "rank in lanes": 3.6,
    "rows in lanes": 0.94,
    "top levels": 6,
    "top levels, classes": 4.3,
    "level": 1.7,
    "level, classes": 1.1,
    "level, few rows": 3.9,
    "level, few rows, classes": 2.1,
    "distant node": 2.2,
    "upper levels": 1.1,
    "lower levels": 1.4,
    "upper levels, few rows": 1.5,
    "lower levels, few rows": 2.5,
    "tree": 0.72,
    "tree, few rows": 1.5,
    "window": 2.5,
    "window, few rows": 75,
    "distant window": 8.6,
    "register": 1.2,
    "register, few rows": 1.1,
    "register of wide rows": 2.4,
    "register of memory": 30,
    "split of classes": 4.8,
}
"""Nanoseconds of each term, fitted by `python -m benchmarks.evaluate.costs` on one core of an AMD EPYC with AVX-512.

Two are set by hand: "distant node", where values from 1.5 to 2.9 fit alike, and "register of wide rows", which no
forest of the fit has."""

LAYOUT = 60.0
"""Nanoseconds of a node that laying a forest out for windowed or by_node takes at least; by_sample needs a tenth."""

LANE_ROWS = 64
"""Rows from which by_node takes rows in lanes; what that costs says the plan."""

FEWEST_SLOTS, BLOCK, REGISTER_BITS = 16, 64, 512

TOP_LEVELS, UPPER_LEVELS, LOWER_LEVELS = 4, 5, 3
"""Levels that by_sample decides for all lanes at once, and that trees in lanes decide first and in each block below."""

SMALL_FOREST = 8
"""Trees up to which the ranks of a row cost more than they save, and `auto` measures batches of any size."""

MOST_WINDOW_LEVELS = 6
"""A window's splits are the bits of a word."""

CACHE_BYTES, NODE_BYTES, EXIT_BYTES = 1 << 20, 16, 4
"""Of the second-level cache, and in it of a node of by_sample and of an exit of a window."""


def batch_kind(n_rows: int) -> int:
    """Say which of seven sizes of batches, in which a row costs the same, this is."""
    return bisect_left(MOST_ROWS, n_rows)


def nanoseconds(forest: TreeEnsemble, choice: Choice, n_rows: int, plan: _core.NodePlan | None) -> float:
    """Estimate the time of a row on one thread; `plan` is the layout of by_node or windowed."""
    return sum(CONSTANTS[name] * count for name, count in terms(forest, choice, n_rows, plan).items())


def most_of_walk(forest: TreeEnsemble) -> float:
    """Bound the estimate of a row of by_sample without a look at the leaves: all trees as deep as the deepest."""
    of_tree = CONSTANTS["top levels"] + forest.depth * CONSTANTS["level, few rows"]
    return CONSTANTS["call"] + forest.n_features * CONSTANTS["halves"] + forest.n_trees * of_tree


def terms(forest: TreeEnsemble, choice: Choice, n_rows: int, plan: _core.NodePlan | None) -> dict[str, float]:
    """Count what a row of a batch takes, by the names of `CONSTANTS`."""
    counts = {"call": 1 / max(n_rows, 1)}
    n_used = int((np.bincount(forest.feature[forest.feature >= 0], minlength=1) > 0).sum())
    if plan is None:
        counts["halves" if forest.threshold.dtype == np.float64 else "cast"] = n_used
        return counts | _walk(forest, n_rows)
    in_lanes = n_rows >= LANE_ROWS and plan.lane_cost > 0
    if needs_ranks(forest):
        counts["rank in lanes" if in_lanes else "rank"] = n_used
    if in_lanes:
        return counts | {"rows in lanes": plan.lane_cost}
    few = ", few rows" if n_rows <= FEW else ""
    if plan.trees_in_lanes:
        blocks = np.ceil((_levels_in_lanes(forest) - UPPER_LEVELS) / LOWER_LEVELS)
        return counts | {"upper levels" + few: forest.n_trees, "lower levels" + few: float(np.maximum(blocks, 0).sum())}
    return counts | _splits_in_lanes(forest, choice, n_rows, plan, n_used)


def _levels_in_lanes(forest: TreeEnsemble) -> Doubles:
    """Levels that a row passes: all of trees whose lower levels are one block, else the mean depth of leaves."""
    first = forest.tree_offsets[:-1]
    if forest.depth <= UPPER_LEVELS + LOWER_LEVELS:
        return np.maximum.reduceat(forest.node_depth, first).astype(np.float64)
    return _leaf_depths(forest)[0]


def _leaf_depths(forest: TreeEnsemble) -> tuple[Doubles, Int64s]:
    """Compute the mean depth of each tree's leaves, and count them."""
    is_leaf, first = forest.feature < 0, forest.tree_offsets[:-1]
    n_leaves = np.add.reduceat(is_leaf, first, dtype=np.int64)
    return np.add.reduceat(np.where(is_leaf, forest.node_depth, 0), first) / n_leaves, n_leaves


def _walk(forest: TreeEnsemble, n_rows: int) -> dict[str, float]:
    """Count the steps of by_sample, which stops where its rows have: at the mean depth of leaves."""
    depths, n_leaves = _leaf_depths(forest)
    kind = ", classes" if forest.is_categorical else ""
    if n_rows <= SEVERAL:
        return {"level, few rows" + kind: float(depths.sum())}
    below = np.maximum(depths - TOP_LEVELS, 0)
    counts = {"top levels" + kind: forest.n_trees, "level" + kind: float(below.sum())}
    if forest.n_nodes * NODE_BYTES > CACHE_BYTES:
        counts["distant node"] = float(np.minimum(below, 2 * n_leaves / n_rows).sum())
    return counts


def _splits_in_lanes(
    forest: TreeEnsemble, choice: Choice, n_rows: int, plan: _core.NodePlan, n_used: int
) -> dict[str, float]:
    """Count windows or trees, and registers of splits, whose answers are lanes of these."""
    depth, few = forest.depth, ", few rows" if n_rows <= FEW else ""
    counts = {"split of classes": plan.class_cost}
    if choice.algorithm == "by_node":
        largest = most_splits(forest)
        in_heap = depth <= (6 if largest <= BLOCK else 8)
        n_slots, n_parts = 1 << depth if in_heap else largest, forest.n_trees
        counts["tree" + few] = n_parts
    else:
        levels = window_levels(forest, choice)
        n_slots, n_parts = 1 << levels, forest.n_trees * math.ceil(depth / levels)
        counts["window" + few] = n_parts
        n_windows = np.count_nonzero((forest.feature >= 0) & (forest.node_depth % levels == 0))
        if n_windows * n_slots * (plan.code_bits // 4 + EXIT_BYTES) > CACHE_BYTES:
            counts["distant window"] = n_parts - forest.n_trees
    n_registers = n_parts * math.ceil(max(n_slots, FEWEST_SLOTS) * plan.code_bits / REGISTER_BITS)
    is_wide = n_used * plan.code_bits > 2 * REGISTER_BITS
    row = "register of memory" if not plan.in_registers else "register of wide rows" if is_wide else "register" + few
    return counts | {row: n_registers}


def needs_ranks(forest: TreeEnsemble) -> bool:
    """Whether rows become ranks: float64 comparisons do everywhere, floats where there are trees to pay for it."""
    return forest.n_trees > SMALL_FOREST or forest.threshold.dtype == np.float64


def window_levels(forest: TreeEnsemble, choice: Choice) -> int:
    """Levels of a window: the setting, or the depth divided into as few windows of one height as hold it."""
    if choice.setting:
        return min(choice.setting, MOST_WINDOW_LEVELS)
    n_windows = max(1, -(-forest.depth // MOST_WINDOW_LEVELS))
    return max(1, -(-forest.depth // n_windows))
