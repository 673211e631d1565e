"""Threads of NumPy's BLAS while trees grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def one_blas_thread() -> AbstractContextManager[Any]:
    """Leave one, for the whole process: results of several differ in their last bits from those of another machine.

    Nor do they pay: matrices of refits are narrow, and where processors are busy threads of BLAS spend five times the
    processor time waiting for each other.
    """
    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits
