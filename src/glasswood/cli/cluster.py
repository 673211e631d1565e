"""`--scheduler`: the files of a table mapped by the workers of a Dask cluster, a file a task."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood import __version__
from glasswood.base.files import replacing
from glasswood.cli.tables.directories import part_name, sweep
from glasswood.cli.tables.reader import TableReader
from glasswood.cli.tables.writer import Appender
from glasswood.dask.engine import import_distributed

if TYPE_CHECKING:
    from glasswood.cli.tables.delimited import Dialect
    from glasswood.cli.tables.sources import Source
    from glasswood.mapping.mapper import Mapper


@dataclass(frozen=True)
class Job:
    """How to read, map and write a file.

    Attributes
    ----------
    columns, text, numbers, n_rows
        As for `TableReader.batches`.
    types : dict
        Types of the first file, which all follow.
    folder : Path
        Where the parts go.
    format : str
    metadata : dict or None
    dialect : Dialect
    escapes : bool
        Whether texts of CSV that spreadsheets take for formulas get an apostrophe.
    """

    columns: list[str]
    text: list[str]
    numbers: list[str]
    n_rows: int
    types: dict[str, Any]
    folder: Path
    format: str
    metadata: dict[str, Any] | None
    dialect: Dialect
    escapes: bool


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield a client of the scheduler.

    Raises
    ------
    OSError
        If no scheduler answers, or it dies.
    """
    distributed = import_distributed()
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise OSError(f"no scheduler answers at {address} ({error}); start one by `dask scheduler`") from error
    with _unlogged(), client:
        _check_workers(client)
        try:
            yield client
        except (distributed.client.FutureCancelledError, distributed.comm.CommClosedError) as error:
            raise OSError(f"the scheduler at {address} is gone ({error}); nothing was written") from error
        except distributed.KilledWorker as error:
            raise OSError(f"workers died again and again ({error}); give them more memory") from error


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep traces of lost connections, which Dask logs on standard error, out of the one sentence about them."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _check_workers(client: Any) -> None:
    """Raise OSError unless all workers have this version of glasswood; later ones are told by the mapper."""
    # A function of glasswood's own would not arrive where glasswood is not.
    for worker, found in client.run(importlib.metadata.version, "glasswood", on_error="return").items():
        if isinstance(found, Exception):
            raise OSError(
                f"the worker {worker} has no glasswood ({found}); install glasswood {__version__} on all workers"
            )
        if found != importlib.metadata.version("glasswood"):
            raise OSError(
                f"the worker {worker} has glasswood {found}, this is glasswood {__version__}; install the same"
            )


def map_files(client: Any, mapper: Mapper, source: Source, job: Job, advance: Callable[[int], object]) -> int:
    """Map every file of a table to a part, but those whose part is there; return the number of rows."""
    from distributed import as_completed

    sent = client.submit(_same, mapper, pure=False)
    numbers = [i for i in range(len(source.files)) if not (job.folder / part_name(i, job.format)).exists()]
    parts = [source.part(i) for i in numbers]
    futures = client.map(_map_file, numbers, parts, mapper=sent, job=job, pure=False)
    n_rows = 0
    for future in as_completed(futures):
        n_rows += (done := future.result())
        advance(done)
    sweep(job.folder)
    return n_rows


def _same(mapper: Mapper) -> Mapper:
    return mapper


def _map_file(number: int, part: Source, mapper: Mapper, job: Job) -> int:
    """Map one file; a task that is repeated writes the same part again, complete or not at all."""
    reader, n_rows = TableReader(part, job.dialect, job.types), 0
    with (
        replacing(job.folder / part_name(number, job.format)) as temporary,
        Appender(temporary, job.format, job.metadata, job.escapes) as write,
    ):
        for batch in reader.batches(job.columns, job.text, job.numbers, job.n_rows):
            write(mapper(batch))
            n_rows += batch.num_rows
    return n_rows


def check_cluster(path: Path, source: Source, wanted: Sequence[str]) -> None:
    """Raise ValueError for what workers cannot read or write; `wanted` are options that they do not follow."""
    if not source.files:
        raise ValueError("--scheduler reads files that all workers see, not standard input")
    if wanted:
        raise ValueError(f"--scheduler writes one output file per input file; remove {', '.join(wanted)}")
    if path.suffix:
        raise ValueError(f"--scheduler writes a directory of parts, not {path}; give the name of a directory")
