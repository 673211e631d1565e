"""Launches with their arguments laid out beforehand, for calls that take microseconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from silva.cuda.runtime import LARGEST_DEFAULT_SHARED, MAX_DYNAMIC_SHARED, load
from silva.device import import_cupy

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.cuda.compiler import Variant
    from silva.typing import GpuArray

SLOT = 8
"""Bytes of an argument."""

NOWHERE = np.uint64(0)
"""Stands for an address that is set before each launch."""

DRIVER: dict[str, int] = {}
"""Addresses of functions that the core calls in place of the driver's; none but in tests."""

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

    Attributes
    ----------
    addresses : memoryview
        Arguments as integers: assign addresses before the launch.
    recipe : tuple
        The launch as the core takes it (native/evaluate/cuda/launch.h).
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
        self._kept, self._slots = (args, pointers, function), slots
        block = (threads, 1) if isinstance(threads, int) else threads
        self._launch, self._shape = cupy.cuda.driver.launchKernel, (function.ptr, *grid, 1, *block, 1, shared)
        self._arguments = int(pointers.ctypes.data)
        self.addresses = memoryview(slots.data).cast("B").cast("Q")
        self.recipe = (*map(int, self._shape), self._arguments)

    def slot(self, place: int) -> int:
        """Address of an argument's address; a negative place counts from the end."""
        return int(self._slots.ctypes.data) + SLOT * (place % len(self._slots))

    def __call__(self, stream: int) -> None:
        """Queue the kernel on a stream, given by its address."""
        self._launch(*self._shape, stream, self._arguments, 0)


class Plan:
    """Launches from rows to results, for one stream and thread: the buffers between them are its own.

    Parameters
    ----------
    launches : list of PreparedLaunch
        In their order. The last argument of the last is the address of the results.
    buffers : object, optional
        What the launches have between them, and lives as long as the plan.
    make_buffers : callable, optional
        Allocates buffers that are not kept from call to call, names them to the launches and returns them.
    n_bytes : int
        Of the buffers that are kept.
    reads_rows : bool
        Whether the first argument of the first launch is the address of the rows.
    """

    def __init__(
        self,
        launches: list[PreparedLaunch],
        buffers: Any = None,
        make_buffers: Callable[[], object] | None = None,
        n_bytes: int = 0,
        *,
        reads_rows: bool = True,
    ) -> None:
        self.launches, self.make_buffers, self.n_bytes = launches, make_buffers, n_bytes
        self._buffers, self._reads_rows, self._unread = buffers, reads_rows, np.zeros(1, np.uint64)

    def run(self, x: int, out: int, stream: int) -> None:
        """Queue the work for rows and results at these addresses."""
        # Buffers that are not kept may be given to others as soon as this returns: the stream orders their use.
        buffers = self.make_buffers() if self.make_buffers else None
        if self._reads_rows:
            self.launches[0].addresses[0] = x
        self.launches[-1].addresses[-1] = out
        for launch in self.launches:
            launch(stream)
        del buffers

    def recipe(self) -> tuple[object, ...]:
        """Describe the plan to the core (native/evaluate/cuda/calls.cpp)."""
        rows = self.launches[0].slot(0) if self._reads_rows else int(self._unread.ctypes.data)
        recipes = [launch.recipe for launch in self.launches]
        return self, recipes, rows, self.launches[-1].slot(-1), self.make_buffers


class ByShape(Generic[Launches]):
    """What is laid out for rows of a type, layout and number, by each thread and GPU: nobody else changes it."""

    def __init__(self) -> None:
        self._local = threading.local()

    def of(self, x: GpuArray, result: tuple[int, ...], lay_out: Callable[[], Launches]) -> Launches:
        """Return what the current thread keeps for such rows and results; the oldest gives way to what is new."""
        kept: dict[object, Launches] = self._local.__dict__.setdefault("kept", {})
        key = import_cupy().cuda.runtime.getDevice(), x.dtype.char, x.strides, len(x), result
        if key not in kept:
            while len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[key] = lay_out()
        return kept[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()
