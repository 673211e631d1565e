"""Columns sorted and ranked on GPUs; the result is the host's (`silva.grow.data.ranked`), number by number."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.device import import_cupy
from silva.grow.data import ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silva.typing import Doubles, Int32s

SIGN = np.uint64(1 << 63)

AT_ONCE = 3
"""Columns of a GPU at a time: while one is sorted, others are copied there and back."""


class Ranker:
    """Ranks columns, a few on each GPU at a time; several threads may call it.

    Parameters
    ----------
    gpus : sequence of int
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        for gpu in [*gpus] * AT_ONCE:
            self._idle.put(gpu)

    def __call__(self, values: Doubles) -> tuple[Int32s, Int32s, Doubles, Int32s]:
        """Ranks, order, distinct values and starts, as `silva.grow.data.ranked`; the host's where memory is short."""
        cupy, gpu = import_cupy(), self._idle.get()
        try:
            with cupy.cuda.Device(gpu), cupy.cuda.Stream(non_blocking=True):
                ranks, order, distinct, starts = (cupy.asnumpy(array) for array in _ranked(cupy, values))
            return ranks, order, distinct, starts
        except cupy.cuda.memory.OutOfMemoryError:
            return ranked(values)
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
    """Whole numbers in the order of the values; equal where those are, as both zeros; missing values come first."""
    bits = (x + 0.0).view(np.uint64)
    keys = cupy.where(bits & SIGN != 0, ~bits, bits | SIGN)
    keys[is_missing] = 0
    return keys
