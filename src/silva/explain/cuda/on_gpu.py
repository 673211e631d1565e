"""Tapes, and which of their sums make which results, in the memory of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from silva.explain.cuda.results import Targets
    from silva.explain.cuda.tapes import Tape
    from silva.typing import Int32s

FETCHED_BEYOND = 2048
"""Words behind the tape that explain/cuda/explain_rows.cu may fetch: a window of 2 KB and 32 lines of 128 bytes."""


class OnGpu:
    """Tapes and targets in the memory of one GPU."""

    def __init__(self, cupy: ModuleType, tapes: list[Tape], targets: Targets, chosen: NDArray[np.intp]) -> None:
        self.tapes = [
            (_padded(cupy, tape.words), cupy.asarray(tape.chunk_starts), cupy.asarray(tape.slot_offsets))
            for tape in tapes
        ]
        self.slot_starts = cupy.asarray(targets.slot_starts)
        self.slots = cupy.asarray(targets.slots)
        self.target = cupy.asarray(targets.target)
        self.mirror = cupy.asarray(targets.mirror)
        self.chosen = cupy.asarray(chosen.astype(np.int32))


def _padded(cupy: ModuleType, words: Int32s) -> Any:
    """Upload a tape with room behind it that the walk fetches but does not use."""
    result = cupy.zeros(len(words) + FETCHED_BEYOND, np.int32)
    result[: len(words)].set(words)
    return result
