"""The files that DATA names: one, a directory, a pattern, or standard input."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from glasswood.cli.tables.formats import FORMATS, STREAM, SUFFIXES, format_of, table_format
from glasswood.inputs.matching import listed

MISSING = "__HIVE_DEFAULT_PARTITION__"
Partition = dict[str, int | str | None]


@dataclass(frozen=True)
class Source:
    """Files of one table.

    Attributes
    ----------
    name : str
        What messages call it.
    files : tuple of Path
        In the order of their names; none for standard input.
    partitions : tuple of dict
        For each file the columns that its folders say: ``year=2024/part-0.parquet``.
    format : str
        Empty for standard input, which shows it by its first bytes.
    """

    name: str
    files: tuple[Path, ...]
    partitions: tuple[Partition, ...]
    format: str

    def part(self, i: int) -> Source:
        """One of the files, by its absolute path."""
        return Source(str(self.files[i]), (self.files[i].resolve(),), (self.partitions[i],), self.format)


def is_pattern(path: Path) -> bool:
    """Whether this is a pattern of file names, and no file of that name."""
    return glob.has_magic(str(path)) and not path.exists()


def inputs(path: Path) -> tuple[Path, ...]:
    """List the files that must not be written to; including those that do not exist yet."""
    if str(path) == STREAM:
        return ()
    return find(path).files if path.is_dir() or is_pattern(path) else (path,)


def find(path: Path) -> Source:
    """Find the files of a table.

    Raises
    ------
    FileNotFoundError
        If there are none.
    ValueError
        For pipes and devices, unknown suffixes, files of different formats, or folders that name different columns.
    """
    if str(path) == STREAM:
        return Source("standard input", (), (), "")
    if not path.is_dir() and not is_pattern(path):
        path.stat()
        if not path.is_file():  # Arrow would wait for it for ever, or fail to go back in it
            raise ValueError(f"{path} is a pipe or a device, expected a file; name - and redirect it to standard input")
        return Source(str(path), (path,), ({},), table_format(path))
    if path.is_dir():
        root, files = path, _within(path)
    else:
        root = Path(str(path).split("*")[0]).parent
        files = _matching(path)
    if not files:
        raise FileNotFoundError(f"{path} holds no table; expected files that end in {', '.join(SUFFIXES)}")
    formats = {table_format(file) for file in files}
    if len(formats) > 1:
        raise ValueError(f"{path} holds files of several formats ({', '.join(sorted(formats))}); name those of one")
    return Source(str(path), tuple(files), _typed([_folders(file, root) for file in files], path), formats.pop())


def _within(folder: Path) -> list[Path]:
    """List the files of a folder that are data; no pipes or devices, which may not end."""
    found = (file for file in folder.rglob("*") if _is_data(file.relative_to(folder)))
    return sorted(file for file in found if file.is_file())


def _matching(pattern: Path) -> list[Path]:
    """List the files of a pattern, or those in the folders that it matches if it matches no file.

    "**" enters no links: one to a folder above would list each file many times.
    """
    parts = pattern.parts
    first = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    root = Path(*parts[:first])
    rest = Path(*parts[first:], *(["*"] if parts[-1] == "**" else []))
    wants_hidden = any(part.startswith(".") for part in rest.parts)
    found = [
        one
        for one in sorted(root.glob(str(rest)))
        if wants_hidden or not any(part.startswith(".") for part in one.relative_to(root).parts)
    ]
    files = [one for one in found if one.is_file()]
    folders = (one for one in found if one.is_dir() and not one.is_symlink())
    return files or sorted({file for folder in folders for file in _within(folder)})


def _is_data(place: Path) -> bool:
    """Whether a file in a directory is part of the table: names that begin with "_" or "." are about it."""
    return format_of(place) in FORMATS and not any(part.startswith(("_", ".")) for part in place.parts)


def _folders(file: Path, root: Path) -> dict[str, str | None]:
    """Columns that the folders between `root` and a file say."""
    try:
        parts = file.relative_to(root).parts[:-1]
    except ValueError:
        parts = file.parts[:-1]
    pairs = (part.split("=", 1) for part in parts if "=" in part)
    return {unquote(name): None if value == MISSING else unquote(value) for name, value in pairs}


def _typed(folders: list[dict[str, str | None]], path: Path) -> tuple[Partition, ...]:
    """Convert columns whose values are all whole numbers."""
    names = folders[0].keys()
    if strange := next((found for found in folders if found.keys() != names), None):
        some, others = (listed(found) or "none" for found in (names, strange))
        raise ValueError(f"the folders of {path} name the columns {some} for some files, {others} for others")
    whole = {name: all(_is_whole(found[name]) for found in folders) for name in names}
    return tuple(
        {name: int(value) if whole[name] and value is not None else value for name, value in found.items()}
        for found in folders
    )


def _is_whole(value: str | None) -> bool:
    """Whether a folder says an int64 in its usual form, or nothing."""
    if value is None:
        return True
    return (
        re.fullmatch(r"-?[0-9]{1,19}", value) is not None
        and str(int(value)) == value
        and -(2**63) <= int(value) < 2**63
    )
