"""Tables that are written batch by batch: to a file, to several, or to standard output."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glasswood.base.files import check_output, replacing, resolved
from glasswood.base.progress import is_terminal
from glasswood.cli.tables.cells import for_terminals, without_formulas
from glasswood.cli.tables.formats import STREAM, format_of, import_pyarrow

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

PART_SUFFIX = {"csv": ".csv", "parquet": ".parquet", "arrow": ".arrow"}


@contextlib.contextmanager
def writing(
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    partition_rows: int | None = None,
    form: str | None = None,
    escapes: bool = False,
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends a record batch to a table, which appears when the block is left without error.

    Parameters
    ----------
    path : path
        CSV, Parquet or Arrow by its suffix; "-" for standard output; a directory to make, with `partition_rows`.
    metadata : mapping, optional
        JSON under the key ``glasswood`` of a Parquet or Arrow file's schema metadata.
    partition_rows : int, optional
        Rows of each file in the directory.
    form : str, optional
        Format where no suffix says it: by default CSV for standard output, Parquet for directories.
    escapes : bool
        Whether texts of CSV that spreadsheets take for formulas get an apostrophe.
    """
    if partition_rows is not None:
        with new_directory(path) as folder:
            yield from _partitions(folder, form or "parquet", metadata, partition_rows, escapes)
    elif str(path) == STREAM:
        with Appender(sys.stdout.buffer, form or "csv", metadata, escapes, is_shown=is_terminal(sys.stdout)) as write:
            yield write
    else:
        compressed = path.suffix.lower() == ".gz"
        with (
            replacing(path) as temporary,
            Appender(temporary, format_of(path) or "csv", metadata, escapes, compressed) as write,
        ):
            yield write


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory, which gets its name when the block is left without error.

    Raises
    ------
    FileExistsError
        If there is something of that name that is not an empty directory.
    """
    check_directory(path)
    target = resolved(path)
    temporary = target.with_name(f".glasswood-{secrets.token_hex(8)}.part")
    try:
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise


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


def _partitions(
    folder: Path, form: str, metadata: Mapping[str, Any] | None, n_rows: int, escapes: bool
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that fills one file of `n_rows` rows after the other."""
    number, left = 0, 0
    appender: Appender | None = None

    def write(batch: RecordBatch) -> None:
        nonlocal number, left, appender
        start = 0
        while start < batch.num_rows or appender is None:
            if left == 0 and appender is not None:
                appender.__exit__()
                appender = None
            if appender is None:
                appender, left = Appender(folder / part_name(number, form), form, metadata, escapes), n_rows
                number += 1
            part = batch.slice(start, left)
            appender(part)
            start, left = start + part.num_rows, left - part.num_rows

    try:
        yield write
    finally:
        if appender is not None:
            appender.__exit__()


class Appender:
    """Appends record batches to a file, which is opened by the first of them.

    Parameters
    ----------
    sink : Path or binary stream
    form : str
    metadata : mapping or None
    escapes : bool
        Whether texts of CSV that spreadsheets take for formulas get an apostrophe.
    compressed : bool
        Whether CSV is written by gzip.
    is_shown : bool
        Whether the stream is a terminal, which would obey the control characters of texts.
    """

    def __init__(
        self,
        sink: Any,
        form: str,
        metadata: Mapping[str, Any] | None,
        escapes: bool = False,
        compressed: bool = False,
        is_shown: bool = False,
    ) -> None:
        self._pa: ModuleType = import_pyarrow()
        self._sink, self._form, self._compressed = sink, form, compressed
        wanted = [(escapes, without_formulas), (is_shown, for_terminals)] if form == "csv" else []
        self._changes = [change for is_wanted, change in wanted if is_wanted]
        self._metadata = {"glasswood": json.dumps(metadata)} if metadata else None
        self._stack = contextlib.ExitStack()
        self._writer: Any = None
        self._schema: Any = None

    def __call__(self, batch: RecordBatch) -> None:
        """Append a batch."""
        for change in self._changes:
            batch = change(batch)
        if self._writer is None:
            self._schema = batch.schema.with_metadata(self._metadata)
            self._writer = self._stack.enter_context(self._open(self._schema))
        write = self._writer.write_batch if hasattr(self._writer, "write_batch") else self._writer.write
        write(self._pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, schema: Schema) -> Any:
        if self._form == "parquet":
            return self._pa.parquet.ParquetWriter(self._sink, schema, compression="zstd")
        if self._form == "arrow":
            make = self._pa.ipc.new_file if isinstance(self._sink, Path) else self._pa.ipc.new_stream
            return make(self._sink, schema)
        sink = self._sink
        if isinstance(sink, Path):
            compression = "gzip" if self._compressed else None
            sink = self._stack.enter_context(self._pa.output_stream(str(sink), compression=compression))
        return self._pa.csv.CSVWriter(sink, schema)
