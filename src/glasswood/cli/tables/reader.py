"""Tables, batch by batch."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood.cli.tables.columnar import ARROW_FILE, ArrowTable, ParquetTable
from glasswood.cli.tables.delimited import CsvTable, Dialect
from glasswood.cli.tables.formats import import_pyarrow, naming
from glasswood.cli.tables.sources import Partition, Source, find
from glasswood.inputs.matching import listed

if TYPE_CHECKING:
    Table = CsvTable | ParquetTable | ArrowTable

ARROW_STREAM = b"\xff\xff\xff\xff"


class TableReader:
    """A table in one file, in several, or on standard input.

    Attributes
    ----------
    source : Source
    name : str
        What messages call it.
    names : list of str
        Its columns; last those that the folders of its files say.
    types : dict
        Arrow types of the columns of the first file.
    n_rows : int or None
        None where it is not known before the end.
    """

    def __init__(
        self, path: Path | Source, dialect: Dialect | None = None, types: dict[str, Any] | None = None
    ) -> None:
        self._pa = import_pyarrow()
        self._dialect = dialect or Dialect()
        self.source: Source = find(path) if isinstance(path, Path) else path
        self.name: str = self.source.name
        self.files: tuple[Path, ...] = self.source.files
        self._first = self._open(self.files[0]) if self.files else self._from_stream()
        self.types: dict[str, Any] = self._first.types if types is None else types
        self._folders = list(self.source.partitions[0]) if self.files else []
        self.names: list[str] = [*self._first.names, *(name for name in self._folders if name not in self._first.names)]

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where the files say it."""
        if self.source.format != "parquet":
            return None
        return sum(ParquetTable(file).n_rows or 0 for file in self.files)

    @property
    def has_types(self) -> bool:
        """Whether the table says which of its columns hold categories, as CSV does not."""
        return not isinstance(self._first, CsvTable)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the table has exactly one column of each name."""
        times = Counter(self.names)
        if lacking := [name for name in names if name not in times]:
            raise ValueError(f"{self.name} has no columns {listed(lacking)}; it has {listed(self.names)}")
        if repeated := [name for name in names if times[name] > 1]:
            raise ValueError(f"{self.name} has several columns {listed(repeated)}; rename all but one of each")

    def batches(
        self, columns: Sequence[str], text: Sequence[str], numbers: Sequence[str], n_rows: int
    ) -> Iterator[Any]:
        """Read record batches of at most `n_rows` rows; at least one, which is empty if the table is.

        Parameters
        ----------
        columns : names of the columns to read
        text, numbers : those of them that a CSV file holds text or numbers in, whatever its first lines look like
        n_rows : int

        Notes
        -----
        Columns that are neither get the types of the first file.
        """
        given = {*columns} - {*text, *numbers}
        kept = {name: kind for name, kind in self.types.items() if name in given}
        empty = True
        for i, table in enumerate(self._tables()):
            folders = self.source.partitions[i] if self.files else {}
            own, of_text, of_numbers = (
                [name for name in wanted if name not in folders] for wanted in (columns, text, numbers)
            )
            known = frozenset(table.names)
            if lacking := [name for name in own if name not in known]:
                raise ValueError(f"{self.files[i]} has no columns {listed(lacking)}; the first file has them")
            with naming(self.files[i] if self.files else self.name, table.names):
                for batch in table.batches(own, of_text, of_numbers, kept, n_rows):
                    empty = False
                    yield self._whole_batch(batch, columns, folders, kept)
                    self._pa.default_memory_pool().release_unused()
        if empty:
            yield self._no_rows(columns, text, numbers)

    def whole(self) -> Any:
        """Read all rows."""
        parts = []
        for i, table in enumerate(self._tables()):
            with naming(self.files[i] if self.files else self.name, table.names):
                part = table.whole()
            for name, value in (self.source.partitions[i] if self.files else {}).items():
                part = part.append_column(name, self._repeated(name, value, len(part)))
            parts.append(part)
        return self._pa.concat_tables(parts, promote_options="permissive")

    def _tables(self) -> Iterator[Table]:
        yield self._first
        for file in self.files[1:]:
            yield self._open(file)

    def _open(self, file: Path) -> Table:
        with naming(file):
            if self.source.format == "parquet":
                return ParquetTable(file)
            if self.source.format == "arrow":
                return ArrowTable(file)
            return CsvTable(file, self._dialect, str(file))

    def _from_stream(self) -> Table:
        """Tell the format of standard input by its first bytes; files that are read from their end are held."""
        stream: Any = sys.stdin.buffer
        start = stream.peek(len(ARROW_FILE))
        with naming(self.name):
            if start.startswith(b"PAR1"):
                return ParquetTable(io.BytesIO(stream.read()))
            if start.startswith(ARROW_FILE):
                return ArrowTable(self._pa.BufferReader(stream.read()), is_file=True)
            if start.startswith(ARROW_STREAM):
                return ArrowTable(stream)
            return CsvTable(stream, self._dialect, self.name)

    def _whole_batch(self, batch: Any, columns: Sequence[str], folders: Partition, kept: Mapping[str, Any]) -> Any:
        """Columns in their order, those of folders included, others of the types that the first file has."""
        arrays = []
        for name in columns:
            if name in folders:
                arrays.append(self._repeated(name, folders[name], batch.num_rows))
            else:
                array = batch.column(name)
                arrays.append(array.cast(kept[name]) if name in kept and array.type != kept[name] else array)
        return self._pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _repeated(self, name: str, value: int | str | None, n_rows: int) -> Any:
        return self._pa.repeat(self._pa.scalar(value, self._folder_type(name)), n_rows)

    def _folder_type(self, name: str) -> Any:
        """Type of a column that folders say, the same for all files."""
        is_whole = any(isinstance(found[name], int) for found in self.source.partitions)
        return self._pa.int64() if is_whole else self._pa.string()

    def _no_rows(self, columns: Sequence[str], text: Sequence[str], numbers: Sequence[str]) -> Any:
        types = {**self.types, **{name: self._folder_type(name) for name in self._folders}}
        if isinstance(self._first, CsvTable):
            types |= dict.fromkeys(text, self._pa.string()) | dict.fromkeys(numbers, self._pa.float64())
        return self._pa.RecordBatch.from_pylist([], schema=self._pa.schema([(name, types[name]) for name in columns]))
