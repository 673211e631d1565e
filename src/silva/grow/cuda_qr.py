"""The paper's evaluation on a GPU: buffers and kernels of its six procedures; the engine launches them itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from silva.cuda.compiler import variant
from silva.device import import_cupy
from silva.grow.cuda import TILE, RowsOnGpu, fitting_memory, load_kernels

if TYPE_CHECKING:
    from silva.cuda.compiler import Variant
    from silva.grow.data import TrainingRows

TILE_DOUBLES = 5888
"""Entries of a tile of rows in shared memory (kTileDoubles of native/grow/householder.h)."""

CHUNK_ROWS = 1024
"""Rows whose squared residuals make one partial sum (kChunkRows)."""

KEY_TILE = 2048
"""Rows that a block sorts (kKeyTile of native/grow/qr_tasks.h)."""

KEYS = 256
N_EVENTS = 7
KERNELS = (
    "redistribute",
    "count_keys",
    "scan_keys",
    "separate",
    "average_columns",
    "reorganise",
    "factorise",
    "calc_models",
    "estimate_errors",
    "reduction",
)


@dataclass(frozen=True)
class QrSizes:
    """Bytes of the buffers of the paper's evaluation.

    Attributes
    ----------
    leaves, sorted_leaves, sorted_rows, spare_rows, tile_counts : int
        Of `redistribute` and `separate`.
    matrices, triangles, means, coefficients, chunks : int
        Of the other procedures: design matrices of all leaves, triangles of their parts, and what becomes of them.
    packet, results : int
        What goes to the GPU with a tree, and what comes back.
    """

    leaves: int
    sorted_leaves: int
    sorted_rows: int
    spare_rows: int
    tile_counts: int
    matrices: int
    triangles: int
    means: int
    coefficients: int
    chunks: int
    packet: int
    results: int

    @property
    def on_device(self) -> int:
        """Bytes of GPU memory."""
        return int(sum(getattr(self, field.name) for field in fields(self))) - self.results


def part_rows(side: int) -> int:
    """Rows of `side` columns that a block factorises (part_rows of native/grow/householder.h)."""
    rows = TILE_DOUBLES // side // 32 * 32
    return max(8 * min(max(rows, 32), 1024), 2 * side)


def qr_sizes(n_rows: int, width: int, max_leaves: int) -> QrSizes:
    """Sizes for trees of so many leaves at most, whose models use all columns of z at most."""
    n_leaves = min(max_leaves, n_rows)
    levels, rows = 1, n_rows
    while rows > part_rows(width):
        rows, levels = -(-rows // part_rows(width)) * (width - 1), levels + 1
    # A leaf has as many rows as columns at least; the levels of its triangles shrink by half or more.
    by_rows = max(2 * n_rows * side * (side - 1) / part_rows(side) for side in range(2, width + 1))
    by_leaf = min(n_leaves * width * width, n_rows * width) * (levels + 1)
    n_columns = n_leaves * width
    n_keys = min(n_leaves, KEYS)
    return QrSizes(
        leaves=2 * n_rows,
        sorted_leaves=2 * n_rows,
        sorted_rows=4 * n_rows,
        spare_rows=4 * n_rows if n_leaves > KEYS else 8,
        tile_counts=4 * n_keys * -(-n_rows // KEY_TILE),
        matrices=8 * n_rows * width,
        triangles=8 * (int(by_rows) + by_leaf),
        means=8 * n_columns,
        coefficients=8 * n_columns,
        chunks=8 * (n_rows // CHUNK_ROWS + n_leaves),
        packet=2**14 + n_leaves * (128 + 8 * width + 48 * levels),
        results=8 * n_leaves,
    )


def qr_kernels() -> dict[str, Variant]:
    """Kernels by the names that the engine gives them."""
    return {name: variant(f"grow/{name}") for name in KERNELS}


def qr_numbers(sizes: QrSizes, width: int) -> dict[str, int]:
    """Give the numbers that the engine needs beside addresses."""
    return {
        "qr_packet_bytes": sizes.packet,
        "qr_results_bytes": sizes.results,
        "qr_n_triangle_doubles": sizes.triangles // 8,
        "qr_n_coefficients": sizes.coefficients // 8,
        "qr_stride": -(-width // TILE) * TILE,
    }


class QrRowsOnGpu(RowsOnGpu):
    """Rows on a GPU with what the paper's evaluation needs beside them.

    Parameters
    ----------
    rows : TrainingRows
    gpu : int
    max_leaves : int

    Raises
    ------
    DeviceError
        If the rows do not fit; the message says how many would.
    """

    def __init__(self, rows: TrainingRows, gpu: int, max_leaves: int) -> None:
        cupy = import_cupy()
        n_rows, width = len(rows.y), rows.width
        needed = lambda fewer: qr_sizes(fewer, width, max_leaves).on_device  # noqa: E731
        super().__init__(rows, gpu, needed)
        sizes = qr_sizes(n_rows, width, max_leaves)
        names = [field.name for field in fields(sizes) if field.name != "results"]
        with cupy.cuda.Device(gpu), fitting_memory(cupy, gpu, needed, n_rows, rows.ranks.shape[0]):
            self._qr = {f"qr_{name}": cupy.empty(getattr(sizes, name), np.uint8) for name in names}
            self._qr_pinned = {
                "qr_packet_host": cupy.cuda.alloc_pinned_memory(sizes.packet),
                "qr_results": cupy.cuda.alloc_pinned_memory(sizes.results),
            }
            self._events = [cupy.cuda.Event() for _ in range(N_EVENTS)]
            self._qr_functions = load_kernels(cupy, gpu, qr_kernels())
        self.addresses |= {
            **{name: int(array.data.ptr) for name, array in self._qr.items()},
            **{name: int(memory.ptr) for name, memory in self._qr_pinned.items()},
            **{name: int(function.ptr) for name, function in self._qr_functions.items()},
            **{f"qr_event{i}": int(event.ptr) for i, event in enumerate(self._events)},
            **qr_numbers(sizes, width),
        }
