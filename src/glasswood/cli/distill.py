"""`glasswood distill`: a readable tree in place of a model."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from glasswood.cli.values import (
    DATA,
    REPLACED,
    add_command,
    add_model,
    add_reading,
    add_threads,
    forest_file,
    load_model,
    positive,
    rows_source,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser

DESCRIPTION = """Grow a tree that imitates MODEL, on the rows of DATA and on rows drawn between them.

Prints the largest tree, and the fidelity of trees of increasing size on rows that they have not seen.

Example: glasswood distill model.json houses.csv -o tree.glasswood --max-leaves 8"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(subparsers, "distill", run, "grow a readable tree that imitates a model", DESCRIPTION)
    add_model(parser)
    parser.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    parser.add_argument(
        "-o", dest="out", type=forest_file, required=True, metavar="OUT", help=f".glasswood file to write{REPLACED}"
    )
    parser.add_argument("--max-leaves", type=positive, default=16, metavar="N", help="most leaves (default: 16)")
    parser.add_argument("--drawn", type=positive, metavar="N", help="rows to draw (default: as many as DATA has)")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=60,
        metavar="SECONDS",
        help="for all searches; inf for no limit (default: 60)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all draws (default: 0)")
    add_reading(parser)
    add_threads(parser)


def run(options: argparse.Namespace) -> None:
    """Run `glasswood distill`."""
    import glasswood
    from glasswood.cli.commands import read_features

    forest = load_model(options)
    rows = read_features(options.data, options, forest.ensemble, options.rows or sys.maxsize)
    largest = options.max_leaves
    found = glasswood.distill(
        forest,
        rows,
        sizes=[*(2**power for power in range(1, (largest - 1).bit_length())), largest],
        n_drawn=options.drawn,
        time_limit=None if math.isinf(options.time_limit) else options.time_limit,
        random_state=options.seed,
    )
    found.model.forest_.save(options.out)
    print(found)
    for number in range(found.model.forest_.n_trees):
        print(f"\n{glasswood.export_text(found.model, tree=number)}")
