"""Threads: how many a call may use, tasks on several, and properties that several may ask for first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar, overload

from glasswood import _core

T = TypeVar("T")
U = TypeVar("U")

MOST_THREADS = 4096
"""More are a mistake: memory is set aside for each."""


def n_threads(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None and -1 are OMP_NUM_THREADS where it is set when glasswood is imported, else all cores.

    Raises
    ------
    ValueError
        If `n_jobs` is 0, below -1 or above `MOST_THREADS`.
    TypeError
        If it is not an integer.
    """
    if n_jobs is None or n_jobs == -1:
        return int(_core.max_threads())
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__"):
        raise TypeError(f"n_jobs is {n_jobs!r}, expected None, -1 or a number of threads")
    if not 1 <= n_jobs <= MOST_THREADS:
        raise ValueError(f"n_jobs is {n_jobs}, expected None, -1 or a number of threads up to {MOST_THREADS}")
    return int(n_jobs)


def side_by_side(task: Callable[[int], T], n_tasks: int, n_threads: int) -> Sequence[T]:
    """Results of task(0) to task(n_tasks - 1), in order, on up to `n_threads` threads: NumPy's loops let others run."""
    if min(n_threads, n_tasks) < 2:
        return [task(k) for k in range(n_tasks)]
    with ThreadPoolExecutor(min(n_threads, n_tasks)) as pool:
        return list(pool.map(task, range(n_tasks)))


def beside(task: Callable[[], T], other: Callable[[], U], n_threads: int) -> tuple[T, U]:
    """Results of two tasks, beside each other where there are two threads."""
    if n_threads < 2:
        return task(), other()
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(other)
        return task(), later.result()


class cached_property(Generic[T]):  # noqa: N801
    """functools.cached_property without its lock, as Python has it since 3.12.

    Where several threads ask first, each may compute the value, and all get the same one. A process that forks while
    another thread computes one would wait for the lock forever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> cached_property[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
