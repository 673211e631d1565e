"""Threads and device of the calls that have no argument for them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypedDict, TypeVar

from glasswood.base.device import parse_device
from glasswood.base.escapes import quoted

MOST_THREADS = 4096
"""More are a mistake: memory is set aside for each."""

P = ParamSpec("P")
T = TypeVar("T")


class Config(TypedDict):
    """The options, as `get_config` returns them."""

    n_jobs: int
    device: str


class _Block:
    """A ``with`` block and its options; one that has ended counts no more, wherever it is still listed."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self.has_ended = options, False


_process: dict[str, Any] = {}
_blocks: contextvars.ContextVar[tuple[_Block, ...]] = contextvars.ContextVar("glasswood_config", default=())


def get_config() -> Config:
    """Return the options in force here.

    Returns
    -------
    dict
        ``n_jobs`` and ``device``, those of the innermost `config_context` that gives them, otherwise those of
        `set_config`.
    """
    return {"n_jobs": chosen("n_jobs", -1), "device": chosen("device", "auto")}


def set_config(*, n_jobs: int | None = None, device: str | None = None) -> None:
    """Set threads and device of the whole process.

    They apply to calls that have no argument for them, and to arguments that are left at their defaults
    (``n_jobs=None``, ``device="auto"``). Blocks of `config_context` override them.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads; -1 for OMP_NUM_THREADS if it is set, otherwise all cores, as at the start. None changes
        nothing.
    device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}, optional
        Where to run. "auto", as at the start, uses the GPU that holds the rows; rows on the host go to a GPU if that is
        faster. "cuda:all" divides the rows among the GPUs of this machine. None changes nothing.

    Raises
    ------
    ValueError, TypeError
        If an option has no such value.

    See Also
    --------
    config_context : the same for a ``with`` block.

    Examples
    --------
    >>> glasswood.set_config(n_jobs=4)
    >>> glasswood.get_config()["n_jobs"]
    4
    >>> glasswood.set_config(n_jobs=-1)
    """
    _process.update(_checked(n_jobs, device))


@contextlib.contextmanager
def config_context(*, n_jobs: int | None = None, device: str | None = None) -> Iterator[None]:
    """Set threads and device within a ``with`` block.

    Parameters
    ----------
    n_jobs, device : int, str
        As for `set_config`; None leaves what is in force outside the block.

    Raises
    ------
    ValueError, TypeError
        If an option has no such value.

    Notes
    -----
    The options belong to the context (`contextvars`): other threads and asyncio tasks do not see them, glasswood's own
    threads do. A thread that is started within the block starts with the options of `set_config`;
    ``contextvars.copy_context().run`` starts it with those of the block.

    Examples
    --------
    >>> with glasswood.config_context(n_jobs=1, device="cpu"):
    ...     glasswood.get_config()
    {'n_jobs': 1, 'device': 'cpu'}
    """
    block = _Block(_checked(n_jobs, device))
    _blocks.set((*_blocks.get(), block))
    try:
        yield
    finally:
        # Blocks of generators end in any order, and maybe in another context: no block restores what it found.
        block.has_ended = True
        _blocks.set(tuple(one for one in _blocks.get() if not one.has_ended))


def chosen(name: str, default: Any) -> Any:
    """Option that somebody has set, in a block or for the process; else `default`."""
    for block in reversed(_blocks.get()):
        if not block.has_ended and name in block.options:
            return block.options[name]
    return _process.get(name, default)


def device_of(device: str) -> str:
    """Device that an argument means: "auto" is that of the options."""
    found: str = chosen("device", "auto") if isinstance(device, str) and device == "auto" else device
    return found


def carried(task: Callable[P, T]) -> Callable[P, T]:
    """Let a task that runs on other threads have the options in force here; each call has a context of its own."""
    blocks = _blocks.get()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _blocks.set(blocks)
        try:
            return task(*args, **kwargs)
        finally:
            _blocks.reset(token)

    return run


def checked_n_jobs(n_jobs: int) -> int:
    """Return a number of threads, or -1 for all.

    Raises
    ------
    ValueError
        If it is 0, below -1 or above `MOST_THREADS`.
    TypeError
        If it is not an integer.
    """
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__"):
        raise TypeError(f"n_jobs is {quoted(n_jobs)}, expected None, -1 or a number of threads")
    if n_jobs != -1 and not 1 <= n_jobs <= MOST_THREADS:
        raise ValueError(f"n_jobs is {n_jobs}, expected None, -1 or a number of threads up to {MOST_THREADS}")
    return int(n_jobs)


def _checked(n_jobs: int | None, device: str | None) -> dict[str, Any]:
    """Options that are given, as numbers and names."""
    options: dict[str, Any] = {}
    if n_jobs is not None:
        options["n_jobs"] = checked_n_jobs(n_jobs)
    if device is not None:
        parse_device(device)
        options["device"] = device
    return options
