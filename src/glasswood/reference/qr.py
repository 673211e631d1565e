"""The evaluation of the cuGMT paper on a GPU: buffers and kernels of its six procedures, which the engine launches.

K. Jurczuk, M. Czajkowski, M. Kretowski, "GPU-based acceleration of evolutionary induction of model trees", Applied Soft
Computing 119 (2022), https://doi.org/10.1016/j.asoc.2022.108503, section 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glasswood import _core
from glasswood.cuda.compiler import variant

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant

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
    """Bytes of the buffers on the GPU, for trees of up to `max_leaves` leaves, whose models use up to all columns of z.

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


def qr_kernels(stored_type: str = "double") -> dict[str, Variant]:
    """Kernels by the names that the engine gives them; z is stored as this type of C."""
    stored = {"STORED": stored_type}
    return {
        name: variant(f"reference/grow/cuda/kernels/{name}", **(stored if name in READ_ROWS else {}))
        for name in KERNELS
    }
