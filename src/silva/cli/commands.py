"""The commands that read and write files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from silva.cli.tables import TableReader, import_pyarrow, progress, writing
from silva.facts import forest_facts
from silva.files import check_output
from silva.mapping.columns import feature_names
from silva.mapping.mapper import input_columns

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyarrow import RecordBatch

    from silva.forest import Forest
    from silva.mapping.mapper import Mapper

BATCH_BYTES = 2**25
"""Input and output of a batch take about this much memory."""
MOST_ROWS, LEAST_ROWS = 2**16, 2**6


def predict(options: argparse.Namespace) -> None:
    """Run `silva predict`."""
    import silva

    check_output(options.out, (options.model, options.data))
    forest = silva.load(options.model, format=options.format)
    width = forest.n_trees if options.output == "leaf" else forest.n_outputs

    mapper = forest.mapper(options.output, options.columns, options.inputs, options.device, options.n_jobs)
    _transform(options, forest, mapper, width)


def explain(options: argparse.Namespace) -> None:
    """Run `silva explain`."""
    import silva
    from silva.explain.mapper import check_features, player_names
    from silva.explain.stored import holds_explainer

    inputs = (options.model, options.data, *([options.background] if options.background else []))
    check_output(options.out, inputs)
    forest = silva.load(options.model, format=options.format)
    background = options.background and read_features(options.background, options.inputs, forest, sys.maxsize)
    if background is None and holds_explainer(options.model):
        explainer = silva.Explainer.load(options.model, device=options.device, n_jobs=options.n_jobs)
    else:
        explainer = silva.Explainer(
            forest,
            background,
            output=options.output,
            device=options.device,
            dtype=options.dtype,
            n_jobs=options.n_jobs,
        )
    check_features(options.features or (), player_names(explainer), "--features")
    output = "interactions" if options.interactions else "values"
    mapper = explainer.mapper(output, options.columns, options.inputs, options.features, options.n_jobs)
    _transform(options, forest, mapper, mapper.n_results, mapper.metadata)


def info(options: argparse.Namespace) -> None:
    """Run `silva info`."""
    import silva

    for name, fact in forest_facts(silva.load(options.model, format=options.format)).items():
        print(f"{name:<10}{fact}")


def _transform(
    options: argparse.Namespace, forest: Forest, mapper: Mapper, width: int, metadata: dict[str, Any] | None = None
) -> None:
    """Read the data in batches, write what the mapper makes of each."""
    start, n_rows = time.perf_counter(), 0
    reader = TableReader(options.data)
    inputs = _input_columns(options.inputs, reader, forest)
    reader.check_columns([*inputs, *options.columns])
    batch_rows = options.batch_rows or _batch_rows(8 * (len(inputs) + len(options.columns) + width))
    with progress(reader.n_rows, options.out.name) as advance, writing(options.out, metadata) as write:
        for batch in _read(reader, inputs, options.columns, forest, batch_rows):
            write(mapper(batch))
            n_rows += batch.num_rows
            advance(batch.num_rows)
    print(f"{options.out}: {n_rows:,} rows in {time.perf_counter() - start:.1f} s")


def read_features(data: Path, wanted: Sequence[str] | None, forest: Forest, most_rows: int) -> Any:
    """Read the first rows of a file as a table of the model's features; `wanted` are columns in their order."""
    reader = TableReader(data)
    inputs = _input_columns(wanted, reader, forest)
    reader.check_columns(inputs)
    parts, n_rows = [], 0
    for batch in _read(reader, inputs, (), forest, min(MOST_ROWS, most_rows)):
        parts.append(_features(batch.slice(0, most_rows - n_rows), inputs, forest))
        n_rows += parts[-1].num_rows
        if n_rows >= most_rows:
            break
    return import_pyarrow().Table.from_batches(parts)


def _batch_rows(row_bytes: int) -> int:
    return max(LEAST_ROWS, min(MOST_ROWS, BATCH_BYTES // row_bytes))


def _input_columns(wanted: Sequence[str] | None, reader: TableReader, forest: Forest) -> list[str]:
    """Columns of the data that are the model's features, in the model's order."""
    hint = " (the first line of a CSV file holds its names)"
    return input_columns(reader.names, forest, wanted, str(reader.path), "--inputs", hint)


def _read(
    reader: TableReader, inputs: Sequence[str], kept: Sequence[str], forest: Forest, batch_rows: int
) -> Iterator[Any]:
    tables = forest.categories or (None,) * forest.n_features
    is_hashed = bool(forest.category_hash)
    text = [
        name
        for name, table in zip(inputs, tables, strict=True)
        if table is not None and (is_hashed or table.dtype.kind in "OU")
    ]
    numbers = [name for name in inputs if name not in text]
    return reader.batches(list(dict.fromkeys([*inputs, *kept])), text, numbers, batch_rows)


def _features(batch: RecordBatch, inputs: Sequence[str], forest: Forest) -> RecordBatch:
    """Select the model's columns under the model's names."""
    columns = [batch.column(name) for name in inputs]
    return import_pyarrow().RecordBatch.from_arrays(columns, names=feature_names(forest))
