"""How many threads a call may use."""

from __future__ import annotations

import os

from silva import _core

_thread_owner: int | None = None
"""Process that started threads first. They do not survive a fork, and OpenMP would wait for them forever."""


def n_threads(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is what OpenMP would take (all cores, fewer under threadpoolctl), -1 all of them.

    A process forked after its parent asked for several threads gets one, whatever `n_jobs` says; the results are the
    same.

    Raises
    ------
    ValueError
        If `n_jobs` is 0 or below -1.
    TypeError
        If it is no integer.
    """
    if n_jobs is None or n_jobs == -1:
        return _after_fork(int(_core.max_threads()))
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__"):
        raise TypeError(f"n_jobs is {n_jobs!r}, expected None, -1 or a number of threads")
    if n_jobs < 1:
        raise ValueError(f"n_jobs is {n_jobs}, expected None, -1 or a number of threads")
    return _after_fork(int(n_jobs))


def _after_fork(wanted: int) -> int:
    """Return `wanted`, or 1 where the threads were left behind in the parent process."""
    global _thread_owner
    if wanted > 1 and _thread_owner is None:
        _thread_owner = os.getpid()
    return wanted if _thread_owner in {None, os.getpid()} else 1
