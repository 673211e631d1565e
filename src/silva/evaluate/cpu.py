"""Evaluation on the CPU: calls the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.choice import Choice
from silva.parallel import n_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.forest import Forest


SMALL_FOREST = 8
"""Trees up to which the ranks of a row cost more than they save."""

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
        levels = 0
        if choice.algorithm == "windowed":
            levels = min(choice.setting, MOST_WINDOW_LEVELS) or default_levels(forest.depth)
        reductions = choice.setting if choice.algorithm == "by_node" else 0
        plan = _core.NodePlan(forest, levels, reductions, forest.n_trees > SMALL_FOREST)
        forest.node_plans[key] = plan
    return plan


def default_levels(depth: int) -> int:
    """Divide the depth into as few windows as hold it, of one height."""
    n_windows = max(1, -(-depth // MOST_WINDOW_LEVELS))
    return max(1, -(-depth // n_windows))


def default_choice(_forest: Forest, n_rows: int) -> Choice:
    """Pick what the model of costs prefers for `n_rows` rows."""
    return Choice(n_rows, "cpu", "by_sample")


def candidates(_forest: Forest, n_rows: int) -> tuple[Choice, ...]:
    """List what is worth measuring for batches of `n_rows` rows."""
    return (Choice(n_rows, "cpu", "serial"), Choice(n_rows, "cpu", "by_sample"))
