"""Rows of algorithm="qr" on a GPU, whose method is in reference/qr.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glasswood import _core
from glasswood.grow.cuda.rows import C_TYPES, RowsOnGpus, filled
from glasswood.reference.qr import qr_kernels, qr_sizes

if TYPE_CHECKING:
    from glasswood.grow.data.rows import TrainingRows


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
            **memory.load(qr_kernels(C_TYPES[rows.z.itemsize])),
            packet_bytes=sizes["packet"],
            results_bytes=result_bytes,
            n_triangle_doubles=sizes["triangles"] // 8,
            n_coefficients=sizes["coefficients"] // 8,
        )
