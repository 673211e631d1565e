"""Evaluation on the CPU: calls the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.parallel import n_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.forest import Forest

ALGORITHMS = ("serial", "by_sample")
"""What runs here: row by row on one thread, or rows in vector lanes and threads."""


def margins(forest: Forest, rows: NDArray[Any], algorithm: str, n_jobs: int | None) -> NDArray[np.float64]:
    """Margins (n, n_outputs); the sum over trees has one order whatever the schedule."""
    out = np.empty((len(rows), forest.n_outputs))
    forest.evaluate_plan.margins(rows, out, n_threads(n_jobs), algorithm == "serial")
    return out


def leaves(forest: Forest, rows: NDArray[Any], algorithm: str, n_jobs: int | None) -> NDArray[np.int32]:
    """Leaf ids (n, n_trees)."""
    out = np.empty((len(rows), forest.n_trees), np.int32)
    forest.evaluate_plan.leaves(rows, out, n_threads(n_jobs), algorithm == "serial")
    return out
