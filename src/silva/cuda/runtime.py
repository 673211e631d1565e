"""Launching compiled kernels through CuPy on the current device and stream."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from silva.cuda.compiler import compile_kernel, compiler_architecture
from silva.device import capability, import_cupy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silva.cuda.compiler import Variant

LARGEST_DEFAULT_SHARED = 12 * 1024
"""Dynamic shared memory that needs no leave: 48 KB less the static memory of any kernel."""

MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


def launch(
    kernel: Variant, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[object, ...], shared: int = 0
) -> None:
    """Queue a kernel on CuPy's current stream.

    Parameters
    ----------
    kernel : Variant
    grid, block : tuples of up to three ints
    args : CuPy arrays and NumPy scalars of the kernel's own types
    shared : int
        Bytes of dynamic shared memory.
    """
    cupy = import_cupy()
    function = load(kernel, cupy.cuda.runtime.getDevice())
    if shared > LARGEST_DEFAULT_SHARED:
        cupy.cuda.driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, shared)
    function(grid, block, args, shared_mem=shared)


@functools.cache
def load(kernel: Variant, gpu: int) -> Any:
    """Kernel as a function of the GPU, which must be the current one."""
    cupy = import_cupy()
    module = cupy.cuda.function.Module()
    module.load(compile_kernel(kernel, compiler_architecture(capability(gpu))))
    return module.get_function(kernel.kernel)


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
