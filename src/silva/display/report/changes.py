"""The changes between two populations, for a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.forest import Forest
from silva.populations import compare

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.typing import Rows

FEATURES = 30
"""Features of a table."""


def changes(forest: TreeEnsemble, before: Rows, X: Rows, random_state: int, n_jobs: int | None) -> dict[str, Any]:
    """Compare the populations: for each output, the strongest features."""
    found = compare(before, X, model=Forest(forest), random_state=random_state, n_jobs=n_jobs)
    return {
        "before": found.before,
        "after": found.after,
        "rows": found.n_rows,
        "features": [found.rows(output)[:FEATURES] for output in range(len(found.before))],
        "left": len(found.names) - FEATURES,
    }
