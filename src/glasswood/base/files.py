"""Output files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from glasswood.base.escapes import shown

UNFINISHED = ".glasswood-*.part"
"""Names of files that are being written; one is left only where its process was killed."""


def check_output(path: str | os.PathLike[str], inputs: Iterable[Path] = ()) -> Path:
    """Say which file will be written, before any work: symbolic links are followed.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    PermissionError
        If it cannot be written to.
    ValueError
        If `path` is a folder or a device, or one of the inputs.
    OSError
        If its symbolic links lead in a circle.
    """
    target = resolved(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {shown(path)}: the folder {shown(target.parent)} does not exist; create it first"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(
            f"cannot write {shown(path)}: the folder {shown(target.parent)} is not writable; choose another one"
        )
    if target.exists() and not target.is_file():
        raise ValueError(f"cannot write {shown(path)}: it is not a regular file; give the path of a file")
    for source in inputs:
        if target.exists() and source.exists() and target.samefile(source):
            raise ValueError(
                f"cannot write {shown(path)}: it is the input {shown(source)}; give the path of another file"
            )
    return target


def resolved(path: str | os.PathLike[str]) -> Path:
    """Follow the symbolic links of a path; OSError if they lead in a circle, whatever Python's version says of it."""
    loop = OSError(errno.ELOOP, f"{os.strerror(errno.ELOOP)}; give the path of a file", str(path))
    try:
        target = Path(path).resolve()
    except RuntimeError as error:  # before Python 3.13
        raise loop from error
    if target.is_symlink():  # Python 3.13 leaves such links in the path
        raise loop
    return target


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place, or remove it if the block raises.

    A symbolic link stays a link: the file that it names is replaced. The new file has the mode of the old one.

    Raises
    ------
    FileNotFoundError, PermissionError, ValueError
        As `check_output`, before anything is computed.
    OSError
        Naming `path` if the temporary file cannot be made or written.
    """
    target = check_output(path)
    temporary = target.with_name(f".glasswood-{secrets.token_hex(8)}.part")
    try:
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777 | 0o600 if target.exists() else 0o666
        temporary.touch(mode, exist_ok=False)  # never more open than the old file
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and error.filename in {None, str(temporary)}:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
