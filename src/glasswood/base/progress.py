"""Messages while users wait: bars of tqdm if it is installed, and lines about work that is done once."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

logger: logging.Logger = logging.getLogger("glasswood")

SILENCE = 1.0
"""Seconds after which users are told what is being done."""


def is_terminal(stream: Any) -> bool:
    """Whether people read a stream of the process: services and programs without a console have none."""
    try:
        return stream is not None and bool(stream.isatty())
    except (AttributeError, ValueError):  # another object, or a closed file
        return False


def shows_bars() -> bool:
    """Whether standard error is a terminal, or the process a notebook's."""
    return is_terminal(sys.stderr) or (sys.stderr is not None and "ipykernel" in sys.modules)


def new_bar(**settings: Any) -> Any:
    """Make a bar; None where nobody would see it, or without tqdm."""
    if not shows_bars():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(**settings)


@contextlib.contextmanager
def counting_rows(n_rows: int | None, what: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished rows on a bar, if there is one."""
    settings: dict[str, Any] = {"total": n_rows, "desc": what, "unit": " rows", "unit_scale": True, "leave": False}
    if is_terminal(sys.stderr):
        width = shutil.get_terminal_size().columns or 80  # some terminals say 0
        with contextlib.suppress(OSError, ValueError):
            width = os.get_terminal_size(sys.stderr.fileno()).columns or width
        settings |= {"file": sys.stderr, "ncols": width, "nrows": 2}
    bar = new_bar(**settings)
    if bar is None:
        yield lambda _: None
        return
    with bar:
        yield bar.update


@contextlib.contextmanager
def announcing(what: str) -> Iterator[None]:
    """Log what is being done if it takes longer than a second."""
    timer = threading.Timer(SILENCE, logger.warning, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
