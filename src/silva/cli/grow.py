"""`silva grow`: a model tree from a table on disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cli.tables.sources import inputs
from silva.cli.values import REPLACED, add_device, add_dialect, dialect_of, forest_file, names
from silva.files import check_output
from silva.grow.data.rows import STORAGES

if TYPE_CHECKING:
    from silva.cli.parser import Parser
    from silva.cli.tables.delimited import Dialect
    from silva.grow import ModelTreeRegressor

DESCRIPTION = """Grow a model tree that predicts one column of DATA from the others, print it and save it.

Text columns become categories and empty cells missing values. Rows without a target are skipped.

Example: silva grow houses.csv --target price -o tree.silva --max-leaves 8"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add the command to those of the command line."""
    parser = subparsers.add_parser(
        "grow",
        help="grow a model tree from a file",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help="CSV, Parquet or Arrow file, a directory or a pattern of such files, or - for standard input",
    )
    add_dialect(parser)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "-o", dest="out", type=forest_file, required=True, metavar="OUT", help=f".silva file to write{REPLACED}"
    )
    parser.add_argument("--columns", type=names, metavar="A,B,...", help="features (default: all other columns)")
    parser.add_argument("--max-leaves", type=int, default=64, metavar="N", help="default: 64")
    parser.add_argument("--generations", type=int, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=50,
        metavar="SECONDS",
        help="time limit of the search, which keeps the best tree so far; inf for no limit (default: 50)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument("--n-jobs", type=int, metavar="N", help="threads (default: all cores)")
    add_device(parser, "default: a GPU for large data")
    parser.add_argument(
        "--storage",
        choices=STORAGES,
        default=STORAGES[0],
        help="type of the rows during the search (default: float64; float32 needs half the memory)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run `silva grow`."""
    import sys

    import silva

    check_output(options.out, inputs(options.data))
    X, y = read_table(options.data, options.target, options.columns, dialect_of(options))
    tree = silva.ModelTreeRegressor(
        generations=options.generations,
        max_leaves=options.max_leaves,
        time_limit=options.time_limit,
        random_state=options.seed,
        n_jobs=options.n_jobs,
        device=options.device,
        storage=options.storage,
        verbose=sys.stderr.isatty(),
    ).fit(X, y)
    tree.forest_.save(options.out)
    print(silva.export_text(tree))
    print(_summary(tree, X, y))


def read_table(
    path: Path, target: str, columns: list[str] | None = None, dialect: Dialect | None = None
) -> tuple[Any, Any]:
    """Features as an Arrow table, and the target; rows without a target are left out.

    Raises
    ------
    ValueError
        If a column is missing or the target holds no numbers.
    """
    from silva.cli.tables.formats import import_pyarrow
    from silva.cli.tables.reader import TableReader

    reader = TableReader(path, dialect)
    features = [name for name in reader.names if name != target] if columns is None else columns
    reader.check_columns([*features, target])
    if target in features:
        raise ValueError(f"the target {target!r} is also one of the features; leave it out of --columns")
    pyarrow = import_pyarrow()
    table = reader.whole().select([*features, target])
    column = table[target].cast(pyarrow.float64()) if pyarrow.types.is_decimal(table[target].type) else table[target]
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"column {target!r} of {path} holds {table[target].type}, expected numbers; for classes use "
            "silva.ModelTreeClassifier in Python"
        )
    present = ~np.isnan(values.astype(np.float64))
    if not present.any():
        raise ValueError(f"column {target!r} of {path} has no value in any of {len(values)} rows; name another target")
    return table.select(features).filter(present), values[present].astype(np.float64)


def _summary(tree: ModelTreeRegressor, X: Any, y: Any) -> str:
    errors = tree.history_["rmse"]
    error = errors[-1] if len(errors) else np.sqrt(np.mean((tree.predict(X) - y) ** 2))
    return (
        f"\n{len(y):,} rows, {tree.n_leaves_} leaves, training error (RMSE) {error:.4g}, "
        f"{tree.n_iter_} generations{', interrupted' if tree.interrupted_ else ''}"
    )
