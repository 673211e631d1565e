"""`glasswood grow`: a model tree from a table on disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.progress import is_terminal
from glasswood.base.wording import leaves_text
from glasswood.cli.values import REPLACED, add_command, add_device, add_dialect, dialect_of, forest_file, names
from glasswood.grow.data.rows import STORAGES

if TYPE_CHECKING:
    import argparse

    from glasswood.cli.parser import Parser
    from glasswood.cli.tables.delimited import Dialect

DESCRIPTION = """Grow a model tree that predicts one column of DATA from the others, print it and save it.

If the target is text or true and false, glasswood grows trees for its classes (ModelTreeClassifier). For numbers that
are classes, pass --classes.

Text columns become categories, and empty cells become missing values. Rows without a target are skipped.

Example: glasswood grow houses.csv --target price -o tree.glasswood --max-leaves 8"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = add_command(subparsers, "grow", run, "grow a model tree from a file", DESCRIPTION)
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help="CSV, Parquet or Arrow file, a directory or a pattern of such files, or - for standard input",
    )
    add_dialect(parser)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "-o", dest="out", type=forest_file, required=True, metavar="OUT", help=f".glasswood file to write{REPLACED}"
    )
    parser.add_argument("--columns", type=names, metavar="A,B,...", help="features (default: all other columns)")
    parser.add_argument("--classes", action="store_true", help="the target's numbers are classes")
    parser.add_argument("--max-leaves", type=int, default=64, metavar="N", help="most leaves of a tree (default: 64)")
    parser.add_argument(
        "--generations", type=int, default=10_000, metavar="N", help="most generations (default: 10000)"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=50,
        metavar="SECONDS",
        help="time limit of the search, which returns the best tree so far; inf for no limit (default: 50)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the search (default: 0)")
    parser.add_argument("--n-jobs", type=int, metavar="N", help="threads (default: all cores)")
    add_device(parser, "default: a GPU for large data")
    parser.add_argument(
        "--storage",
        choices=STORAGES,
        default=STORAGES[0],
        help="type of the rows during the search (default: float64; float32 needs half the memory)",
    )


def run(options: argparse.Namespace) -> None:
    """Run `glasswood grow`."""
    import glasswood

    X, y = read_table(options.data, options.target, options.columns, dialect_of(options), options.classes)
    if y.dtype.kind == "f" and np.isin(y, (0.0, 1.0)).all():
        print("glasswood: the target is 0 or 1 in all rows; if these are classes, pass --classes", file=sys.stderr)
    settings = {
        "generations": options.generations,
        "max_leaves": options.max_leaves,
        "time_limit": options.time_limit,
        "random_state": options.seed,
        "verbose": is_terminal(sys.stderr),
    }
    if y.dtype.kind == "f":
        tree = glasswood.ModelTreeRegressor(**settings, storage=options.storage).fit(X, y)
    else:
        tree = glasswood.ModelTreeClassifier(**settings).fit(X, y)
    tree.forest_.save(options.out)
    for number in range(tree.forest_.n_trees):
        print(glasswood.export_text(tree, tree=number))
    print(_summary(tree, X, y))


def read_table(
    path: Path,
    target: str,
    columns: list[str] | None = None,
    dialect: Dialect | None = None,
    classes: bool = False,
) -> tuple[Any, Any]:
    """Features as an Arrow table, and the target; rows without a target are left out.

    Targets are float64; classes, as text and truth values are, stay as they are, and so do numbers with `classes`.

    Raises
    ------
    ValueError
        If a column is missing or the target holds neither numbers nor classes.
    """
    from glasswood.cli.tables.formats import import_pyarrow
    from glasswood.cli.tables.reader import TableReader

    reader = TableReader(path, dialect)
    features = [name for name in reader.names if name != target] if columns is None else columns
    reader.check_columns([*features, target])
    if target in features:
        raise ValueError(f"the target {target!r} is also one of the features; leave it out of --columns")
    pyarrow = import_pyarrow()
    table = reader.whole().select([*features, target])
    kinds, column = pyarrow.types, table[target]
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_boolean(column.type)
    if not is_text and not (
        kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_decimal(column.type)
    ):
        raise ValueError(f"column {target!r} of {path} holds {column.type}, expected numbers, text or true and false")
    if not is_text and not classes:
        column = column.cast(pyarrow.float64())
    present = column.is_valid().to_numpy(zero_copy_only=False)
    if kinds.is_floating(column.type):
        present &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    if not present.any():
        raise ValueError(f"column {target!r} of {path} has no value in any of {len(present)} rows; name another target")
    values = column.filter(present).to_numpy(zero_copy_only=False)
    return table.select(features).filter(present), values.astype(str) if values.dtype == object else values


def _summary(tree: Any, X: Any, y: Any) -> str:
    """Say how many rows, leaves and generations there were, and the training error."""
    ended = ", interrupted" if tree.interrupted_ else ""
    found = f"\n{len(y):,} rows, {leaves_text(tree.n_leaves_)}, training error"
    if not hasattr(tree, "history_"):
        return f"{found} {np.mean(tree.predict(X) != y):.4g} of the rows{ended}"
    errors = tree.history_["rmse"]
    error = errors[-1] if len(errors) else np.sqrt(np.mean((tree.predict(X) - y) ** 2))
    return f"{found} (RMSE) {error:.4g}, {tree.n_iter_} generations{ended}"
