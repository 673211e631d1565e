"""Covers that weight no paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble


def refuse_negative_covers(forest: TreeEnsemble) -> None:
    """Raise ValueError where a split or a child of one has a cover that is negative or not finite.

    Sums of Hessians may be negative (survival:cox). The cover of a tree that is a single leaf weights nothing.
    """
    wrong = ~(np.isfinite(forest.cover) & (forest.cover >= 0))
    if not wrong.any():
        return
    sizes = np.diff(forest.tree_offsets)
    wrong &= np.repeat(sizes > 1, sizes)
    if wrong.any():
        node = int(np.argmax(wrong))
        tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
        raise ValueError(
            f"the cover of node {node - forest.tree_offsets[tree]} of tree {tree} is {forest.cover[node]}: SHAP values "
            "weight the sides of a split by covers, which must be finite and at least 0; this forest only predicts "
            "(train with a larger min_child_weight to explain it)"
        )
