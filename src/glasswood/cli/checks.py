"""The files of a command line, before any work: what is read, and that nothing which is written is among it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from glasswood import _core
from glasswood.base.files import check_output
from glasswood.cli.tables.formats import STREAM
from glasswood.cli.tables.sources import inputs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

MODELS = ("model", "other")
ROWS = ("data", "other_data", "training", "calibration", "background", "before")
OUTPUTS = ("out", "save")
"""Arguments of all commands that name files, by what these are."""


def check_processor() -> None:
    """Raise OSError if no kernels run here, or the environment asks for some that are not there."""
    try:
        _core.instruction_set()
    except RuntimeError as error:
        raise OSError(str(error)) from error


def check_files(options: argparse.Namespace) -> None:
    """Check what every command asks of its files.

    Raises
    ------
    ValueError
        If an output is an input or another output, by whatever name, a model is neither a file nor a folder, or
        standard input is to be read twice.
    OSError
        If an output's folder does not exist or cannot be written to.
    """
    rows = [path for path in _named(options, ROWS) if path is not None]
    if sum(str(path) == STREAM for path in rows) > 1:
        raise ValueError("standard input can be read only once; save the rows in a file, and name it twice")
    models = [path for path in _named(options, MODELS) if path is not None]
    for model in models:
        if model.exists() and not (model.is_file() or model.is_dir()):
            raise ValueError(f"{model} is a pipe or a device, expected a file; save the model in a file first")
    read = [file for model in models for file in _files_of(model)]
    read += [file for path in rows for file in inputs(path)]
    is_closed = getattr(sys.stdout, "name", None) == os.devnull
    if is_closed and any(str(path) == STREAM for path in _named(options, OUTPUTS)):
        raise ValueError("-o - names standard output, which is closed; give -o the name of a file")
    written: list[Path] = []
    for path in _named(options, OUTPUTS):
        if read and path is not None and str(path) != STREAM and not _is_folder(options, path):
            target = check_output(path, read)
            if target in written:
                raise ValueError(f"cannot write {path} twice; give the outputs different names")
            written.append(target)


def _named(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[Path | None]:
    """Paths of those arguments that a command has."""
    return (getattr(options, name, None) for name in names)


def _files_of(model: Path) -> list[Path]:
    """Files of a model, which may be a folder."""
    return [model] if not model.is_dir() else [file for file in model.rglob("*") if file.is_file()]


def _is_folder(options: argparse.Namespace, path: Path) -> bool:
    """Whether an output is a new folder of files, which the command checks itself."""
    if path != getattr(options, "out", None):
        return False
    return getattr(options, "partition_rows", None) is not None or getattr(options, "scheduler", None) is not None
