"""Evaluation on the CPU: calls the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.choice import Choice
from silva.parallel import n_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.forest import Forest


def margins(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.float64]:
    """Margins (n, n_outputs); the sum over trees has one order whatever the schedule."""
    out = np.empty((len(rows), forest.n_outputs))
    _check_built(choice)
    forest.evaluate_plan.margins(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
    return out


def leaves(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.int32]:
    """Leaf ids (n, n_trees)."""
    out = np.empty((len(rows), forest.n_trees), np.int32)
    _check_built(choice)
    forest.evaluate_plan.leaves(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
    return out


def default_choice(_forest: Forest, n_rows: int) -> Choice:
    """Pick what the model of costs prefers for `n_rows` rows."""
    return Choice(n_rows, "cpu", "by_sample")


def candidates(_forest: Forest, n_rows: int) -> tuple[Choice, ...]:
    """List what is worth measuring for batches of `n_rows` rows."""
    return (Choice(n_rows, "cpu", "serial"), Choice(n_rows, "cpu", "by_sample"))


def _check_built(choice: Choice) -> None:
    if choice.algorithm not in {"serial", "by_sample"}:
        raise NotImplementedError(f"algorithm={choice.algorithm!r} does not run on the CPU yet; use 'by_sample'")
