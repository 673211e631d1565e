"""The nodes of a forest as a table, as XGBoost's `trees_to_dataframe` has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names


def node_table(forest: TreeEnsemble) -> dict[str, Any]:
    """Columns by name, an entry per node, tree after tree.

    Names of nodes are ``tree-node``; where a leaf holds several values, or an equation, `Value` is the first one, or
    the constant of the equation.
    """
    sizes = np.diff(forest.tree_offsets)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    node = np.arange(forest.n_nodes) - np.repeat(forest.tree_offsets[:-1], sizes)
    is_leaf = forest.feature < 0
    names = np.array([*feature_names(forest), "Leaf"], object)
    left = [None if leaf else f"{t}-{n}" for leaf, t, n in zip(is_leaf, tree, forest.left, strict=True)]
    right = [None if leaf else f"{t}-{n + 1}" for leaf, t, n in zip(is_leaf, tree, forest.left, strict=True)]
    value = np.full(forest.n_nodes, np.nan)
    value[is_leaf] = forest.leaf_value[:, 0] * forest.tree_weight[tree[is_leaf]]
    is_set = forest.category_set >= 0 if forest.is_categorical else np.zeros(forest.n_nodes, np.bool_)
    return {
        "Tree": tree,
        "Node": node,
        "ID": [f"{t}-{n}" for t, n in zip(tree, node, strict=True)],
        "Feature": names[forest.feature],
        "Split": np.where(is_leaf | is_set, np.nan, forest.threshold.astype(np.float64)),
        "Yes": left,
        "No": right,
        "Missing": [
            yes if goes_left else no for yes, no, goes_left in zip(left, right, forest.default_left, strict=True)
        ],
        "Value": value,
        "Cover": forest.cover,
        "Category": [_categories(forest, i) if is_set[i] else None for i in range(forest.n_nodes)],
        "Output": forest.tree_output[tree] if forest.leaf_width == 1 else np.full(forest.n_nodes, -1),
    }


def _categories(forest: TreeEnsemble, node: int) -> list[Any]:
    """Categories that go left, by value where the forest knows their values."""
    which = int(forest.category_set[node])
    words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    table = forest.categories[forest.feature[node]] if forest.categories else None
    codes = np.flatnonzero(bits[: len(bits) if table is None else len(table)]).tolist()
    return codes if table is None else [table.tolist()[code] for code in codes]
