"""A GPU on the CPU: the project's own kernels, compiled by the host's compiler, behind CuPy's names.

It runs the launches, buffers and kernels of evaluation where there is no GPU. It knows no timing, no overlap of streams
and no weak memory.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import sys
import types
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np

import silva.cuda.limits
import silva.cuda.prepared
import silva.cuda.rows
import silva.cuda.runtime
import silva.device
from silva.cuda.compiler import read_source

HEADER = Path(__file__).with_name("emulator.h")
COMPILER = shutil.which("g++")
ATTRIBUTES = {16: 4, 97: 227 * 1024, 81: 228 * 1024}
"""A small Hopper: four multiprocessors."""


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


class Function:
    """A compiled kernel."""

    known: ClassVar[dict[int, Function]] = {}

    def __init__(self, kernel, folder):
        self._library = ctypes.CDLL(str(_compile(kernel, folder)))
        self.ptr = len(self.known) + 1
        self.known[self.ptr] = self

    def __call__(self, grid, block, args, shared_mem=0):
        slots = np.zeros((len(args), 8), np.uint8)
        for slot, arg in zip(slots, args, strict=True):
            value = np.uint64(arg.ctypes.data) if isinstance(arg, np.ndarray) else arg
            slot[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        pointers = slots.ctypes.data + 8 * np.arange(len(args), dtype=np.uint64)
        self.run((*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared_mem, pointers.ctypes.data)

    def run(self, grid, block, shared, pointers):
        assert min(grid) > 0
        assert max(grid[1:]) < 65536
        self._library.emulate(*map(ctypes.c_uint, (*grid, *block, shared)), ctypes.c_void_p(pointers))


def _compile(kernel, folder):
    macros = [f"-D{name}={value}" for name, value in kernel.macros]
    text = re.sub(
        r"extern __shared__ ([\w ]+?) (\w+)\[\];", r"\1* const \2 = (\1*)emulator::shared;", read_source(kernel.source)
    )
    program = f'#include "{HEADER}"\n{text}\nEMULATE({kernel.kernel})\n'
    key = hashlib.sha256((program + HEADER.read_text() + str(macros)).encode()).hexdigest()[:16]
    library = folder / f"{kernel.kernel}-{key}.so"
    if not library.exists():
        source = library.with_suffix(".cpp")
        source.write_text(program)
        flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-Wno-unknown-pragmas"]
        subprocess.run([COMPILER, *flags, *macros, str(source), "-o", str(library)], check=True)
    return library


class _Anything:
    """A device or a stream."""

    ptr = 0
    compute_capability = "90"

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def record(self, stream=None):  # noqa: ARG002
        return self

    def wait_event(self, event):
        pass


refusing: list[int] = []
"""Codes with which the next launches of the core fail."""


def _launch_from_core(function, gx, gy, gz, bx, by, bz, shared, _stream, pointers, _extra):
    if refusing:
        return refusing.pop()
    Function.known[function].run((gx, gy, gz), (bx, by, bz), shared, pointers)
    return 0


def _set_handle(*args):
    """Stream or context 0: the only one."""
    ctypes.c_void_p.from_address(args[-1]).value = 0
    return 0


def _name_error(_code, name):
    ctypes.c_char_p.from_address(name).value = b"CUDA_ERROR_TEST"
    return 0


def _declare(n_pointers_before, n_numbers, n_pointers):
    before, after = [ctypes.c_void_p] * n_pointers_before, [ctypes.c_void_p] * n_pointers
    return ctypes.CFUNCTYPE(ctypes.c_int, *before, *[ctypes.c_uint] * n_numbers, *after)


FUNCTIONS = {
    "launch": _declare(1, 7, 3)(_launch_from_core),
    "synchronize": _declare(1, 0, 0)(lambda _stream: 0),
    "stream_context": _declare(1, 0, 1)(_set_handle),
    "set_context": _declare(1, 0, 0)(lambda _context: 0),
    "get_context": _declare(1, 0, 0)(_set_handle),
    "error_name": _declare(0, 1, 1)(_name_error),
}
"""Functions of the driver that the core calls (native/common/cuda/driver.h)."""


def _launch_kernel(function, gx, gy, gz, bx, by, bz, shared, _stream, pointers, _extra):
    Function.known[function].run((gx, gy, gz), (bx, by, bz), shared, pointers)


def make_cupy():
    """Make a module with the names that silva uses."""
    cupy = types.ModuleType("cupy")
    cupy.ndarray = DeviceArray
    cupy.asarray = lambda values, *rest: np.array(values, *rest, copy=True).view(DeviceArray)
    cupy.empty = lambda shape, dtype: _poisoned(shape, dtype)
    cupy.empty_like = lambda array, **_: _poisoned(array.shape, array.dtype)
    cupy.zeros = lambda shape, dtype: np.zeros(shape, dtype).view(DeviceArray)
    cupy.asnumpy = np.array
    cupy.isnan = np.isnan
    runtime = types.SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
        memGetInfo=lambda: (2**33, 2**34),
        deviceGetAttribute=lambda number, _gpu: ATTRIBUTES[number],
        CUDARuntimeError=type("CUDARuntimeError", (Exception,), {}),
    )
    driver = types.SimpleNamespace(launchKernel=_launch_kernel, funcSetAttribute=lambda *_: None)
    memory = types.SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (Exception,), {}))
    cupy.cuda = types.SimpleNamespace(
        runtime=runtime,
        driver=driver,
        memory=memory,
        Device=_Anything,
        Stream=_Anything,
        Event=_Anything,
        get_current_stream=_Anything,
        stream=types.SimpleNamespace(),
        alloc_pinned_memory=bytearray,
    )
    return cupy


def _poisoned(shape, dtype):
    array = np.empty(shape, dtype)
    array.view(np.uint8).fill(0xCD) if array.size and array.ndim else None
    return array.view(DeviceArray)


CACHES = (
    silva.device.count_gpus,
    silva.device.is_cuda_usable,
    silva.device._check_capability,
    silva.cuda.limits._limits,
    silva.cuda.runtime._side_streams,
)


@contextmanager
def emulated_gpu(folder):
    """Pretend that this machine has a GPU; `folder` keeps compiled kernels."""
    saved = sys.modules.get("cupy")
    loads = (silva.cuda.runtime.load, silva.cuda.prepared.load)
    load = functools.cache(lambda kernel, _gpu: Function(kernel, folder))
    _forget()
    sys.modules["cupy"] = make_cupy()
    silva.cuda.runtime.load = silva.cuda.prepared.load = load
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in FUNCTIONS.items()}
    silva.cuda.prepared.DRIVER.update(addresses)
    try:
        yield sys.modules["cupy"]
    finally:
        silva.cuda.runtime.load, silva.cuda.prepared.load = loads
        silva.cuda.prepared.DRIVER.clear()
        del sys.modules["cupy"]
        if saved is not None:
            sys.modules["cupy"] = saved
        _forget()


def _forget():
    """Drop what was found out about GPUs, and streams and buffers that are kept."""
    for cache in CACHES:
        cache.cache_clear()
    silva.cuda.rows._idle_lanes.cache_clear()
