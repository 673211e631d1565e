"""A model of what evaluation costs on the CPU, from measurements (docs/internals/evaluate.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from silva.choice import Choice
    from silva.forest import Forest

FEW_ROWS = 8
"""Up to so many rows, a tree costs the latency of its walk; beyond, its instructions."""

LEVEL = (0.85, 2.3)
"""Nanoseconds of a level of by_sample, with many rows and with few."""

CAST, RANK_BY_HALVES, RANK = 1.2, 30.0, 2.3
"""Nanoseconds of a value: cast, ranked among float64 thresholds by by_sample, ranked by the others."""

TREE, WINDOW = (1.2, 5.0), (2.6, 12.0)
"""Nanoseconds of a tree of by_node and of a window, besides its registers."""

REGISTER, REGISTER_OF_FEW = {8: 0.55, 16: 0.6, 32: 1.15}, 2.0
"""Nanoseconds of a register of splits, by the bits of their codes, and with few rows."""

FROM_MEMORY = 12.0
"""Times that splits in lanes are slower where a row does not fit registers."""

FEWEST_SLOTS, BLOCK, REGISTER_BITS = 16, 64, 512


def nanoseconds(forest: Forest, choice: Choice, n_rows: int) -> float:
    """Estimate the time of a row on one thread."""
    few = int(n_rows <= FEW_ROWS)
    if choice.algorithm == "by_sample":
        value = RANK_BY_HALVES if forest.threshold.dtype == np.float64 else CAST
        return forest.n_trees * forest.depth * LEVEL[few] + forest.n_used * value
    from silva.evaluate import cpu

    plan = cpu.node_plan(forest, choice)
    rows = forest.n_used * RANK if cpu.needs_ranks(forest) else 0.0
    if choice.algorithm == "by_node":
        in_heap = forest.depth <= (6 if forest.most_splits <= BLOCK else 8)
        n_slots, n_windows, fixed = 1 << forest.depth if in_heap else forest.most_splits, 1, TREE[few]
    else:
        levels = cpu.window_levels(forest, choice)
        n_slots, n_windows, fixed = 1 << levels, math.ceil(forest.depth / levels), WINDOW[few]
    registers = math.ceil(max(n_slots, FEWEST_SLOTS) * plan.code_bits / REGISTER_BITS)
    each = (REGISTER_OF_FEW if few else REGISTER[plan.code_bits]) * (1.0 if plan.in_registers else FROM_MEMORY)
    lanes = fixed + registers * each
    return rows + forest.n_trees * n_windows * lanes
