"""Streams: of kernels that run beside each other, and of the library that rows come from."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

from glasswood.base.device import import_cupy


@contextlib.contextmanager
def stream_of(X: object) -> Iterator[None]:
    """Work on the stream that PyTorch works on, if the rows are a tensor of it; else on CuPy's current one.

    PyTorch knows nothing of other streams: they would read rows before they are written, and write into memory of
    results that PyTorch has given to something else.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(X, torch.Tensor) or not X.is_cuda:
        yield
        return
    cuda, address = import_cupy().cuda, torch.cuda.current_stream(X.device).cuda_stream
    with cuda.Device(X.device.index):
        if not address:
            own = cuda.Stream.null
        elif hasattr(cuda.Stream, "from_external"):  # since CuPy 14, which warns of the other
            own = cuda.Stream.from_external(_Stream(address))
        else:
            own = cuda.ExternalStream(address, X.device.index)
        with own:
            yield


class _Stream:
    """A stream by CUDA's protocol for Python."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


class Beside:
    """Some launches of a plan that run beside each other, as they fill the GPU only together; for one thread and GPU.

    Parameters
    ----------
    first, n : int
        Which of the plan's launches; the stream of the plan takes the first of them.

    Attributes
    ----------
    begin : int
        Address of the event that what comes before is done; 0 if there is but one stream.
    sides : list of (int, int)
        Addresses of the further streams, and of the events that their launches are done.
    """

    first: int
    n: int

    def __init__(self, first: int, n: int) -> None:
        self.first, self.n = first, n
        cuda = import_cupy().cuda
        self._sides = _side_streams(cuda.runtime.getDevice(), n - 1) if n > 1 else []
        self._begin, *self._ends = (cuda.Event(disable_timing=True) for _ in range(len(self._sides) + 1))
        self.begin: int = self._begin.ptr
        self.sides: list[tuple[Any, Any]] = [
            (side.ptr, end.ptr) for side, end in zip(self._sides, self._ends, strict=True)
        ]

    @contextlib.contextmanager
    def streams(self, stream: Any) -> Iterator[list[Any]]:
        """Give a stream for each launch: they begin after what `stream` holds, and what it gets next waits for them."""
        if self._sides:
            self._begin.record(stream)
            for side in self._sides:
                side.wait_event(self._begin)
        try:
            yield [stream, *self._sides][: self.n]
        finally:
            for side, end in zip(self._sides, self._ends, strict=True):
                end.record(side)
                stream.wait_event(end)


@functools.cache
def _side_streams(gpu: int, n: int) -> list[Any]:  # noqa: ARG001
    """Streams of a GPU, kept: a stream belongs to the GPU that it was made on."""
    cupy = import_cupy()
    return [cupy.cuda.Stream(non_blocking=True) for _ in range(n)]
