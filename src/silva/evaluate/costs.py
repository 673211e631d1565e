"""A model of what evaluation costs on the CPU, measured on one core of an AMD EPYC with AVX-512.

Algorithms are compared with each other, so that only ratios matter on other processors (docs/internals/evaluate.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from silva.evaluate.choice import most_splits

if TYPE_CHECKING:
    from silva import _core
    from silva.ensemble import TreeEnsemble
    from silva.typing import Choice

FEW_ROWS, ROWS_ALONE = 2, 8
"""Rows up to which a tree costs the latency of its walk: that of splits in lanes, that of by_sample."""

LEVEL = (1.2, 2.8)
"""Nanoseconds of a level of by_sample, with many rows and with few."""

CLASSES = 1.2
"""Times that a level of by_sample takes where splits test categories."""

CAST, RANK_BY_HALVES, RANK, RANK_IN_LANES = 0.9, 6.7, 5.0, 2.2
"""Nanoseconds of a value: cast, ranked among float64 thresholds by by_sample, by the others, for rows in lanes."""

TREE, WINDOW = (0.8, 1.5), (2.3, 18.0)
"""Nanoseconds of a tree of by_node and of a window, besides its registers."""

REGISTER, REGISTER_OF_FEW = {8: 0.6, 16: 0.6, 32: 1.15}, 1.0
"""Nanoseconds of a register of splits, by the bits of their codes, and with few rows."""

CLASS_SPLITS = 2.0
"""Times that splits by categories of a row alone cost what the plan says, which compares them with lanes of rows."""

LANE_ROWS = 64
"""Rows from which by_node takes rows in lanes; what that costs says the plan."""

FROM_MEMORY = 24.0
"""Times that splits in lanes are slower where a row does not fit registers."""

LAYOUT = 60.0
"""Nanoseconds of a node that laying a forest out for windowed or by_node takes at least; by_sample needs a tenth."""

FEWEST_SLOTS, BLOCK, REGISTER_BITS = 16, 64, 512


SMALL_FOREST = 8
"""Trees up to which the ranks of a row cost more than they save."""

MOST_WINDOW_LEVELS = 6
"""A window's splits are the bits of a word."""


def batch_kind(n_rows: int) -> int:
    """Say which of four sizes of batches, in which a row costs the same, this is."""
    return (n_rows > FEW_ROWS) + (n_rows > ROWS_ALONE) + (n_rows >= LANE_ROWS)


def nanoseconds(forest: TreeEnsemble, choice: Choice, n_rows: int, plan: _core.NodePlan | None) -> float:
    """Estimate the time of a row on one thread; `plan` is the layout of by_node or windowed."""
    n_used = int((np.bincount(forest.feature[forest.feature >= 0], minlength=1) > 0).sum())
    if plan is None:
        level = LEVEL[n_rows <= ROWS_ALONE] * (CLASSES if forest.is_categorical else 1)
        value = RANK_BY_HALVES if forest.threshold.dtype == np.float64 else CAST
        return _mean_depths(forest) * level + n_used * value
    ranked = n_used if needs_ranks(forest) else 0
    if n_rows >= LANE_ROWS and plan.lane_cost:
        return ranked * RANK_IN_LANES + plan.lane_cost
    return ranked * RANK + _splits_in_lanes(forest, choice, n_rows <= FEW_ROWS, plan)


def _splits_in_lanes(forest: TreeEnsemble, choice: Choice, few: bool, plan: _core.NodePlan) -> float:
    """Estimate the time of a row's splits, whose answers are lanes of registers."""
    depth = forest.depth
    if choice.algorithm == "by_node":
        largest = most_splits(forest)
        in_heap = depth <= (6 if largest <= BLOCK else 8)
        n_slots, n_windows, fixed = 1 << depth if in_heap else largest, 1, TREE[few]
    else:
        levels = window_levels(forest, choice)
        n_slots, n_windows, fixed = 1 << levels, math.ceil(depth / levels), WINDOW[few]
    registers = math.ceil(max(n_slots, FEWEST_SLOTS) * plan.code_bits / REGISTER_BITS)
    each = (REGISTER_OF_FEW if few else REGISTER[plan.code_bits]) * (1.0 if plan.in_registers else FROM_MEMORY)
    return forest.n_trees * n_windows * (fixed + registers * each) + CLASS_SPLITS * plan.class_cost


def _mean_depths(forest: TreeEnsemble) -> float:
    """Sum the mean depth of each tree's leaves: by_sample stops where its rows have."""
    is_leaf, first = forest.feature < 0, forest.tree_offsets[:-1]
    depths = np.add.reduceat(np.where(is_leaf, forest.node_depth, 0), first)
    return float((depths / np.add.reduceat(is_leaf, first, dtype=np.int64)).sum())


def needs_ranks(forest: TreeEnsemble) -> bool:
    """Whether rows become ranks: float64 comparisons do everywhere, floats where there are trees to pay for it."""
    return forest.n_trees > SMALL_FOREST or forest.threshold.dtype == np.float64


def window_levels(forest: TreeEnsemble, choice: Choice) -> int:
    """Levels of a window: the setting, or the depth divided into as few windows of one height as hold it."""
    if choice.setting:
        return min(choice.setting, MOST_WINDOW_LEVELS)
    n_windows = max(1, -(-forest.depth // MOST_WINDOW_LEVELS))
    return max(1, -(-forest.depth // n_windows))
