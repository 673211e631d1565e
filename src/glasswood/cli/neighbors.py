"""`glasswood neighbors`: similar training rows, quantiles and intervals of every row of a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.cli.values import (
    REPLACED,
    add_command,
    add_target,
    forest_file,
    load_model,
    positive,
    refuse_renaming,
    rows_source,
    shares,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser
    from glasswood.neighbors import Neighbors

DESCRIPTION = """Compare every row of DATA with the training rows that reach the same leaves of MODEL.

Output columns: quantile_<q> with --quantiles, lower and upper with --coverage, and neighbor_1, similarity_1, ... with
--top. neighbor_1 is the place of the most similar training row, counted from 0; similarity_1 is the share of the trees
in which both rows reach the same leaf.

Example: glasswood neighbors model.json rows.csv --training train.csv --target price --quantiles 0.05,0.95 -o out.csv"""


def add_parser(
    subparsers: argparse._SubParsersAction[Parser], add_files: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        subparsers,
        "neighbors",
        run,
        "find similar training rows, quantiles and intervals for every row of a file",
        DESCRIPTION,
    )
    add_files(parser)
    parser.add_argument(
        "--training",
        type=rows_source,
        metavar="ROWS",
        help="rows that MODEL was trained on, in the formats of DATA; a file of --save contains them already",
    )
    add_target(parser, "column of ROWS that MODEL predicts")
    parser.add_argument(
        "--top", type=positive, metavar="N", help="training rows to list for each row, the most similar (default: 5)"
    )
    parser.add_argument("--quantiles", type=shares, metavar="Q,R,...", help="quantiles of the target, from 0 to 1")
    parser.add_argument(
        "--coverage", type=float, metavar="C", help="share of targets that intervals contain, such as 0.9"
    )
    parser.add_argument(
        "--calibration",
        type=rows_source,
        metavar="ROWS",
        help="held-out rows with their target, which --coverage requires",
    )
    parser.add_argument(
        "--save", type=forest_file, metavar="FILE", help=f".glasswood file for MODEL and its training rows{REPLACED}"
    )
    parser.add_argument("--no-check", action="store_true", help="accept rows that MODEL was not trained on")


def run(options: argparse.Namespace) -> None:
    """Run `glasswood neighbors`."""
    from glasswood.cli.commands import check_table, transform

    check_table(options)
    _check(options)
    neighbors = _neighbors(options)
    if options.calibration is not None:
        neighbors.conformalize(*_rows_and_target(options.calibration, options, neighbors.forest)[:2])
    if options.save is not None:
        neighbors.save(options.save)
    mapper = _mapper(neighbors, options)
    width = 2 * (options.top or 0) + len(options.quantiles or ()) + 2
    transform(options, neighbors.forest.ensemble, mapper, width)


def _check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together; similar rows are what is found by default."""
    if options.scheduler is not None:
        raise ValueError("neighbors does not support --scheduler; run it on one machine")
    if options.calibration is not None and options.target is None:
        raise ValueError("--calibration needs --target, the column that the model predicts")
    if options.top is None and options.quantiles is None and options.coverage is None:
        options.top = 5


def _neighbors(options: argparse.Namespace) -> Neighbors:
    import glasswood
    from glasswood.neighbors.stored import holds_neighbors

    if holds_neighbors(options.model):
        if options.training is not None:
            raise ValueError(f"{options.model} holds its training rows; leave --training out")
        refuse_renaming(options)
        return glasswood.Neighbors.load(options.model)
    if options.training is None:
        raise ValueError(f"{options.model} holds no training rows; pass them by --training")
    forest = load_model(options)
    X, y, weight = _rows_and_target(options.training, options, forest)
    return glasswood.Neighbors(forest, X, y, sample_weight=weight, check=not options.no_check)


def _rows_and_target(source: Path, options: argparse.Namespace, forest: Any) -> tuple[Any, Any, Any]:
    """Rows, their targets and weights: rates, where there are exposures."""
    from glasswood.cli.commands import as_weighted_rates, read_features_and_target

    X, y, exposure = read_features_and_target(source, options, forest.ensemble, sys.maxsize)
    return X, *as_weighted_rates(y, exposure)


def _mapper(neighbors: Neighbors, options: argparse.Namespace) -> Callable[[Any], Any]:
    """Make a function of batches."""
    from glasswood.mapping.frames import as_frame, features_of, result
    from glasswood.mapping.mapper import input_columns
    from glasswood.model.facts import column_names

    ensemble = neighbors.forest.ensemble

    def mapped(batch: Any) -> Any:
        frame = as_frame(batch)
        found = input_columns(frame.names, ensemble, options.inputs, "the batch", "--inputs")
        rows = features_of(frame, found, column_names(ensemble))
        return result(batch, options.columns, {}, _columns(neighbors, rows, options))

    return mapped


def _columns(neighbors: Neighbors, rows: Any, options: argparse.Namespace) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if options.quantiles is not None:
        found = neighbors.quantile(rows, options.quantiles)
        if found.ndim > 2:
            raise ValueError("--quantiles requires a model with one target")
        columns |= {f"quantile_{q:g}": found[:, place] for place, q in enumerate(options.quantiles)}
    if options.coverage is not None:
        columns |= dict(zip(("lower", "upper"), neighbors.predict_interval(rows, options.coverage).T, strict=True))
    if options.top is not None:
        similarity, places = neighbors.kneighbors(rows, options.top)
        for place in range(options.top):
            columns[f"neighbor_{place + 1}"] = places[:, place]
            columns[f"similarity_{place + 1}"] = similarity[:, place]
    return {name: np.ascontiguousarray(values) for name, values in columns.items()}
