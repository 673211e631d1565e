"""One row at a time: everything but the walk is done beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.forest import Forest


def make_predictor(forest: Forest, *, output: str, algorithm: str, device: str) -> Callable[[Any], Any]:
    """`Forest.predictor`."""
    raise NotImplementedError("Forest.predictor is not built yet; call forest.predict")
