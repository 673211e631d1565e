"""A bar of finished rows."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(n_rows: int | None, what: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished rows, on a bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    shape = {"ncols": os.get_terminal_size(sys.stderr.fileno()).columns or 80, "nrows": 2}  # some terminals say 0
    with tqdm(total=n_rows, desc=what, unit=" rows", unit_scale=True, leave=False, file=sys.stderr, **shape) as bar:
        yield bar.update
