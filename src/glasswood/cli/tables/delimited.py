"""CSV in all its dialects: other delimiters and decimal points, quoted empty cells."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from glasswood.base.escapes import shown
from glasswood.cli.tables.formats import import_pyarrow

BLOCK = 2**22
"""Bytes of CSV parsed at a time, and looked at to tell the types of columns."""
MOST_COLUMNS = 50_000
"""pyarrow's parser takes some 9 kB a column, twice: once to tell its type."""

GUESSES = (";", "\t")
LINE_END = re.compile(rb"[\r\n]")
QUOTED_EMPTY = "invalid value ''"
"""pyarrow's words for a quoted empty cell in a column of numbers."""


@dataclass(frozen=True)
class Dialect:
    """How numbers and columns are written.

    Attributes
    ----------
    delimiter : str or None
        Between columns; None for a comma, or what the first line shows.
    decimal : str
        Point of decimal numbers.
    """

    delimiter: str | None = None
    decimal: str = "."


class CsvTable:
    """A CSV file, or CSV from standard input.

    Attributes
    ----------
    names : list of str
    types : dict
        Arrow types of the columns, as the first block shows them.
    """

    n_rows = None

    def __init__(self, source: Path | BinaryIO, dialect: Dialect, name: str) -> None:
        self._pa = import_pyarrow()
        self._source = source
        self._head = b"" if isinstance(source, Path) else source.read(BLOCK)
        start = _first_line(source) if isinstance(source, Path) else self._head
        header = LINE_END.split(start, 1)[0]
        self.delimiter: str = dialect.delimiter or _guessed(header, name)
        if header.count(self.delimiter.encode()) >= MOST_COLUMNS:
            raise ValueError(f"it has more than {MOST_COLUMNS:,} columns; write it as Parquet")
        self._decimal = dialect.decimal
        end = max(self._head.rfind(b"\n"), self._head.rfind(b"\r"))
        lines = self._head[: end + 1] if len(self._head) == BLOCK else self._head
        with self._open(None, {}, None if isinstance(source, Path) else io.BytesIO(lines)) as reader:
            schema = reader.schema
        self.names: list[str] = schema.names
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))

    def batches(
        self, columns: Sequence[str], text: Sequence[str], numbers: Sequence[str], kept: Mapping[str, Any], n_rows: int
    ) -> Iterator[Any]:
        """Read record batches of at most `n_rows` rows.

        Parameters
        ----------
        columns : names of the columns to read
        text, numbers : those of them that hold text or numbers, whatever the first lines look like
        kept : types of others
        n_rows : int
        """
        types = {**kept, **dict.fromkeys(text, self._pa.string()), **{n: self._number_type(n) for n in numbers}}
        done = 0
        if isinstance(self._source, Path):
            try:
                for batch in self._cut(self._open(columns, types), n_rows):
                    yield batch
                    done += batch.num_rows
                return
            except self._pa.ArrowInvalid as error:
                if QUOTED_EMPTY not in str(error):
                    raise
        yield from self._through_text(columns, types, numbers, done, n_rows)

    def whole(self) -> Any:
        """Read all rows, the types of columns by all of them."""
        converting = self._converting(None, {}, False, True)
        return self._pa.csv.read_csv(self._stream(), parse_options=self._parsing(), convert_options=converting)

    def _through_text(
        self, columns: Sequence[str], types: dict[str, Any], numbers: Sequence[str], done: int, n_rows: int
    ) -> Iterator[Any]:
        """Read numbers as text first, in which a quoted empty cell is not an error; skip rows that are done."""
        as_text = {name: self._pa.string() for name in numbers}
        for batch in self._cut(self._open(columns, types | as_text), n_rows):
            if done >= batch.num_rows:
                done -= batch.num_rows
                continue
            rest, done = batch.slice(done), 0
            arrays = [
                self._number(rest.column(name), types[name], name) if name in as_text else rest.column(name)
                for name in rest.schema.names
            ]
            yield self._pa.RecordBatch.from_arrays(arrays, names=rest.schema.names)

    def _number(self, column: Any, kind: Any, name: str) -> Any:
        compute = self._pa.compute
        # if_else of pyarrow 16 to 23 takes the text of other rows where a column begins behind its buffer's start.
        is_empty = compute.fill_null(compute.equal(column, ""), False)
        filled = compute.replace_with_mask(column, is_empty, self._pa.scalar(None, self._pa.string()))
        if self._decimal != ".":
            filled = compute.replace_substring(filled, self._decimal, ".")
        try:
            return filled.cast(kind)
        except self._pa.ArrowInvalid as error:
            raise ValueError(f"in column {name!r}: {error}") from error

    def _cut(self, reader: Any, n_rows: int) -> Iterator[Any]:
        for batch in reader:
            for start in range(0, batch.num_rows, n_rows):
                yield batch.slice(start, n_rows)

    def _number_type(self, name: str) -> Any:
        return self._pa.bool_() if self.types[name] == self._pa.bool_() else self._pa.float64()

    def _open(self, columns: Sequence[str] | None, types: Mapping[str, Any], source: Any = None) -> Any:
        return self._pa.csv.open_csv(
            self._stream() if source is None else source,
            read_options=self._pa.csv.ReadOptions(block_size=BLOCK),
            parse_options=self._parsing(),
            convert_options=self._converting(columns, types, True, False),
        )

    def _stream(self) -> Any:
        return self._source if isinstance(self._source, Path) else _Replayed(self._head, self._source)

    def _parsing(self) -> Any:
        return self._pa.csv.ParseOptions(delimiter=self.delimiter)

    def _converting(self, columns: Any, types: Mapping[str, Any], text_null: bool, quoted_null: bool) -> Any:
        return self._pa.csv.ConvertOptions(
            include_columns=columns,
            column_types=types,
            strings_can_be_null=text_null,
            quoted_strings_can_be_null=quoted_null,
            decimal_point=self._decimal,
        )


def _guessed(line: bytes, name: str) -> str:
    """Tell the delimiter by the header: a comma, or what stands between its names instead; say so."""
    text = line.decode("utf-8", "replace")
    if _divides(",", text):
        return ","
    for delimiter in GUESSES:
        if _divides(delimiter, text):
            found = "tabs" if delimiter == "\t" else f"{delimiter!r}"
            print(
                f"glasswood: {shown(name)} has {found} between its columns; pass --delimiter if it is another one",
                file=sys.stderr,
            )
            return delimiter
    return ","


def _divides(delimiter: str, line: str) -> bool:
    """Whether a line has several fields; one longer than the csv module reads is looked at without quotes."""
    try:
        return len(next(csv.reader([line], delimiter=delimiter), [])) > 1
    except csv.Error:
        return delimiter in line


def _first_line(path: Path) -> bytes:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as file:
            return bytes(file.readline(BLOCK))
    except (OSError, EOFError):  # pyarrow says what is wrong with it
        return b""


class _Replayed(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        """Say that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the head, then from the rest."""
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
