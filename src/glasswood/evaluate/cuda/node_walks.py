"""Leaves that rows reach on GPUs, a node at a time: forests that no packed format holds, and the paper's algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Choice, GpuArray
from glasswood.cuda.codes import divide_sets
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables, row_strides
from glasswood.cuda.launches import launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.model.ensemble import TreeEnsemble
from glasswood.reference.speculative import DEFAULT_SETTINGS, SpeculativeWalks, Walk

if TYPE_CHECKING:
    from glasswood.cuda.codes import Codes
    from glasswood.cuda.compiler import Variant

BLOCK = 128
"""Threads of a block, one a row."""

TARGET_BLOCKS = 2048
"""Target number of blocks: for small batches, trees are divided among blocks."""


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

    @staticmethod
    def settings(algorithm: str) -> tuple[int, ...]:
        """List the settings of an algorithm that are worth measuring."""
        return DEFAULT_SETTINGS.get(algorithm, (0,))

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
            nodes = self._uploaded("numbers", self._codes.codes)
            if choice.algorithm == "by_sample":
                args = {**nodes, "codes": codes}
                self._launch(evaluate_variant(self._codes.code_type), n_rows, result, args)
            else:
                self._speculative.run(choice, Walk(codes, n_rows, result, nodes))
        return result

    def _by_sets(self, x: GpuArray) -> GpuArray:
        """`by_sample` where sets of categories are looked up on the way."""
        numbers, sets = self._divided
        codes = numbers.encode(x, -(-len(x) // BLOCK) * BLOCK)
        result: GpuArray = import_cupy().empty((self._forest.n_trees, codes.shape[1]), np.int32)
        if codes.shape[1]:
            args = {**self._uploaded("sets", numbers.codes), "codes": codes, **sets.tables(), "X": x, **row_strides(x)}
            kernel = sets_variant(x.dtype, numbers.codes.thresholds.dtype, numbers.code_type)
            self._launch(kernel, len(x), result, args)
        return result

    def _launch(self, kernel: Variant, n_rows: int, result: GpuArray, more: dict[str, Any]) -> None:
        n_trees, n_tiles = self._forest.n_trees, -(-n_rows // BLOCK)
        per_block = _trees_per_block(n_trees, n_tiles)
        args = {"n_trees": n_trees, "trees_per_block": per_block, "n_rows": n_rows, "stride": result.shape[1]}
        launch(kernel, (n_tiles, -(-n_trees // per_block)), (BLOCK,), {**args, "leaves": result, **more})

    @cached_property
    def _speculative(self) -> SpeculativeWalks:
        return SpeculativeWalks(self._forest, self._codes, _trees_per_block)

    @property
    def _has_sets(self) -> bool:
        return bool((self._codes.codes.category_set >= 0).any())

    @cached_property
    def _divided(self) -> tuple[CodeTables, CodeTables]:
        """Tables of the columns of numbers and of those of sets."""
        numbers, sets = divide_sets(self._codes.codes)
        return CodeTables(self._forest, numbers), CodeTables(self._forest, sets)

    def _uploaded(self, key: str, codes: Codes) -> dict[str, GpuArray]:
        upload = import_cupy().asarray
        return self._uploads.get(lambda: {name: upload(array) for name, array in self._arrays(codes).items()}, key)

    def _arrays(self, codes: Codes) -> dict[str, Array]:
        forest = self._forest
        first = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
        is_leaf = forest.feature < 0
        leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, 0)
        nodes = np.stack([codes.node_column, codes.node_rank, np.where(is_leaf, 0, first + forest.left), leaf], axis=1)
        return {"nodes": nodes.astype(np.int32), "roots": forest.tree_offsets.astype(np.int32)}


def _trees_per_block(n_trees: int, n_tiles: int) -> int:
    return max(1, n_trees * n_tiles // TARGET_BLOCKS, -(-n_trees // 65535))


def evaluate_variant(code_type: DTypeLike) -> Variant:
    """Name the kernel of serial and by_sample."""
    return variant("evaluate/cuda/walk_rows", CODE=np.dtype(code_type))


def sets_variant(input_type: DTypeLike, row_type: DTypeLike, code_type: DTypeLike) -> Variant:
    """Name the kernel of by_sample for trees with many sets of categories."""
    macros = {"INPUT": np.dtype(input_type), "ROW": np.dtype(row_type), "CODE": np.dtype(code_type)}
    return variant("evaluate/cuda/walk_sets", **macros)
