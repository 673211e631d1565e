"""Output files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place, or remove it if the block raises.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: the folder {target.parent} does not exist; create it first")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _take_mode(temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _take_mode(path: Path) -> None:
    """The mode a plain open() would have given; mkstemp makes files private."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)
