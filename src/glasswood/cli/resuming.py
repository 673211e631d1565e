"""What the parts of a directory depend on, so that a run resumes only its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood import __version__
from glasswood.cli.tables.sources import find

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.tables.sources import Source

FREE = {"run", "command", "out", "scheduler", "resume", "batch_rows", "n_jobs", "device"}
"""Options that do not change the output; another device may change the last digits of explanations."""


def job_of(options: argparse.Namespace, source: Source) -> dict[str, Any]:
    """Describe a run: its version, options, model, and the sizes and times of its rows' files."""
    job: dict[str, Any] = {"version": __version__}
    for name, value in vars(options).items():
        if name not in FREE and not callable(value):
            job[name] = [str(item) for item in value] if isinstance(value, list | tuple) else str(value)
    job["model's content"] = _digest(options.model)
    job["rows"] = _files(source)
    if getattr(options, "background", None) is not None:
        job["background's rows"] = _files(find(options.background))
    return job


def _files(source: Source) -> list[list[Any]]:
    stats = [(path, path.stat()) for path in source.files]
    return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def _digest(model: Path) -> str:
    """Hash the files of a model, and their names in its folder."""
    digest = hashlib.sha256()
    for path in sorted(model.rglob("*")) if model.is_dir() else [model]:
        if path.is_file():
            digest.update(os.fsencode(path.relative_to(model)) + b"\0")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
