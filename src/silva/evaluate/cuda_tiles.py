"""Many rows on GPUs: tiles of rows and stages of packed trees in shared memory."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES, row_strides
from silva.cuda.encoder import THREADS as ENCODE_THREADS
from silva.cuda.limits import gpu_limits
from silva.cuda.prepared import NOWHERE, PreparedLaunch
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

LEVELS_PER_JOIN = 2
"""Levels of a tree that a tile walks while it joins the sums of one part: most parts that pay."""

SUM_BLOCK, CODE_MULTIPLE = 128, 1024
VALUE_BYTES, CODE_BYTES = 2**29, 2**31
"""Values of trees before they are summed, and codes of rows."""

KEPT_BYTES = 2**23
"""Codes and sums that a plan keeps from call to call."""

MOST_ROWS = 2**30
"""Rows at a time that the kernels' 32-bit integers count, whole tiles included."""

CODES_ARGUMENT, PARTS_ARGUMENT = 5, -3
"""Places of the codes and of the parts' sums among the arguments of evaluate_tiles."""

PART_WORDS = 4
"""Words of the sum of a part (ExactSum in native/evaluate/exact_sum.h)."""

VALUES, SUMS, PARTS = 0, 1, 2
"""Modes of native/evaluate/tiles.cu."""


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
        values: NDArray[Any] = forest.leaf_value[:, 0] * np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))
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

    @functools.cached_property
    def has_idle_outputs(self) -> bool:
        """Whether no tree adds to some output, so that passing the trees does not come by it."""
        return bool((np.diff(self.starts) == 0).any())

    def sums(self) -> tuple[Any, Any]:
        """First trees of the outputs, and base scores, on the current GPU."""
        return self.upload("starts", lambda: self.starts), self.upload("base", lambda: self.forest.base_score)

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

    def most_rows(self) -> int:
        """Rows whose codes are kept at a time."""
        packed = self._packed
        most = min(int(CODE_BYTES // max(packed.codes.row_bytes, 1)), MOST_ROWS)
        if packed.has_idle_outputs:
            most = min(most, VALUE_BYTES // (packed.forest.n_trees * packed.values.leaf_type.itemsize))
        return max(CODE_MULTIPLE, most // CODE_MULTIPLE * CODE_MULTIPLE)

    def plan(self, input_type: Any, strides: tuple[int, int], n_rows: int, result_type: Any) -> TilePlan:
        """Lay the launches to margins out for rows of a type, strides (in elements) and number, on the current GPU."""
        packed, image = self._packed, self._packed.values
        shape, n_parts = self._cut(n_rows, gpu_limits())
        stride = _round_up(n_rows, CODE_MULTIPLE)
        encoding = self._encoding(input_type, strides, n_rows, stride)
        fits = stride * image.leaf_type.itemsize * packed.forest.n_trees <= VALUE_BYTES
        joins = packed.forest.n_outputs == 1 and image.leaf_type == np.float32 and np.dtype(result_type) == np.float32
        if (n_parts == 1 or joins or not fits) and not packed.has_idle_outputs:
            n_parts = n_parts if joins else 1
            walks, n_parts = self._walks(image, n_rows, stride, shape, n_parts, result_type)
            parts = (n_parts, stride, PART_WORDS) if n_parts > 1 else None
            return TilePlan(packed, encoding, stride, walks, scratch=(parts, np.float32))
        walks, _ = self._walks(image, n_rows, stride, shape, n_parts, None)
        types = {"LEAF": C_TYPES[image.leaf_type.name], "RESULT": C_TYPES[np.dtype(result_type).name]}
        sizes = (np.int64(stride), np.int32(n_rows), np.int32(packed.forest.n_outputs))
        grid = (-(-n_rows // SUM_BLOCK), packed.forest.n_outputs)
        args = (NOWHERE, *sizes, *packed.sums(), NOWHERE)
        sums = PreparedLaunch(variant("evaluate/sum_values", **types), grid, SUM_BLOCK, args)
        return TilePlan(packed, encoding, stride, walks, ((packed.forest.n_trees, stride), image.leaf_type), sums)

    def leaves(self, x: Any) -> Any:
        """Find the leaves of rows: indices, int32 (n_trees, stride)."""
        cupy, packed, n_rows = import_cupy(), self._packed, len(x)
        stride = _round_up(n_rows, CODE_MULTIPLE)
        result = cupy.empty((packed.forest.n_trees, stride), np.int32)
        shape, n_parts = self._cut(n_rows, gpu_limits())
        walks, _ = self._walks(packed.leaves, n_rows, stride, shape, n_parts, None)
        encoding = self._encoding(x.dtype, row_strides(x), n_rows, stride)
        TilePlan(packed, encoding, stride, walks, (None, None)).run(
            x.data.ptr, result.data.ptr, cupy.cuda.get_current_stream().ptr
        )
        return result

    def _cut(self, n_rows: int, limits: Limits) -> tuple[TileShape, int]:
        """Choose the tiles, and the parts of the trees where there are too few tiles to occupy the GPU."""
        packed = self._packed
        shape = tile_shapes(packed.codes.codes.n_columns, limits)[0]
        n_tiles = -(-n_rows * packed.codes.code_type.itemsize // (shape.threads * 4))
        if n_tiles >= limits.n_multiprocessors * TILES_PER_MULTIPROCESSOR:
            return shape, 1
        most = math.isqrt(max(1, packed.forest.n_trees * packed.forest.depth // LEVELS_PER_JOIN))
        return shape, max(1, min(most, limits.n_multiprocessors * shape.resident // max(n_tiles, 1)))

    def _encoding(self, input_type: Any, strides: tuple[int, int], n_rows: int, stride: int) -> PreparedLaunch | None:
        codes = self._packed.codes
        if not codes.codes.n_columns:
            return None
        kernel, grid, args, shared = codes.launch_of(np.dtype(input_type), strides, n_rows, stride)
        return PreparedLaunch(kernel, grid, ENCODE_THREADS, args, shared)

    def _walks(
        self, image: Image, n_rows: int, stride: int, shape: TileShape, n_parts: int, result_type: Any
    ) -> tuple[PreparedLaunch, int]:
        """Launch to margins of `result_type`, or to the values of trees if that is None, and its number of parts."""
        packed, n_columns, cupy = self._packed, self._packed.codes.codes.n_columns, import_cupy()
        key = "leaves" if image.leaf_type.kind == "i" else "values"
        # A power of two, so that few divisions serve all numbers of rows; parts are of whole groups.
        most_trees = 1 << max(1, packed.forest.n_trees // n_parts).bit_length() - 1
        groups = packed.upload((key, shape.stage, most_trees), lambda: group_trees(image, shape.stage, most_trees))
        per_part = -(-len(groups) // n_parts)
        n_tiles, n_parts = (
            -(-n_rows * packed.codes.code_type.itemsize // (shape.threads * 4)),
            -(-len(groups) // per_part),
        )
        trees = (packed.upload(key, lambda: image.data), groups, np.int32(len(groups)), np.int32(per_part))
        rows = (NOWHERE, np.int64(stride), np.int32(n_rows), np.int32(n_columns))
        outputs = (packed.sums()[1], np.int32(packed.forest.n_outputs), np.int32(packed.forest.n_trees))
        mode = VALUES if result_type is None else PARTS if n_parts > 1 else SUMS
        arrivals = cupy.zeros(n_tiles if mode == PARTS else 1, np.uint32)
        args = (*trees, np.int32(shape.stage // CHUNK), *rows, *outputs, NOWHERE, arrivals, NOWHERE)
        kernel = tiles_variant(packed.name, image.leaf_type, result_type, shape.threads, mode)
        shared = _shared_bytes(n_columns, shape.threads, shape.stage)
        return PreparedLaunch(kernel, (n_tiles, n_parts), shape.threads, args, shared), n_parts


class TilePlan:
    """Launches for one stream and thread: rows to codes, codes to margins or to values of trees, values to margins."""

    def __init__(
        self,
        packed: PackedForest,
        encoding: PreparedLaunch | None,
        stride: int,
        walks: PreparedLaunch,
        scratch: tuple[Any, Any],
        sums: PreparedLaunch | None = None,
    ) -> None:
        self._packed, self._stride, self._scratch = packed, stride, scratch
        self._encoding, self._walks, self._sums = encoding, walks, sums
        self._kept: tuple[Any, ...] = ()

    def run(self, x: int, out: int, stream: int) -> None:
        """Queue the work for rows and results at these addresses."""
        # Buffers that are not kept may be given to others as soon as this returns: the stream orders their use.
        buffers = self._kept or self._set_buffers()
        if self._encoding is not None:
            self._encoding.addresses[0] = x
            self._encoding(stream)
        last = self._sums or self._walks
        last.addresses[-1] = out
        self._walks(stream)
        if self._sums is not None:
            self._sums(stream)
        del buffers

    def _set_buffers(self) -> tuple[Any, ...]:
        """Allocate codes and scratch memory and name them to the launches; small ones are kept."""
        codes = self._packed.codes.room(self._stride)
        shape, dtype = self._scratch
        scratch = None if shape is None else import_cupy().empty(shape, dtype)
        if self._encoding is not None:
            self._encoding.addresses[-1] = codes.data.ptr
        self._walks.addresses[CODES_ARGUMENT] = codes.data.ptr
        if scratch is not None:
            self._walks.addresses[PARTS_ARGUMENT if self._sums is None else -1] = scratch.data.ptr
            if self._sums is not None:
                self._sums.addresses[0] = scratch.data.ptr
        if codes.nbytes + (0 if scratch is None else scratch.nbytes) <= KEPT_BYTES:
            self._kept = codes, scratch
        return codes, scratch


@functools.lru_cache(maxsize=256)
def tile_shapes(n_columns: int, limits: Limits) -> tuple[TileShape, ...]:
    """List the shapes that fit, for each number of threads the best stage; by rows that are resident, then by size."""
    shapes: dict[int, TileShape] = {}
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


def tiles_variant(name: str, leaf_type: Any, result_type: Any, threads: int, mode: int) -> Variant:
    """Name the kernel for a format of nodes and a mode."""
    leaf = C_TYPES[np.dtype(leaf_type).name]
    return variant(
        "evaluate/tiles",
        FORMAT=FORMATS[name],
        LEAF=leaf,
        RESULT=leaf if result_type is None else C_TYPES[np.dtype(result_type).name],
        THREADS=threads,
        WORDS=1,
        MODE=mode,
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
