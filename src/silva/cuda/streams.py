"""Streams for kernels that run beside each other."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from silva.device import import_cupy

if TYPE_CHECKING:
    from collections.abc import Iterator


class SideStreams:
    """Streams for independent kernels, which fill the GPU only together; for one thread and GPU.

    Parameters
    ----------
    n : int
        Kernels; the current stream takes one of them.
    """

    def __init__(self, n: int) -> None:
        cuda = import_cupy().cuda
        self._sides = _side_streams(cuda.runtime.getDevice(), n - 1) if n > 1 else []
        self._n = n
        self._begin, *self._ends = (cuda.Event(disable_timing=True) for _ in range(len(self._sides) + 1))

    @contextlib.contextmanager
    def beside(self, stream: Any) -> Iterator[list[Any]]:
        """Give a stream for each kernel: they begin after what `stream` holds, and what it gets next waits for them."""
        if self._sides:
            self._begin.record(stream)
            for side in self._sides:
                side.wait_event(self._begin)
        try:
            yield [stream, *self._sides][: self._n]
        finally:
            for side, end in zip(self._sides, self._ends, strict=True):
                end.record(side)
                stream.wait_event(end)


@functools.cache
def _side_streams(gpu: int, n: int) -> list[Any]:  # noqa: ARG001
    """Streams of a GPU, kept: a stream belongs to the GPU that it was made on."""
    cupy = import_cupy()
    return [cupy.cuda.Stream(non_blocking=True) for _ in range(n)]
