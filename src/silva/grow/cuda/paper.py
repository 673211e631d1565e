"""The paper's evaluation on a GPU: buffers and kernels of its six procedures; the engine launches them itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from silva import _core
from silva.cuda.compiler import variant
from silva.grow.cuda.parts import padded_width
from silva.grow.cuda.rows import C_TYPES, RowsOnGpus, filled

if TYPE_CHECKING:
    from silva.cuda.compiler import Variant
    from silva.grow.cuda.rows import Memory
    from silva.grow.data import TrainingRows

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
READ_ROWS = ("average_columns", "reorganise")
"""Those that read z."""


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


def qr_sizes(n_rows: int, width: int, max_leaves: int) -> QrSizes:
    """Sizes for trees of so many leaves at most, whose models use all columns of z at most."""
    n_leaves = min(max_leaves, n_rows)
    levels, rows = 1, n_rows
    while rows > _core.qr_block_rows(width):
        rows, levels = -(-rows // _core.qr_block_rows(width)) * (width - 1), levels + 1
    # A leaf has as many rows as columns at least; the levels of its triangles shrink by half or more.
    by_rows = max(2 * n_rows * side * (side - 1) / _core.qr_block_rows(side) for side in range(2, width + 1))
    by_leaf = min(n_leaves * width * width, n_rows * width) * (levels + 1)
    n_columns = n_leaves * width
    n_keys = min(n_leaves, _core.QR_KEYS)
    return QrSizes(
        leaves=2 * n_rows,
        sorted_leaves=2 * n_rows,
        sorted_rows=4 * n_rows,
        spare_rows=4 * n_rows if n_leaves > _core.QR_KEYS else 8,
        tile_counts=4 * n_keys * -(-n_rows // _core.QR_KEY_TILE),
        matrices=8 * n_rows * width,
        triangles=8 * (int(by_rows) + by_leaf),
        means=8 * n_columns,
        coefficients=8 * n_columns,
        chunks=8 * (n_rows // _core.QR_CHUNK_ROWS + n_leaves),
        packet=2**14 + n_leaves * (128 + 8 * width + 48 * levels),
        results=8 * n_leaves,
    )


def qr_kernels(z_bytes: int = 8) -> dict[str, Variant]:
    """Kernels by the names that the engine gives them; a number of z takes `z_bytes`."""
    stored = {"STORED": C_TYPES[z_bytes]}
    return {name: variant(f"grow/paper/kernels/{name}", **(stored if name in READ_ROWS else {})) for name in KERNELS}


def lay_out_qr(sizes: QrSizes, rows: TrainingRows, memory: Memory, search: _core.GrowGpu) -> None:
    """Take the buffers and tell the engine of them, beside the only part of the rows and its stream."""
    buffers = [field.name for field in fields(sizes) if field.name != "results"]
    (part,), (stream,) = search.parts, search.streams
    search.qr = filled(
        _core.GrowQr(),
        z=part.z,
        ranks=part.ranks,
        stream=stream.stream,
        gpu=stream.gpu,
        **{name: memory.reserve(getattr(sizes, name)) for name in buffers},
        packet_host=memory.pin(sizes.packet),
        results=memory.pin(sizes.results),
        events=[memory.make_event() for _ in range(_core.QR_EVENTS)],
        **memory.load(qr_kernels(rows.z.itemsize)),
        packet_bytes=sizes.packet,
        results_bytes=sizes.results,
        n_triangle_doubles=sizes.triangles // 8,
        n_coefficients=sizes.coefficients // 8,
        stride=padded_width(rows.width),
    )


class QrRowsOnGpu(RowsOnGpus):
    """Rows on one GPU with what the paper's evaluation needs beside them.

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
        width = rows.width
        super().__init__(rows, (gpu,), None, lambda n_rows: qr_sizes(n_rows, width, max_leaves).on_device)
        sizes, (memory,) = qr_sizes(len(rows.y), width, max_leaves), self._memories
        lay_out_qr(sizes, rows, memory, self.search)
