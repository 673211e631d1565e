"""Values of leaves that hold linear models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.ensemble import TreeEnsemble
    from silva.typing import Doubles, Floats, Int32s


def margins(forest: TreeEnsemble, rows: Floats, positions: Int32s) -> Doubles:
    """Margins (n, n_outputs) of a forest with linear leaves; the sum over trees has their order.

    `positions` (n, n_trees) are indices into `leaf_value` of the leaves that rows reach. The linear models are one
    matrix product a leaf: O(n terms) a tree.
    """
    out = np.tile(forest.base_score, (len(rows), 1))
    with np.errstate(over="ignore", invalid="ignore"):  # of what models make of huge rows
        for tree in range(forest.n_trees):
            out[:, forest.tree_output[tree]] += forest.tree_weight[tree] * tree_values(forest, rows, positions[:, tree])
    return out


def tree_values(forest: TreeEnsemble, rows: Floats, leaves: Int32s) -> Doubles:
    """Values of the leaves that the rows reach in one tree, (n,)."""
    out = np.empty(len(rows))
    order = np.argsort(leaves, kind="stable")
    starts = np.flatnonzero(np.diff(leaves[order], prepend=-1))
    for at in np.split(order, starts[1:]):
        if len(at):
            out[at] = leaf_values(forest, rows, at, int(leaves[at[0]]))
    return out


def leaf_values(forest: TreeEnsemble, rows: Floats, at: NDArray[np.intp], leaf: int) -> Doubles:
    """Evaluate the linear model of one leaf on the rows `at`: missing values count as the leaf's mean."""
    terms = slice(*forest.linear_offsets[leaf : leaf + 2])
    deviation = rows[at[:, None], forest.linear_feature[terms]].astype(np.float64) - forest.linear_mean[terms]
    deviation[np.isnan(deviation)] = 0.0
    values = forest.leaf_value[leaf, 0] + np.einsum("ij,j->i", deviation, forest.linear_coefficient[terms])
    clipped: Doubles = np.clip(values, *forest.leaf_range[leaf])
    return clipped
