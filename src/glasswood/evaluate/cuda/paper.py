"""The paper's algorithms on GPUs as they are written: serial, by_sample, by_node and windowed, to leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.device import import_cupy
from glasswood.base.parallel import cached_property
from glasswood.cuda.codes import divide_sets
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables, row_strides
from glasswood.cuda.launches import launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.evaluate.choice import most_splits
from glasswood.evaluate.cuda.windows import cut_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from glasswood.base.typing import Array, Choice, GpuArray
    from glasswood.cuda.codes import Codes
    from glasswood.cuda.compiler import Variant
    from glasswood.model.ensemble import TreeEnsemble

BLOCK = 128
WANTED_BLOCKS = 2048
"""Trees are split over blocks until there are so many: small batches fill the GPU too."""

SERIAL_STEPS = 2**22
"""Rows times trees of one launch of the serial algorithm, which has one thread: about a second."""

NODE_BLOCK, ROWS_PER_GROUP, WARP = 256, 8, 32
"""Rows that a record group takes one after the other: the tree is read once for them (the paper's m)."""

DEFAULT_SETTINGS = {"by_node": (2, 1, 3), "windowed": (4, 3, 5)}
"""Reductions per pass and levels of a window; the first is the default."""

MOST_SETTINGS = {"by_node": 4, "windowed": 5}


class NodeWalks:
    """Leaves that rows reach, by algorithms that read a node at a time.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
    """

    def __init__(self, forest: TreeEnsemble, codes: CodeTables) -> None:
        self._forest, self._codes = forest, codes
        self._uploads = PerGpu()

    def leaves(self, x: GpuArray, choice: Choice) -> GpuArray:
        """Find the leaves of rows: see `walk`."""
        if choice.algorithm == "by_sample" and self._has_sets:
            return self._by_sets(x)
        return self.walk(self.encode(x), len(x), choice)

    def encode(self, x: GpuArray) -> GpuArray:
        """Encode rows for `walk`."""
        return self._codes.encode(x, -(-len(x) // BLOCK) * BLOCK)

    def walk(self, codes: GpuArray, n_rows: int, choice: Choice) -> GpuArray:
        """Find the leaves of encoded rows: indices, int32 (n_trees, stride), queued on the current stream."""
        result: GpuArray = import_cupy().empty((self._forest.n_trees, codes.shape[1]), np.int32)
        if self._forest.n_trees and n_rows:
            run = {"serial": self._serial, "by_node": self._by_node, "windowed": self._windowed}
            run.get(choice.algorithm, self._by_sample)(codes, n_rows, result, _setting(choice))
        return result

    def _serial(self, codes: GpuArray, n_rows: int, result: GpuArray, _: int) -> None:
        step = max(1, SERIAL_STEPS // self._forest.n_trees)
        kernel = evaluate_variant(self._codes.code_type)
        for begin in range(0, n_rows, step):
            args = self._arguments(codes[:, begin:], min(step, n_rows - begin), result[:, begin:], self._forest.n_trees)
            launch(kernel, (1,), (1,), {**args, **self._nodes("nodes", "roots")})

    def _by_sample(self, codes: GpuArray, n_rows: int, result: GpuArray, _: int) -> None:
        n_trees, n_tiles = self._forest.n_trees, -(-n_rows // BLOCK)
        per_block = _trees_per_block(n_trees, n_tiles)
        args = {**self._arguments(codes, n_rows, result, per_block), **self._nodes("nodes", "roots")}
        launch(evaluate_variant(self._codes.code_type), (n_tiles, -(-n_trees // per_block)), (BLOCK,), args)

    def _by_sets(self, x: GpuArray) -> GpuArray:
        """`by_sample` where sets of categories are looked up on the way."""
        numbers, sets = self._divided
        codes = numbers.encode(x, -(-len(x) // BLOCK) * BLOCK)
        n_trees, n_tiles = self._forest.n_trees, codes.shape[1] // BLOCK
        result: GpuArray = import_cupy().empty((n_trees, codes.shape[1]), np.int32)
        if n_tiles:
            per_block = _trees_per_block(n_trees, n_tiles)
            args = {**self._arguments(codes, len(x), result, per_block), **sets.tables(), "X": x, **row_strides(x)}
            arrays = self._uploaded("sets", lambda: self._node_arrays(numbers.codes))
            args |= {name: arrays[name] for name in ("nodes", "roots")}
            kernel = sets_variant(x.dtype, numbers.codes.thresholds.dtype, numbers.code_type)
            launch(kernel, (n_tiles, -(-n_trees // per_block)), (BLOCK,), args)
        return result

    @property
    def _has_sets(self) -> bool:
        return bool((self._codes.codes.category_set >= 0).any())

    @cached_property
    def _divided(self) -> tuple[CodeTables, CodeTables]:
        """Tables of the columns of numbers and of those of sets."""
        numbers, sets = divide_sets(self._codes.codes)
        return CodeTables(self._forest, numbers), CodeTables(self._forest, sets)

    def _by_node(self, codes: GpuArray, n_rows: int, result: GpuArray, reductions: int) -> None:
        n_trees, most = self._forest.n_trees, most_splits(self._forest)
        kernel, lanes = nodes_variant(self._codes.code_type, most, reductions)
        rows_per_block = NODE_BLOCK // lanes * ROWS_PER_GROUP
        n_tiles = -(-n_rows // rows_per_block)
        per_block = _trees_per_block(n_trees, n_tiles)
        args = self._arguments(codes, n_rows, result, per_block)
        args |= {**self._nodes("nodes", "roots", "map", "map_starts"), "rows_per_block": rows_per_block}
        launch(kernel, (n_tiles, -(-n_trees // per_block)), (NODE_BLOCK,), args)

    def _windowed(self, codes: GpuArray, n_rows: int, result: GpuArray, levels: int) -> None:
        n_trees, n_tiles = self._forest.n_trees, -(-n_rows // (BLOCK >> levels))
        per_block = _trees_per_block(n_trees, n_tiles)
        args = {**self._arguments(codes, n_rows, result, per_block), **self._windows(levels)}
        launch(windows_variant(self._codes.code_type, levels), (n_tiles, -(-n_trees // per_block)), (BLOCK,), args)

    def _arguments(self, codes: GpuArray, n_rows: int, result: GpuArray, per_block: int) -> dict[str, Any]:
        """Name what all kernels take of the rows and of the forest."""
        sizes = {"n_trees": self._forest.n_trees, "trees_per_block": per_block, "n_rows": n_rows}
        return {**sizes, "codes": codes, "stride": result.shape[1], "leaves": result}

    def _nodes(self, *names: str) -> dict[str, GpuArray]:
        arrays = self._uploaded("nodes", lambda: self._node_arrays(self._codes.codes))
        return {name: arrays[name] for name in names}

    def _windows(self, levels: int) -> dict[str, GpuArray]:
        return self._uploaded(levels, lambda: vars(cut_windows(self._forest, self._codes.codes, levels)))

    def _uploaded(self, key: object, build: Callable[[], dict[str, Array]]) -> dict[str, GpuArray]:
        upload = import_cupy().asarray
        return self._uploads.get(lambda: {name: upload(array) for name, array in build().items()}, key)

    def _node_arrays(self, codes: Codes) -> dict[str, Array]:
        forest = self._forest
        sizes = np.diff(forest.tree_offsets)
        first = np.repeat(forest.tree_offsets[:-1], sizes)
        is_leaf = forest.feature < 0
        leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, 0)
        nodes = np.stack([codes.node_column, codes.node_rank, np.where(is_leaf, 0, first + forest.left), leaf], axis=1)
        splits = np.flatnonzero(~is_leaf)
        return {
            "nodes": nodes.astype(np.int32),
            "roots": forest.tree_offsets.astype(np.int32),
            "map": (splits - first[splits]).astype(np.int32),
            "map_starts": np.searchsorted(splits, forest.tree_offsets).astype(np.int32),
        }


def _trees_per_block(n_trees: int, n_tiles: int) -> int:
    return max(1, n_trees * n_tiles // WANTED_BLOCKS, -(-n_trees // 65535))


def _setting(choice: Choice) -> int:
    """Read the algorithm's parameter; as near as there are kernels for."""
    if choice.algorithm not in MOST_SETTINGS:
        return 0
    return min(choice.setting or DEFAULT_SETTINGS[choice.algorithm][0], MOST_SETTINGS[choice.algorithm])


def evaluate_variant(code_type: DTypeLike) -> Variant:
    """Name the kernel of serial and by_sample."""
    return variant("evaluate/cuda/walk_rows", CODE=np.dtype(code_type))


def sets_variant(input_type: DTypeLike, row_type: DTypeLike, code_type: DTypeLike) -> Variant:
    """Name the kernel of by_sample for trees with many sets of categories."""
    macros = {"INPUT": np.dtype(input_type), "ROW": np.dtype(row_type), "CODE": np.dtype(code_type)}
    return variant("evaluate/cuda/walk_sets", **macros)


def nodes_variant(code_type: DTypeLike, most_splits: int, reductions: int) -> tuple[Variant, int]:
    """Name the kernel of by_node, and the lanes of its record groups."""
    processors = 1 << max(most_splits - 1, 0).bit_length()
    lanes = min(processors, WARP)
    macros = {"LANES": lanes, "SPLITS_PER_LANE": processors // lanes, "REDUCTIONS": reductions}
    return variant("evaluate/cuda/test_nodes", CODE=np.dtype(code_type), **macros), lanes


def windows_variant(code_type: DTypeLike, levels: int) -> Variant:
    """Name the kernel of windowed."""
    return variant("evaluate/cuda/test_windows", CODE=np.dtype(code_type), LEVELS=levels)
