"""What the command line accepts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from silva import __version__
from silva.cli import bench, commands, compare, demo, distill, grow, neighbors, plot, report
from silva.cli.parser import Parser
from silva.cli.tables.formats import FORMATS
from silva.cli.values import (
    REPLACED,
    add_device,
    add_dialect,
    forest_file,
    names,
    positive,
    rows_source,
    table,
)
from silva.typing import FLOAT_TYPES, MODEL_FORMATS, OUTPUTS, ExplainRule

MODEL = "model file: XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm or .json, .onnx, or .silva"
DATA = (
    "CSV (.csv, .csv.gz; with a header), Parquet (.parquet, .pq) or Arrow (.arrow, .feather) file, a directory or a "
    "pattern of such files, or - for standard input; columns are matched by name, folders like year=2024 are columns"
)

PREDICT = """Predict every row of DATA.

Output columns: prediction (margin, probability) for one output, prediction_<class or output> for several, leaf_<tree>
for leaf ids. The columns of DATA that --columns names come first.

Example: silva predict model.json rows.csv -o predictions.csv --columns id"""

EXPLAIN = """Explain every row of DATA by exact SHAP values of the margin, path-dependent or against background rows.

Output columns: phi_<feature> for one output, phi_<feature>_<class or output> for several; with --interactions
phi_<a>__<b>, whose sum over b is phi_<a>; then expected_value and margin (each with _<class or output> for several).
In every row, the phi add up to margin - expected_value. Parquet files also contain features, outputs and expected
values as JSON, under the key "silva" of the schema metadata. Features without names are x0, x1, ... If MODEL is a file
of Explainer.save, its background, output and dtype apply, unless you pass --background.

Example: silva explain model.json rows.parquet -o explanations.parquet"""

INPUTS = "columns of DATA that hold the model's features, in the model's order (default: found by name)"

BENCH = """Measure the algorithms on the rows of DATA.

Prints the median time of each algorithm for batches of 1, 100, 10,000, ... rows, on the CPU and, if there is one, on a
GPU. * marks what algorithm='auto' uses in the tuned model (-o, or Forest.tune)."""

INFO = "Print a summary of a model: source, objective, size, features, memory."

DEMO = """Grow a tree on California housing, then predict and explain a forest. silva ships with both.

Prints the tree and the features by importance; writes tree.silva, tree.png, beeswarm.png and explanation.parquet."""


def make_parser() -> Parser:
    """Build the parser; a parsed command holds its function as `run`."""
    parser = Parser(prog="silva", description="Grow, evaluate and explain trees.")
    parser.add_argument("--version", action="version", version=f"silva {__version__}")
    parser.add_argument("--traceback", action="store_true", help="print the traceback of an error")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    grow.add_parser(subparsers)

    predict = _command(subparsers, "predict", "predict every row of a file", PREDICT)
    _add_files(predict)
    predict.add_argument(
        "--output",
        choices=OUTPUTS,
        default="prediction",
        help="what to predict (default: what the source library's predict returns)",
    )
    predict.set_defaults(run=commands.predict)

    _add_explain(_command(subparsers, "explain", "explain every row of a file by SHAP values", EXPLAIN))

    neighbors.add_parser(subparsers, _add_files)
    report.add_parser(subparsers, _add_model, DATA)
    compare.add_parser(subparsers, _add_model, DATA)
    distill.add_parser(subparsers, _add_model, DATA)
    plot.add_parser(subparsers, _add_model, DATA)

    measure = _command(subparsers, "bench", "measure the algorithms on a model and its data", BENCH)
    _add_measurement(measure)
    measure.set_defaults(run=bench.bench)

    info = _command(subparsers, "info", "print a summary of a model", INFO)
    _add_model(info)
    info.set_defaults(run=commands.info)

    show = _command(subparsers, "demo", "grow a tree on California housing, predict and explain a forest", DEMO)
    show.add_argument("--out", type=Path, default=Path("silva-demo"), metavar="DIR", help="default: ./silva-demo")
    show.add_argument("--n-jobs", type=positive, metavar="N", help="threads (default: all cores)")
    show.set_defaults(run=demo.demo)
    return parser


def _command(subparsers: argparse._SubParsersAction[Parser], name: str, summary: str, description: str) -> Parser:
    return subparsers.add_parser(
        name, help=summary, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _add_explain(explain: argparse.ArgumentParser) -> None:
    """Arguments of `silva explain`."""
    _add_files(explain)
    explain.add_argument("--interactions", action="store_true", help="SHAP interaction values instead of values")
    explain.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="only the N strongest features of each row: columns feature_1, phi_1, feature_2, ...",
    )
    explain.add_argument("--features", type=names, metavar="A,B,...", help="explain only these features")
    explain.add_argument(
        "--background",
        type=rows_source,
        metavar="ROWS",
        help="background rows, in the formats of DATA: their values replace unknown features (default: none, for "
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
        help="values of outputs other than the margin: their Shapley values (exact, the default), or the margin's "
        "values rescaled for each pair of rows, as in shap (rescale, for two classes)",
    )
    explain.add_argument("--dtype", choices=FLOAT_TYPES, default="float32", help="default: float32")
    explain.set_defaults(run=commands.explain)


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    command.add_argument(
        "--format", choices=MODEL_FORMATS, help="format of MODEL (default: by its suffix, then its first bytes)"
    )


def _add_measurement(command: argparse.ArgumentParser) -> None:
    """Arguments of `silva bench`."""
    _add_model(command)
    command.add_argument("data", type=rows_source, metavar="DATA", help=DATA)
    command.add_argument(
        "-o", dest="out", type=forest_file, metavar="OUT", help=f".silva file for the tuned model{REPLACED}"
    )
    command.add_argument("--seconds", type=float, default=5.0, metavar="S", help="time to spend (default: 5)")
    add_device(command)
    add_dialect(command)
    command.add_argument("--rows", type=positive, default=100_000, metavar="N", help="rows to read (default: 100000)")
    command.add_argument("--inputs", type=names, metavar="A,B,...", help=INPUTS)
    command.add_argument("--n-jobs", type=positive, metavar="N", help="threads (default: all cores)")


def _add_files(command: argparse.ArgumentParser) -> None:
    """Arguments of the commands that read one table and write another."""
    _add_model(command)
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
        "--partition-rows", type=positive, metavar="N", help="write files of N rows each into the new directory OUT"
    )
    command.add_argument(
        "--out-format",
        choices=FORMATS,
        help="format of standard output (default: csv) or directories (parquet)",
    )
    command.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler (tcp://...) whose workers see the same files; they write the new directory "
        "OUT, one part for each file of DATA",
    )
    add_dialect(command)
    command.add_argument(
        "--columns", type=names, default=[], metavar="A,B,...", help="columns of DATA to keep in the output"
    )
    command.add_argument("--inputs", type=names, metavar="A,B,...", help=INPUTS)
    command.add_argument(
        "--batch-rows", type=positive, metavar="N", help="rows in memory at a time (default: by the size of a row)"
    )
    command.add_argument("--n-jobs", type=positive, metavar="N", help="threads (default: all cores)")
    add_device(command, "default: whichever is faster for each batch of rows")
