"""Few rows on GPUs: one launch with its arguments laid out once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES, row_strides
from silva.cuda.limits import gpu_limits
from silva.cuda.prepared import PreparedLaunch
from silva.cuda.rows import pinned
from silva.device import import_cupy
from silva.evaluate.packing import FORMATS

if TYPE_CHECKING:
    from silva.cuda.compiler import Variant
    from silva.evaluate.cuda_tiles import PackedForest

THREADS, SUMMED_TREES = 256, 512
MOST_ROWS, MOST_PAIRS = 512, 2**18
"""Rows, and rows times trees, up to which one launch is the fastest."""

ROWS_PER_BLOCK, LEAST_PAIRS = 8, 128
"""Rows that share a block at most, and walks a block has at least."""

SHARED_BYTES = 48 * 1024
KEPT = 8
"""Streams whose buffers are kept."""


class FewRows:
    """Margins of few rows of a forest with constant scalar leaves."""

    def __init__(self, packed: PackedForest) -> None:
        self._packed = packed
        self._local = threading.local()

    def serves(self, n_rows: int) -> bool:
        """Whether this is the schedule for so many rows."""
        return (
            n_rows <= MOST_ROWS and n_rows * self._packed.forest.n_trees <= MOST_PAIRS and self._row_shift(n_rows) >= 0
        )

    def margins(self, x: Any, out: Any) -> None:
        """Fill `out`, (n, n_outputs) on the current GPU, in its dtype."""
        self._call(x.dtype, out.dtype).run(x.data.ptr, row_strides(x), len(x), out.data.ptr)

    @property
    def packed(self) -> PackedForest:
        """The forest."""
        return self._packed

    def _call(self, input_type: Any, result_type: Any) -> _Call:
        """Laid out arguments for the current thread, GPU and stream: nobody else writes them, or their buffers."""
        cupy = import_cupy()
        gpu, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
        calls = self._local.__dict__.setdefault("calls", {})
        key = gpu, stream, input_type, result_type
        if key not in calls:
            while len(calls) >= KEPT:
                del calls[next(iter(calls))]
            calls[key] = _Call(self, input_type, result_type)
        call: _Call = calls[key]
        return call

    def _row_shift(self, n_rows: int) -> int:
        """Log2 of the rows of a block; -1 if the codes of one row are too many for shared memory."""
        packed = self._packed
        leaf_bytes = (SUMMED_TREES + 1) * packed.values.leaf_type.itemsize
        row_bytes = max(packed.codes.row_bytes, leaf_bytes, 1)
        fits = (SHARED_BYTES // row_bytes).bit_length() - 1
        return min(fits, (ROWS_PER_BLOCK).bit_length() - 1, max(n_rows - 1, 0).bit_length())


class _Call:
    """The kernel's arguments and buffers on one stream."""

    def __init__(self, few: FewRows, input_type: Any, result_type: Any) -> None:
        cupy = import_cupy()
        packed, image = few.packed, few.packed.values
        self._few, self._n_trees = few, packed.forest.n_trees
        self._blocks = 2 * gpu_limits().n_multiprocessors
        self._stream = cupy.cuda.get_current_stream().ptr
        self._values = cupy.empty(max(MOST_PAIRS, 1), image.leaf_type)
        self._arrivals = cupy.zeros(MOST_ROWS, np.uint32)
        codes, forest = packed.codes, packed.forest
        _, *columns = codes.tables()
        tables = (packed.upload("values", lambda: image.data), packed.upload("chunks", lambda: image.chunks))
        sums = (packed.upload("starts", lambda: packed.starts), packed.upload("base", lambda: forest.base_score))
        zero, none = np.int64(0), np.int32(0)
        head = (np.uint64(0), zero, zero, none, np.int32(codes.codes.n_columns), *columns)
        tail = (np.int32(self._n_trees), none, none, *sums, np.int32(forest.n_outputs), self._values, self._arrivals)
        kernel = few_variant(packed.name, input_type, codes.codes.thresholds.dtype, image.leaf_type, result_type)
        self._launch = PreparedLaunch(kernel, THREADS, (*head, *tables, *tail, np.uint64(0)))
        self._at_cut = len(head) + len(tables) + 1
        self._item = image.leaf_type.itemsize
        self._cuts: dict[int, tuple[int, int, tuple[int, int], int]] = {}

    def run(self, x: int, strides: tuple[Any, Any], n_rows: int, out: int) -> None:
        if n_rows not in self._cuts:
            self._cuts[n_rows] = self._cut(n_rows)
        per_block, shift, grid, shared = self._cuts[n_rows]
        launch, at = self._launch, self._at_cut
        launch.set(0, x)
        launch.set(1, int(strides[0]))
        launch.set(2, int(strides[1]))
        launch.set(3, n_rows)
        launch.set(at, per_block)
        launch.set(at + 1, shift)
        launch.set(-1, out)
        launch(grid, self._stream, shared)

    def _cut(self, n_rows: int) -> tuple[int, int, tuple[int, int], int]:
        few = self._few
        shift = few._row_shift(n_rows)
        n_groups = (n_rows + (1 << shift) - 1) >> shift
        per_block = max(LEAST_PAIRS >> shift, -(-self._n_trees * n_groups // self._blocks), 1)
        shared = max(few.packed.codes.row_bytes, (SUMMED_TREES + 1) * self._item) << shift
        return per_block, shift, (-(-self._n_trees // per_block), n_groups), shared


class RowPredictor:
    """Margins of one host row at a time: the kernel reads and writes page-locked memory of the host.

    Parameters
    ----------
    few : FewRows
    gpu : int
    dtype : dtype
        Of the margins.
    reduced : tuple
        What it is pickled as.
    """

    def __init__(self, few: FewRows, gpu: int, dtype: Any, reduced: tuple[Any, ...]) -> None:
        self._few, self._gpu, self._dtype, self._reduced = few, gpu, np.dtype(dtype), reduced
        self._local = threading.local()

    def __call__(self, row: Any) -> Any:
        """Margin of a row: a number for one output, otherwise an array (n_outputs,)."""
        try:
            lane = self._local.lanes[row.dtype.char]
        except (AttributeError, KeyError):
            lane = self._lane(row)
        return lane(row)

    def _lane(self, row: Any) -> _RowLane:
        if not isinstance(row, np.ndarray) or row.dtype.char not in "fd":
            given = f"an array of {row.dtype}" if isinstance(row, np.ndarray) else f"a {type(row).__name__}"
            raise TypeError(f"the row is {given}, expected a C-contiguous float32 or float64 array")
        lanes = self._local.__dict__.setdefault("lanes", {})
        return lanes.setdefault(row.dtype.char, _RowLane(self._few, self._gpu, row.dtype, self._dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


class _RowLane:
    """Buffers and stream of one thread."""

    def __init__(self, few: FewRows, gpu: int, input_type: Any, dtype: Any) -> None:
        cupy = import_cupy()
        forest = few.packed.forest
        self._n_features, self._is_number = forest.n_features, forest.n_outputs == 1
        self._gpu, self._runtime = gpu, cupy.cuda.runtime
        with cupy.cuda.Device(gpu):
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._row = pinned(cupy, (forest.n_features,), input_type)
            self._out = pinned(cupy, (forest.n_outputs,), dtype)
            with self._stream:
                self._call = _Call(few, np.dtype(input_type), dtype)
                self._stream.synchronize()
        self._args = (self._row.ctypes.data, (forest.n_features, 1), 1, self._out.ctypes.data)

    def __call__(self, row: Any) -> Any:
        if row.size != self._n_features or not row.flags.c_contiguous:
            given = f"{row.size} values" if row.size != self._n_features else f"strides {row.strides}"
            raise ValueError(f"the row has {given}, expected {self._n_features} values side by side")
        self._row[:] = row.reshape(-1)
        if self._runtime.getDevice() == self._gpu:
            self._call.run(*self._args)
        else:
            with import_cupy().cuda.Device(self._gpu):
                self._call.run(*self._args)
        self._stream.synchronize()
        return self._out.item() if self._is_number else self._out.copy()


def few_variant(name: str, input_type: Any, row_type: Any, leaf_type: Any, result_type: Any) -> Variant:
    """Name the kernel for a format of nodes."""
    types = {"INPUT": input_type, "ROW": row_type, "LEAF": leaf_type, "RESULT": result_type}
    named = {macro: C_TYPES[np.dtype(kind).name] for macro, kind in types.items()}
    return variant("evaluate_few", FORMAT=FORMATS[name], **named)
