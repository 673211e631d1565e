"""Tables on disk, batch by batch: CSV and Parquet by pyarrow."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from silva.files import replacing
from silva.inputs.matching import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from pyarrow import RecordBatch, Schema

SUFFIXES = {".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".pq": "parquet"}
READ_BUFFER = 2**20
"""Bytes of a Parquet column read at a time; without it a row group of any size would be read at once."""
CSV_BLOCK = 2**22
"""Bytes of CSV parsed at a time, and looked at to tell the types of columns."""


def table_format(path: Path) -> str:
    """Tell the format of a table by its suffix: 'csv' or 'parquet'.

    Raises
    ------
    ValueError
        For any other suffix.
    """
    for suffix, name in SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return name
    raise ValueError(f"{path} has an unknown suffix, expected one of {', '.join(SUFFIXES)}")


def import_pyarrow() -> ModuleType:
    """Import pyarrow with its readers.

    Raises
    ------
    ImportError
        Naming the extra to install.
    """
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("CSV and Parquet files need pyarrow: pip install 'silva[files]'") from error
    module: ModuleType = pyarrow
    return module


class TableReader:
    """A table on disk.

    Attributes
    ----------
    names : list of str
        Its columns.
    n_rows : int or None
        None for CSV, where it is not known before the end.
    """

    def __init__(self, path: Path) -> None:
        path.stat()
        self.path = path
        self._pa = import_pyarrow()
        self._parquet = None
        self.n_rows: int | None = None
        with naming(path):
            if table_format(path) == "parquet":
                self._parquet = self._pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER)
                self.names: list[str] = self._parquet.schema_arrow.names
                self.n_rows = self._parquet.metadata.num_rows
            else:
                schema = self._open_csv().schema
                self.names = schema.names
                self._csv_types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the table has exactly one column of each name."""
        if lacking := [name for name in names if name not in self.names]:
            raise ValueError(f"{self.path} has no columns {listed(lacking)}; it has {listed(self.names)}")
        if repeated := [name for name in names if self.names.count(name) > 1]:
            raise ValueError(f"{self.path} has several columns {listed(repeated)}; rename all but one of each")

    def batches(
        self, columns: Sequence[str], text: Sequence[str], numbers: Sequence[str], n_rows: int
    ) -> Iterator[Any]:
        """Read record batches of at most `n_rows` rows; at least one, which is empty if the table is.

        Parameters
        ----------
        columns : names of the columns to read
        text, numbers : those of them that a CSV file holds text or numbers in, whatever its first lines look like
        n_rows : int
        """
        with naming(self.path, self.names):
            yield from self._batches(columns, text, numbers, n_rows)

    def _batches(
        self, columns: Sequence[str], text: Sequence[str], numbers: Sequence[str], n_rows: int
    ) -> Iterator[Any]:
        if self._parquet is None:
            types = dict.fromkeys(text, self._pa.string()) | {name: self._number_type(name) for name in numbers}
            reader = self._open_csv(columns, types)
            schema, source = reader.schema, (b.slice(i, n_rows) for b in reader for i in range(0, b.num_rows, n_rows))
        else:
            schema = self._pa.schema([self._parquet.schema_arrow.field(name) for name in columns])
            source = self._parquet.iter_batches(n_rows, columns=list(columns), use_threads=False)
        empty = True
        for batch in source:
            empty = False
            yield batch
            self._pa.default_memory_pool().release_unused()
        if empty:
            yield self._pa.RecordBatch.from_pylist([], schema=schema)

    def _number_type(self, name: str) -> Any:
        return self._pa.bool_() if self._csv_types[name] == self._pa.bool_() else self._pa.float64()

    def _open_csv(self, columns: Sequence[str] | None = None, types: Mapping[str, Any] | None = None) -> Any:
        csv = self._pa.csv
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(block_size=CSV_BLOCK),
            convert_options=csv.ConvertOptions(
                include_columns=columns, column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )


@contextlib.contextmanager
def naming(path: Path, names: Sequence[str] = ()) -> Iterator[None]:
    """Add the file to what pyarrow says of its content, and the names of the columns that it numbers."""
    try:
        yield
    except (ValueError, OSError) as error:
        found = re.search(r"column #(\d+)", text := str(error))
        if found and int(found[1]) < len(names):
            text = text.replace(found[0], f"column {names[int(found[1])]!r}")
        raise ValueError(f"cannot read {path}: {text}") from error


@contextlib.contextmanager
def writing(path: Path, metadata: Mapping[str, Any] | None = None) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends a record batch to a table, which appears when the block is left without error.

    Parameters
    ----------
    path : path
        CSV or Parquet by its suffix.
    metadata : mapping, optional
        JSON under the key ``silva`` of a Parquet file's schema metadata.
    """
    pyarrow = import_pyarrow()
    with replacing(path) as temporary, contextlib.ExitStack() as stack:
        writer: Any = None

        def write(batch: RecordBatch) -> None:
            nonlocal writer
            if writer is None:
                schema = batch.schema.with_metadata({"silva": json.dumps(metadata)} if metadata else None)
                writer = stack.enter_context(_open_writer(pyarrow, path, temporary, schema))
            writer.write_batch(pyarrow.RecordBatch.from_arrays(batch.columns, schema=writer.schema))

        yield write


class _CsvWriter:
    """pyarrow's CSV writer behind the interface of its Parquet writer."""

    def __init__(self, pyarrow: ModuleType, path: Path, temporary: Path, schema: Schema) -> None:
        self._stack = contextlib.ExitStack()
        compression = "gzip" if path.suffix.lower() == ".gz" else None
        self._file = pyarrow.output_stream(str(temporary), compression=compression)
        self._writer = pyarrow.csv.CSVWriter(self._file, schema)
        self.schema = schema

    def write_batch(self, batch: object) -> None:
        self._writer.write_batch(batch)

    def __enter__(self) -> _CsvWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._file.close()


def _open_writer(pyarrow: ModuleType, path: Path, temporary: Path, schema: Schema) -> Any:
    if table_format(path) == "csv":
        return _CsvWriter(pyarrow, path, temporary, schema)
    return pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd")


@contextlib.contextmanager
def progress(n_rows: int | None, what: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished rows, on a bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda _: None
        return
    shape = {"ncols": os.get_terminal_size(sys.stderr.fileno()).columns or 80, "nrows": 2}  # some terminals say 0
    with tqdm(total=n_rows, desc=what, unit=" rows", unit_scale=True, leave=False, file=sys.stderr, **shape) as bar:
        yield bar.update
