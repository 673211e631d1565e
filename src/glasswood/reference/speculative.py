"""The algorithms of Spencer (2011) that test several splits of a tree at once, on GPUs, and its serial one.

J. Spencer, "Speculative parallel evaluation of classification trees on GPGPU compute engines" (2011),
https://doi.org/10.48550/arXiv.1111.1373. Leaves of rows of codes; `evaluate/cuda/` runs the paper's procedure 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.base.typing import Choice, GpuArray, Int32s, Int64s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.encoder import CodeTables

BLOCK = 128
"""Threads of a block of `windowed`."""

SERIAL_STEPS = 2**22
"""Rows times trees of one launch of the serial algorithm, which has one thread: about a second."""

NODE_BLOCK, ROWS_PER_GROUP, WARP = 256, 8, 32
"""Threads of a block of `by_node`; rows that a record group takes in turn (the paper's m); lanes of a warp."""

DEFAULT_SETTINGS = {"by_node": (2, 1, 3), "windowed": (4, 3, 5)}
"""Reductions per pass and levels of a window; the first is the default."""

MOST_SETTINGS = {"by_node": 4, "windowed": 5}
"""Largest reductions per pass and levels of a window that there are kernels for."""


@dataclass(frozen=True, eq=False)
class Walk:
    """Encoded rows, and where their leaves go.

    Attributes
    ----------
    codes : CuPy array, (n_columns, stride)
    n_rows : int
    leaves : CuPy array of int32, (n_trees, stride)
    nodes : dict of str to CuPy array
        ``nodes`` and ``roots``, what walk_rows.cu takes of a forest.
    """

    codes: GpuArray
    n_rows: int
    leaves: GpuArray
    nodes: dict[str, GpuArray]


class SpeculativeWalks:
    """`serial`, `by_node` and `windowed` on GPUs.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
        Ranks that the trees' splits compare, and their type in the rows' codes.
    trees_per_block : callable
        From the numbers of trees and of blocks that all rows take.
    """

    def __init__(self, forest: TreeEnsemble, codes: CodeTables, trees_per_block: Callable[[int, int], int]) -> None:
        self._forest, self._codes, self._trees_per_block = forest, codes, trees_per_block
        self._uploads = PerGpu()

    def run(self, choice: Choice, walk: Walk) -> None:
        """Queue a walk on the current stream."""
        setting = choice.setting or DEFAULT_SETTINGS.get(choice.algorithm, (0,))[0]
        setting = min(setting, MOST_SETTINGS.get(choice.algorithm, 0))
        {"serial": self._serial, "by_node": self._by_node, "windowed": self._windowed}[choice.algorithm](walk, setting)

    def _serial(self, walk: Walk, _: int) -> None:
        step = max(1, SERIAL_STEPS // self._forest.n_trees)
        kernel = variant("evaluate/cuda/walk_rows", CODE=np.dtype(self._codes.code_type))
        for begin in range(0, walk.n_rows, step):
            args = {
                **self._arguments(walk, self._forest.n_trees),
                "codes": walk.codes[:, begin:],
                "n_rows": min(step, walk.n_rows - begin),
                "leaves": walk.leaves[:, begin:],
            }
            launch(kernel, (1,), (1,), {**args, **walk.nodes})

    def _by_node(self, walk: Walk, reductions: int) -> None:
        most_splits = (int(np.diff(self._forest.tree_offsets).max(initial=1)) - 1) // 2
        kernel, lanes = nodes_variant(self._codes.code_type, most_splits, reductions)
        rows_per_block = NODE_BLOCK // lanes * ROWS_PER_GROUP
        args = {**walk.nodes, **self._uploaded("map", self._map), "rows_per_block": rows_per_block}
        self._launch(kernel, walk, -(-walk.n_rows // rows_per_block), NODE_BLOCK, args)

    def _windowed(self, walk: Walk, levels: int) -> None:
        windows = self._uploaded(levels, lambda: vars(cut_windows(self._forest, self._codes.codes, levels)))
        kernel = windows_variant(self._codes.code_type, levels)
        self._launch(kernel, walk, -(-walk.n_rows // (BLOCK >> levels)), BLOCK, windows)

    def _launch(self, kernel: Variant, walk: Walk, n_tiles: int, block: int, more: dict[str, Any]) -> None:
        n_trees = self._forest.n_trees
        per_block = self._trees_per_block(n_trees, n_tiles)
        launch(kernel, (n_tiles, -(-n_trees // per_block)), (block,), {**self._arguments(walk, per_block), **more})

    def _arguments(self, walk: Walk, per_block: int) -> dict[str, Any]:
        """Name what all kernels take of the rows and of the forest."""
        sizes = {"n_trees": self._forest.n_trees, "trees_per_block": per_block, "n_rows": walk.n_rows}
        return {**sizes, "codes": walk.codes, "stride": walk.leaves.shape[1], "leaves": walk.leaves}

    def _uploaded(self, key: object, build: Callable[[], dict[str, Any]]) -> dict[str, GpuArray]:
        upload = import_cupy().asarray
        return self._uploads.get(lambda: {name: upload(array) for name, array in build().items()}, key)

    def _map(self) -> dict[str, Int32s]:
        """Make the paper's processor-node map: the splits of all trees, tree t from map_starts[t] on."""
        forest = self._forest
        first = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
        splits = np.flatnonzero(forest.feature >= 0)
        return {
            "map": (splits - first[splits]).astype(np.int32),
            "map_starts": np.searchsorted(splits, forest.tree_offsets).astype(np.int32),
        }


def nodes_variant(code_type: DTypeLike, most_splits: int, reductions: int) -> tuple[Variant, int]:
    """Name the kernel of by_node, and the lanes of its record groups."""
    processors = 1 << max(most_splits - 1, 0).bit_length()
    lanes = min(processors, WARP)
    macros = {"LANES": lanes, "SPLITS_PER_LANE": processors // lanes, "REDUCTIONS": reductions}
    return variant("reference/evaluate/cuda/test_nodes", CODE=np.dtype(code_type), **macros), lanes


def windows_variant(code_type: DTypeLike, levels: int) -> Variant:
    """Name the kernel of windowed."""
    return variant("reference/evaluate/cuda/test_windows", CODE=np.dtype(code_type), LEVELS=levels)


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
