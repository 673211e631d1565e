"""Threads: how many a call may use, tasks on several, and properties that several may ask for first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar, overload

from glasswood import _core
from glasswood.base.config import carried, checked_n_jobs, chosen

T = TypeVar("T")
U = TypeVar("U")


def n_threads(n_jobs: int | None) -> int:
    """Resolve `n_jobs`: None is that of the options (`glasswood.set_config`).

    -1 is OMP_NUM_THREADS where it is set when glasswood is imported, else all cores.

    Raises
    ------
    ValueError, TypeError
        As `checked_n_jobs`.
    """
    checked = chosen("n_jobs", -1) if n_jobs is None else checked_n_jobs(n_jobs)
    return int(_core.max_threads()) if checked == -1 else checked


def side_by_side(task: Callable[[int], T], n_tasks: int, n_threads: int) -> Sequence[T]:
    """Results of task(0) to task(n_tasks - 1), in order, on up to `n_threads` threads: NumPy's loops let others run."""
    if min(n_threads, n_tasks) < 2:
        return [task(k) for k in range(n_tasks)]
    with ThreadPoolExecutor(min(n_threads, n_tasks)) as pool:
        return list(pool.map(carried(task), range(n_tasks)))


def beside(task: Callable[[], T], other: Callable[[], U], n_threads: int) -> tuple[T, U]:
    """Results of two tasks, beside each other where there are two threads."""
    if n_threads < 2:
        return task(), other()
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(carried(other))
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
