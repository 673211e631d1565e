"""Trees of several forests of the same features in one forest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble

JOINED = (
    "feature", "threshold", "left", "default_left", "cover", "leaf_value", "leaf_id", "set_words", "set_others_left",
    "linear_feature", "linear_category", "linear_coefficient", "linear_mean",
    "linear_deviation",
)  # fmt: skip
"""Arrays of the forests, one behind the other."""


def merged(forests: Sequence[TreeEnsemble], tree_output: Array, tree_weight: Doubles, **meaning: Any) -> TreeEnsemble:
    """Put the trees of all forests behind each other.

    Parameters
    ----------
    forests : sequence of Forest
        Their leaves are scalar, constant or linear, with the same features and categories.
    tree_output : int, (n_trees,)
    tree_weight : float64, (n_trees,)
    **meaning
        Further fields of Forest; others are those of the first.
    """
    first = forests[0]
    joined = {name: np.concatenate([getattr(forest, name) for forest in forests]) for name in JOINED}
    return TreeEnsemble(
        **{
            **first.__getstate__(),
            **joined,
            **_sets(forests),
            **_models(forests),
            "tree_offsets": _offsets([np.diff(forest.tree_offsets) for forest in forests]),
            "tree_output": np.asarray(tree_output, np.int32),
            "tree_weight": tree_weight,
            "checked": None,
            "metadata": None,
            "n_curves": 0,
            "absent_missing": _absent(forests),
            "missing_seen": np.any([forest.missing_seen for forest in forests], axis=0),
            **meaning,
        }
    )


def _absent(forests: Sequence[TreeEnsemble]) -> Array:
    """Join what trees take entries for that sparse rows do not store; no array where no forest says it."""
    if not any(len(forest.absent_missing) for forest in forests):
        return np.zeros(0, np.bool_)
    return np.concatenate([forest.absent_of_trees for forest in forests])


def _offsets(lengths: Sequence[Array]) -> Array:
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)


def _sets(forests: Sequence[TreeEnsemble]) -> dict[str, Array]:
    """Join sets of categories, and which of them a node tests; no array where no forest has any."""
    if not any(forest.is_categorical for forest in forests):
        return {}
    n_before, parts = 0, []
    for forest in forests:
        own = forest.category_set if forest.is_categorical else np.full(forest.n_nodes, -1)
        parts.append(np.where(own < 0, -1, own + n_before))
        n_before += len(forest.set_offsets) - 1
    return {
        "category_set": np.concatenate(parts).astype(np.int32),
        "set_offsets": _offsets([np.diff(forest.set_offsets) for forest in forests]),
    }


def _models(forests: Sequence[TreeEnsemble]) -> dict[str, Array]:
    """Find the leaves' terms and their ranges; a constant leaf beside linear ones is a model without terms."""
    if not any(forest.has_linear_leaves for forest in forests):
        return {}
    counts = [
        np.diff(forest.linear_offsets) if forest.has_linear_leaves else np.zeros(forest.n_leaves, int)
        for forest in forests
    ]
    free = np.array([[-np.inf, np.inf]])
    ranges = [
        forest.leaf_range if forest.has_linear_leaves else np.repeat(free, forest.n_leaves, axis=0)
        for forest in forests
    ]
    return {"linear_offsets": _offsets(counts), "leaf_range": np.concatenate(ranges)}
