"""Tapes, and which of their sums make which results, in the memory of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from silva.explain.cuda.leaf_tapes import LeafTape
    from silva.explain.cuda.results import Targets
    from silva.explain.cuda.tapes import Tape


class OnGpu:
    """Tapes and targets in the memory of one GPU."""

    def __init__(
        self, cupy: ModuleType, tapes: Sequence[Tape | LeafTape], targets: Targets, chosen: NDArray[np.intp]
    ) -> None:
        self.tapes = [tape.upload(cupy) for tape in tapes]
        self.host_starts, self.slot_starts = targets.slot_starts, cupy.asarray(targets.slot_starts)
        self.slots = cupy.asarray(targets.slots)
        self.target = cupy.asarray(targets.target)
        self.mirror = cupy.asarray(targets.mirror)
        self.chosen = cupy.asarray(chosen.astype(np.int32))
