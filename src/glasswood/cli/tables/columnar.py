"""Parquet and Arrow files, and Arrow streams.

What they hold is validated in full before anybody uses it: Arrow's own functions trust the offsets of texts and the
codes of dictionaries. Files are read, not mapped into memory: another process may cut them off meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from glasswood.cli.tables.formats import import_pyarrow

READ_BUFFER = 2**20
"""Bytes of a Parquet column read at a time; without it a row group of any size would be read at once."""
ARROW_FILE = b"ARROW1"


def validated(rows: Any) -> Any:
    """Return a batch or table whose offsets, codes and texts are what their types say.

    Raises
    ------
    ValueError
        If they are not.
    """
    rows.validate(full=True)
    return rows


class ParquetTable:
    """A Parquet file.

    Attributes
    ----------
    names : list of str
    types : dict
        Arrow types of the columns.
    n_rows : int
    """

    def __init__(self, source: Path | BinaryIO) -> None:
        pyarrow = import_pyarrow()
        self._file = pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER)
        self._schema = self._file.schema_arrow
        self.names: list[str] = self._schema.names
        self.types: dict[str, Any] = dict(zip(self._schema.names, self._schema.types, strict=True))
        self.n_rows: int | None = self._file.metadata.num_rows

    def batches(
        self, columns: Sequence[str], _text: object, _numbers: object, _kept: Mapping[str, Any], n_rows: int
    ) -> Iterator[Any]:
        """Read record batches of at most `n_rows` rows; types are the file's own."""
        yield from map(validated, self._file.iter_batches(n_rows, columns=list(columns), use_threads=False))

    def whole(self) -> Any:
        """Read all rows."""
        return validated(self._file.read())


class ArrowTable:
    """An Arrow IPC file or stream; attributes as of `ParquetTable`."""

    n_rows = None

    def __init__(self, source: Path | BinaryIO, is_file: bool = False) -> None:
        pyarrow = import_pyarrow()
        content: Any = source
        if isinstance(source, Path):
            with open(source, "rb") as file:
                is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
            content = pyarrow.OSFile(str(source))
        self._reader = pyarrow.ipc.open_file(content) if is_file else pyarrow.ipc.open_stream(content)
        self.names: list[str] = self._reader.schema.names
        self.types: dict[str, Any] = dict(zip(self.names, self._reader.schema.types, strict=True))

    def batches(
        self, columns: Sequence[str], _text: object, _numbers: object, _kept: Mapping[str, Any], n_rows: int
    ) -> Iterator[Any]:
        """Read record batches of at most `n_rows` rows; types are the file's own."""
        for batch in self._all():
            wanted = validated(batch.select(list(columns)))
            for start in range(0, batch.num_rows, n_rows):
                yield wanted.slice(start, n_rows)

    def whole(self) -> Any:
        """Read all rows."""
        return validated(self._reader.read_all())

    def _all(self) -> Iterator[Any]:
        if hasattr(self._reader, "num_record_batches"):
            return (self._reader.get_batch(i) for i in range(self._reader.num_record_batches))
        return iter(self._reader)
