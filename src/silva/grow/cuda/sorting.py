"""Columns sorted and ranked on GPUs, with the numbers that the cores would find (`silva.grow.data.sorting.Sorter`)."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.device import import_cupy
from silva.grow.data.sorting import Sorter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from silva.typing import Doubles, Int32s

SIGN = np.uint64(1 << 63)

AT_ONCE = 3
"""Columns of a GPU at a time: while one is sorted, others are copied there and back."""


class GpuSorter(Sorter):
    """Sorts columns on GPUs, a few on each at a time.

    Parameters
    ----------
    gpus : sequence of int
    """

    waits = True

    def __init__(self, gpus: Sequence[int]) -> None:
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._n_at_once = AT_ONCE * len(gpus)
        for gpu in [*gpus] * AT_ONCE:
            self._idle.put(gpu)
        self._sent: dict[tuple[int, int], Any] = {}
        self._sending = threading.Lock()

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
            found: Int32s = cupy.asnumpy(cupy.argsort(cupy.asarray(keys)).astype(np.int32))
            return found
        return super().order(keys)

    def rearrange(self, ranks: Int32s, order: Int32s, source: Int32s, n_threads: int) -> None:
        """Let ranks and order speak of the rows in a new order; several attributes of each GPU are under way."""
        try:
            super().rearrange(ranks, order, source, max(n_threads, self._n_at_once))
        finally:
            self._sent.clear()

    def _rearrange(self, ranks: Int32s, order: Int32s, source: Int32s, place: Int32s) -> None:
        """Gather on a GPU, whose memory answers scattered reads soon."""
        with self._gpu() as cupy:
            moved = cupy.asarray(ranks)[self._send(cupy, source)], self._send(cupy, place)[cupy.asarray(order)]
            for found, target in zip(moved, (ranks, order), strict=True):
                found.get(out=target)
            return
        super()._rearrange(ranks, order, source, place)

    def _send(self, cupy: Any, places: Int32s) -> Any:
        """Copy what all attributes need to the current GPU, once."""
        key = int(cupy.cuda.Device().id), id(places)
        with self._sending:
            if key not in self._sent:
                self._sent[key] = cupy.asarray(places)
                cupy.cuda.get_current_stream().synchronize()
            return self._sent[key]

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


def _ranked(cupy: Any, values: Doubles) -> tuple[Any, Any, Any, Any]:
    """Rank on the current GPU, into CuPy arrays."""
    x = cupy.asarray(values)
    is_missing = cupy.isnan(x)
    n_missing = int(is_missing.sum())
    order = cupy.argsort(_keys(cupy, x, is_missing)).astype(np.int32)
    present = x[order[n_missing:]]
    is_new = cupy.ones(len(present), np.bool_)
    is_new[1:] = present[1:] != present[:-1]
    ranks = cupy.empty(len(x), np.int32)
    ranks[order[:n_missing]] = -1
    ranks[order[n_missing:]] = cupy.cumsum(is_new, dtype=np.int32) - np.int32(1)
    starts = cupy.empty(int(is_new.sum()) + 1, np.int32)
    starts[:-1] = cupy.flatnonzero(is_new) + n_missing
    starts[-1:] = len(x)
    return ranks, order, present[is_new], starts


def _keys(cupy: Any, x: Any, is_missing: Any) -> Any:
    """Return whole numbers in the order of the values: equal for equal values (both zeros too), missing ones first."""
    bits = (x + 0.0).view(np.uint64)
    keys = cupy.where(bits & SIGN != 0, ~bits, bits | SIGN)
    keys[is_missing] = 0
    return keys
