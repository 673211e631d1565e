"""Measure candidates on a user's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silva.forest import Forest


def tune(forest: Forest, X: Any, *, seconds: float, device: str, n_jobs: int | None) -> Forest:
    """`Forest.tune`."""
    raise NotImplementedError("Forest.tune is not built yet; algorithm='auto' follows a model of the costs")
