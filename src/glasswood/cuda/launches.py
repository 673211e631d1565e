"""Kernels on a GPU: loaded, launched at once, or laid out beforehand for calls that take microseconds."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from glasswood import _core
from glasswood.base.device import capability, import_cupy
from glasswood.base.typing import Array, GpuArray
from glasswood.cuda.buffers import Buffers, Place
from glasswood.cuda.compiler import compile_kernel, compiler_architecture, parameters
from glasswood.cuda.per_gpu import gpu_limits

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.cuda.streams import Beside

ARGUMENT_BYTES = 8

NOWHERE = np.uint64(0)
"""Stands for an address that is set before each launch."""

DRIVER: dict[str, int] = {}
"""Addresses of functions that the core calls in place of the driver's; none but in tests."""

LARGEST_DEFAULT_SHARED = 12 * 1024
"""Dynamic shared memory that needs no permission: 48 KB minus the static memory of any kernel."""

MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

FIRST_OVERLAPPING = 9, 0
"""Compute capability from which a launch may begin before the last has ended."""

KEPT, KEPT_SHARE = 32, 512
"""Plans that a thread keeps, and calls that all threads keep; part of a GPU's memory for the buffers of either."""

_allowed: dict[int, int] = {}
"""Dynamic shared memory by function."""

_allowing = threading.Lock()

Laid = TypeVar("Laid")


def launch(
    kernel: Variant, grid: tuple[int, ...], block: tuple[int, ...], args: Mapping[str, Any], shared: int = 0
) -> None:
    """Queue a kernel on CuPy's current stream.

    Parameters
    ----------
    kernel : Variant
    grid, block : tuples of up to three ints
    args : dict of str to CuPy array or number
        By the names that the kernel gives its arguments.
    shared : int
        Bytes of dynamic shared memory.
    """
    ordered = _in_order(kernel, args)
    passed = tuple(arg if _is_on_gpu(arg) else kind.type(arg) for kind, arg in ordered.values() if kind)
    _function(kernel, shared)(grid, block, passed, shared_mem=shared)


def _in_order(kernel: Variant, args: Mapping[str, Any]) -> dict[str, tuple[np.dtype[Any] | None, Any]]:
    """Type and value of each argument, in the kernel's order."""
    types = parameters(kernel.source)
    if wrong := types.keys() ^ args.keys():
        raise TypeError(f"arguments of {kernel.kernel} are {', '.join(types)}; missing or unknown: {', '.join(wrong)}")
    return {name: (kind, args[name]) for name, kind in types.items()}


def _is_on_gpu(arg: Any) -> bool:
    return hasattr(arg, "__cuda_array_interface__")


def _function(kernel: Variant, shared: int) -> Any:
    """Kernel on the current GPU, allowed so much shared memory."""
    cuda = import_cupy().cuda
    function = load(kernel, cuda.runtime.getDevice())
    with _allowing:
        # Launches that are laid out keep what they were allowed.
        if shared > _allowed.get(function.ptr, LARGEST_DEFAULT_SHARED):
            cuda.driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, shared)
            _allowed[function.ptr] = shared
    return function


@functools.cache
def load(kernel: Variant, gpu: int) -> Any:
    """Kernel as a function of the GPU, which must be the current one."""
    cupy = import_cupy()
    module = cupy.cuda.function.Module()
    module.load(compile_kernel(kernel, compiler_architecture(capability(gpu))))
    return module.get_function(kernel.kernel)


class PreparedLaunch:
    """A kernel on the current GPU, its grid and its arguments; for one thread at a time.

    Parameters
    ----------
    kernel : Variant
    grid : (int, int)
    threads : int or (int, int)
        Threads of a block.
    args : dict of str to CuPy array, number or NumPy array
        By the names that the kernel gives its arguments. A NumPy array holds a struct that is passed by value, or is
        the `cell` of another launch, whose argument this one shares.
    shared : int
        Bytes of dynamic shared memory.
    overlaps : bool
        Whether it may begin before the launch ahead of it in its stream has ended, as its kernel waits for that itself
        (common/cuda/async.cuh); `bound` launches do so, on GPUs that can.
    """

    def __init__(
        self,
        kernel: Variant,
        grid: tuple[int, int],
        threads: int | tuple[int, int],
        args: Mapping[str, Any],
        shared: int = 0,
        *,
        overlaps: bool = False,
    ) -> None:
        self.overlaps = overlaps
        arguments = np.zeros((len(args), ARGUMENT_BYTES), np.uint8)
        pointers = arguments.ctypes.data + ARGUMENT_BYTES * np.arange(len(args), dtype=np.uint64)
        ordered = _in_order(kernel, args)
        for place, (kind, arg) in enumerate(ordered.values()):
            if _is_on_gpu(arg):
                arguments[place].view(np.uint64)[0] = arg.data.ptr
            elif isinstance(arg, np.ndarray):
                pointers[place] = arg.ctypes.data
            else:
                number = (np.dtype(np.uint64) if kind is None else kind).type(arg)
                arguments[place, : number.nbytes] = np.frombuffer(number.tobytes(), np.uint8)
        function = _function(kernel, shared)
        self._kept, self._arguments = (args, pointers, function), dict(zip(ordered, arguments, strict=True))
        block = (threads, 1) if isinstance(threads, int) else threads
        self._launch, self._shape = import_cupy().cuda.driver.launchKernel, (function.ptr, *grid, 1, *block, 1, shared)
        self._pointers = int(pointers.ctypes.data)

    def bound(self) -> _core.GpuLaunch:
        """Return the launch as the core takes it."""
        function, *numbers, shared = map(int, self._shape)
        grid, block = (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5])
        return _core.GpuLaunch(
            function=function,
            grid=grid,
            block=block,
            shared=shared,
            arguments=self._pointers,
            overlaps=self.overlaps and capability(import_cupy().cuda.runtime.getDevice()) >= FIRST_OVERLAPPING,
        )

    def cell(self, name: str) -> Array:
        """Argument as an array of one uint64: what is written there is what the next launch takes.

        As an argument of another launch, that one takes it too.
        """
        cell: Array = self._arguments[name].view(np.uint64)
        return cell

    def __call__(self, stream: int) -> None:
        """Queue the kernel on a stream, given by its address."""
        self._launch(*self._shape, stream, self._pointers, 0)


class Plan:
    """Launches from rows to results, for one thread: the buffers between them are its own.

    Parameters
    ----------
    launches : list of PreparedLaunch
        In their order.
    rows, result : uint64 array of one number
        The argument, as `PreparedLaunch.cell` gives it, that holds the address of the rows, or of the results.
    buffers : object, optional
        What the launches have between them, and lives as long as the plan.
    make_buffers : callable, optional
        Allocates buffers that are not kept from call to call, names them to the launches and returns them.
    n_bytes : int
        Size of the buffers that are kept.
    beside : Beside, optional
        The launches that run beside each other.
    """

    launches: list[PreparedLaunch]
    make_buffers: Callable[[], Any] | None
    n_bytes: int

    def __init__(
        self,
        launches: list[PreparedLaunch],
        rows: Array,
        result: Array,
        buffers: Any = None,
        make_buffers: Callable[[], Any] | None = None,
        n_bytes: int = 0,
        *,
        beside: Beside | None = None,
    ) -> None:
        self.launches, self.make_buffers, self.n_bytes, self._buffers = launches, make_buffers, n_bytes, buffers
        self._rows, self._result, self._beside = rows, result, beside

    def run(self, x: GpuArray, out: GpuArray) -> None:
        """Queue the work for CuPy arrays of rows and results on the current stream."""
        stream = import_cupy().cuda.get_current_stream()
        # Buffers that are not kept may be given to others as soon as this returns: the stream orders their use.
        buffers = self.make_buffers() if self.make_buffers else None
        self._rows[0], self._result[0] = x.data.ptr, out.data.ptr
        begin, end = (self._beside.first, self._beside.first + self._beside.n) if self._beside else (0, 0)
        for launch in self.launches[:begin]:
            launch(stream.ptr)
        if self._beside:
            with self._beside.streams(stream) as streams:
                for launch, on in zip(self.launches[begin:end], streams, strict=True):
                    launch(on.ptr)
        for launch in self.launches[end:]:
            launch(stream.ptr)
        del buffers

    def followed_by(self, launch: PreparedLaunch, argument: str, n_bytes: int) -> Plan:
        """Return a plan of which a launch takes these results, of `n_bytes`, as `argument`, and writes its own."""
        between = Buffers([n_bytes], [Place(self._result, 0), Place(launch.cell(argument), 0)])
        makes = [make for make in (self.make_buffers, None if between.n_bytes else between.make) if make]
        return Plan(
            [*self.launches, launch],
            self._rows,
            launch.cell("result"),
            (self._buffers, between),
            (lambda: [make() for make in makes]) if makes else None,
            self.n_bytes + between.n_bytes,
            beside=self._beside,
        )

    def bound(self) -> _core.GpuPlan:
        """Return the plan as the core takes it."""
        return _core.GpuPlan(
            owner=self,
            launches=[launch.bound() for launch in self.launches],
            rows=int(self._rows.ctypes.data),
            result=int(self._result.ctypes.data),
            make_buffers=self.make_buffers,
            n_bytes=self.n_bytes,
            first_beside=self._beside.first if self._beside else 0,
            begin=self._beside.begin if self._beside else 0,
            sides=self._beside.sides if self._beside else [],
        )


def kept_bytes() -> int:
    """Bytes of the buffers of what is kept, on the current GPU."""
    return gpu_limits().memory // KEPT_SHARE


class KeptByRows(Generic[Laid]):
    """Launches laid out for rows of one type, layout and number, one set for each thread and GPU, which alone uses it.

    The oldest give way to the latest.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def of(self, x: GpuArray, more: tuple[Any, ...], lay_out: Callable[[], Laid]) -> Laid:
        """Return what the current thread keeps for such rows, and `more` of the same."""
        kept: dict[Any, Laid] = self._local.__dict__.setdefault("kept", {})
        key = import_cupy().cuda.runtime.getDevice(), x.dtype.char, x.strides, len(x), *more
        if key not in kept:
            laid = lay_out()
            while kept and (len(kept) >= KEPT or _bytes_of(laid, *kept.values()) > kept_bytes()):
                del kept[next(iter(kept))]
            kept[key] = laid
        return kept[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()


def _bytes_of(*laid: Any) -> int:
    return sum(getattr(one, "n_bytes", 0) for one in laid)
