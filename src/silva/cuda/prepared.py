"""Launches with their arguments laid out beforehand, for calls that take microseconds."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from silva.cuda.runtime import LARGEST_DEFAULT_SHARED, MAX_DYNAMIC_SHARED, load
from silva.device import import_cupy

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.cuda.compiler import Variant

SLOT = 8
"""Bytes of an argument."""

NOWHERE = np.uint64(0)
"""Stands for an address that is set before each launch."""

KEPT = 8
"""Shapes of rows whose launches a thread keeps."""

Launches = TypeVar("Launches")


class PreparedLaunch:
    """A kernel on the current GPU, its grid and its arguments; for one thread at a time.

    Parameters
    ----------
    kernel : Variant
    grid : (int, int)
    threads : int or (int, int)
        Of a block.
    args : CuPy arrays, NumPy scalars of the kernel's own types and NumPy arrays, which are passed by value
    shared : int
        Bytes of dynamic shared memory.
    """

    def __init__(
        self,
        kernel: Variant,
        grid: tuple[int, int],
        threads: int | tuple[int, int],
        args: tuple[Any, ...],
        shared: int = 0,
    ) -> None:
        cupy = import_cupy()
        slots = np.zeros((len(args), SLOT), np.uint8)
        pointers = slots.ctypes.data + SLOT * np.arange(len(args), dtype=np.uint64)
        for place, arg in enumerate(args):
            if isinstance(arg, np.ndarray) and not hasattr(arg, "__cuda_array_interface__"):
                pointers[place] = arg.ctypes.data
                continue
            value = np.uint64(arg.data.ptr) if hasattr(arg, "__cuda_array_interface__") else arg
            slots[place, : value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        function = load(kernel, cupy.cuda.runtime.getDevice())
        if shared > LARGEST_DEFAULT_SHARED:
            cupy.cuda.driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, shared)
        self._kept = args, slots, pointers, function
        block = (threads, 1) if isinstance(threads, int) else threads
        self._launch, self._shape = cupy.cuda.driver.launchKernel, (function.ptr, *grid, 1, *block, 1, shared)
        self._arguments = pointers.ctypes.data
        self.addresses = memoryview(slots.data).cast("B").cast("Q")
        """Arguments as integers: assign addresses before the launch."""

    def bind(self, stream: int) -> Callable[[], None]:
        """Return what queues the kernel on a stream, given by its address, with nothing else to do."""
        return functools.partial(self._launch, *self._shape, stream, self._arguments, 0)

    def __call__(self, stream: int) -> None:
        """Queue the kernel on a stream, given by its address."""
        self._launch(*self._shape, stream, self._arguments, 0)


class ByShape(Generic[Launches]):
    """What is laid out for rows of a type, layout and number, by each thread and GPU: nobody else changes it."""

    def __init__(self) -> None:
        self._local = threading.local()

    def of(self, x: Any, result: tuple[int, ...], lay_out: Callable[[], Launches]) -> Launches:
        """Return what the current thread keeps for such rows and results; the oldest gives way to what is new."""
        kept: dict[Any, Launches] = self._local.__dict__.setdefault("kept", {})
        key = import_cupy().cuda.runtime.getDevice(), x.dtype.char, x.strides, len(x), result
        if key not in kept:
            while len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[key] = lay_out()
        return kept[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()
