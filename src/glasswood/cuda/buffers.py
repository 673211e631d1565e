"""Memory between the launches of a plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from glasswood.base.device import import_cupy
from glasswood.base.typing import Array
from glasswood.cuda.per_gpu import gpu_limits

KEPT_SHARE = 1024
"""Buffers up to this part of a GPU's memory are allocated once: while memory is allocated the GPU waits, for longest
where other work has emptied the caches."""

ALIGNMENT = 256
"""Bytes: what CuPy's own allocations begin at multiples of."""


class Place(NamedTuple):
    """An argument that names a buffer."""

    cell: Array
    """As `PreparedLaunch.cell` gives it."""
    buffer: int
    """Number of the buffer."""
    offset: int = 0
    """Bytes from the buffer's beginning to the address."""


class Buffers:
    """Buffers in one piece of memory, whose addresses launches take.

    Parameters
    ----------
    sizes : list of int
        Bytes of each.
    places : list of Place

    Attributes
    ----------
    n_bytes : int
        Of memory that is kept; 0 if `make` allocates it for each call.
    """

    def __init__(self, sizes: list[int], places: list[Place]) -> None:
        starts = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()
        self._total = max(starts[-1], 1)
        self._places = [(place.cell, starts[place.buffer] + place.offset) for place in places]
        self.n_bytes: int = self._total if self._total <= gpu_limits().memory // KEPT_SHARE else 0
        self._kept = self.make() if self.n_bytes else None

    def make(self) -> Any:
        """Allocate the memory and name it to the launches."""
        memory = import_cupy().empty(self._total, np.uint8)
        address: int = memory.data.ptr
        for cell, offset in self._places:
            cell[0] = address + offset
        return memory
