"""GPUs on the CPU: the project's own kernels, compiled by the host's compiler, behind the names of CuPy and NVRTC.

Launches, buffers and kernels run as they stand where there is no GPU. What is not emulated: time, streams that overlap,
memory whose writes others see late. `machine.cpp` runs blocks, `cuda.h` has what kernels call, `driver.cpp` what the
compiled core calls, `cupy.py` and `nvrtc.py` what Python calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys

import glasswood.base.device
import glasswood.cuda.launches
import glasswood.cuda.per_gpu
import glasswood.cuda.rows
import glasswood.cuda.streams
from tests.cuda.emulator.cupy import Gpus, make_cupy
from tests.cuda.emulator.nvrtc import make_cuda
from tests.native import EMULATOR, HOST, LIBRARY, build

DRIVER = (
    "launch", "launch_as", "copy_in", "copy_out", "synchronize", "record_event", "await_event", "is_capturing",
    "elapsed_time", "stream_context", "set_context", "get_context", "error_name",
)  # fmt: skip

CACHES = (
    glasswood.base.device.count_gpus,
    glasswood.base.device.is_cuda_usable,
    glasswood.base.device._check_capability,
    glasswood.cuda.per_gpu._limits,
    glasswood.cuda.launches.load,
    glasswood.cuda.streams._side_streams,
    glasswood.cuda.rows._idle_buffers,
)
"""What glasswood finds out about GPUs and keeps."""


@functools.cache
def load_driver() -> ctypes.CDLL:
    """The emulated driver; kernels find the machine that it brings along."""
    text = "".join(f'#include "{name}.cpp"\n' for name in ("machine", "driver"))
    flags = (*HOST, *LIBRARY, "-O2", "-fno-semantic-interposition")
    return ctypes.CDLL(str(build(text, "driver", flags, EMULATOR)), ctypes.RTLD_GLOBAL)


def driver_functions() -> dict[str, int]:
    """Addresses of the driver's functions, by the names that the core gives them."""
    library = load_driver()
    return {name: ctypes.cast(getattr(library, f"emulated_{name}"), ctypes.c_void_p).value for name in DRIVER}


@contextlib.contextmanager
def emulated_gpus(count=1):
    """Pretend that this machine has so many GPUs; what they are and have been told."""
    gpus = Gpus(load_driver(), count)
    modules = {"cupy": make_cupy(gpus), **make_cuda()}
    saved = {name: sys.modules.get(name) for name in modules}
    forget_gpus()
    sys.modules.update(modules)
    glasswood.cuda.launches.DRIVER.update(driver_functions())
    try:
        yield gpus
    finally:
        glasswood.cuda.launches.DRIVER.clear()
        for name, module in saved.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
        forget_gpus()


def forget_gpus():
    """Drop what is kept of GPUs, real or emulated."""
    for cache in CACHES:
        cache.cache_clear()
