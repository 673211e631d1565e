"""CuPy's names over the memory of the host, as far as glasswood uses them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import os
import sys
import tempfile
import threading
import types

import numpy as np

from tests.poison import SEEN, note

ATTRIBUTES = {16: 4, 97: 227 * 1024, 81: 228 * 1024}
"""A small Hopper: four multiprocessors."""

POISON = 0xFF
"""The bytes of an allocation before anybody writes: not a number in any type of floats, and no index."""

LEAST_MAPPED, MOST_MAPPED = 1 << 18, 1 << 26
"""Allocations of so many bytes are mapped, so that only pages that are touched take time; larger ones hold anything."""


class OutOfMemoryError(Exception):
    """CuPy's, of an allocation: bytes asked for, taken and allowed."""


class CUDARuntimeError(Exception):
    """CuPy's, of the runtime."""


class Gpus:
    """What the tests may set and look at.

    Attributes
    ----------
    count : int
    free : dict
        Bytes free, by GPU; a terabyte where it says nothing.
    registered : dict
        Bytes by address of host memory that GPUs read.
    """

    def __init__(self, driver, count):
        self.driver, self.count = driver, count
        self.free, self.registered = {}, {}
        self._local = threading.local()
        self._n_streams = 0

    @property
    def current(self):
        return getattr(self._local, "gpu", 0)

    @property
    def streams(self):
        """Streams that the thread has entered."""
        return self._local.__dict__.setdefault("streams", [])

    def use(self, gpu):
        """Make a GPU the thread's."""
        self._local.gpu = gpu
        self.driver.emulated_set_context(ctypes.c_void_p(gpu + 1))

    @contextlib.contextmanager
    def failing(self, n_launches=0, gpu=0):
        """Let all launches fail after so many."""
        self.driver.fail_after(gpu, n_launches)
        try:
            yield
        finally:
            self.driver.fail_after(gpu, -1)

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, arguments, _extra):
        self.use(self.current)
        sizes = map(ctypes.c_uint, (gx, gy, gz, bx, by, bz, shared))
        pointers = map(ctypes.c_void_p, (stream, arguments, 0))
        code = self.driver.emulated_launch(ctypes.c_void_p(function), *sizes, *pointers)
        assert code == 0, f"the emulated driver refuses a launch: {code}"

    def number_stream(self):
        """Address of a new stream of the current GPU."""
        self._n_streams += 1
        return self.current << 32 | self._n_streams


class DeviceArray(np.ndarray):
    """An array of NumPy with CuPy's interface."""

    __module__ = "cupy"
    device = types.SimpleNamespace(id=0)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data, device_id=0)

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__

    def set(self, host, stream=None):  # noqa: ARG002
        self[...] = host

    def get(self, stream=None, out=None, blocking=True):  # noqa: ARG002
        if out is None:
            return np.array(self)
        out[...] = self
        return out


class Memory(np.ndarray):
    """Bytes at an address."""

    @property
    def ptr(self):
        return self.ctypes.data


class Device:
    """A GPU, or the current one."""

    compute_capability = "90"
    attributes = types.MappingProxyType({"MultiProcessorCount": ATTRIBUTES[16]})

    def __init__(self, gpus, gpu=None):
        self._gpus, self.id = gpus, gpus.current if gpu is None else gpu
        assert self.id < gpus.count

    def __enter__(self):
        self._before = self._gpus.current
        self._gpus.use(self.id)
        return self

    def __exit__(self, *_):
        self._gpus.use(self._before)


class Stream:
    """Work in its order: it is done when it is queued."""

    _is_captured = False

    def __init__(self, gpus, ptr=None, non_blocking=False):  # noqa: ARG002
        self._gpus, self.ptr = gpus, gpus.number_stream() if ptr is None else ptr

    def __enter__(self):
        self._gpus.streams.append(self)
        return self

    def __exit__(self, *_):
        self._gpus.streams.pop()

    def synchronize(self):
        pass

    def record(self):
        return Event()

    def begin_capture(self):
        self._gpus.driver.capture(ctypes.c_void_p(self.ptr))
        self._is_captured = True

    def end_capture(self):
        self._gpus.driver.capture(None)
        self._is_captured = False

    def is_capturing(self):
        return self._is_captured

    def wait_event(self, event):
        pass


class Event:
    """What a stream had reached, or when."""

    def __init__(self, disable_timing=False):  # noqa: ARG002
        self._time = np.zeros(1)

    @property
    def ptr(self):
        return self._time.ctypes.data

    def record(self, stream=None):  # noqa: ARG002
        return self


class Module:
    """Machine code: the path of a library."""

    def __init__(self, gpus):
        self._gpus = gpus

    def load(self, code):
        self._library = ctypes.CDLL(code.decode())

    def get_function(self, name):
        return Function(self._gpus, getattr(self._library, f"emulate_{name}"))


class Function:
    """A kernel."""

    def __init__(self, gpus, function):
        self._gpus, self._function = gpus, function
        self.ptr = ctypes.cast(function, ctypes.c_void_p).value

    def __call__(self, grid, block, args, shared_mem=0):
        slots = np.zeros((len(args), 8), np.uint8)
        for slot, arg in zip(slots, args, strict=True):
            value = np.uint64(arg.ctypes.data) if isinstance(arg, np.ndarray) else arg
            slot[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        pointers = slots.ctypes.data + 8 * np.arange(len(args), dtype=np.uint64)
        shape = (*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])
        stream = self._gpus.streams[-1].ptr if self._gpus.streams else 0
        self._gpus.launch(self.ptr, *shape, shared_mem, stream, pointers.ctypes.data, 0)


def poisoned(shape, dtype=np.uint8):
    if SEEN:
        note(sys._getframe(1))
    dtype = np.dtype(dtype)
    n_bytes = math.prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    if LEAST_MAPPED <= n_bytes <= MOST_MAPPED:
        return np.frombuffer(mmap.mmap(poisoned_file(), n_bytes, access=mmap.ACCESS_COPY), dtype).reshape(shape)
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:LEAST_MAPPED] = POISON
    return array


@functools.cache
def poisoned_file():
    """Number of a file for private maps, which read its bytes until they write their own."""
    number, path = tempfile.mkstemp()
    os.unlink(path)
    for _ in range(MOST_MAPPED // LEAST_MAPPED):
        os.write(number, bytes([POISON]) * LEAST_MAPPED)
    return number


def as_array(values, *rest, order="K"):
    return np.array(values, *rest, copy=True, order=order).view(DeviceArray)


def on_device(function):
    """NumPy's function with a result on the GPU."""
    return lambda *args, **options: function(*args, **options).view(DeviceArray)


def make_cupy(gpus):
    """Make the module."""
    cupy = types.ModuleType("cupy")
    cupy.ndarray = DeviceArray
    cupy.asarray = as_array
    cupy.empty = lambda shape, dtype: poisoned(shape, dtype).view(DeviceArray)
    cupy.empty_like = lambda array, **_: poisoned(array.shape, array.dtype).view(DeviceArray)
    cupy.zeros = lambda shape, dtype: np.zeros(shape, dtype).view(DeviceArray)
    cupy.asnumpy = np.array
    cupy.from_dlpack = np.asarray
    cupy.isnan, cupy.ldexp, cupy.rint = np.isnan, np.ldexp, np.rint
    for name in ("where", "sum", "cumsum", "flatnonzero", "full", "arange", "searchsorted", "concatenate"):
        setattr(cupy, name, on_device(getattr(np, name)))
    cupy.argsort = on_device(functools.partial(np.argsort, kind="stable"))
    cupy.ones = lambda shape, dtype: np.ones(shape, dtype).view(DeviceArray)
    pool = MemoryPool()
    cupy.get_default_memory_pool = lambda: pool
    cupy.cuda = make_cuda_module(gpus)
    return cupy


class MemoryPool:
    """Its bound is a test's to set."""

    limit = 0

    def free_all_blocks(self):
        pass

    def get_limit(self):
        return self.limit

    def total_bytes(self):
        return 0


def make_cuda_module(gpus):
    def current_stream():
        return gpus.streams[-1] if gpus.streams else Stream(gpus, 0)

    return types.SimpleNamespace(
        runtime=make_runtime(gpus),
        driver=types.SimpleNamespace(launchKernel=gpus.launch, funcSetAttribute=lambda *_: None),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        function=types.SimpleNamespace(Module=lambda: Module(gpus)),
        stream=types.SimpleNamespace(),
        Device=lambda gpu=None: Device(gpus, gpu),
        Stream=lambda non_blocking=False: Stream(gpus, non_blocking=non_blocking),
        Event=Event,
        get_current_stream=current_stream,
        alloc=lambda n_bytes: poisoned(n_bytes).view(Memory),
        alloc_pinned_memory=lambda n_bytes: poisoned(n_bytes).view(Memory),
    )


def make_runtime(gpus):
    return types.SimpleNamespace(
        getDevice=lambda: gpus.current,
        getDeviceCount=lambda: gpus.count,
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
        memGetInfo=lambda: (gpus.free.get(gpus.current, 2**40), 2**40),
        deviceGetAttribute=lambda number, _gpu: ATTRIBUTES[number],
        deviceSynchronize=lambda: None,
        hostRegister=lambda pointer, n_bytes, _flags: gpus.registered.update({pointer: n_bytes}),
        hostUnregister=lambda pointer: gpus.registered.pop(pointer, None),
        CUDARuntimeError=CUDARuntimeError,
    )
