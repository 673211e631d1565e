"""Limits of each GPU, and what is made once on each that uses it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from glasswood.base.device import import_cupy

Made = TypeVar("Made")

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


class PerGpu:
    """Objects in the memory of GPUs, made at the first use there; a copy of what holds them makes its own."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, object], Any] = {}

    def get(self, make: Callable[[], Made], key: object = None) -> Made:
        """Return what `make()` has made for the key on the current GPU."""
        cuda = import_cupy().cuda
        at = cuda.runtime.getDevice(), key
        if at not in self._made:
            self._made[at] = make()
            cuda.get_current_stream().synchronize()
        made: Made = self._made[at]
        return made

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()
