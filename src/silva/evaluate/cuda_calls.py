"""Calls on GPUs like earlier ones: their launches and buffers are kept, so that one takes microseconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.encoder import row_strides
from silva.device import import_cupy

if TYPE_CHECKING:
    from silva.evaluate.cuda_few import FewPlan, FewRows
    from silva.evaluate.cuda_tiles import TilePlan, Tiles

KEPT = 32
"""Plans, and calls, that a thread keeps."""

SPARE_BYTES = 2**20
"""Results up to this size are allocated ahead."""


class Plans:
    """Plans of a thread by schedule, rows and stream; the oldest gives way."""

    def __init__(self) -> None:
        self._local = threading.local()

    def of(self, schedule: FewRows | Tiles, x: Any, result_type: Any) -> FewPlan | TilePlan:
        """Plan for rows of this type, strides and number on the current GPU and stream."""
        gpu, stream = current()
        plans: dict[Any, FewPlan | TilePlan] = self._local.__dict__.setdefault("plans", {})
        key = type(schedule), x.dtype.char, x.strides, len(x), np.dtype(result_type).char, gpu, stream
        if key not in plans:
            make_room(plans)
            plans[key] = schedule.plan(x.dtype, row_strides(x), len(x), result_type)
        return plans[key]


class Calls:
    """Calls of a thread that return margins of GPU rows, by what was asked; the oldest gives way.

    A launch for one row takes the GPU as long as a few tens of Python's operations take the host: hence few of them.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def again(self, X: Any, output: str, algorithm: str, device: str) -> Any:
        """Margins where the last calls had rows, arguments and a stream like these, otherwise None.

        None as well where memory is short: the long way says how much was asked and is free.
        """
        try:
            thread: _Thread = self._local.thread
        except AttributeError:
            return None
        if type(X) is not thread.array_type:
            return None
        rows = X.data
        here = thread.get_device(), thread.get_stream().ptr
        key = output, algorithm, device, X.shape, X.strides, X.dtype.char, rows.device_id, here
        call = thread.calls.get(key)
        try:
            return None if call is None else call(rows.ptr)
        except thread.out_of_memory:
            return None

    def keep(self, X: Any, question: tuple[str, str, str], call: Call) -> None:
        """Keep what answers a question on CuPy rows of the current GPU, in its current stream."""
        if not hasattr(self._local, "thread"):
            self._local.thread = _Thread(type(X))
        calls = self._local.thread.calls
        make_room(calls)
        calls[*question, X.shape, X.strides, X.dtype.char, X.data.device_id, current()] = call


class _Thread:
    """Calls of a thread, and what each of them asks CuPy."""

    def __init__(self, array_type: type) -> None:
        cuda = import_cupy().cuda
        self.array_type: Any = array_type
        self.get_device, self.get_stream = cuda.runtime.getDevice, cuda.get_current_stream
        self.out_of_memory = cuda.memory.OutOfMemoryError
        self.calls: dict[Any, Call] = {}


class Call:
    """A plan and the array that its next result goes to, for the current stream.

    Parameters
    ----------
    plan : FewPlan or TilePlan
    shape, dtype
        Of the result.
    """

    def __init__(self, plan: FewPlan | TilePlan, shape: tuple[int, ...], dtype: Any) -> None:
        self._run, self._empty = plan.bind(current()[1]), import_cupy().empty
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._is_small = int(np.prod(shape)) * self._dtype.itemsize <= SPARE_BYTES
        self._out_of_memory = import_cupy().cuda.memory.OutOfMemoryError
        self._spare: Any = None
        self._address = 0

    def __call__(self, address: int) -> Any:
        """Queue the work for rows at an address and return the result."""
        out, self._spare = self._spare, None
        if out is None:
            out = self._empty(self._shape, self._dtype)
            self._address = out.data.ptr
        self._run(address, self._address)
        if self._is_small:
            # An allocation takes as long as a launch; the GPU is at work meanwhile.
            try:
                spare = self._empty(self._shape, self._dtype)
            except self._out_of_memory:
                return out
            self._address = spare.data.ptr
            self._spare = spare
        return out


def current() -> tuple[int, int]:
    """Return the current GPU and stream."""
    cuda = import_cupy().cuda
    return cuda.runtime.getDevice(), cuda.get_current_stream().ptr


def make_room(kept: dict[Any, Any]) -> None:
    """Drop the oldest until there is room for one more."""
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]
