"""Options that commands share, and their values, checked."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood.base.device import parse_device
from glasswood.base.typing import MODEL_FORMATS
from glasswood.cli.tables.delimited import Dialect
from glasswood.cli.tables.formats import table_format
from glasswood.cli.tables.sources import is_pattern

if TYPE_CHECKING:
    from glasswood.cli.parser import Parser
    from glasswood.forest import Forest

MOST_DIGITS = 9
MODEL = "model file: XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm or .json, .onnx, or .glasswood"
DATA = (
    "CSV (.csv, .csv.gz; with a header), Parquet (.parquet, .pq) or Arrow (.arrow, .feather) file, a directory or a "
    "pattern of such files, or - for standard input; columns are matched by name, folders like year=2024 are columns"
)
INPUTS = "columns that hold the model's features, in the model's order (default: found by name)"
REPLACED = "; an existing file is replaced once the new one is complete, but an input never is"

POSITIVE = "which of two classes is the event that is spoken of (default: the rarer one)"


def costs(text: str) -> dict[str, float]:
    """Split costs: "false_positive=1,false_negative=50"."""
    try:
        return {name: float(cost) for name, cost in (part.split("=") for part in names(text))}
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} are no costs; expected false_positive=1,false_negative=50"
        ) from error


def names(text: str) -> list[str]:
    """Split names as a CSV header does: "a,b" in quotes is one name."""
    found = next(csv.reader([text]), [])
    if not found or not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} holds an empty name; expected names separated by commas")
    return found


def renaming(text: str) -> tuple[str, str]:
    """Split FEATURE=COLUMN at its first sign of equality."""
    feature, equals, column = text.partition("=")
    if not (feature and equals and column):
        raise argparse.ArgumentTypeError(f"{text!r} is no FEATURE=COLUMN, such as km_per_year='km per year'")
    return feature, column


def positive(text: str) -> int:
    """Check a whole number of at least 1."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {10**MOST_DIGITS - 1}")
    return int(text)


def shares(text: str) -> list[float]:
    """Check numbers from 0 to 1, separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= number <= 1 for number in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers from 0 to 1, such as 0.05,0.95")
    return found


def device_string(text: str) -> str:
    """Check a device string."""
    try:
        parse_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_command(
    subparsers: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    description: str,
) -> Parser:
    """Add a command, which `run` runs."""
    command = subparsers.add_parser(
        name, help=summary, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.set_defaults(run=run)
    return command


def add_model(command: argparse.ArgumentParser) -> None:
    """Add the model's file and its format."""
    command.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    command.add_argument(
        "--format", choices=MODEL_FORMATS, help="format of MODEL (default: by its suffix, then its first bytes)"
    )
    command.add_argument(
        "--rename",
        type=renaming,
        action="append",
        default=[],
        metavar="FEATURE=COLUMN",
        help="name of a feature of MODEL, and of its column in DATA (may be repeated; default: the same names)",
    )
    command.add_argument(
        "--categories",
        type=names,
        metavar="A,B,...",
        help="columns that were of dtype category in training, for LightGBM's models, which do not say so "
        "(default: those of DATA)",
    )


def load_model(options: argparse.Namespace, **settings: Any) -> Forest:
    """Read the model that a command names, with the names and categories of its options."""
    import glasswood

    forest = glasswood.load(options.model, format=options.format, names=dict(options.rename) or None, **settings)
    return forest if options.categories is None else forest.with_categories(options.categories)


def refuse_renaming(options: argparse.Namespace) -> None:
    """Raise ValueError if features are to be renamed of what keeps more than a model."""
    if options.rename or options.categories:
        raise ValueError(
            f"{options.model} holds rows beside its model, under the names of its features; leave --rename and "
            "--categories out, and name the columns by --inputs"
        )


def add_target(command: argparse.ArgumentParser, help_text: str, required: bool = False) -> None:
    """Add --target and --exposure."""
    command.add_argument("--target", required=required, metavar="COLUMN", help=help_text)
    command.add_argument(
        "--exposure",
        metavar="COLUMN",
        help="column of what the target was counted over, such as years: the target is then divided by it",
    )


def add_reading(command: argparse.ArgumentParser, most_rows: int | None = None) -> None:
    """Add how many rows and which columns of DATA are read, and how."""
    default = "all" if most_rows is None else most_rows
    command.add_argument(
        "--rows", type=positive, default=most_rows, metavar="N", help=f"rows to read (default: {default})"
    )
    command.add_argument("--inputs", type=names, metavar="A,B,...", help=INPUTS)
    add_dialect(command)


def add_threads(command: argparse.ArgumentParser) -> None:
    """Add --n-jobs."""
    command.add_argument("--n-jobs", type=positive, metavar="N", help="threads (default: all cores)")


def add_device(command: argparse.ArgumentParser, default: str = "default") -> None:
    """Add --device; `default` is what the help says about "auto"."""
    chosen = f"auto ({default}), cpu, cuda, cuda:1 or cuda:all"
    command.add_argument("--device", type=device_string, default="auto", metavar="DEVICE", help=chosen)


def rows_source(text: str) -> Path:
    """Check what names rows: a file by its suffix, a directory, a pattern, or standard input."""
    path = Path(text)
    return path if not path.suffix or path.is_dir() or is_pattern(path) else table(text)


def table(text: str) -> Path:
    """Check the suffix of a table; without one it is a directory or standard output."""
    path = Path(text)
    try:
        if path.suffix or not path.name:
            table_format(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return path


def letter(text: str) -> str:
    """Check a single character; backslash and t are a tab."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or len(text.encode()) != 1 or text in '\r\n"':
        raise argparse.ArgumentTypeError(f"{text!r} is not a single character that can stand in a CSV file")
    return text


def add_dialect(command: argparse.ArgumentParser) -> None:
    """Add the options for how CSV files are written."""
    command.add_argument(
        "--delimiter",
        type=letter,
        metavar="C",
        help="character between the columns of CSV files (default: a comma, or a semicolon or tab if the first line "
        "has these instead)",
    )
    command.add_argument("--decimal", type=letter, default=".", metavar="C", help="decimal point in them (default: .)")


def dialect_of(options: argparse.Namespace) -> Dialect:
    """How CSV files are written."""
    if options.decimal == options.delimiter:
        raise ValueError(f"--delimiter and --decimal are both {options.decimal!r}; they must differ")
    return Dialect(options.delimiter, options.decimal)


def file_of(*suffixes: str) -> Callable[[str], Path]:
    """Make a check of the suffix of a file to write."""

    def checked(text: str) -> Path:
        path = Path(text)
        if path.suffix.lower() not in suffixes:
            raise argparse.ArgumentTypeError(f"{text} has the suffix {path.suffix!r}, expected {', '.join(suffixes)}")
        return path

    return checked


forest_file: Callable[[str], Path] = file_of(".glasswood")
