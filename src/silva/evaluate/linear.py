"""Values of leaves that hold linear models."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.evaluate import cpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.choice import Choice
    from silva.forest import Forest


def margins(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.float64]:
    """Margins (n, n_outputs) of a forest with linear leaves; the sum over trees has their order.

    Routing is compiled, the linear models are one matrix product a leaf: O(n (depth + terms)) a tree.
    """
    out = np.tile(forest.base_score, (len(rows), 1))
    positions = leaf_positions(forest, rows, choice, n_jobs)
    for tree in range(forest.n_trees):
        out[:, forest.tree_output[tree]] += forest.tree_weight[tree] * tree_values(forest, rows, positions[:, tree])
    return out


def leaf_positions(forest: Forest, rows: NDArray[Any], choice: Choice, n_jobs: int | None) -> NDArray[np.int32]:
    """Index into `leaf_value` of the leaf that each row reaches in each tree, (n, n_trees)."""
    numbered = dataclasses.replace(forest, leaf_id=np.arange(forest.n_leaves, dtype=np.int32))
    return cpu.leaves(numbered, rows, choice, n_jobs)


def tree_values(forest: Forest, rows: NDArray[Any], leaves: NDArray[np.int32]) -> NDArray[np.float64]:
    """Values of the leaves that the rows reach in one tree, (n,)."""
    out = np.empty(len(rows))
    order = np.argsort(leaves, kind="stable")
    starts = np.flatnonzero(np.diff(leaves[order], prepend=-1))
    for at in np.split(order, starts[1:]):
        if len(at):
            out[at] = leaf_values(forest, rows, at, int(leaves[at[0]]))
    return out


def leaf_values(forest: Forest, rows: NDArray[Any], at: NDArray[np.intp], leaf: int) -> NDArray[np.float64]:
    """Evaluate the linear model of one leaf on the rows `at`: missing values count as the leaf's mean."""
    terms = slice(*forest.linear_offsets[leaf : leaf + 2])
    deviation = rows[at[:, None], forest.linear_feature[terms]].astype(np.float64) - forest.linear_mean[terms]
    deviation[np.isnan(deviation)] = 0.0
    values = forest.leaf_value[leaf, 0] + np.einsum("ij,j->i", deviation, forest.linear_coefficient[terms])
    clipped: NDArray[np.float64] = np.clip(values, *forest.leaf_range[leaf])
    return clipped
