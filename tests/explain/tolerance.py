"""How far explanations may be from the float64 oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracles import shapley

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva import Forest

DEEP = 32
"""Depth from which a float32 path has so many factors that their rounding shows."""


def tolerance(forest: Forest, dtype: str) -> NDArray[np.float64]:
    """Largest absolute error by output, (n_outputs,).

    1e-12 in float64, 1e-6 in float32 (1e-5 beyond depth 32), relative to the sum over trees of (largest - smallest leaf
    value): what a float32 sum of a few rounded terms of that size can hold.
    """
    relative = 1e-12 if dtype == "float64" else 1e-5 if forest.depth > DEEP else 1e-6
    return relative * shapley.leaf_spread(forest)


def assert_close(found: Any, expected: NDArray[np.float64], forest: Forest, dtype: str) -> None:
    """Compare with an oracle's result, whose last axis is the outputs; silva drops it where there is one."""
    assert isinstance(found, np.ndarray)
    assert found.dtype == dtype
    assert found.shape == (expected.shape[:-1] if forest.n_outputs == 1 else expected.shape)
    error = np.abs(found.reshape(expected.shape).astype(np.float64) - expected)
    worst = error.max(axis=tuple(range(error.ndim - 1)), initial=0)
    allowed = tolerance(forest, dtype)
    assert (worst <= allowed).all(), f"errors {worst} by output, allowed {allowed}"
