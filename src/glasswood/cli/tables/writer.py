"""Tables that are written batch by batch: to a file, to several, or to standard output."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glasswood.base.escapes import shown
from glasswood.base.files import replacing
from glasswood.base.progress import is_terminal
from glasswood.cli.tables.directories import finished_parts, new_directory, part_name
from glasswood.cli.tables.formats import STREAM, format_of, import_pyarrow

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

FORMULA = r"\A([\x00-\x20\x{a0}\x{feff}]*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]|[\t\r\n])"
"""Beginnings of cells that spreadsheets take for formulas, or may after an import: OWASP's list of CSV injection."""


@contextlib.contextmanager
def writing(
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    partition_rows: int | None = None,
    form: str | None = None,
    escapes: bool = False,
    job: Mapping[str, Any] | None = None,
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
    job : mapping, optional
        What makes a directory, as for `new_directory`.
    """
    if partition_rows is not None:
        with new_directory(path, job) as folder:
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


def _partitions(
    folder: Path, form: str, metadata: Mapping[str, Any] | None, n_rows: int, escapes: bool
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that fills one file of `n_rows` rows after the other."""
    number, left = len(finished_parts(folder, form)), 0
    appender: Appender | None = None
    part = contextlib.ExitStack()

    def write(batch: RecordBatch) -> None:
        nonlocal number, left, appender
        start = 0
        while start < batch.num_rows or appender is None:
            if left == 0 and appender is not None:
                part.close()
                appender = None
            if appender is None:
                temporary = part.enter_context(replacing(folder / part_name(number, form)))
                appender = part.enter_context(Appender(temporary, form, metadata, escapes))
                number, left = number + 1, n_rows
            rows = batch.slice(start, left)
            appender(rows)
            start, left = start + rows.num_rows, left - rows.num_rows

    with part:
        yield write


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
        wanted = [(escapes, _without_formulas), (is_shown, _for_terminals)] if form == "csv" else []
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


def _without_formulas(batch: RecordBatch) -> RecordBatch:
    """Put an apostrophe before every text and name of a column that a spreadsheet would take for a formula."""
    compute = import_pyarrow().compute
    return _with_texts(batch, lambda texts: compute.replace_substring_regex(texts, FORMULA, r"'\1"))


def _for_terminals(batch: RecordBatch) -> RecordBatch:
    """Write control characters in texts and names of columns as their numbers: terminals obey them."""
    pa = import_pyarrow()

    def escaped(texts: Any) -> Any:
        return pa.array([None if text is None else shown(text) for text in texts.to_pylist()], pa.string())

    return _with_texts(batch, escaped)


def _with_texts(batch: RecordBatch, change: Callable[[Any], Any]) -> RecordBatch:
    """Change all texts of a batch, and the names of its columns."""
    pa = import_pyarrow()
    columns = []
    for column in batch.columns:
        values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        columns.append(change(values) if is_text else column)
    names = change(pa.array(batch.schema.names, pa.string())).to_pylist()
    return pa.RecordBatch.from_arrays(columns, names=names)
