"""Where work runs: device strings, the GPUs of this machine, and one error for all that can be wrong with them."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sized
from numbers import Integral
from types import ModuleType
from typing import Any

from glasswood.base.escapes import quoted, shown

GPU_KINDS = {2, 13}
"""DLPack's numbers of CUDA memory and of CUDA managed memory."""

OLDEST_CAPABILITY = (7, 5)
INSTALL = "pip install 'glasswood[cuda13]' (driver 580 or newer) or 'glasswood[cuda12]' (driver 525 or newer)"


class DeviceError(RuntimeError):
    """A GPU was asked for and cannot be used; the message says why and what to do."""


def parse_device(device: str) -> tuple[str, int | None]:
    """Split a device string.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:all"} or "cuda:" and an index; "gpu" is "cuda", as in XGBoost

    Returns
    -------
    kind : {"auto", "cpu", "cuda", "all"}
    index : int or None
        Index of the GPU, if the device names one.

    Raises
    ------
    ValueError
        If the string is none of these.
    """
    if isinstance(device, str) and device in {"auto", "cpu"}:
        return device, None
    if isinstance(device, str) and (match := re.fullmatch(r"(?:cuda|gpu)(?::(?:(\d+)|(all)))?", device, re.ASCII)):
        return ("all" if match[2] else "cuda"), int(match[1]) if match[1] else None
    raise ValueError(f"device is {quoted(device)}, expected 'auto', 'cpu', 'cuda', 'cuda:1' (any index) or 'cuda:all'")


def array_gpu(X: Any) -> int | None:
    """Index of the GPU that an array lives on, None for host data."""
    library = type(X).__module__.partition(".")[0]
    if library in {"numpy", "pandas", "polars", "pyarrow", "builtins"}:
        return None
    if library == "cupy":
        return int(X.device.id)
    if hasattr(X, "__dlpack_device__"):
        kind, index = X.__dlpack_device__()
        return int(index) if int(kind) in GPU_KINDS else None
    if hasattr(X, "__cuda_array_interface__"):
        import_cupy()
        pointer = X.__cuda_array_interface__["data"][0]
        return int(import_cupy().cuda.runtime.pointerGetAttributes(pointer).device) if pointer else 0
    return None


def on_host(X: object) -> Any:
    """Copy a GPU array to a NumPy array; anything else is returned as it is."""
    if array_gpu(X) is None:
        return X
    return import_cupy().asnumpy(import_cupy().from_dlpack(X) if hasattr(X, "__dlpack__") else X)


def count_rows(X: object) -> int:
    """Rows of whatever a user passes; 0 where it does not tell, which the checks of rows say later."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and shape:  # sparse matrices have no length, lazy frames no number
        return int(shape[0]) if isinstance(shape[0], (int, Integral)) else 0
    with contextlib.suppress(TypeError, AttributeError):  # Ray's data sets have a length that raises
        return len(X) if isinstance(X, Sized) and shape is None else 0
    return 0


def find_gpus(device: str, X: object = None) -> tuple[int, ...]:
    """Find the GPUs that a device string starting with "cuda" means for the rows `X`.

    Raises
    ------
    DeviceError
        If CuPy, the driver, the GPU or its architecture does not serve, or `X` lives on another GPU.
    """
    kind, index = parse_device(device)
    n_gpus = count_gpus()
    if index is not None and index >= n_gpus:
        raise DeviceError(
            f"device={quoted(device)} is not available, this machine has {_gpu_names(n_gpus)}; choose one of them"
        )
    home = array_gpu(X)
    if index is not None and home not in {None, index}:
        raise DeviceError(f"X is on cuda:{home}, but device={quoted(device)}; pass device='cuda:{home}' or copy X")
    if kind == "all" and home is None:
        chosen = tuple(range(n_gpus))
    elif index is not None:
        chosen = (index,)
    else:
        chosen = (home if home is not None else int(import_cupy().cuda.runtime.getDevice()),)
    for gpu in chosen:
        _check_capability(gpu)
    return chosen


def gpus_worthwhile(device: str, X: object, work: float, worthwhile: float) -> tuple[int, ...]:
    """GPUs to use for rows `X`: none means the CPU.

    Parameters
    ----------
    device : str
        "auto" follows the rows, and for host rows `work`.
    X : rows, on the host or on a GPU
    work, worthwhile : float
        Amount of work, and the measured amount from which a GPU is the faster.

    Raises
    ------
    DeviceError
        If a GPU is asked for and cannot be used, or rows lie on a GPU and the CPU is asked for.
    """
    kind, _ = parse_device(device)
    home = array_gpu(X)
    if kind == "cpu":
        if home is not None:
            raise DeviceError(f"X is on cuda:{home}, but device='cpu'; copy X or pass device='auto'")
        return ()
    if kind == "auto" and home is None:
        return find_gpus("cuda") if work >= worthwhile and is_cuda_usable() else ()
    return find_gpus("cuda" if kind == "auto" else device, X)


@functools.cache
def is_cuda_usable() -> bool:
    """Whether this machine has a GPU that glasswood can use; never raises."""
    try:
        return bool(find_gpus("cuda"))
    except DeviceError:
        return False


def import_cupy() -> ModuleType:
    """CuPy, or a DeviceError that names the extra to install."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(f"CUDA needs CuPy, which cannot be imported ({shown(error)}); {INSTALL}") from error
    module: ModuleType = cupy
    return module


@functools.cache
def count_gpus() -> int:
    """Count the GPUs, at least 1.

    Raises
    ------
    DeviceError
        Without CuPy, driver or GPU, or if the driver is older than CuPy's CUDA.
    """
    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    try:
        driver, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
        if driver and driver // 1000 < needed // 1000:
            raise DeviceError(
                f"the NVIDIA driver supports CUDA {_version(driver)}, the installed CuPy needs CUDA "
                f"{_version(needed)}; update the driver or {INSTALL}"
            )
        n_gpus = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"no usable NVIDIA GPU or driver ({shown(error)}); install the driver or use device='cpu'"
        ) from error
    if n_gpus == 0:
        raise DeviceError("this machine has no NVIDIA GPU; use device='cpu'")
    return n_gpus


@contextlib.contextmanager
def explaining_memory(cupy: ModuleType, gpu: int) -> Iterator[None]:
    """Turn an allocation failure into a DeviceError with the bytes asked for and free, and free CuPy's pool."""
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        cupy.get_default_memory_pool().free_all_blocks()
        free = cupy.cuda.runtime.memGetInfo()[0]
        raise DeviceError(
            f"cuda:{gpu} is out of memory: {shown(error)}, {free:,} bytes are free now; pass fewer rows at a "
            "time, or NumPy arrays, which are processed in chunks"
        ) from error


@functools.cache
def _check_capability(gpu: int) -> None:
    cupy = import_cupy()
    major, minor = capability(gpu)
    if (major, minor) < OLDEST_CAPABILITY:
        name = cupy.cuda.runtime.getDeviceProperties(gpu)["name"].decode()
        oldest = ".".join(map(str, OLDEST_CAPABILITY))
        raise DeviceError(
            f"cuda:{gpu} ({name}) has compute capability {major}.{minor}, glasswood needs {oldest} or newer; "
            "use device='cpu'"
        )


def capability(gpu: int) -> tuple[int, int]:
    """Compute capability of a GPU."""
    text = import_cupy().cuda.Device(gpu).compute_capability
    return int(text[:-1]), int(text[-1])


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _gpu_names(n_gpus: int) -> str:
    return "cuda:0" if n_gpus == 1 else f"cuda:0 to cuda:{n_gpus - 1}"
