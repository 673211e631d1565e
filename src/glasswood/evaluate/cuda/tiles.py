"""Many rows on GPUs: tiles of rows and stages of packed trees in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, GpuArray
from glasswood.cuda.buffers import Buffers, Place
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import row_strides
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu, gpu_limits
from glasswood.evaluate.cuda.packing import CHUNK, Image, divide_outputs, group_trees, order_by_output, pack_trees
from glasswood.evaluate.cuda.tiling import Tiling, Work, choose_tiling, expected_time, fits, trees_of_group, values_time
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.encoder import CodeTables

SUM_BLOCK, CODE_MULTIPLE = 128, 1024
VALUE_BYTES, CODE_BYTES = 2**29, 2**31
"""Values of trees before they are summed, and codes of rows."""

MOST_ROWS = 2**30
"""Rows at a time that the kernels' 32-bit integers count, whole tiles included."""

SUM_WORDS = 4
"""Words of a partial sum (ExactSum in native/evaluate/cuda/exact_sum.cuh)."""


class PackedForest:
    """Images of a forest, and what goes with them, uploaded to each GPU that uses them.

    Parameters
    ----------
    forest : TreeEnsemble
    codes : CodeTables
    name : str
        Format of the nodes.
    """

    forest: TreeEnsemble
    codes: CodeTables
    name: str

    def __init__(self, forest: TreeEnsemble, codes: CodeTables, name: str) -> None:
        self.forest, self.codes, self.name = forest, codes, name
        self._order, self._starts = order_by_output(forest)
        self._uploads = PerGpu()

    @cached_property
    def values(self) -> Image:
        """Trees with the values of their leaves, those of one output after those of another; scalar leaves only."""
        forest = self.forest
        values: Array = forest.leaf_value[:, 0] * np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))
        single = values.astype(np.float32)
        values = single if np.array_equal(single.astype(np.float64), values) else values
        return pack_trees(forest, self.codes.codes, self.name, values, self._order, forest.tree_output[self._order])

    @cached_property
    def leaves(self) -> Image:
        """Trees in their order with the indices of their leaves."""
        forest = self.forest
        numbers = np.arange(forest.n_leaves, dtype=np.int32)
        order, output = np.arange(forest.n_trees), np.zeros(forest.n_trees, np.int32)
        return pack_trees(forest, self.codes.codes, self.name, numbers, order, output)

    @cached_property
    def has_idle_outputs(self) -> bool:
        """Whether no tree adds to some output, so that passing the trees does not come by it."""
        return bool((np.diff(self._starts) == 0).any())

    def sums(self) -> dict[str, GpuArray]:
        """First trees of the outputs, and base scores, on the current GPU."""
        starts, scores = (
            self.upload("starts", lambda: self._starts),
            self.upload("base", lambda: self.forest.base_score),
        )
        return {"starts": starts, "base_score": scores}

    def images(self, key: str, image: Image) -> tuple[GpuArray, GpuArray]:
        """Nodes of an image, and the first chunk of each tree, on the current GPU."""
        return self.upload(key, lambda: image.data), self.upload(f"{key} chunks", lambda: image.chunks)

    def upload(self, key: object, build: Callable[[], Array]) -> GpuArray:
        """Array on the current GPU, made of `build()` at the first call."""
        array: GpuArray = self._uploads.get(lambda: import_cupy().asarray(build()), key)
        return array

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.forest, self.codes, self.name)


class Tiles:
    """Margins and leaves of many rows."""

    def __init__(self, packed: PackedForest) -> None:
        self._packed = packed

    def serves(self) -> bool:
        """Whether a tile of the forest's columns fits into the shared memory of the current GPU."""
        packed = self._packed
        return fits(packed.codes.codes.n_columns, gpu_limits(), has_teams=packed.forest.n_outputs == 1)

    def most_rows(self) -> int:
        """Rows whose codes are kept at a time."""
        packed = self._packed
        most = min(int(CODE_BYTES // max(packed.codes.row_bytes, 1)), MOST_ROWS)
        if packed.has_idle_outputs:
            most = min(most, VALUE_BYTES // (packed.forest.n_trees * packed.values.leaf_type.itemsize))
        return max(CODE_MULTIPLE, most // CODE_MULTIPLE * CODE_MULTIPLE)

    def plan(self, input_type: DTypeLike, strides: dict[str, int], n_rows: int, result_type: DTypeLike) -> Plan:
        """Lay the launches to margins out for rows of a type, strides (in elements) and number, on the current GPU."""
        packed, image = self._packed, self._packed.values
        mode, tiling = self._division(image, n_rows, result_type)
        stride = self._stride(n_rows, tiling)
        encoding = packed.codes.prepare(input_type, strides, n_rows, stride)
        walks, n_sharing = self._walks(image, n_rows, stride, tiling, mode, result_type)
        if mode != "VALUES":
            partial = 4 * n_sharing * stride * SUM_WORDS if mode == "PARTIAL" and n_sharing > 1 else 0
            return self._plan(encoding, stride, walks, partial)
        types = {"LEAF": image.leaf_type, "RESULT": np.dtype(result_type)}
        sizes = {"stride": stride, "n_rows": n_rows, "n_outputs": packed.forest.n_outputs}
        grid = (-(-n_rows // SUM_BLOCK), packed.forest.n_outputs)
        args = {"values": NOWHERE, **sizes, **packed.sums(), "result": NOWHERE}
        sums = PreparedLaunch(variant("evaluate/cuda/sum_values", **types), grid, SUM_BLOCK, args)
        n_values = packed.forest.n_trees * stride
        return self._plan(encoding, stride, walks, n_values * image.leaf_type.itemsize, sums)

    def _division(self, image: Image, n_rows: int, result_type: DTypeLike) -> tuple[str, Tiling]:
        """Choose how blocks add trees up (MODE in evaluate/cuda/walk_tiles.cu), and the tiles."""
        forest = self._packed.forest
        if forest.n_outputs == 1 and image.leaf_type == np.float32 and np.dtype(result_type) == np.float32:
            return "PARTIAL", self._tiling(self._work(image, n_rows, joins=True))
        of_values = self._work(image, n_rows)
        values = self._tiling(of_values)
        if self._packed.has_idle_outputs:
            return "VALUES", values
        of_sums = self._work(image, n_rows, n_outputs=forest.n_outputs)
        sums = self._tiling(of_sums)
        n_bytes = self._stride(n_rows, values) * image.leaf_type.itemsize * forest.n_trees
        limits = gpu_limits()
        gain = expected_time(of_sums, sums, limits) - expected_time(of_values, values, limits)
        return ("VALUES", values) if gain > values_time(n_bytes) and n_bytes <= VALUE_BYTES else ("SUMS", sums)

    def _plan(
        self,
        encoding: PreparedLaunch | None,
        stride: int,
        walks: PreparedLaunch,
        scratch: int,
        sums: PreparedLaunch | None = None,
    ) -> Plan:
        """Rows to codes, codes to margins or to values of trees, values to margins, by bytes of scratch memory."""
        codes = self._packed.codes
        sizes = [math.prod(codes.shape(stride)) * codes.code_type.itemsize]
        places = [Place(walks.cell("codes"), 0)]
        if encoding is not None:
            places.append(Place(encoding.cell("codes"), 0))
        if scratch:
            sizes.append(scratch)
            places.append(Place(walks.cell("partial" if sums is None else "result"), 1))
        if sums is not None:
            places.append(Place(sums.cell("values"), 1))
        buffers = Buffers(sizes, places)
        launches = [launch for launch in (encoding, walks, sums) if launch is not None]
        make = None if buffers.n_bytes else buffers.make
        rows = np.zeros(1, np.uint64) if encoding is None else encoding.cell("X")
        return Plan(launches, rows, launches[-1].cell("result"), buffers, make, buffers.n_bytes)

    def leaves(self, x: GpuArray) -> GpuArray:
        """Find the leaves of rows: indices, int32 (n_trees, stride)."""
        packed, n_rows = self._packed, len(x)
        tiling = self._tiling(self._work(packed.leaves, n_rows))
        stride = self._stride(n_rows, tiling)
        result: GpuArray = import_cupy().empty((packed.forest.n_trees, stride), np.int32)
        walks, _ = self._walks(packed.leaves, n_rows, stride, tiling, "VALUES", None)
        encoding = packed.codes.prepare(x.dtype, row_strides(x), n_rows, stride)
        self._plan(encoding, stride, walks, 0).run(x, result)
        return result

    def _work(self, image: Image, n_rows: int, *, joins: bool = False, n_outputs: int = 0) -> Work:
        """Describe the walks, if blocks that share a tile join their sums, or divide outputs."""
        codes, forest = self._packed.codes, self._packed.forest
        sizes = (codes.codes.n_columns, 4 // codes.code_type.itemsize, forest.n_trees, forest.depth, image.data.nbytes)
        return Work(n_rows, *sizes, image.heap_depth > 0, joins, n_outputs)

    def _tiling(self, work: Work) -> Tiling:
        """Choose the tiles, and blocks that share one where too few tiles would occupy the GPU."""
        return choose_tiling(work, gpu_limits())

    def _stride(self, n_rows: int, tiling: Tiling) -> int:
        """Rows that codes have room for: whole tiles."""
        tile_rows = tiling.lanes * 4 // self._packed.codes.code_type.itemsize
        return _round_up(n_rows, math.lcm(CODE_MULTIPLE, tile_rows))

    def _walks(
        self, image: Image, n_rows: int, stride: int, tiling: Tiling, mode: str, result_type: DTypeLike | None
    ) -> tuple[PreparedLaunch, int]:
        """Launch to margins of `result_type`, or to the values of trees, and the blocks of a tile."""
        packed, n_columns, cupy = self._packed, self._packed.codes.codes.n_columns, import_cupy()
        n_trees, codes_per_word = packed.forest.n_trees, 4 // packed.codes.code_type.itemsize
        key = "leaves" if image.leaf_type.kind == "i" else "values"
        most_trees = trees_of_group(n_trees, image.data.nbytes, tiling)
        shape = (key, tiling.stage, most_trees, tiling.teams)
        groups = packed.upload(shape, lambda: group_trees(image, tiling.stage, most_trees, tiling.teams))
        per_block = -(-len(groups) // tiling.sharing)
        n_tiles, n_sharing = -(-n_rows // (tiling.lanes * codes_per_word)), -(-len(groups) // per_block)
        if mode == "PARTIAL" and n_sharing * tiling.teams == 1:
            mode = "SUMS"
        portions: GpuArray | None = None
        if mode == "SUMS":
            portions = packed.upload(
                ("portions", *shape, tiling.sharing), lambda: divide_outputs(cupy.asnumpy(groups), tiling.sharing)
            )
            n_sharing = len(portions) - 1
        image_on_gpu, chunks = packed.images(key, image)
        args = {
            "image": image_on_gpu,
            "tree_chunks": chunks,
            "groups": groups,
            "n_groups": len(groups),
            "groups_per_block": per_block,
            "portions": NOWHERE if portions is None else portions,
            "stage_chunks": tiling.stage // CHUNK,
            "codes": NOWHERE,
            "stride": stride,
            "n_rows": n_rows,
            "n_columns": n_columns,
            "base_score": packed.sums()["base_score"],
            "n_outputs": packed.forest.n_outputs,
            "n_trees": n_trees,
            "partial": NOWHERE,
            "arrivals": cupy.zeros(n_tiles if mode == "PARTIAL" else 1, np.uint32),
            "result": NOWHERE,
        }
        threads, teams = tiling.threads, tiling.teams
        kernel = tiles_variant(packed.name, image.leaf_type, result_type, threads, mode, teams, image.heap_depth)
        shared = tiling.shared_bytes(n_columns, codes_per_word)
        overlaps = n_columns > 0
        return PreparedLaunch(kernel, (n_tiles, n_sharing), tiling.threads, args, shared, overlaps=overlaps), n_sharing


def tiles_variant(
    name: str,
    leaf_type: DTypeLike,
    result_type: DTypeLike | None,
    threads: int,
    mode: str,
    teams: int = 1,
    depth: int = 0,
) -> Variant:
    """Name the kernel for a format of nodes, a mode, the threads and teams of a block, and the depth of heaps."""
    leaf = np.dtype(leaf_type)
    return variant(
        "evaluate/cuda/walk_tiles",
        FORMAT=name.upper(),
        LEAF=leaf,
        RESULT=leaf if result_type is None else np.dtype(result_type),
        THREADS=threads,
        TEAMS=teams,
        MODE=mode,
        DEPTH=depth,
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
