"""Approximate values, shap's ``approximate=True``: what a split changes in the mean goes to its feature (Saabas)."""

from __future__ import annotations

import numpy as np

from glasswood.base.typing import Array, Doubles, Int32s
from glasswood.model.ensemble import TreeEnsemble


def approximate_values(forest: TreeEnsemble, positions: Int32s) -> Doubles:
    """Values by the leaves that rows reach in each tree, (n, n_trees): (n, F, k)."""
    values = np.zeros((len(positions), forest.n_features, forest.n_outputs))
    means, is_leaf = _means(forest), forest.feature < 0
    for tree in range(forest.n_trees):
        nodes = slice(*forest.tree_offsets[tree : tree + 2])
        of_nodes = forest.tree_weight[tree] * _of_nodes(forest, means, nodes)
        of_rows = of_nodes[is_leaf[nodes]][positions[:, tree] - forest.leaf_offsets[tree]]
        outputs = slice(None) if forest.leaf_width > 1 else slice(*(forest.tree_output[tree] + np.arange(2)))
        values[:, :, outputs] += of_rows
    return values


def _means(forest: TreeEnsemble) -> Doubles:
    """Mean of the leaves below each node, by the covers: (n_nodes, leaf_width)."""
    means = np.zeros((forest.n_nodes, forest.leaf_width))
    means[forest.feature < 0] = forest.leaf_value
    left = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets)) + forest.left
    splits = np.flatnonzero(forest.feature >= 0)
    for depth in range(forest.depth - 1, -1, -1):
        nodes = splits[forest.node_depth[splits] == depth]
        cover, of_left = forest.cover[nodes], left[nodes]
        share = np.divide(forest.cover[of_left], cover, where=cover > 0, out=np.full(len(nodes), 0.5))[:, None]
        means[nodes] = share * means[of_left] + (1 - share) * means[of_left + 1]
    return means


def _of_nodes(forest: TreeEnsemble, means: Doubles, nodes: slice) -> Array:
    """Values of rows that end at each node of a tree: (nodes, F, leaf_width)."""
    feature, left, means = forest.feature[nodes], forest.left[nodes], means[nodes]
    result = np.zeros((len(feature), forest.n_features, means.shape[1]))
    for node in np.flatnonzero(feature >= 0):  # children come behind their parents
        for child in (left[node], left[node] + 1):
            result[child] = result[node]
            result[child, feature[node]] += means[child] - means[node]
    return result
