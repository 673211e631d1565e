"""Models that travel with a task, as bytes or as the path of a file, and are opened once in each process."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from glasswood import __version__
from glasswood.base.escapes import shown
from glasswood.base.files import replacing

MOST_OPEN = 4
"""Models that a process keeps open; a fifth replaces the least recently used."""

_OPEN: OrderedDict[tuple[object, ...], Any] = OrderedDict()
_LOCKS: dict[int, threading.Lock] = {}
"""By process: a process forked while another thread opened a model must not wait for that thread."""


class Carried(NamedTuple):
    """Content of a `.glasswood` file, or where it is, and what it must be.

    Attributes
    ----------
    source : bytes or str
        The content, or the path of a file that all workers see.
    digest : str
        BLAKE2 of the content.
    version : str
        Version of the glasswood that made it.
    """

    source: bytes | str
    digest: str
    version: str


def carry(content: bytes, path: str | os.PathLike[str] | None = None) -> Carried:
    """Make a model travel; with `path` it is written there, and only the path travels.

    Raises
    ------
    OSError, ValueError
        If the file cannot be written (`glasswood.base.files.check_output`).
    """
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    if path is None:
        return Carried(content, digest, __version__)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return Carried(str(Path(path).resolve()), digest, __version__)


def opened(carried: Carried, settings: tuple[object, ...], make: Callable[[bytes | str], Any]) -> Any:
    """Open a model, or return what this process has opened with the same settings.

    Raises
    ------
    RuntimeError
        If another version of glasswood made it.
    FileNotFoundError
        If this process does not see its file.
    ValueError
        If the file's content is another one by now.
    """
    if carried.version != __version__:
        raise RuntimeError(
            f"this worker has glasswood {__version__}, the mapper was made by glasswood "
            f"{shown(carried.version)}; install the same version everywhere"
        )
    key = (carried.digest, *settings)
    with _LOCKS.setdefault(os.getpid(), threading.Lock()):
        if key not in _OPEN:
            if isinstance(carried.source, str):
                _check_file(carried)
            _OPEN[key] = make(carried.source)
        _OPEN.move_to_end(key)
        while len(_OPEN) > MOST_OPEN:
            _OPEN.popitem(last=False)
        return _OPEN[key]


def _check_file(carried: Carried) -> None:
    path = Path(carried.source if isinstance(carried.source, str) else "")
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"this worker cannot see the mapper's model {shown(path)}; pass a path that all workers can see, or none"
        ) from error
    if found != carried.digest:
        raise ValueError(f"{shown(path)} is not the mapper's model any more; make another mapper")
