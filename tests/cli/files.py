"""What tests of the command line share: models, calls, tables."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import xgboost

from glasswood.cli import main
from glasswood.cli.tables.formats import table_format

NAMES = ["a", "b", "c", "d"]
N_ROWS = 1000


def train(data, target, **settings):
    settings = {"max_depth": 4, "nthread": 1, "seed": 0} | settings
    return xgboost.train(settings, xgboost.DMatrix(data, target), 6)


def run(*arguments):
    return main([str(argument) for argument in arguments])


def read(path):
    if table_format(Path(path)) == "csv":
        return pa.csv.read_csv(path)
    return pq.read_table(path)


def write(table, path):
    """In the format of the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(arrow, path)
    else:
        make = pa.ipc.new_file if path.suffix == ".feather" else pa.ipc.new_stream
        with make(str(path), arrow.schema) as writer:
            writer.write_table(arrow, max_chunksize=300)


def column(table, name):
    return table.column(name).to_numpy()


def stack(table, names):
    return np.stack([column(table, name) for name in names], axis=1)


SCRIPT = "import sys; from glasswood.cli import main; sys.exit(main())"


def command(*arguments):
    return [sys.executable, "-c", SCRIPT, *map(str, arguments)]
