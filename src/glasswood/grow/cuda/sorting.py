"""Columns sorted and ranked on GPUs, with the numbers that the cores find (`glasswood.grow.data.sorting.Sorter`)."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood.base.device import import_cupy
from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Doubles, Int32s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch
from glasswood.grow.data.sorting import Sorter

PORTABLE = 1
"""cudaHostRegisterPortable: pinned for all GPUs."""

PAGE_BYTES = 4096

THREADS = 256

AT_ONCE = 3
"""Columns of a GPU at a time: while one is sorted, others are copied there and back."""


class GpuSorter(Sorter):
    """Sorts columns on GPUs, a few on each at a time.

    Parameters
    ----------
    gpus : sequence of int
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._n_at_once = AT_ONCE * len(gpus)
        for gpu in [*gpus] * AT_ONCE:
            self._idle.put(gpu)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Take memory that is pinned until it is freed: columns come and go at several times the speed.

        CuPy's pinned memory (`glasswood.cuda.rows.pinned`) takes longer to allocate, and stays taken.
        """
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        n_pages = -(-n_bytes // PAGE_BYTES)
        memory = np.empty((n_pages + 1) * PAGE_BYTES, np.uint8)
        # Whole pages: copies that begin in a pinned page are taken for pinned to their end.
        pages = memory[-memory.ctypes.data % PAGE_BYTES :][: n_pages * PAGE_BYTES]
        # While pages are made to be pinned, no other thread may take memory.
        pages[::PAGE_BYTES] = 0
        _pin(memory, pages)
        return pages[:n_bytes].view(dtype).reshape(shape)

    def rank(self, values: Doubles, ranks: Int32s, order: Int32s, distinct: Doubles, starts: Int32s) -> int:
        """Write ranks, order, distinct values and starts of a column; return how many values are distinct."""
        with self._gpu() as cupy:
            found = _ranked(cupy, values)
            targets: tuple[NDArray[Any], ...] = (ranks, order, distinct, starts)
            for array, target in zip(found, targets, strict=True):
                array.get(out=target[: len(array)])
            return len(found[2])
        return super().rank(values, ranks, order, distinct, starts)

    def order(self, keys: NDArray[np.uint16]) -> Int32s:
        """Rows by their keys, equal ones in their order."""
        with self._gpu() as cupy:
            found: Int32s = cupy.asnumpy(cupy.argsort(sent(cupy, keys)).astype(np.int32))
            return found
        return super().order(keys)

    def rearrange(self, ranks: Int32s, order: Int32s, source: Int32s, n_threads: int) -> None:
        """Let ranks and order speak of the rows in a new order; several attributes of each GPU are under way."""
        places: dict[int, Any] = {}
        sending = threading.Lock()

        def move(a: int) -> bool:
            """Gather on a GPU, whose memory answers scattered reads soon."""
            with self._gpu() as cupy:
                with sending:
                    gpu = int(cupy.cuda.Device().id)
                    if gpu not in places:
                        places[gpu] = _places(cupy, source)
                from_row, to_row = places[gpu]
                moved = sent(cupy, ranks[a])[from_row], to_row[sent(cupy, order[a])]
                for found, target in zip(moved, (ranks[a], order[a]), strict=True):
                    found.get(out=target)
                return True
            return False

        is_moved = side_by_side(move, len(ranks), max(n_threads, self._n_at_once))
        for a in np.flatnonzero(~np.array(is_moved, bool)):
            super().rearrange(ranks[a : a + 1], order[a : a + 1], source, n_threads)

    @contextlib.contextmanager
    def _gpu(self) -> Iterator[Any]:
        """Work on the next idle GPU, in a stream of its own; what follows does the work where memory is short."""
        cupy, gpu = import_cupy(), self._idle.get()
        try:
            with (
                contextlib.suppress(cupy.cuda.memory.OutOfMemoryError),
                cupy.cuda.Device(gpu),
                cupy.cuda.Stream(non_blocking=True),
            ):
                yield cupy
        finally:
            self._idle.put(gpu)


def sent(cupy: Any, values: NDArray[Any]) -> Any:
    """Copy an array of the host to the current GPU, and wait for it.

    `cupy.asarray` would copy it into pinned memory first, which takes longer, most of all at first, and stays pinned.
    """
    placed = cupy.empty(values.shape, values.dtype)
    placed.set(np.ascontiguousarray(values))
    cupy.cuda.get_current_stream().synchronize()
    return placed


def _pin(owner: NDArray[Any], pages: NDArray[np.uint8]) -> None:
    """Pin pages until the array that owns them is freed; where the system refuses, copies are slower but right."""
    runtime, pointer = import_cupy().cuda.runtime, int(pages.ctypes.data)

    def unpin() -> None:
        with contextlib.suppress(runtime.CUDARuntimeError):
            runtime.hostUnregister(pointer)

    with contextlib.suppress(runtime.CUDARuntimeError):
        runtime.hostRegister(pointer, pages.nbytes, PORTABLE)
        weakref.finalize(owner, unpin).atexit = False


def _places(cupy: Any, source: Int32s) -> tuple[Any, Any]:
    """Which row each row was, and where each row is now."""
    from_row = sent(cupy, source)
    to_row = cupy.empty_like(from_row)
    to_row[from_row] = cupy.arange(len(source), dtype=np.int32)
    cupy.cuda.get_current_stream().synchronize()
    return from_row, to_row


def _ranked(cupy: Any, values: Doubles) -> tuple[Any, Any, Any, Any]:
    """Rank on the current GPU, into CuPy arrays."""
    x, n = sent(cupy, values), len(values)
    keys, counts = cupy.empty(n, np.uint64), cupy.empty(n, np.int32)
    _launch("key_values", n, values=x, keys=keys)
    sorted_rows = cupy.argsort(keys)
    _launch("mark_distinct", n, keys=keys, order=sorted_rows, is_distinct=counts)
    counts = cupy.cumsum(counts, dtype=np.int32)
    n_distinct = int(counts[-1])
    ranks, order = cupy.empty(n, np.int32), cupy.empty(n, np.int32)
    distinct, starts = cupy.empty(n_distinct, np.float64), cupy.empty(n_distinct + 1, np.int32)
    found = {"ranks": ranks, "order": order, "distinct": distinct, "starts": starts}
    _launch("write_ranks", n, values=x, sorted=sorted_rows, counts=counts, **found)
    return ranks, order, distinct, starts


def _launch(name: str, n: int, **args: Any) -> None:
    """Queue a kernel with a thread a row."""
    launch(variant(f"grow/cuda/kernels/{name}"), (-(-n // THREADS), 1), (THREADS, 1), {**args, "n": n})
