"""Directories of parts: they appear complete, or stay unfinished for a run that resumes them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from glasswood.base.files import UNFINISHED, check_output, replacing, resolved

PART_SUFFIX = {"csv": ".csv", "parquet": ".parquet", "arrow": ".arrow"}

JOB = "job.json"
"""Name of the file that says, in an unfinished directory, what its parts are."""


@contextlib.contextmanager
def new_directory(path: Path, job: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """Yield a temporary directory, which gets its name when the block is left without error.

    Parameters
    ----------
    path : path
    job : mapping, optional
        All that the parts depend on. With it, an error leaves the finished parts in ``<path>.unfinished``, and that is
        the directory which the next run of the same job gets.

    Raises
    ------
    FileExistsError
        If there is something of that name that is not an empty directory.
    ValueError
        If the unfinished directory belongs to another job.
    """
    check_directory(path)
    target = resolved(path)
    temporary = target.with_name(f".glasswood-{secrets.token_hex(8)}.part") if job is None else unfinished(path)
    try:
        if job is None:
            temporary.mkdir()
        else:
            _begin(temporary, job)
        yield temporary
        if job is not None:
            (temporary / JOB).unlink()
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    except BaseException:
        if job is None:
            _remove(temporary)
        raise


def unfinished(path: Path) -> Path:
    """Name the directory of a job that can be resumed."""
    target = resolved(path)
    return target.with_name(f"{target.name}.unfinished")


def finished_parts(folder: Path, form: str) -> list[Path]:
    """List the parts that a run has finished."""
    return sorted(folder.glob(f"part-*{PART_SUFFIX[form]}"))


def _begin(folder: Path, job: Mapping[str, Any]) -> None:
    """Make the directory of a job, or go on with the one that is there."""
    told = folder / JOB
    if told.is_file():
        found = json.loads(told.read_text(encoding="utf-8"))
        if differs := [name for name in {**found, **job} if found.get(name) != job.get(name)]:
            raise ValueError(
                f"{folder} holds parts of another run, which had another {', '.join(sorted(differs))}; remove it to "
                "begin again"
            )
        sweep(folder)
        return
    if folder.exists():
        raise FileExistsError(f"{folder} exists and says of no run; remove it to begin again")
    folder.mkdir()
    with replacing(told) as temporary:
        temporary.write_text(json.dumps(job), encoding="utf-8")


def sweep(folder: Path) -> None:
    """Remove what processes that were killed had not finished."""
    for path in folder.glob(UNFINISHED):
        path.unlink()


def _remove(directory: Path) -> None:
    """Remove a directory in which workers that were cut off may still begin files."""
    gone = directory.with_name(f".glasswood-{secrets.token_hex(8)}.part")
    with contextlib.suppress(OSError):  # under another name, they find no place
        directory = directory.rename(gone)
    shutil.rmtree(directory, ignore_errors=True)


def check_directory(path: Path) -> None:
    """Raise unless a directory can be made there."""
    target = resolved(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"cannot write {path}: it exists; a directory of files is not replaced, remove it first")
    check_output(target / "part" if target.exists() else target)


def part_name(number: int, form: str) -> str:
    """Name of a file in a directory."""
    return f"part-{number:05d}{PART_SUFFIX[form]}"
