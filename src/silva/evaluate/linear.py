"""Values of leaves that hold linear models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.ensemble import TreeEnsemble
    from silva.typing import Doubles, Floats, Int32s

NUMBER, MISSING = -1, -2
"""In the place of a term's category: the feature's number, and 1 where it is missing."""


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


def term_name(forest: TreeEnsemble, feature: int, category: int) -> str:
    """Name what a term takes of its feature."""
    name = forest.feature_names[feature] if forest.feature_names else f"x{feature}"
    if category == NUMBER:
        return name
    if category == MISSING:
        return f"{name} missing"
    table = forest.categories[feature] if forest.categories else None
    return f"{name} = {category if table is None else table[category]}"


def leaf_values(forest: TreeEnsemble, rows: Floats, at: NDArray[np.intp], leaf: int) -> Doubles:
    """Evaluate the linear model of one leaf on the rows `at`: missing numbers count as the leaf's mean."""
    terms = slice(*forest.linear_offsets[leaf : leaf + 2])
    if terms.start == terms.stop:  # einsum would multiply what lies behind the empty matrix by 0: NaN at times
        return np.full(len(at), np.clip(forest.leaf_value[leaf, 0], *forest.leaf_range[leaf]))
    values = rows[at[:, None], forest.linear_feature[terms]].astype(np.float64)
    category = forest.linear_category[terms]
    if (category != NUMBER).any():
        has_it = np.where(category == MISSING, np.isnan(values), values == category)
        values = np.where(category == NUMBER, values, has_it)
    deviation = values - forest.linear_mean[terms]
    deviation[np.isnan(deviation)] = 0.0
    result = forest.leaf_value[leaf, 0] + np.einsum("ij,j->i", deviation, forest.linear_coefficient[terms])
    clipped: Doubles = np.clip(result, *forest.leaf_range[leaf])
    return clipped
