"""Few rows on GPUs: one launch with its arguments laid out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import gpu_limits
from glasswood.evaluate.cuda.packing import CHUNK, NODE_TYPES

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.evaluate.cuda.tiles import PackedForest

SUMMED_TREES, MOST_THREADS = 128, 512
MOST_ROWS, MOST_PAIRS = 512, 2**18
"""Rows, and rows times trees, up to which one launch is the fastest."""

ALONE_TREES, SHARED_TREES = 128, 64
"""Trees that one block adds up by itself, and trees of a block where several share a row."""

MANY_WALKS, MANY_WALKS_ALONE, MANY_SHIFT, MANY_TREES = 2**15, 2**13, 2, 128
"""Rows times trees from which a block has several rows, also in forests that one block would add up by itself; their
log2; trees of a block then, in the larger forests."""

SHARED_BYTES = 48 * 1024

STAGED_BYTES = 96 * 1024
"""Nodes of heaps that a block brings to its shared memory at most."""

UNWRITTEN = 0xFFF5A5A5
"""Upper word of a NaN that no sum makes, which stands for a margin to come."""


class FewRows:
    """Margins of few rows of a forest with constant scalar leaves."""

    def __init__(self, packed: PackedForest) -> None:
        self.packed = packed

    def serves(self, n_rows: int) -> bool:
        """Whether this is the schedule for `n_rows` rows."""
        is_small = n_rows <= MOST_ROWS and n_rows * self.packed.forest.n_trees <= MOST_PAIRS
        return is_small and self._row_shift(n_rows) >= 0

    def most_rows(self) -> int:
        """Rows taken at a time."""
        return MOST_ROWS

    def plan(self, input_type: DTypeLike, strides: dict[str, int], n_rows: int, result_type: DTypeLike) -> Plan:
        """Lay the launch out for rows of a type, strides (in elements) and number, on the current GPU."""
        packed, image, forest = self.packed, self.packed.values, self.packed.forest
        codes, n_trees = packed.codes, forest.n_trees
        blocks = self._blocks(n_rows)
        rows = {"X": NOWHERE, **strides, "n_rows": n_rows}
        image_on_gpu, chunks = packed.images("values", image)
        n_values = n_rows * n_trees if blocks.trees < n_trees else 1
        unwritten = np.full(n_values * image.leaf_type.itemsize // 4, UNWRITTEN, np.uint32)
        values = import_cupy().asarray(unwritten)
        args = {
            **rows,
            "n_columns": codes.codes.n_columns,
            **codes.tables(),
            "image": image_on_gpu,
            "tree_chunks": chunks,
            "n_trees": n_trees,
            "trees_per_block": blocks.trees,
            "row_shift": blocks.shift,
            "values_offset": blocks.values_offset,
            "nodes_offset": blocks.nodes_offset,
            **packed.sums(),
            "n_outputs": forest.n_outputs,
            "values": values,
            "result": NOWHERE,
        }
        depth = image.heap_depth if blocks.is_staged else 0
        kernel = few_variant(packed.name, input_type, codes.codes.thresholds.dtype, image.leaf_type, result_type, depth)
        grid = -(-n_trees // blocks.trees), -(-n_rows // (1 << blocks.shift))
        launch = PreparedLaunch(kernel, grid, blocks.threads, args, blocks.shared)
        return Plan([launch], launch.cell("X"), launch.cell("result"), n_bytes=values.nbytes)

    def _blocks(self, n_rows: int) -> _Blocks:
        """Divide rows and trees into blocks."""
        n_trees, leaf_bytes = self.packed.forest.n_trees, self.packed.values.leaf_type.itemsize
        shift = self._row_shift(n_rows)
        is_small = n_trees <= ALONE_TREES
        most = (SHARED_TREES if is_small else MANY_TREES) if shift else n_trees if is_small else SHARED_TREES
        trees = min(n_trees, most)
        values = _chunks(leaf_bytes * trees << shift) if trees == n_trees else 0
        codes, sums = self.packed.codes.row_bytes << shift, (SUMMED_TREES + 1) * leaf_bytes << shift
        values_offset = _chunks(max(codes, sums))
        work = max(trees, self.packed.codes.codes.n_columns) << shift
        threads = next((n for n in (128, 256) if n >= work), MOST_THREADS)
        nodes_offset = values_offset + values
        nodes = trees * self._node_chunks
        fits = CHUNK * (nodes_offset + nodes) <= gpu_limits().shared_per_block
        is_staged = fits and 0 < CHUNK * nodes <= STAGED_BYTES
        shared = CHUNK * (nodes_offset + nodes * is_staged)
        return _Blocks(shift, trees, threads, values_offset, nodes_offset, is_staged, shared)

    @property
    def _node_chunks(self) -> int:
        """Chunks of shared memory for the nodes of a heap (Trees in evaluate/cuda/walk_few.cu); 0 for linked trees."""
        depth = self.packed.values.heap_depth
        return _chunks(np.dtype(NODE_TYPES[self.packed.name]).itemsize << depth) | 1 if depth else 0

    def _row_shift(self, n_rows: int) -> int:
        """Log2 of the rows of a block; -1 if the codes of one row are too many for shared memory."""
        n_trees, leaf_bytes = self.packed.forest.n_trees, self.packed.values.leaf_type.itemsize
        of_row = max(self.packed.codes.row_bytes, (SUMMED_TREES + 1) * leaf_bytes) + CHUNK
        of_row += leaf_bytes * n_trees if n_trees <= ALONE_TREES else 0
        fits = int(SHARED_BYTES // of_row).bit_length() - 1
        many = MANY_WALKS_ALONE if n_trees <= ALONE_TREES else MANY_WALKS
        return min(fits, MANY_SHIFT if n_rows * n_trees >= many else 0)


@dataclass(frozen=True)
class _Blocks:
    """Log2 of the rows of a block, its trees and threads; where values and nodes lie in shared memory, in chunks."""

    shift: int
    trees: int
    threads: int
    values_offset: int
    nodes_offset: int
    is_staged: bool
    shared: int


def _chunks(n_bytes: int) -> int:
    return -(-n_bytes // CHUNK)


def few_variant(
    name: str,
    input_type: DTypeLike,
    row_type: DTypeLike,
    leaf_type: DTypeLike,
    result_type: DTypeLike,
    staged_depth: int = 0,
) -> Variant:
    """Name the kernel for a format of nodes, and the depth of heaps whose nodes come to shared memory."""
    types = {"INPUT": input_type, "ROW": row_type, "LEAF": leaf_type, "RESULT": result_type}
    named = {macro: np.dtype(kind) for macro, kind in types.items()}
    return variant("evaluate/cuda/walk_few", FORMAT=name.upper(), STAGED_DEPTH=staged_depth, **named)
