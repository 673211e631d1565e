"""A model of what evaluation costs on the CPU, from measurements (docs/evaluate.md)."""

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

TREE, BLOCK = (1.2, 5.0), (0.55, 2.0)
"""Nanoseconds of a tree of by_node, and of 64 splits of it in 8-bit codes."""

WINDOW = (3.2, 13.0)
"""Nanoseconds of a window in 8-bit codes."""

FROM_MEMORY = 12.0
"""Times that splits in lanes are slower where a row does not fit registers."""


def nanoseconds(forest: Forest, choice: Choice, n_rows: int) -> float:
    """Estimate the time of a row on one thread."""
    few = int(n_rows <= FEW_ROWS)
    ranked = bool(forest.threshold.dtype == np.float64)
    if choice.algorithm == "by_sample":
        value = RANK_BY_HALVES if ranked else CAST
        return forest.n_trees * forest.depth * LEVEL[few] + forest.n_used * value
    from silva.evaluate import cpu

    plan = cpu.node_plan(forest, choice)
    width = plan.code_bits / 8 * (1.0 if plan.in_registers else FROM_MEMORY)
    rows = forest.n_used * RANK if cpu.needs_ranks(forest) else 0.0
    if choice.algorithm == "by_node":
        blocks = max(1, min((1 << min(forest.depth, 8)) // 64, math.ceil(forest.most_splits / 64)))
        return rows + forest.n_trees * (TREE[few] + BLOCK[few] * blocks * width)
    levels = cpu.window_levels(forest, choice)
    return rows + forest.n_trees * math.ceil(forest.depth / levels) * WINDOW[few] * (0.5 + 0.5 * width)
