"""Trees cut into windows of a few levels (Spencer 2011, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from glasswood.base.typing import Int32s, Int64s
    from glasswood.cuda.codes import Codes
    from glasswood.model.ensemble import TreeEnsemble


@dataclass(frozen=True, eq=False)
class Windows:
    """Splits by window and position; the children of position s are 2s and 2s + 1, position 1 is the top.

    Attributes
    ----------
    tests : int32, (n_windows, 2**levels, 2)
        Column and rank of the split in each position; zeros where there is none.
    exits : int32, (n_windows, 2**levels)
        What follows each end: a window, or a leaf, inverted (below zero).
    entries : int32, (n_trees,)
        The same for the trees' roots.
    """

    tests: Int32s
    exits: Int32s
    entries: Int32s


def cut_windows(forest: TreeEnsemble, codes: Codes, levels: int) -> Windows:
    """Cut all trees at every `levels`-th level: O(nodes × 2**levels)."""
    is_split = forest.feature >= 0
    root = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
    left = root + forest.left
    depth = forest.node_depth.astype(np.int64)
    is_top = is_split & (depth % levels == 0)
    window = np.where(is_top, np.cumsum(is_top) - 1, -1)
    position = np.ones(forest.n_nodes, np.int64)
    n_windows = int(is_top.sum())
    tests = np.zeros((n_windows, 1 << levels, 2), np.int32)
    exits = np.zeros((n_windows, 1 << levels), np.int32)
    leaf = ~(np.cumsum(~is_split) - 1)
    for level in range(int(depth.max(initial=0)) + 1):
        splits = np.flatnonzero(is_split & (depth == level))
        tests[window[splits], position[splits]] = np.stack([codes.node_column[splits], codes.node_rank[splits]], axis=1)
        for side in (0, 1):
            child, place = left[splits] + side, 2 * position[splits] + side
            outside = ~is_split[child] | (level % levels == levels - 1)
            follows = np.where(is_split[child], window[child], leaf[child])
            _write_exits(exits, window[splits][outside], place[outside], follows[outside], levels - level % levels - 1)
            inside = child[~outside]
            window[inside], position[inside] = window[splits][~outside], place[~outside]
    roots = forest.tree_offsets[:-1]
    entries = np.where(is_split[roots], window[roots], leaf[roots])
    return Windows(tests, exits, entries.astype(np.int32))


def _write_exits(
    exits: Int32s,
    window: Int64s,
    place: Int64s,
    follows: Int64s,
    levels_below: int,
) -> None:
    """All ends below a position lead to the same place: leaves above the last level of a window are reached early."""
    span = 1 << levels_below
    first = place * span - exits.shape[1]
    for offset in range(span):
        exits[window, first + offset] = follows
