"""Evaluation on NVIDIA GPUs: buffers and launches of by_sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.choice import Choice
from silva.cuda.codes import encode_forest
from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES, CodeTables
from silva.cuda.rows import check_gpu_rows, map_rows
from silva.cuda.runtime import launch
from silva.device import array_gpu, import_cupy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.compiler import Variant
    from silva.forest import Forest

BLOCK = 128
LEAF_BYTES = 2**29
"""Leaves of the rows in flight."""

WANTED_BLOCKS = 2048
"""Trees are split over blocks until there are so many: small batches fill the GPU too."""


class CudaEvaluator:
    """A forest's nodes as rank tests, uploaded to each GPU that uses them."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._codes = CodeTables(forest, encode_forest(forest))
        self._on_gpu: dict[int, dict[str, Any]] = {}

    def margins(self, rows: Any, gpus: tuple[int, ...], choice: Choice) -> Any:
        """Sum margins (n, n_outputs) in float64: NumPy for host rows, CuPy for GPU rows."""
        _check_built(choice)
        return self._run(rows, gpus, (self._forest.n_outputs,), np.float64, self._sum)

    def leaves(self, rows: Any, gpus: tuple[int, ...], choice: Choice) -> Any:
        """Find the source's leaf ids (n, n_trees), int32: NumPy for host rows, CuPy for GPU rows."""
        _check_built(choice)
        return self._run(rows, gpus, (self._forest.n_trees,), np.int32, self._name)

    def _run(self, rows: Any, gpus: tuple[int, ...], shape: tuple[int, ...], dtype: Any, finish: Any) -> Any:
        forest = self._forest
        rows = rows if array_gpu(rows) is None else check_gpu_rows(rows, forest, gpus[0])

        def compute(x: Any, out: Any) -> None:
            step = max(BLOCK, LEAF_BYTES // max(4 * forest.n_trees, 1) // BLOCK * BLOCK)
            for start in range(0, len(x), step):
                part = x[start : start + step]
                finish(*self._reach(part), len(part), out[start : start + step])

        return map_rows(rows, gpus, shape, dtype, compute, input_type=forest.threshold.dtype)

    def _reach(self, x: Any) -> tuple[Any, Any]:
        """Tables, and the leaves that the rows reach: (n_trees, stride)."""
        cupy = import_cupy()
        tables, n_trees = self._tables(cupy), self._forest.n_trees
        n_tiles = -(-len(x) // BLOCK)
        stride = n_tiles * BLOCK
        leaves = cupy.empty((max(n_trees, 1), stride), np.int32)
        per_block = max(1, n_trees * n_tiles // WANTED_BLOCKS)
        if n_trees:
            encoded = self._codes.encode(x, stride)
            args = (tables["nodes"], tables["roots"], np.int32(n_trees), np.int32(per_block), encoded)
            grid = (n_tiles * -(-n_trees // per_block),)
            launch(
                evaluate_variant(self._codes.codes.code_type),
                grid,
                (BLOCK,),
                (*args, np.int32(len(x)), np.uint32(stride), leaves),
            )
        return tables, leaves

    def _sum(self, tables: dict[str, Any], leaves: Any, n_rows: int, out: Any) -> None:
        forest = self._forest
        sizes = (np.int32(forest.leaf_width), np.int32(forest.n_outputs))
        args = (leaves, np.uint32(leaves.shape[1]), np.int32(n_rows), tables["values"], *sizes)
        orders = (tables["starts"], tables["trees"], tables["base"], out)
        launch(variant("sum_leaves"), (-(-n_rows // BLOCK), forest.n_outputs), (BLOCK,), (*args, *orders))

    def _name(self, tables: dict[str, Any], leaves: Any, n_rows: int, out: Any) -> None:
        out[...] = tables["ids"][leaves[: self._forest.n_trees, :n_rows]].T

    def _tables(self, cupy: Any) -> dict[str, Any]:
        gpu = cupy.cuda.runtime.getDevice()
        if gpu not in self._on_gpu:
            self._on_gpu[gpu] = {name: cupy.asarray(array) for name, array in self._arrays().items()}
            cupy.cuda.get_current_stream().synchronize()
        return self._on_gpu[gpu]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        forest, codes = self._forest, self._codes.codes
        sizes = np.diff(forest.tree_offsets)
        first = np.repeat(forest.tree_offsets[:-1], sizes)
        is_leaf = forest.feature < 0
        leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, 0)
        nodes = np.stack([codes.node_column, codes.node_rank, np.where(is_leaf, 0, first + forest.left), leaf], axis=1)
        weight = np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))[:, None]
        output = forest.tree_output if forest.leaf_width == 1 else np.zeros(forest.n_trees, np.int32)
        trees, starts = _by_output(output, forest.n_outputs, forest.leaf_width)
        return {
            "nodes": nodes.astype(np.int32),
            "roots": forest.tree_offsets[:-1].astype(np.int32),
            "values": forest.leaf_value * weight,
            "ids": forest.leaf_id,
            "trees": trees,
            "starts": starts,
            "base": forest.base_score,
        }


def _by_output(output: NDArray[np.int32], n_outputs: int, width: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """List the trees that add to each output, in their order."""
    if width > 1:
        n_trees = len(output)
        return np.tile(np.arange(n_trees, dtype=np.int32), n_outputs), np.arange(
            n_outputs + 1, dtype=np.int64
        ) * n_trees
    order = np.argsort(output, kind="stable").astype(np.int32)
    return order, np.searchsorted(output[order], np.arange(n_outputs + 1)).astype(np.int64)


def default_choice(_forest: Forest, n_rows: int) -> Choice:
    """Pick what the model of costs prefers for `n_rows` rows."""
    return Choice(n_rows, "cuda", "by_sample")


def candidates(_forest: Forest, n_rows: int) -> tuple[Choice, ...]:
    """List what is worth measuring for batches of `n_rows` rows."""
    return (Choice(n_rows, "cuda", "by_sample"),)


def _check_built(choice: Choice) -> None:
    if choice.algorithm != "by_sample":
        raise NotImplementedError(f"algorithm={choice.algorithm!r} does not run on GPUs yet; use 'by_sample'")


def evaluate_variant(code_type: Any) -> Variant:
    """Name the kernel that finds leaves."""
    return variant("evaluate_rows", CODE=C_TYPES[np.dtype(code_type).name])
