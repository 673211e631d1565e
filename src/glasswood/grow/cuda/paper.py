"""The paper's evaluation on a GPU: buffers and kernels of its six procedures; the engine launches them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glasswood import _core
from glasswood.cuda.compiler import variant
from glasswood.grow.cuda.rows import C_TYPES, RowsOnGpus, filled

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.grow.data.rows import TrainingRows

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


def qr_sizes(n_rows: int, width: int, max_leaves: int) -> dict[str, int]:
    """Bytes of the buffers on the GPU, for trees of so many leaves at most, whose models use all columns of z at most.

    Those of `redistribute` and `separate`; of design matrices of all leaves, triangles of their parts and what becomes
    of them; and of the packet that goes to the GPU with a tree.
    """
    n_leaves = min(max_leaves, n_rows)
    levels, rows = 1, n_rows
    while rows > _core.qr_block_rows(width):
        rows, levels = -(-rows // _core.qr_block_rows(width)) * (width - 1), levels + 1
    # A leaf has as many rows as columns at least; the levels of its triangles shrink by half or more.
    by_rows = max(2 * n_rows * side * (side - 1) / _core.qr_block_rows(side) for side in range(2, width + 1))
    by_leaf = min(n_leaves * width * width, n_rows * width) * (levels + 1)
    n_columns = n_leaves * width
    n_keys = min(n_leaves, _core.QR_KEYS)
    return {
        "leaves": 2 * n_rows,
        "sorted_leaves": 2 * n_rows,
        "sorted_rows": 4 * n_rows,
        "spare_rows": 4 * n_rows if n_leaves > _core.QR_KEYS else 8,
        "tile_counts": 4 * n_keys * -(-n_rows // _core.QR_KEY_TILE),
        "matrices": 8 * n_rows * width,
        "triangles": 8 * (int(by_rows) + by_leaf),
        "means": 8 * n_columns,
        "coefficients": 8 * n_columns,
        "chunks": 8 * (n_rows // _core.QR_CHUNK_ROWS + n_leaves),
        "packet": 2**14 + n_leaves * (128 + 8 * width + 48 * levels),
    }


def qr_kernels(z_bytes: int = 8) -> dict[str, Variant]:
    """Kernels by the names that the engine gives them; a number of z takes `z_bytes`."""
    stored = {"STORED": C_TYPES[z_bytes]}
    return {name: variant(f"grow/paper/kernels/{name}", **(stored if name in READ_ROWS else {})) for name in KERNELS}


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
        width, result_bytes = rows.width, 8 * min(max_leaves, len(rows.y))
        super().__init__(rows, (gpu,), None, lambda n_rows: sum(qr_sizes(n_rows, width, max_leaves).values()))
        sizes, (memory,) = qr_sizes(len(rows.y), width, max_leaves), self._memories
        self.search.qr = filled(
            _core.GrowQr(),
            **{name: memory.reserve(n_bytes) for name, n_bytes in sizes.items()},
            packet_host=memory.pin(sizes["packet"]),
            results=memory.pin(result_bytes),
            events=[memory.make_event() for _ in range(_core.QR_EVENTS)],
            **memory.load(qr_kernels(rows.z.itemsize)),
            packet_bytes=sizes["packet"],
            results_bytes=result_bytes,
            n_triangle_doubles=sizes["triangles"] // 8,
            n_coefficients=sizes["coefficients"] // 8,
        )
