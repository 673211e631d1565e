"""How many threads a call may use."""

from __future__ import annotations

from silva import _core

MOST_THREADS = 4096
"""More are a mistake: memory is set aside for each."""


def n_threads(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is what OpenMP would take (all cores, fewer under threadpoolctl), -1 all of them.

    Raises
    ------
    ValueError
        If `n_jobs` is 0, below -1 or above `MOST_THREADS`.
    TypeError
        If it is no integer.
    """
    if n_jobs is None or n_jobs == -1:
        return int(_core.max_threads())
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__"):
        raise TypeError(f"n_jobs is {n_jobs!r}, expected None, -1 or a number of threads")
    if not 1 <= n_jobs <= MOST_THREADS:
        raise ValueError(f"n_jobs is {n_jobs}, expected None, -1 or a number of threads up to {MOST_THREADS}")
    return int(n_jobs)
