"""How far explanations may be from the float64 oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood import Explainer
from tests.oracles import shapley

if TYPE_CHECKING:
    from glasswood import Forest

ALGORITHMS = ("tables", "quadrature")
DTYPES = ("float32", "float64")

DEEP = 32
"""Depth from which a float32 path has so many factors that their rounding shows."""


def tolerance(forest: Forest, dtype: str) -> NDArray[np.float64]:
    """Largest absolute error by output, (n_outputs,).

    1e-12 in float64, 1e-6 in float32 (1e-5 beyond depth 32), relative to the sum over trees of (largest - smallest leaf
    value): what a float32 sum of a few rounded terms of that size can hold.

    float32 explains leaf values less the middle of their tree. Where covers do not add up, a constant is a game of its
    own: a factor 1 + e at each of a path's splits moves its values by at most (1 + e)^depth - 1.
    """
    relative = 1e-12 if dtype == "float64" else 1e-5 if forest.depth > DEEP else 1e-6
    allowed = relative * shapley.leaf_spread(forest)
    if dtype == "float32":
        allowed = allowed + np.expm1(forest.depth * np.log1p(_cover_error(forest))) * _middles(forest)
    return allowed


def _cover_error(forest: Forest) -> float:
    """Largest relative difference between the cover of a node and its children's."""
    trees = forest.ensemble
    children = trees.left + np.repeat(trees.tree_offsets[:-1], np.diff(trees.tree_offsets))
    splits = np.flatnonzero((trees.feature >= 0) & (trees.cover > 0))
    sums = trees.cover[children[splits]] + trees.cover[children[splits] + 1]
    return float(np.abs(sums / trees.cover[splits] - 1).max(initial=0))


def _middles(forest: Forest) -> float:
    """Sum over trees of |(largest + smallest leaf value) / 2|, over all outputs."""
    trees = forest.ensemble
    leaf_offsets = np.cumsum(np.append(0, trees.feature < 0))[trees.tree_offsets]
    of_trees = [trees.leaf_value[a:b] for a, b in itertools.pairwise(leaf_offsets)]
    middles = [np.abs(values.max(axis=0) + values.min(axis=0)).max() / 2 for values in of_trees]
    return float(np.abs(trees.tree_weight) @ middles)


def assert_all_close(explain: Callable[[Explainer], Any], forest: Forest, expected: NDArray[np.float64]) -> None:
    """Compare what both algorithms give, in both types, with a result of an oracle, which takes longer than they do."""
    for algorithm, dtype in itertools.product(ALGORITHMS, DTYPES):
        assert_close(explain(Explainer(forest, dtype=dtype, algorithm=algorithm)), expected, forest, dtype)


def assert_close(found: Any, expected: NDArray[np.float64], forest: Forest, dtype: str) -> None:
    """Compare with an oracle's result, whose last axis is the outputs; glasswood drops it where there is one."""
    assert isinstance(found, np.ndarray)
    assert found.dtype == dtype
    assert found.shape == (expected.shape[:-1] if forest.n_outputs == 1 else expected.shape)
    error = np.abs(found.reshape(expected.shape).astype(np.float64) - expected)
    worst = error.max(axis=tuple(range(error.ndim - 1)), initial=0)
    allowed = tolerance(forest, dtype)
    assert (worst <= allowed).all(), f"errors {worst} by output, allowed {allowed}"
