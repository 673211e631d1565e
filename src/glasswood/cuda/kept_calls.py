"""Calls on GPUs like earlier ones: their launches and buffers are kept, so that one takes microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from glasswood import _core
from glasswood.base.device import import_cupy
from glasswood.cuda import launches
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.launches import Plan

SPARE_BYTES = 2**20
"""Results up to this size are allocated ahead."""


class Calls:
    """Calls on GPU rows, by what was asked for; native/common/cuda/calls.cpp keeps them.

    Attributes
    ----------
    again : callable
        Takes rows, output, algorithm and device; answers where an earlier call of this thread had rows, arguments and a
        stream like these, else returns None.
    """

    def __init__(self) -> None:
        self._kept: Any = None
        self.again: Callable[[Any, str, str, str], Any] = _no_answer

    def answer(
        self, X: Any, request: tuple[str, str, str], plan: Plan, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Any:
        """Answer for CuPy rows on the current GPU by a plan of the current stream, which is kept for `again`."""
        result = import_cupy().empty(shape, dtype)
        plan.run(X, result)
        if hasattr(_core, "GpuCalls"):  # nowhere but on Linux
            if self._kept is None:
                self._kept = _make_calls(type(X))
                self.again = self._kept.again
            spare = result.nbytes if result.nbytes <= SPARE_BYTES else 0
            self._kept.keep(X, *request, plan.bound(), shape, result.dtype, spare)
        return result


def _no_answer(X: Any, output: str, algorithm: str, device: str) -> None:
    """Answer nothing without an earlier call."""


def may_be_kept(X: Any, forest: TreeEnsemble) -> bool:
    """Whether calls on such rows need no more than launches: CuPy rows on the current GPU that nothing is asked of."""
    is_plain = type(X).__module__ == "cupy" and X.dtype.char in "fd" and len(X) > 0 and forest.nan_allowed
    return is_plain and X.device.id == import_cupy().cuda.runtime.getDevice()


def _make_calls(array_type: type) -> _core.GpuCalls:
    cupy = import_cupy()
    cuda = cupy.cuda
    functions = getattr(cuda.stream, "__pyx_capi__", {})
    return _core.GpuCalls(
        driver=launches.DRIVER,
        array_type=array_type,
        current_stream=lambda: cuda.get_current_stream().ptr,
        capsule=functions.get("get_current_stream_ptr"),
        empty=cupy.empty,
        out_of_memory=cuda.memory.OutOfMemoryError,
        most=launches.KEPT,
        most_bytes=launches.kept_bytes(),
    )
