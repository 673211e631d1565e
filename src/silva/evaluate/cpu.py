"""Evaluation on the CPU: calls the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.choice import ALGORITHMS, Choice, can_run
from silva.evaluate import costs
from silva.parallel import n_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.forest import Forest


SMALL_FOREST = 8
"""Trees up to which the ranks of a row cost more than they save."""

LARGE_FOREST = 2_000_000
"""Nodes beyond which no second layout is built to estimate what it would bring."""

WINDOW_LEVELS, REDUCTIONS = (3, 4, 6), (1, 2, 3)
"""Settings of windowed and by_node that are worth measuring, besides their defaults."""

REDUCED_SPLITS = 64
"""Splits up to which a path is reduced in a register; larger or flatter trees ignore the number of reductions."""

MOST_WINDOW_LEVELS = 6
"""A window's splits are the bits of a word."""


def margins(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.float64]:
    """Margins (n, n_outputs); the sum over trees has one order whatever the schedule."""
    out = np.empty((len(rows), forest.n_outputs))
    if choice.algorithm in {"by_node", "windowed"}:
        node_plan(forest, choice).margins(rows, out, n_threads(n_jobs))
    else:
        forest.evaluate_plan.margins(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
    return out


def leaves(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.int32]:
    """Leaf ids (n, n_trees)."""
    out = np.empty((len(rows), forest.n_trees), np.int32)
    if choice.algorithm in {"by_node", "windowed"}:
        node_plan(forest, choice).leaves(rows, out, n_threads(n_jobs))
    else:
        forest.evaluate_plan.leaves(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
    return out


def plan_of(forest: Forest, choice: Choice) -> _core.EvaluatePlan | _core.NodePlan:
    """Lay the forest out for the choice, once."""
    return node_plan(forest, choice) if choice.algorithm in {"by_node", "windowed"} else forest.evaluate_plan


def node_plan(forest: Forest, choice: Choice) -> _core.NodePlan:
    """Lay the forest out for by_node or windowed, once a setting."""
    key = (choice.algorithm, choice.setting)
    plan = forest.node_plans.get(key)
    if plan is None:
        levels = window_levels(forest, choice) if choice.algorithm == "windowed" else 0
        reductions = choice.setting if choice.algorithm == "by_node" else 0
        plan = _core.NodePlan(forest, levels, reductions, needs_ranks(forest))
        forest.node_plans[key] = plan
    return plan


def needs_ranks(forest: Forest) -> bool:
    """Whether rows become ranks: float64 comparisons do everywhere, floats where there are trees to pay for it."""
    return forest.n_trees > SMALL_FOREST or forest.threshold.dtype == np.float64


def window_levels(forest: Forest, choice: Choice) -> int:
    """Levels of a window: the setting, or the depth divided into as few windows of one height as hold it."""
    if choice.setting:
        return min(choice.setting, MOST_WINDOW_LEVELS)
    n_windows = max(1, -(-forest.depth // MOST_WINDOW_LEVELS))
    return max(1, -(-forest.depth // n_windows))


def default_choice(forest: Forest, n_rows: int) -> Choice:
    """Pick what the model of costs prefers for `n_rows` rows."""
    few = n_rows <= costs.FEW_ROWS
    if few not in forest.cpu_choices:
        names = ["by_sample", "by_node"] if can_run(forest, "by_node") else ["by_sample", "windowed"]
        if forest.n_trees <= SMALL_FOREST:
            names = [*names, "windowed"]
        if forest.n_nodes > LARGE_FOREST:
            names = ["by_sample"]
        choices = [Choice(0, "cpu", name) for name in names]
        forest.cpu_choices[few] = min(choices, key=lambda choice: costs.nanoseconds(forest, choice, n_rows))
    return forest.cpu_choices[few]


def candidates(forest: Forest, n_rows: int) -> tuple[Choice, ...]:
    """List what is worth measuring for batches of `n_rows` rows."""
    usable = _usable(forest, n_rows)
    settings = {"windowed": WINDOW_LEVELS}
    if forest.most_splits <= REDUCED_SPLITS and forest.depth > MOST_WINDOW_LEVELS:
        settings["by_node"] = REDUCTIONS
    more = [c._replace(setting=setting) for c in usable for setting in settings.get(c.algorithm, ())]
    return (*usable, *more)


def _usable(forest: Forest, n_rows: int) -> tuple[Choice, ...]:
    """List what can run the forest at its default setting, windowed last."""
    names = [name for name in ALGORITHMS[1:] if can_run(forest, name)]
    return tuple(Choice(max(n_rows, 1), "cpu", name) for name in names)
