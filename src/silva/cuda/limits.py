"""What a GPU has."""

from __future__ import annotations

import functools
from typing import NamedTuple

from silva.device import import_cupy

MULTIPROCESSORS, SHARED_OPT_IN, SHARED_PER_MULTIPROCESSOR = 16, 97, 81
"""CUDA's numbers of the attributes."""


class Limits(NamedTuple):
    """Multiprocessors of a GPU, and bytes of shared memory that a block and that a multiprocessor may have."""

    n_multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int


def gpu_limits() -> Limits:
    """Limits of the current GPU."""
    return _limits(import_cupy().cuda.runtime.getDevice())


@functools.cache
def _limits(gpu: int) -> Limits:
    read = import_cupy().cuda.runtime.deviceGetAttribute
    numbers = (MULTIPROCESSORS, SHARED_OPT_IN, SHARED_PER_MULTIPROCESSOR)
    return Limits(*(int(read(number, gpu)) for number in numbers))
