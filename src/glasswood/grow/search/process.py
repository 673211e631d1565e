"""What trees that grow change in their process: Ctrl-C ends the search and keeps its result; BLAS has one thread."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from glasswood.base.config import config_context


class Threaded(Protocol):
    """An estimator that says how many threads it takes."""

    n_jobs: int | None


S = TypeVar("S", bound=Threaded)
P = ParamSpec("P")
T = TypeVar("T")


class Interrupts:
    """Handler of SIGINT.

    Parameters
    ----------
    noted : Interrupts, optional
        The handler, for searches beside each other: they ask whether an interrupt has come, and do not set `raises`
        of the thread that waits for them.
    is_same_thread : bool
        Whether the handler's own thread searches, within a call that searches several times: it sets `raises` too.

    Attributes
    ----------
    raises : bool
        Whether the next one raises KeyboardInterrupt, once; else it is noted only.
    """

    def __init__(self, noted: Interrupts | None = None, is_same_thread: bool = False) -> None:
        self._noted, self._raising, self._came = noted, noted if is_same_thread else None, False
        self._raises = False

    @property
    def raises(self) -> bool:
        """Whether the next one raises KeyboardInterrupt."""
        return self._raises if self._raising is None else self._raising.raises

    @raises.setter
    def raises(self, value: bool) -> None:
        if self._raising is None:
            self._raises = value
        else:
            self._raising.raises = value

    @property
    def have_come(self) -> bool:
        """Whether any has come."""
        return self._came if self._noted is None else self._noted.have_come

    def __call__(self, _number: int, _frame: object) -> None:
        """Note the signal."""
        raises, self.raises, self._came = self.raises, False, True
        if raises:
            raise KeyboardInterrupt


def on_own_threads(fit: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let `n_jobs` of an estimator be the threads of whatever asks the options while it is fitted."""

    @functools.wraps(fit)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with config_context(n_jobs=self.n_jobs):
            return fit(self, *args, **kwargs)

    return run


@contextlib.contextmanager
def undisturbed() -> Iterator[Interrupts]:
    """Note interrupts, and leave BLAS one thread, for the whole process.

    Results of several threads differ in their last bits from those of another machine. Nor do they pay: matrices of
    refits are narrow, and where processors are busy threads of BLAS spend five times the processor time waiting for
    each other.
    """
    with keeping_interrupts() as interrupts, _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield interrupts


@functools.lru_cache(maxsize=1)
def _libraries(_n_modules: int) -> ThreadpoolController:
    """Find the libraries with threads: again only after imports, for it takes 3 ms, and many fits take 20."""
    return ThreadpoolController()


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[Interrupts]:
    """Note interrupts instead of raising them where Python's own handler would raise: in the main thread.

    Within such a block, another one has the interrupts of the first: one Ctrl-C ends all searches of a call.
    """
    interrupts, handler = Interrupts(), signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and isinstance(handler, Interrupts):
        yield Interrupts(handler, is_same_thread=True)
        return
    if not is_main or handler is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
