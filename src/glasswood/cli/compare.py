"""`glasswood compare`: which features changed the mean prediction."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from glasswood.cli.values import (
    DATA,
    REPLACED,
    add_command,
    add_model,
    add_reading,
    add_threads,
    load_model,
    positive,
    rows_source,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser

DESCRIPTION = """Show which features changed the mean prediction of MODEL from the rows of A to the rows of B.

Also shows how far each feature's distribution shifted, with standard errors. With --other, shows in which features two
models differ on the rows of A. Both are read in batches, in constant memory; of more rows than take 128 MiB, some are
drawn at random and explained, and the text says so.

Examples:
  glasswood compare model.json january.parquet february.parquet
  glasswood compare old.json rows.csv --other new.json -o change.json"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        subparsers,
        "compare",
        run,
        "show which features changed the mean prediction, between two files or two models",
        DESCRIPTION,
    )
    add_model(parser)
    parser.add_argument("data", type=rows_source, metavar="A", help=DATA)
    parser.add_argument("other_data", type=rows_source, metavar="B", nargs="?", help="rows to compare with those of A")
    parser.add_argument("--other", type=Path, metavar="MODEL", help="model to compare with MODEL, on the rows of A")
    parser.add_argument("-o", dest="out", type=Path, metavar="OUT", help=f".json file with all figures{REPLACED}")
    parser.add_argument(
        "--batches", type=positive, default=20, metavar="N", help="batches of the bootstrap (default: 20)"
    )
    add_reading(parser)
    add_threads(parser)


def run(options: argparse.Namespace) -> None:
    """Run `glasswood compare`."""
    import glasswood
    from glasswood.base.files import replacing
    from glasswood.cli.commands import feature_batches

    if (options.other is None) == (options.other_data is None):
        raise ValueError("compare expects a second file of rows, or --other and a second model")
    forest, most = load_model(options), options.rows or sys.maxsize
    first = feature_batches(options.data, options, forest.ensemble, most)
    settings = {"n_batches": options.batches}
    if options.other is not None:
        found = glasswood.compare(forest, glasswood.load(options.other), X=first, **settings)
    else:
        second = feature_batches(options.other_data, options, forest.ensemble, most)
        found = glasswood.compare(first, second, model=forest, **settings)
    if options.out:
        with replacing(options.out) as temporary:
            temporary.write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(found)
