"""Few rows on GPUs: one launch with its arguments laid out once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import C_TYPES
from silva.cuda.prepared import NOWHERE, PreparedLaunch
from silva.cuda.rows import pinned
from silva.device import import_cupy
from silva.evaluate.packing import CHUNK, FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.cuda.compiler import Variant
    from silva.evaluate.cuda_tiles import PackedForest

SUMMED_TREES, MOST_THREADS = 128, 512
MOST_ROWS, MOST_PAIRS = 512, 2**18
"""Rows, and rows times trees, up to which one launch is the fastest."""

ALONE_TREES, SHARED_TREES = 128, 64
"""Trees that one block adds up by itself, and trees of a block where several share a row."""

MANY_WALKS, MANY_SHIFT, MANY_TREES = 2**15, 2, 128
"""Rows times trees from which a block has several rows, their log2, and its trees: 512 walks."""

SHARED_BYTES = 48 * 1024

LEAST_HELD, MOST_HELD_BYTES = 32, 2048
"""Values of a row that a launch takes along; all arguments have 4,096 bytes."""

UNWRITTEN, LOOKS = 0xFFF5A5A5, 2000
"""Upper word of a NaN that no sum makes, which stands for a margin to come; looks at it, about 50 ns each."""


class FewRows:
    """Margins of few rows of a forest with constant scalar leaves."""

    def __init__(self, packed: PackedForest) -> None:
        self.packed = packed

    def serves(self, n_rows: int) -> bool:
        """Whether this is the schedule for so many rows."""
        is_small = n_rows <= MOST_ROWS and n_rows * self.packed.forest.n_trees <= MOST_PAIRS
        return is_small and self._row_shift(n_rows) >= 0

    def most_rows(self) -> int:
        """Rows taken at a time."""
        return MOST_ROWS

    def plan(self, input_type: Any, strides: tuple[int, int], n_rows: int, result_type: Any, held: int = 0) -> FewPlan:
        """Lay the launch out for rows of a type, strides (in elements) and number, on the current GPU.

        `held` is the number of values of a row that is passed by value, 0 for rows at an address.
        """
        packed, image, forest = self.packed, self.packed.values, self.packed.forest
        codes, n_trees = packed.codes, forest.n_trees
        cut = self._cut(n_rows)
        row = np.zeros(held, input_type) if held else NOWHERE
        rows = (row, np.int64(strides[0]), np.int64(strides[1]), np.int32(n_rows), np.int32(codes.codes.n_columns))
        trees = (packed.upload("values", lambda: image.data), packed.upload("values chunks", lambda: image.chunks))
        sizes = (n_trees, cut.trees, cut.shift, cut.values_offset)
        n_values = n_rows * n_trees if cut.trees < n_trees else 1
        unwritten = np.full(n_values * image.leaf_type.itemsize // 4, UNWRITTEN, np.uint32)
        values = import_cupy().asarray(unwritten)
        outputs = (*packed.sums(), np.int32(forest.n_outputs), values, NOWHERE)
        args = (*rows, codes.columns(), *trees, *map(np.int32, sizes), *outputs)
        kernel = few_variant(packed.name, input_type, codes.codes.thresholds.dtype, image.leaf_type, result_type, held)
        grid = -(-n_trees // cut.trees), -(-n_rows // (1 << cut.shift))
        return FewPlan(PreparedLaunch(kernel, grid, cut.threads, args, cut.shared), row)

    def _cut(self, n_rows: int) -> _Cut:
        """Divide rows and trees into blocks."""
        n_trees, leaf_bytes = self.packed.forest.n_trees, self.packed.values.leaf_type.itemsize
        shift = self._row_shift(n_rows)
        trees = n_trees if n_trees <= ALONE_TREES else MANY_TREES if shift else SHARED_TREES
        values = _chunks(leaf_bytes * trees << shift) if trees == n_trees else 0
        codes, sums = self.packed.codes.row_bytes << shift, (SUMMED_TREES + 1) * leaf_bytes << shift
        values_offset = _chunks(max(codes, sums))
        work = max(trees, self.packed.codes.codes.n_columns) << shift
        threads = next((n for n in (128, 256) if n >= work), MOST_THREADS)
        return _Cut(shift, trees, threads, values_offset, CHUNK * (values_offset + values))

    def _row_shift(self, n_rows: int) -> int:
        """Log2 of the rows of a block; -1 if the codes of one row are too many for shared memory."""
        n_trees, leaf_bytes = self.packed.forest.n_trees, self.packed.values.leaf_type.itemsize
        of_row = max(self.packed.codes.row_bytes, (SUMMED_TREES + 1) * leaf_bytes) + CHUNK
        of_row += leaf_bytes * n_trees if n_trees <= ALONE_TREES else 0
        fits = int(SHARED_BYTES // of_row).bit_length() - 1
        return min(fits, MANY_SHIFT if n_trees > ALONE_TREES and n_rows * n_trees >= MANY_WALKS else 0)


@dataclass(frozen=True)
class _Cut:
    """Log2 of the rows of a block, its trees and threads, and where values lie in its shared memory, in chunks."""

    shift: int
    trees: int
    threads: int
    values_offset: int
    shared: int


def _chunks(n_bytes: int) -> int:
    return -(-n_bytes // CHUNK)


class FewPlan:
    """A launch for one stream and thread: its buffers are its own.

    Attributes
    ----------
    row : array
        Values that the launch takes along, where it has room for them.
    """

    def __init__(self, launch: PreparedLaunch, row: Any) -> None:
        self._launch, self._addresses, self.row = launch, launch.addresses, row

    def bind(self, stream: int) -> Callable[[int, int], None]:
        """Return what queues the work for rows and margins at two addresses."""
        addresses, launch = self._addresses, self._launch.bind(stream)

        def run(x: int, out: int) -> None:
            addresses[0] = x
            addresses[-1] = out
            launch()

        return run

    def run(self, x: int, out: int, stream: int) -> None:
        """Queue the work for rows and margins at these addresses."""
        self.bind(stream)(x, out)


class RowPredictor:
    """Margins of one host row at a time.

    The row is an argument of the launch, or lies in page-locked memory of the host if it is too long; the margins are
    written to such memory.

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
        lane: _RowLane = lanes.setdefault(row.dtype.char, _RowLane(self._few, self._gpu, row.dtype, self._dtype))
        return lane

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


class _RowLane:
    """Buffers and stream of one thread."""

    def __init__(self, few: FewRows, gpu: int, input_type: Any, dtype: Any) -> None:
        cupy = import_cupy()
        forest = few.packed.forest
        self._shapes = {(forest.n_features,), (1, forest.n_features)}
        self._gpu, self._runtime, self._is_number = gpu, cupy.cuda.runtime, forest.n_outputs == 1
        with cupy.cuda.Device(gpu):
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._out = pinned(cupy, (forest.n_outputs,), dtype)
            with self._stream:
                held = _held(forest.n_features, np.dtype(input_type).itemsize)
                self._plan = few.plan(np.dtype(input_type), (forest.n_features, 1), 1, dtype, held)
                self._stream.synchronize()
        self._run = self._plan.bind(self._stream.ptr)
        own = self._plan.row if held else pinned(cupy, (forest.n_features,), input_type)
        self._row = own[: forest.n_features]
        self._args = self._row.ctypes.data, self._out.ctypes.data
        self._words = memoryview(self._out.data).cast("B").cast("I")

    def __call__(self, row: Any) -> Any:
        if row.shape not in self._shapes or not row.flags.c_contiguous:
            n_features = len(self._row)
            given = f"{row.size} values" if row.size != n_features else f"shape {row.shape}, strides {row.strides}"
            raise ValueError(f"the row has {given}, expected {n_features} values side by side")
        self._row[...] = row if row.ndim == 1 else row[0]
        if self._is_number:
            self._words[len(self._words) - 1] = UNWRITTEN
        if self._runtime.getDevice() == self._gpu:
            self._run(*self._args)
        else:
            with import_cupy().cuda.Device(self._gpu):
                self._run(*self._args)
        self._wait()
        return self._out.item() if self._is_number else self._out.copy()

    def _wait(self) -> None:
        """Wait for the margin: watching its memory takes less time than the driver, which is asked in the end."""
        if self._is_number:
            words, last = self._words, len(self._words) - 1
            for _ in range(LOOKS):
                if words[last] != UNWRITTEN:
                    return
        self._stream.synchronize()


def _held(n_values: int, item: int) -> int:
    """Values that a launch with room for so many takes along, a power of two: a kernel each; 0 if they are too many."""
    held = max(LEAST_HELD, 1 << (n_values - 1).bit_length())
    return held if held * item <= MOST_HELD_BYTES else 0


def few_variant(name: str, input_type: Any, row_type: Any, leaf_type: Any, result_type: Any, held: int = 0) -> Variant:
    """Name the kernel for a format of nodes, and rows at an address or one row of `held` values in the arguments."""
    types = {"INPUT": input_type, "ROW": row_type, "LEAF": leaf_type, "RESULT": result_type}
    named = {macro: C_TYPES[np.dtype(kind).name] for macro, kind in types.items()}
    return variant("evaluate/few", FORMAT=FORMATS[name], HELD=held, **named)
