"""Formats of tables by their suffixes, and what pyarrow says of their content."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from glasswood.base.escapes import shown
from glasswood.base.extras import import_arrow

SUFFIXES = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
FORMATS = ("csv", "parquet", "arrow")
STREAM = "-"
"""What stands for standard input or output."""


def format_of(path: Path) -> str | None:
    """Tell the format of a table by its suffix; None for others."""
    name = path.name.lower()
    return next((found for suffix, found in SUFFIXES.items() if name.endswith(suffix)), None)


def table_format(path: Path) -> str:
    """Tell the format of a table by its suffix: 'csv', 'parquet' or 'arrow'.

    Raises
    ------
    ValueError
        For any other suffix.
    """
    if (found := format_of(path)) is None:
        raise ValueError(f"{path} has an unknown suffix, expected one of {', '.join(SUFFIXES)}")
    return found


def import_pyarrow() -> ModuleType:
    """Import pyarrow with its readers.

    pandas too, where it is installed: pyarrow imports it with the first column that becomes an array, and swallows a
    Ctrl-C that comes meanwhile.
    """
    pyarrow = import_arrow()
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")
    for name in ("compute", "csv", "ipc", "parquet"):
        importlib.import_module(f"pyarrow.{name}")
    return pyarrow


@contextlib.contextmanager
def naming(path: object, names: Sequence[str] = ()) -> Iterator[None]:
    """Add the file to what pyarrow says of its content, and the names of the columns that it numbers."""
    try:
        yield
    except (ValueError, OSError, LookupError, TypeError, NotImplementedError) as error:
        found = re.search(r"column #(\d+)", text := str(error))
        if found and int(found[1]) < len(names):
            text = text.replace(found[0], f"column {names[int(found[1])]!r}")
        if re.search(r"invalid value '-?\d*,\d+'|string: '-?\d*,\d+'", text):
            text = f"{text}; if commas are decimal points, say --decimal ,"
        raise ValueError(f"cannot read {path}: {shown(' '.join(text.split()))}") from error
    except MemoryError as error:  # Arrow believes the sizes that a file says
        raise ValueError(f"cannot read {path}: it asks for more memory than there is; {error}") from error
