"""`silva report`: a model and its explanations as one HTML file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from silva.cli.values import REPLACED, add_dialect, names, positive, rows_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.cli.parser import Parser

DESCRIPTION = """Write a report of MODEL on the rows of DATA: one HTML file that needs no network.

It shows what each feature contributes, single rows, partial dependence, and of small models the trees and a what-if
computation. At most 2,000 rows are in the file; --redact leaves all of them out.

Example: silva report model.json rows.csv --target price -o report.html"""


def add_parser(
    subparsers: argparse._SubParsersAction[Parser],
    add_model: Callable[[argparse.ArgumentParser], None],
    data: str,
) -> None:
    """Add the command to those of the command line."""
    parser = subparsers.add_parser(
        "report",
        help="write an HTML report of a model on the rows of a file",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model(parser)
    parser.add_argument("data", type=rows_source, metavar="DATA", help=data)
    parser.add_argument(
        "-o", dest="out", type=page, required=True, metavar="OUT", help=f".html file to write{REPLACED}"
    )
    parser.add_argument("--target", metavar="COLUMN", help="column of DATA that the model predicts, for its errors")
    parser.add_argument("--before", type=rows_source, metavar="ROWS", help="earlier rows: shows what changed since")
    parser.add_argument("--title", help="default: what the model is")
    parser.add_argument("--redact", action="store_true", help="leave all single rows out of the file")
    parser.add_argument("--rows", type=positive, metavar="N", help="rows to read (default: all)")
    parser.add_argument("--inputs", type=names, metavar="A,B,...", help="columns that are the features, in their order")
    parser.add_argument("--n-jobs", type=positive, metavar="N", help="threads (default: all cores)")
    add_dialect(parser)
    parser.set_defaults(run=run)


def page(text: str) -> Path:
    """Check the suffix of a page."""
    path = Path(text)
    if path.suffix.lower() not in {".html", ".htm"}:
        raise argparse.ArgumentTypeError(f"{text} has the suffix {path.suffix!r}, expected .html")
    return path


def run(options: argparse.Namespace) -> None:
    """Run `silva report`."""
    import silva
    from silva.cli.commands import read_column, read_features
    from silva.cli.tables.sources import find, inputs
    from silva.files import check_output

    check_output(
        options.out, (options.model, *find(options.data).files, *(inputs(options.before) if options.before else ()))
    )
    start = time.perf_counter()
    forest = silva.load(options.model, format=options.format)
    most = options.rows or sys.maxsize
    X = read_features(options.data, options, forest.ensemble, most)
    y = None if options.target is None else read_column(options.data, options.target, options, most)
    before = None if options.before is None else read_features(options.before, options, forest.ensemble, most)
    settings = {"title": options.title, "redact": options.redact, "n_jobs": options.n_jobs}
    silva.report(forest, X, y, options.out, before=before, **settings)
    size, seconds = options.out.stat().st_size / 1e6, time.perf_counter() - start
    print(f"{options.out}: {X.num_rows:,} rows, {size:.1f} MB, {seconds:.1f} s")
