"""Covers of a forest by other rows than those that it was trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from glasswood.base.typing import Array, Doubles, Floats, Int32s
from glasswood.model.ensemble import TreeEnsemble

POSITIONS_TOGETHER = 2**24
"""Places of leaves of rows that are counted together."""


def with_covers(forest: TreeEnsemble, rows: Floats, positions: Callable[[Floats], Int32s]) -> TreeEnsemble:
    """Let the cover of each node be the number of the rows that pass it; `positions` finds the leaves of rows."""
    total = np.zeros(forest.n_leaves)
    step = max(1, POSITIONS_TOGETHER // max(forest.n_trees, 1))
    for first in range(0, len(rows), step):
        total += np.bincount(positions(rows[first : first + step]).reshape(-1), minlength=forest.n_leaves)
    return dataclasses.replace(forest, cover=_of_nodes(forest, total))


def _of_nodes(forest: TreeEnsemble, of_leaves: Doubles) -> Doubles:
    """Add the leaves' covers up, from the deepest splits to the roots."""
    cover = np.zeros(forest.n_nodes)
    cover[forest.feature < 0] = of_leaves
    splits = np.flatnonzero(forest.feature >= 0)
    splits = splits[np.argsort(-forest.node_depth[splits], kind="stable")]
    start = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
    for same_depth in np.split(splits, np.flatnonzero(np.diff(forest.node_depth[splits])) + 1):
        left: Array = start[same_depth] + forest.left[same_depth]
        cover[same_depth] = cover[left] + cover[left + 1]
    return cover
