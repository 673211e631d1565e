"""Arguments of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from glasswood import __version__
from glasswood.base.phrases import LANGUAGES
from glasswood.base.typing import FLOAT_TYPES, OUTPUTS, ExplainRule
from glasswood.cli import bench, commands, compare, demo, distill, grow, neighbors, plot, report, score
from glasswood.cli.parser import Parser
from glasswood.cli.tables.formats import FORMATS
from glasswood.cli.values import (
    DATA,
    INPUTS,
    REPLACED,
    add_command,
    add_device,
    add_dialect,
    add_model,
    add_reading,
    add_threads,
    forest_file,
    names,
    positive,
    rows_source,
    table,
)

if TYPE_CHECKING:
    import argparse

PREDICT = """Predict every row of DATA.

Output columns: prediction (margin, probability) for one output, prediction_<class or output> for several, leaf_<tree>
for leaf ids. The columns of DATA that --columns names come first.

Example: glasswood predict model.json rows.csv -o predictions.csv --columns id"""

EXPLAIN = """Explain every row of DATA by exact SHAP values of the margin, path-dependent or against background rows.

Output columns: phi_<feature> for one output, phi_<feature>_<class or output> for several; with --interactions
phi_<a>__<b>, whose sum over b is phi_<a>; then expected_value and margin (each with _<class or output> for several).
In every row, the phi add up to margin - expected_value. With --sentences there is one column of text, sentences: what
raised and what lowered the output, in words. Parquet files also contain features, outputs and expected values as JSON,
under the key "glasswood" of the schema metadata. Features without names are x0, x1, ... If MODEL is a file of
Explainer.save, its background, output and dtype apply, unless you pass --background.

Example: glasswood explain model.json rows.parquet -o explanations.parquet"""

BENCH = """Measure the algorithms on the rows of DATA.

Prints the median time of each algorithm for batches of 1, 100, 10,000, ... rows, on the CPU and, if there is one, on a
GPU. An asterisk marks the algorithm that the tuned model uses (-o, or Forest.tune)."""

INFO = "Print a summary of a model: source, objective, size, features, memory."

DEMO = """Grow a tree on California housing, then predict and explain a forest. glasswood ships with both.

Prints the tree and the features by importance; writes tree.glasswood, tree.png, beeswarm.png and explanation.parquet.
"""


def make_parser() -> Parser:
    """Build the parser; a parsed command holds its function as `run`."""
    parser = Parser(prog="glasswood", description="Grow, evaluate and explain trees.")
    parser.add_argument("--version", action="version", version=f"glasswood {__version__}")
    parser.add_argument("--traceback", action="store_true", help="print the traceback of an error")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    grow.add_parser(subparsers)

    predict = add_command(subparsers, "predict", commands.predict, "predict every row of a file", PREDICT)
    _add_files(predict)
    predict.add_argument(
        "--output",
        choices=OUTPUTS,
        default="prediction",
        help="what to predict (default: what the source library's predict returns)",
    )
    _add_explain(subparsers)

    neighbors.add_parser(subparsers, _add_files)
    report.add_parser(subparsers)
    compare.add_parser(subparsers)
    score.add_parser(subparsers)
    distill.add_parser(subparsers)
    plot.add_parser(subparsers)
    _add_bench(subparsers)
    add_model(add_command(subparsers, "info", commands.info, "print a summary of a model", INFO))

    summary = "grow a tree on California housing, predict and explain a forest"
    show = add_command(subparsers, "demo", demo.demo, summary, DEMO)
    show.add_argument(
        "--out", type=Path, default=Path("glasswood-demo"), metavar="DIR", help="default: ./glasswood-demo"
    )
    add_threads(show)
    return parser


def _add_explain(subparsers: argparse._SubParsersAction[Parser]) -> None:
    summary = "explain every row of a file by SHAP values"
    explain = add_command(subparsers, "explain", commands.explain, summary, EXPLAIN)
    _add_files(explain)
    explain.add_argument("--interactions", action="store_true", help="SHAP interaction values instead of values")
    explain.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="only the N strongest features of each row: columns feature_1, phi_1, feature_2, ...; with --sentences "
        "those with a sentence of their own (default: 5)",
    )
    explain.add_argument(
        "--sentences", action="store_true", help="a column of text, sentences, that says what raised and what lowered"
    )
    explain.add_argument("--language", choices=LANGUAGES, default="en", help="of the sentences (default: en)")
    explain.add_argument("--features", type=names, metavar="A,B,...", help="explain only these features")
    explain.add_argument(
        "--background",
        type=rows_source,
        metavar="ROWS",
        help="background rows, in the formats of DATA, whose values replace unknown features (default: none, for "
        "path-dependent values)",
    )
    explain.add_argument(
        "--output",
        choices=("margin", "probability", "response", "decision"),
        default="margin",
        help="what to explain (default: margin); all others require --background",
    )
    explain.add_argument(
        "--rule",
        choices=get_args(ExplainRule),
        default="exact",
        help="for outputs other than the margin: their Shapley values (exact, the default), or the margin's values "
        "rescaled for each pair of rows, as in shap (rescale, for two classes)",
    )
    explain.add_argument("--dtype", choices=FLOAT_TYPES, default="float32", help="default: float32")


def _add_bench(subparsers: argparse._SubParsersAction[Parser]) -> None:
    command = add_command(subparsers, "bench", bench.bench, "measure the algorithms on a model and its data", BENCH)
    add_model(command)
    command.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    command.add_argument(
        "-o", dest="out", type=forest_file, metavar="OUT", help=f".glasswood file for the tuned model{REPLACED}"
    )
    command.add_argument("--seconds", type=float, default=5.0, metavar="S", help="time to spend (default: 5)")
    add_device(command)
    add_reading(command, most_rows=100_000)
    add_threads(command)


def _add_files(command: argparse.ArgumentParser) -> None:
    """Arguments of the commands that read one table and write another."""
    add_model(command)
    command.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    command.add_argument(
        "-o",
        dest="out",
        type=table,
        required=True,
        metavar="OUT",
        help=f"CSV, Parquet or Arrow file to write, by its suffix, or - for standard output{REPLACED}",
    )
    command.add_argument(
        "--out-format",
        choices=FORMATS,
        help="format of standard output (default: csv) or directories (parquet)",
    )
    command.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put an apostrophe before texts of a CSV file that spreadsheets take for formulas (those that begin with "
        "=, +, -, @, a tab or a line end)",
    )
    _add_parts(command)
    add_dialect(command)
    command.add_argument(
        "--columns", type=names, default=[], metavar="A,B,...", help="columns of DATA to keep in the output"
    )
    command.add_argument("--inputs", type=names, metavar="A,B,...", help=INPUTS)
    command.add_argument(
        "--batch-rows", type=positive, metavar="N", help="rows in memory at a time (default: by the size of a row)"
    )
    add_threads(command)
    add_device(command, "default: whichever is faster for each batch of rows")


def _add_parts(command: argparse.ArgumentParser) -> None:
    """Arguments of outputs that are directories."""
    command.add_argument(
        "--partition-rows", type=positive, metavar="N", help="write files of N rows each into the new directory OUT"
    )
    command.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler (tcp://...) whose workers see the same files; they write the new directory "
        "OUT, one part for each file of DATA",
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="keep the parts that are finished when a run ends early, in OUT.unfinished, and go on from them when the "
        "same command runs again; with --partition-rows or --scheduler",
    )
