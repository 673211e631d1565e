"""Limits of a GPU."""

from __future__ import annotations

import functools
from typing import NamedTuple

from silva.device import import_cupy

MULTIPROCESSORS, SHARED_OPT_IN, SHARED_PER_MULTIPROCESSOR = 16, 97, 81
"""CUDA's numbers of the attributes."""


class Limits(NamedTuple):
    """Multiprocessors of a GPU, bytes of shared memory of a block and of a multiprocessor at most, bytes of memory."""

    n_multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int
    memory: int


def gpu_limits() -> Limits:
    """Limits of the current GPU; its memory up to the limit of CuPy's pool."""
    cupy = import_cupy()
    limits = _limits(cupy.cuda.runtime.getDevice())
    bound = cupy.get_default_memory_pool().get_limit()
    return limits._replace(memory=min(limits.memory, int(bound))) if bound else limits


@functools.cache
def _limits(gpu: int) -> Limits:
    runtime = import_cupy().cuda.runtime
    multiprocessors, block, multiprocessor = (
        int(runtime.deviceGetAttribute(number, gpu))
        for number in (MULTIPROCESSORS, SHARED_OPT_IN, SHARED_PER_MULTIPROCESSOR)
    )
    return Limits(multiprocessors, block, multiprocessor, int(runtime.memGetInfo()[1]))
