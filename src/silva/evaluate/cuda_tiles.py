"""Many rows on GPUs: tiles of rows and stages of packed trees in shared memory."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES
from silva.cuda.limits import gpu_limits
from silva.cuda.runtime import launch
from silva.device import import_cupy
from silva.evaluate.packing import CHUNK, FORMATS, Image, group_trees, pack_trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.compiler import Variant
    from silva.cuda.encoder import CodeTables
    from silva.cuda.limits import Limits
    from silva.forest import Forest

THREADS = (256, 128, 64)
STAGES = (16384, 8192, 4096)
"""Bytes of a stage of trees, of which a block has two."""

ENOUGH_THREADS = 768
"""Threads of a multiprocessor, four rows each, that hide the latency of shared memory."""

RESERVED_BYTES = 1024
"""Shared memory that the driver takes of each block."""

TILES_PER_MULTIPROCESSOR = 2
"""Tiles from which blocks do not share the trees of a tile."""

SUM_BLOCK, CODE_MULTIPLE = 128, 1024
VALUE_BYTES = 2**29
"""Values of trees before they are summed."""


@dataclass(frozen=True)
class TileShape:
    """How a launch is cut: threads of a block, bytes of a stage, resident blocks of a multiprocessor."""

    threads: int
    stage: int
    resident: int


class PackedForest:
    """Images of a forest, and what goes with them, uploaded to each GPU that uses them.

    Parameters
    ----------
    forest : Forest
    codes : CodeTables
    name : str
        Format of the nodes.
    """

    def __init__(self, forest: Forest, codes: CodeTables, name: str) -> None:
        self.forest, self.codes, self.name = forest, codes, name
        self._uploads: dict[Any, Any] = {}

    @functools.cached_property
    def values(self) -> Image:
        """Trees with the values of their leaves, those of one output after those of another; scalar leaves only."""
        forest = self.forest
        values = forest.leaf_value[:, 0] * np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))
        single = values.astype(np.float32)
        values = single if np.array_equal(single.astype(np.float64), values) else values
        order = np.argsort(forest.tree_output, kind="stable")
        return pack_trees(forest, self.codes.codes, self.name, values, order, forest.tree_output[order])

    @functools.cached_property
    def leaves(self) -> Image:
        """Trees in their order with the indices of their leaves."""
        forest = self.forest
        numbers = np.arange(forest.n_leaves, dtype=np.int32)
        order, output = np.arange(forest.n_trees), np.zeros(forest.n_trees, np.int32)
        return pack_trees(forest, self.codes.codes, self.name, numbers, order, output)

    @functools.cached_property
    def starts(self) -> NDArray[np.int32]:
        """First tree of each output in the image of values, and the number of trees."""
        output = np.sort(self.forest.tree_output)
        return np.searchsorted(output, np.arange(self.forest.n_outputs + 1)).astype(np.int32)

    def upload(self, key: Any, build: Any) -> Any:
        """Array on the current GPU, made of `build()` at the first call."""
        cupy = import_cupy()
        at = cupy.cuda.runtime.getDevice(), key
        if at not in self._uploads:
            self._uploads[at] = cupy.asarray(build())
            cupy.cuda.get_current_stream().synchronize()
        return self._uploads[at]

    def __getstate__(self) -> dict[str, Any]:
        return {"forest": self.forest, "codes": self.codes, "name": self.name, "_uploads": {}}


class Tiles:
    """Margins and leaves of many rows."""

    def __init__(self, packed: PackedForest) -> None:
        self._packed = packed

    def serves(self) -> bool:
        """Whether a tile of the forest's columns fits into the shared memory of the current GPU."""
        return bool(tile_shapes(self._packed.codes.codes.n_columns, gpu_limits()))

    def margins(self, x: Any, out: Any) -> None:
        """Fill `out`, (n, n_outputs) on the current GPU, in its dtype."""
        packed, image = self._packed, self._packed.values
        cupy, limits = import_cupy(), gpu_limits()
        shape, n_parts = self._plan(len(x), limits)
        item = image.leaf_type.itemsize
        stride = _round_up(len(x), CODE_MULTIPLE)
        if n_parts == 1 or stride * item * packed.forest.n_trees > VALUE_BYTES:
            self._launch(x, stride, shape, 1, out, sums=True)
            return
        values = cupy.empty((packed.forest.n_trees, stride), image.leaf_type)
        self._launch(x, stride, shape, n_parts, values, sums=False)
        types = {"LEAF": C_TYPES[image.leaf_type.name], "RESULT": C_TYPES[out.dtype.name]}
        sizes = (np.int64(stride), np.int32(len(x)), np.int32(packed.forest.n_outputs))
        tables = (packed.upload("starts", lambda: packed.starts), self._base())
        grid = (-(-len(x) // SUM_BLOCK), packed.forest.n_outputs)
        launch(variant("sum_values", **types), grid, (SUM_BLOCK,), (values, *sizes, *tables, out))

    def leaves(self, x: Any) -> Any:
        """Indices of leaves, int32 (n_trees, stride)."""
        shape, n_parts = self._plan(len(x), gpu_limits())
        stride = _round_up(len(x), CODE_MULTIPLE)
        result = import_cupy().empty((self._packed.forest.n_trees, stride), np.int32)
        self._launch(x, stride, shape, n_parts, result, sums=False)
        return result

    def _plan(self, n_rows: int, limits: Limits) -> tuple[TileShape, int]:
        """Choose the largest tiles that occupy the GPU, and the parts of the trees if none do."""
        packed = self._packed
        shapes = tile_shapes(packed.codes.codes.n_columns, limits)
        per_word = 4 // packed.codes.code_type.itemsize
        wanted = limits.n_multiprocessors * TILES_PER_MULTIPROCESSOR
        for shape in shapes:
            if -(-n_rows // (shape.threads * per_word)) >= wanted:
                return shape, 1
        shape = min(shapes, key=lambda shape: shape.threads)
        n_tiles = -(-n_rows // (shape.threads * per_word))
        return shape, max(1, limits.n_multiprocessors * shape.resident // n_tiles)

    def _launch(self, x: Any, stride: int, shape: TileShape, n_parts: int, out: Any, *, sums: bool) -> None:
        packed, key = self._packed, "values" if out.dtype.kind == "f" else "leaves"
        image = packed.values if key == "values" else packed.leaves
        n_columns = packed.codes.codes.n_columns
        groups = packed.upload((key, shape.stage), lambda: group_trees(image, shape.stage))
        per_part = -(-len(groups) // n_parts)
        rows = shape.threads * 4 // packed.codes.code_type.itemsize
        args = (
            packed.upload(key, lambda: image.data),
            groups,
            np.int32(len(groups)),
            np.int32(per_part),
            np.int32(shape.stage // CHUNK),
            packed.codes.encode(x, stride),
            np.int64(stride),
            np.int32(len(x)),
            np.int32(n_columns),
            self._base(),
            np.int32(packed.forest.n_outputs),
            out,
        )
        grid = (-(-len(x) // rows), -(-len(groups) // per_part))
        kernel = tiles_variant(packed.name, image.leaf_type, out.dtype, shape.threads, sums=sums)
        launch(kernel, grid, (shape.threads,), args, _shared_bytes(n_columns, shape.threads, shape.stage))

    def _base(self) -> Any:
        return self._packed.upload("base", lambda: self._packed.forest.base_score)


@functools.lru_cache(maxsize=256)
def tile_shapes(n_columns: int, limits: Limits) -> tuple[TileShape, ...]:
    """List the shapes that fit, for each number of threads the best stage; by rows that are resident, then by size."""
    shapes = {}
    for threads in THREADS:
        for stage in reversed(STAGES):
            shared = _shared_bytes(n_columns, threads, stage)
            if shared > limits.shared_per_block:
                continue
            resident = min(limits.shared_per_multiprocessor // (shared + RESERVED_BYTES), ENOUGH_THREADS // threads)
            if threads not in shapes or resident >= shapes[threads].resident:
                shapes[threads] = TileShape(threads, stage, max(resident, 1))
    return tuple(sorted(shapes.values(), key=lambda s: (-s.threads * s.resident, -s.threads)))


def _shared_bytes(n_columns: int, threads: int, stage: int) -> int:
    return n_columns * threads * 4 + 2 * stage


def tiles_variant(name: str, leaf_type: Any, result_type: Any, threads: int, *, sums: bool) -> Variant:
    """Name the kernel for a format of nodes."""
    return variant(
        "evaluate_tiles",
        FORMAT=FORMATS[name],
        LEAF=C_TYPES[np.dtype(leaf_type).name],
        RESULT=C_TYPES[np.dtype(result_type).name],
        THREADS=threads,
        WORDS=1,
        SUM=int(sums),
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
