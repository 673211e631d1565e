"""The commands that read and write files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood.base.config import config_context
from glasswood.base.escapes import shown
from glasswood.base.progress import counting_rows, is_terminal
from glasswood.cli.resuming import job_of
from glasswood.cli.tables.directories import check_directory, finished_parts, new_directory, unfinished
from glasswood.cli.tables.formats import STREAM, import_pyarrow, table_format
from glasswood.cli.tables.reader import TableReader
from glasswood.cli.tables.sources import find
from glasswood.cli.tables.writer import writing
from glasswood.cli.values import dialect_of, load_model, refuse_renaming
from glasswood.inputs.tables import open_tables_text
from glasswood.inputs.targets import exposures_of, rates_of, row_numbers
from glasswood.mapping.mapper import input_columns
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import column_names, forest_facts, is_per_exposure

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

    from pyarrow import RecordBatch

    from glasswood.mapping.mapper import Mapper

    Wanted = tuple[list[str], list[str], list[str], int]

BATCH_BYTES = 2**25
"""Input and output of a batch take about this much memory."""
MOST_ROWS, LEAST_ROWS = 2**16, 2**6


def predict(options: argparse.Namespace) -> None:
    """Run `glasswood predict`."""
    check_table(options)
    forest = load_model(options)
    width = forest.n_trees if options.output == "leaf" else forest.n_outputs

    with _threads(options):
        mapper = forest.mapper(options.output, options.columns, options.inputs)
    transform(options, forest.ensemble, mapper, width)


def explain(options: argparse.Namespace) -> None:
    """Run `glasswood explain`."""
    import glasswood
    from glasswood.explain.mapper import check_features, player_names
    from glasswood.explain.stored import holds_explainer

    check_table(options)
    forest = load_model(options)
    background = options.background and read_features(options.background, options, forest.ensemble, sys.maxsize)
    if background is None and holds_explainer(options.model):
        refuse_renaming(options)
        explainer = glasswood.Explainer.load(options.model)
    else:
        explainer = glasswood.Explainer(
            forest,
            background,
            output=options.output,
            rule=options.rule,
            dtype=options.dtype,
        )
    check_features(options.features or (), player_names(explainer), "--features")
    if options.sentences:
        if options.interactions or options.features:
            raise ValueError("--sentences cannot be combined with --interactions or --features")
        how = {"language": options.language, **({"top": options.top} if options.top else {})}
        with _threads(options):
            mapper = explainer.mapper("sentences", options.columns, options.inputs, **how)
        transform(options, forest.ensemble, mapper, mapper.n_results, mapper.metadata)
        return
    output = "interactions" if options.interactions else "values"
    if options.top is not None and options.interactions:
        raise ValueError("--top cannot be combined with --interactions")
    with _threads(options):
        mapper = explainer.mapper(output, options.columns, options.inputs, options.features, top=options.top)
    metadata = mapper.metadata if options.top is None else None
    transform(options, forest.ensemble, mapper, mapper.n_results, metadata)


def info(options: argparse.Namespace) -> None:
    """Run `glasswood info`."""
    import glasswood
    from glasswood.explain.stored import holds_explainer
    from glasswood.neighbors.stored import holds_neighbors

    for name, fact in forest_facts(load_model(options).ensemble).items():
        print(f"{name:<10}{fact}")
    if holds_explainer(options.model):
        print(f"{'explainer':<10}{glasswood.Explainer.load(options.model)!r}")
    if holds_neighbors(options.model):
        print(f"{'neighbors':<10}{glasswood.Neighbors.load(options.model)!r}")


def _threads(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Let a mapper take the threads asked for, otherwise all; 1 on a cluster, whose workers run a task a core."""
    return config_context(n_jobs=options.n_jobs or (-1 if options.scheduler is None else 1))


def check_table(options: argparse.Namespace) -> None:
    """Raise before any work unless the output is a table, or a folder of tables, that can be written."""
    source = find(options.data)
    if options.scheduler is not None:
        from glasswood.cli.cluster import check_cluster

        check_cluster(options.out, source, ["--partition-rows"] if options.partition_rows else [])
    if options.resume and not source.files:
        raise ValueError("--resume reads files, which the next run finds again, not standard input")
    if options.scheduler is not None or options.partition_rows is not None:
        if str(options.out) == STREAM:
            raise ValueError("a directory of files cannot go to standard output; give -o the name of a directory")
        check_directory(options.out)
    elif options.resume:
        raise ValueError("--resume goes on with a directory of parts; add --partition-rows or --scheduler")
    elif str(options.out) != STREAM and not options.out.suffix:
        raise ValueError(f"{options.out} has no suffix that says its format; for a directory pass --partition-rows")
    form = _format(options)
    if options.escape_formulas and form != "csv":
        raise ValueError(f"--escape-formulas is for CSV, the output is {form.title()}; leave --escape-formulas out")
    if str(options.out) == STREAM and form != "csv" and is_terminal(sys.stdout):
        raise ValueError(f"standard output is a terminal, which cannot show {form.title()}; give -o the name of a file")


def _format(options: argparse.Namespace) -> str:
    """Format of the table that a command writes."""
    if options.scheduler is not None or options.partition_rows is not None:
        return options.out_format or "parquet"
    return (options.out_format or "csv") if str(options.out) == STREAM else table_format(options.out)


def transform(
    options: argparse.Namespace, forest: TreeEnsemble, mapper: Any, width: int, metadata: dict[str, Any] | None = None
) -> None:
    """Read the data in batches, write what the mapper makes of each."""
    start, n_rows = time.perf_counter(), 0
    reader = TableReader(options.data, dialect_of(options))
    inputs = _input_columns(options.inputs, reader, forest)
    reader.check_columns([*inputs, *options.columns])
    batch_rows = options.batch_rows or _batch_rows(8 * (len(inputs) + len(options.columns) + width))
    wanted = _wanted(inputs, options.columns, forest, batch_rows, reader)
    job = job_of(options, reader.source) if options.resume else None
    there = len(finished_parts(unfinished(options.out), _format(options))) if job else 0
    with counting_rows(reader.n_rows, shown(options.out.name)) as advance:
        if options.scheduler is not None:
            n_rows = _transform_on_cluster(options, reader, mapper, wanted, metadata, advance, job)
        else:
            how = (options.partition_rows, options.out_format, options.escape_formulas, job)
            skipped = there * (options.partition_rows or 0)
            with writing(options.out, metadata, *how) as write:
                for batch in reader.batches(*wanted):
                    rest = batch.slice(min(skipped, batch.num_rows))
                    skipped -= batch.num_rows - rest.num_rows
                    if rest.num_rows or not there:
                        write(mapper(rest))
                    n_rows += rest.num_rows
                    advance(batch.num_rows)
    told = sys.stderr if str(options.out) == STREAM else sys.stdout
    before = f", beside {there:,} parts of an earlier run" if there else ""
    print(f"{shown(str(options.out))}: {n_rows:,} rows in {time.perf_counter() - start:.1f} s{before}", file=told)


def _transform_on_cluster(
    options: argparse.Namespace,
    reader: TableReader,
    mapper: Mapper,
    wanted: Wanted,
    metadata: dict[str, Any] | None,
    advance: Callable[[int], object],
    description: dict[str, Any] | None,
) -> int:
    from glasswood.cli.cluster import Job, connected, map_files

    with connected(options.scheduler) as client, new_directory(options.out, description) as folder:
        job = Job(
            *wanted, reader.types, folder, _format(options), metadata, dialect_of(options), options.escape_formulas
        )
        return map_files(client, mapper, reader.source, job, advance)


def read_features(data: Path, options: argparse.Namespace, forest: TreeEnsemble, most_rows: int) -> Any:
    """Read the first rows of a table as one of the model's features."""
    return import_pyarrow().Table.from_batches(list(feature_batches(data, options, forest, most_rows)))


def feature_batches(
    data: Path, options: argparse.Namespace, forest: TreeEnsemble, most_rows: int
) -> Iterator[RecordBatch]:
    """Read the first rows of a table in batches of the model's features."""
    for _, _, features in _first_rows(data, (), options, forest, most_rows):
        yield features


def read_features_and_target(
    data: Path, options: argparse.Namespace, forest: TreeEnsemble, most_rows: int
) -> tuple[Any, list[Any] | None, list[Any] | None]:
    """Read the first rows of a table, --target and --exposure, once: standard input gives them no second time."""
    columns = options.target, options.exposure
    if columns[0] is None:
        if columns[1] is not None:
            raise ValueError("--exposure is what the target was counted over; pass --target too")
        return read_features(data, options, forest, most_rows), None, None
    if columns[1] is None and is_per_exposure(forest):
        raise ValueError(
            "the model predicts rates for one unit of exposure; pass --exposure, the column of what --target was "
            "counted over"
        )
    parts: list[RecordBatch] = []
    values: dict[str | None, list[Any]] = {column: [] for column in columns if column is not None}
    for name, rows, features in _first_rows(data, [*map(str, values)], options, forest, most_rows):
        parts.append(features)
        for column, known in values.items():
            known += rows.column(column).to_pylist()
            if None in known:
                raise ValueError(
                    f"column {column!r} of {name} has no value in row {known.index(None)}; leave such rows out"
                )
    return import_pyarrow().Table.from_batches(parts), values[columns[0]], values.get(columns[1])


def as_weighted_rates(y: Any, exposure: Any) -> tuple[Any, Any]:
    """Divide a target by its exposure, which becomes its weight; without exposure both stay as they are."""
    if exposure is None:
        return y, None
    exposed = exposures_of(exposure, len(y))
    return rates_of(row_numbers(y, "y"), exposed), exposed


def _first_rows(
    data: Path, kept: Sequence[str], options: argparse.Namespace, forest: TreeEnsemble, most_rows: int
) -> Iterator[tuple[str, RecordBatch, RecordBatch]]:
    """Name of a table, and its first rows in batches: with the columns `kept`, and as the model's features."""
    reader = TableReader(data, dialect_of(options))
    inputs, n_rows = _input_columns(options.inputs, reader, forest), 0
    reader.check_columns([*inputs, *kept])
    for batch in reader.batches(*_wanted(inputs, kept, forest, min(MOST_ROWS, most_rows), reader)):
        rows = batch.slice(0, most_rows - n_rows)
        n_rows += rows.num_rows
        yield reader.name, rows, _features(rows, inputs, forest)
        if n_rows >= most_rows:
            break


def _batch_rows(row_bytes: int) -> int:
    return max(LEAST_ROWS, min(MOST_ROWS, BATCH_BYTES // row_bytes))


def _input_columns(wanted: Sequence[str] | None, reader: TableReader, forest: TreeEnsemble) -> list[str]:
    """Columns of the data that are the model's features, in the model's order."""
    hint = " (the first line of a CSV file holds its names)"
    return input_columns(reader.names, forest, wanted, reader.name, "--inputs", hint)


def _wanted(
    inputs: Sequence[str], kept: Sequence[str], forest: TreeEnsemble, batch_rows: int, reader: TableReader
) -> Wanted:
    """Arguments of `TableReader.batches`."""
    if not reader.has_types and forest.open_tables:
        raise ValueError(
            f"{reader.name} has no types of columns, and {open_tables_text(forest)}; name the columns that were of "
            "dtype category in training by --categories, or pass a Parquet or Arrow file that has them"
        )
    tables = forest.categories or (None,) * forest.n_features
    is_hashed = bool(forest.category_hash) or forest.transform is not None
    tables = tables if forest.transform is None else forest.transform.hashes
    text = [
        name
        for name, table in zip(inputs, tables, strict=True)
        if table is not None and (is_hashed or table.dtype.kind in "OU")
    ]
    numbers = [name for name in inputs if name not in text]
    return list(dict.fromkeys([*inputs, *kept])), text, numbers, batch_rows


def _features(batch: RecordBatch, inputs: Sequence[str], forest: TreeEnsemble) -> RecordBatch:
    """Select the model's columns under the model's names."""
    columns = [batch.column(name) for name in inputs]
    return import_pyarrow().RecordBatch.from_arrays(columns, names=column_names(forest))
