"""Launches with their arguments laid out beforehand, for calls that take microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.runtime import load
from silva.device import import_cupy

if TYPE_CHECKING:
    from silva.cuda.compiler import Variant

SLOT = 8
"""Bytes of an argument."""


class PreparedLaunch:
    """A kernel on the current GPU and its arguments; for one thread at a time.

    Parameters
    ----------
    kernel : Variant
    threads : int
        Of a block.
    args : CuPy arrays and NumPy scalars of the kernel's own types
    """

    def __init__(self, kernel: Variant, threads: int, args: tuple[Any, ...]) -> None:
        cupy = import_cupy()
        self._threads, self._kept = threads, args
        slots = np.zeros((len(args), SLOT), np.uint8)
        for slot, arg in zip(slots, args, strict=True):
            value = np.uint64(arg.data.ptr) if hasattr(arg, "__cuda_array_interface__") else arg
            slot[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        self._pointers = slots.ctypes.data + SLOT * np.arange(len(args), dtype=np.uint64)
        self._arguments = self._pointers.ctypes.data
        self._values = memoryview(slots).cast("B").cast("q")
        self._function = load(kernel, cupy.cuda.runtime.getDevice())
        self._pointer = self._function.ptr
        self._launch = cupy.cuda.driver.launchKernel

    def set(self, index: int, value: int) -> None:
        """Change an argument that is an integer or an address."""
        self._values[index] = value

    def __call__(self, grid: tuple[int, int], stream: int, shared: int) -> None:
        """Queue the kernel on a stream, given by its address, with `shared` bytes of at most 48 KB."""
        self._launch(self._pointer, grid[0], grid[1], 1, self._threads, 1, 1, shared, stream, self._arguments, 0)
