"""The training rows on a GPU: buffers and kernels of the search; the engine launches them itself."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import compile_kernel, compiler_architecture, variant
from silva.device import DeviceError, capability, import_cupy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from silva.cuda.compiler import Variant
    from silva.grow.data import TrainingRows

TILE = 8
"""More than NARROW columns of z are padded to a multiple of this many: a tensor core operation's side."""

NARROW = TILE // 2
"""So few columns are padded to this many, and the operation takes two rows side by side."""

MOST_COLUMNS = 16 * TILE
N_LISTS = 4
"""Lists of rows that sweeps may hold at a time; further ones wait."""

PACKET_BYTES = 4 << 20
LARGEST_BLOCK = 8192
"""Rows of a block of the kernel that sums (kMostRows of native/grow/route.h)."""

MOST_SLOTS = 128
"""Leaves of one request (kMostSlots)."""

RESULT_BYTES = 64 << 20
PART_BYTES = 256 << 20

CORE_WORK = 100_000
"""Requests of fewer multiplications than this are answered by the cores."""

SMALL_DATA = 3_000_000
"""With fewer multiplications than this for the sums of all rows the cores answer everything."""


@dataclass(frozen=True)
class Sizes:
    """Buffers of a search, in bytes, and the number of partial sums that they hold.

    Attributes
    ----------
    z, ranks, order, lists : int
        The rows; see `silva.grow.data.TrainingRows`.
    packet, results, parts, part_counts : int
        What goes to the GPU, what comes back and what lies between.
    n_parts : int
    stride : int
        Columns of z on the GPU.
    """

    z: int
    ranks: int
    order: int
    lists: int
    packet: int
    results: int
    parts: int
    part_counts: int
    n_parts: int
    stride: int

    @property
    def on_device(self) -> int:
        """Bytes of GPU memory."""
        return self.z + self.ranks + self.order + self.lists + self.packet + self.parts + self.part_counts


def buffer_sizes(n_rows: int, n_attributes: int, width: int) -> Sizes:
    """Sizes of all buffers for so many rows, attributes and columns of z.

    Raises
    ------
    ValueError
        If there are more columns than the kernels take.
    """
    blocks = -(-width // TILE)
    if width > MOST_COLUMNS:
        raise ValueError(
            f"leaf models have {width} columns (intercept, attributes, missing indicators, y), growing on a GPU takes "
            f"at most {MOST_COLUMNS}; use device='cpu' or fewer attributes"
        )
    stride = padded_width(width)
    part = blocks * (blocks + 1) // 2 * TILE * TILE * 8
    n_blocks = -(-n_rows // LARGEST_BLOCK)
    n_parts = max(PART_BYTES // part, MOST_SLOTS * n_blocks)
    n_counts = max(n_parts, N_LISTS * (-(-n_rows // 2048) + 1))
    return Sizes(
        z=n_rows * stride * 8,
        ranks=n_rows * n_attributes * 4,
        order=n_rows * n_attributes * 4,
        lists=N_LISTS * n_rows * 8,
        packet=PACKET_BYTES,
        results=max(RESULT_BYTES, (width * (width + 1) // 2 + 1) * 8 * MOST_SLOTS),
        parts=n_parts * part,
        part_counts=n_counts * 4,
        n_parts=n_parts,
        stride=stride,
    )


def padded_width(width: int) -> int:
    """Columns of z on the GPU."""
    return NARROW if width <= NARROW else -(-width // TILE) * TILE


def kernels(stride: int) -> dict[str, Variant]:
    """Kernels of a search over so many columns of z, by the names that the engine gives them."""
    return {
        "sum_rows": variant("grow/sum_rows", STRIDE=stride),
        "add_parts": variant("grow/add_parts", STRIDE=stride),
        "count_rows": variant("grow/count_rows"),
        "list_rows": variant("grow/list_rows"),
        "find_cuts": variant("grow/find_cuts"),
    }


def padded_rows(rows: TrainingRows) -> NDArray[np.float64]:
    """Rows of z with zeros behind them up to the width that the kernels take."""
    z = np.zeros((len(rows.z), padded_width(rows.width)))
    z[:, : rows.width] = rows.z[:, : rows.width]
    return z


class RowsOnGpu:
    """Owns the buffers; `addresses` is what the engine is told of them.

    Parameters
    ----------
    rows : TrainingRows
    gpu : int

    Raises
    ------
    DeviceError
        If the rows do not fit; the message says how many would.
    ValueError
        If there are too many columns.
    """

    def __init__(self, rows: TrainingRows, gpu: int) -> None:
        cupy = import_cupy()
        n_attributes, n_rows = rows.ranks.shape
        sizes = buffer_sizes(n_rows, n_attributes, rows.width)
        self.gpu = gpu
        with cupy.cuda.Device(gpu):
            _check_memory(cupy, gpu, sizes, n_rows, n_attributes, rows.width)
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._arrays = {
                "z": cupy.asarray(padded_rows(rows)),
                "ranks": cupy.asarray(rows.ranks),
                "order": cupy.asarray(rows.order),
            }
            for name in ("lists", "packet", "parts", "part_counts"):
                self._arrays[name] = cupy.empty(getattr(sizes, name), np.uint8)
            self._pinned = {
                "packet_host": cupy.cuda.alloc_pinned_memory(sizes.packet),
                "results": cupy.cuda.alloc_pinned_memory(sizes.results),
            }
            self._functions = _load_kernels(cupy, gpu, sizes.stride)
            cupy.cuda.runtime.deviceSynchronize()
            n_processors = int(cupy.cuda.Device(gpu).attributes["MultiProcessorCount"])
        self.addresses = {
            **{name: int(array.data.ptr) for name, array in self._arrays.items()},
            **{name: int(memory.ptr) for name, memory in self._pinned.items()},
            **{name: int(function.ptr) for name, function in self._functions.items()},
            **engine_numbers(sizes, n_rows, n_processors),
            "core_work": core_work(n_rows, rows.width),
            "stream": int(self._stream.ptr),
        }

    @contextlib.contextmanager
    def searching(self, engine: Any) -> Iterator[None]:
        """Make the GPU current for the engine's launches, and its errors DeviceErrors."""
        with import_cupy().cuda.Device(self.gpu), explaining_loss(engine, self.gpu):
            yield


def core_work(n_rows: int, width: int) -> int:
    """Multiplications below which a request stays on the cores."""
    all_rows = n_rows * (width * (width + 1) // 2 + 20)
    return 2 * all_rows if CORE_WORK and all_rows < SMALL_DATA else CORE_WORK


def engine_numbers(sizes: Sizes, n_rows: int, n_processors: int) -> dict[str, int]:
    """Give the numbers that the engine needs beside addresses."""
    return {
        "packet_bytes": sizes.packet,
        "results_bytes": sizes.results,
        "n_parts": sizes.n_parts,
        "n_lists": N_LISTS,
        "list_bytes": 8 * n_rows,
        "n_processors": n_processors,
    }


def _load_kernels(cupy: Any, gpu: int, stride: int) -> dict[str, Any]:
    architecture = compiler_architecture(capability(gpu))
    functions = {}
    for name, kernel in kernels(stride).items():
        module = cupy.cuda.function.Module()
        module.load(compile_kernel(kernel, architecture))
        functions[name] = module.get_function(kernel.kernel)
    return functions


def _check_memory(cupy: Any, gpu: int, sizes: Sizes, n_rows: int, n_attributes: int, width: int) -> None:
    """Raise DeviceError if the buffers do not fit into free memory."""
    cupy.get_default_memory_pool().free_all_blocks()
    free = int(cupy.cuda.runtime.memGetInfo()[0])
    if sizes.on_device <= free:
        return
    fitting = n_rows
    while fitting and buffer_sizes(fitting, n_attributes, width).on_device > free:
        fitting = fitting * 9 // 10
    advice = (
        f"about {fitting:,} rows fit: pass fewer rows or" if fitting else "no number of rows fits: free memory or pass"
    )
    raise DeviceError(
        f"cuda:{gpu} has {free:,} bytes free, growing on {n_rows:,} rows of {n_attributes} attributes takes "
        f"{sizes.on_device:,}; {advice} device='cpu'"
    )


@contextlib.contextmanager
def explaining_loss(engine: Any, gpu: int) -> Iterator[None]:
    """Turn an error of the driver during the search into a DeviceError that carries the best tree so far as `best`."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("CUDA_ERROR"):
            raise
        lost = DeviceError(
            f"cuda:{gpu} failed during the search ({error}); the best tree of the generations before is the "
            "attribute `best` of this error"
        )
        lost.best = engine.best()  # type: ignore[attr-defined]
        raise lost from error
