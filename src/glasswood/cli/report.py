"""`glasswood report`: a model and its explanations as one HTML file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from glasswood.base.escapes import shown
from glasswood.base.phrases import LANGUAGES
from glasswood.cli.values import (
    DATA,
    POSITIVE,
    REPLACED,
    add_command,
    add_model,
    add_reading,
    add_target,
    add_threads,
    costs,
    file_of,
    load_model,
    names,
    rows_source,
)

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser

DESCRIPTION = """Write a report of MODEL on the rows of DATA: one HTML file that needs no network.

It shows what each feature contributes, single rows and partial dependence; for small models also the trees and a
what-if computation. The file contains at most 2,000 rows; --redact leaves them out.

Example: glasswood report model.json rows.csv --target price -o report.html"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        subparsers, "report", run, "write an HTML report of a model on the rows of a file", DESCRIPTION
    )
    add_model(parser)
    parser.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    parser.add_argument(
        "-o",
        dest="out",
        type=file_of(".html", ".htm"),
        required=True,
        metavar="OUT",
        help=f".html file to write{REPLACED}",
    )
    add_target(parser, "column of DATA that the model predicts, to show errors")
    parser.add_argument(
        "--class-names", type=names, metavar="A,B,...", help="names of the model's classes, in its order (0, 1, ...)"
    )
    parser.add_argument("--positive", metavar="CLASS", help=POSITIVE)
    parser.add_argument(
        "--costs",
        type=costs,
        metavar="FP=A,FN=B",
        help="what errors about two classes cost: false_positive=1,false_negative=50; the page begins with the "
        "threshold that costs least",
    )
    parser.add_argument("--before", type=rows_source, metavar="ROWS", help="earlier rows, to show what changed since")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the page (default: en)")
    parser.add_argument("--title", help="title (default: the kind of model)")
    parser.add_argument("--redact", action="store_true", help="leave all single rows out of the file")
    add_reading(parser)
    add_threads(parser)


def run(options: argparse.Namespace) -> None:
    """Run `glasswood report`."""
    import glasswood
    from glasswood.cli.commands import read_features, read_features_and_target

    start = time.perf_counter()
    forest = load_model(options, class_names=options.class_names)
    most = options.rows or sys.maxsize
    X, y, exposure = read_features_and_target(options.data, options, forest.ensemble, most)
    before = None if options.before is None else read_features(options.before, options, forest.ensemble, most)
    settings = {
        "positive": options.positive,
        "costs": options.costs,
        "title": options.title,
        "language": options.language,
        "redact": options.redact,
        "exposure": exposure,
    }
    glasswood.report(forest, X, y, options.out, before=before, **settings)
    size, seconds = options.out.stat().st_size / 1e6, time.perf_counter() - start
    print(f"{shown(str(options.out))}: {X.num_rows:,} rows, {size:.1f} MB, {seconds:.1f} s")
