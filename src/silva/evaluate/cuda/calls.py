"""Calls on GPUs like earlier ones: their launches and buffers are kept, so that one takes microseconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.cuda import prepared
from silva.cuda.encoder import row_strides
from silva.device import import_cupy

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from silva.cuda.prepared import Plan
    from silva.evaluate.cuda.few import FewRows
    from silva.evaluate.cuda.tiles import Tiles
    from silva.typing import GpuArray

KEPT, KEPT_BYTES = 32, 2**25
"""Plans that a thread keeps, and calls that all threads keep; bytes of the buffers of either."""

SPARE_BYTES = 2**20
"""Results up to this size are allocated ahead."""


class Plans:
    """Plans of a thread by schedule, rows and stream; the oldest gives way."""

    def __init__(self) -> None:
        self._local = threading.local()

    def of(self, schedule: FewRows | Tiles, x: GpuArray, result_type: DTypeLike) -> Plan:
        """Plan for rows of this type, strides and number on the current GPU and stream."""
        gpu, stream = current()
        plans: dict[object, Plan] = self._local.__dict__.setdefault("plans", {})
        key = type(schedule), x.dtype.char, x.strides, len(x), np.dtype(result_type).char, gpu, stream
        if key not in plans:
            plan = schedule.plan(x.dtype, row_strides(x), len(x), result_type)
            while plans and (len(plans) >= KEPT or _bytes_of(plans) + plan.n_bytes > KEPT_BYTES):
                del plans[next(iter(plans))]
            plans[key] = plan
        return plans[key]


class Calls:
    """Calls that return margins of GPU rows, by what was asked, kept by the core (native/evaluate/cuda/calls.cpp)."""

    def __init__(self) -> None:
        self._native: Any = None

    def again(self, X: object, output: str, algorithm: str, device: str) -> Any:
        """Margins where an earlier call of this thread had rows, arguments and a stream like these, otherwise None."""
        return None if self._native is None else self._native.again(X, output, algorithm, device)

    def answer(
        self, X: Any, request: tuple[str, str, str], plan: Plan, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        """Margins of CuPy rows on the current GPU by a plan of the current stream, which is kept for `again`."""
        cupy = import_cupy()
        result = cupy.empty(shape, dtype)
        plan.run(X.data.ptr, result.data.ptr, current()[1])
        if hasattr(_core, "GpuCalls"):  # nowhere but on Linux
            self._native = self._native or _make_native(type(X))
            spare = result.nbytes if result.nbytes <= SPARE_BYTES else 0
            self._native.keep(X, request, plan.recipe(), (cupy.empty, shape, result.dtype), plan.n_bytes, spare)
        return result


def _make_native(array_type: type) -> Any:
    cuda = import_cupy().cuda
    functions = getattr(cuda.stream, "__pyx_capi__", {})
    return _core.GpuCalls(
        driver=prepared.DRIVER,
        array_type=array_type,
        current_stream=lambda: cuda.get_current_stream().ptr,
        capsule=functions.get("get_current_stream_ptr"),
        out_of_memory=cuda.memory.OutOfMemoryError,
        most=KEPT,
        most_bytes=KEPT_BYTES,
    )


def current() -> tuple[int, int]:
    """Return the current GPU and stream."""
    cuda = import_cupy().cuda
    return cuda.runtime.getDevice(), cuda.get_current_stream().ptr


def _bytes_of(plans: dict[object, Plan]) -> int:
    return sum(plan.n_bytes for plan in plans.values())
