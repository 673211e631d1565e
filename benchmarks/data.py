"""Rows and targets of the data sets, as float32 and without names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("SILVA_DATA", ROOT.parent / "shared" / "data"))
CACHE = ROOT / "build" / "benchmarks"

OBJECTIVES = {
    "california_housing": "regression",
    "adult": "binary",
    "covtype": "multiclass",
    "fashion_mnist": "multiclass",
    "synthetic": "regression",
}
"""What a model of each data set learns."""

SYNTHETIC_SHAPE = (20_000, 50)
GROUP_ROWS = 500_000


@dataclass(frozen=True)
class Table:
    """Rows (n, n_features) float32 and targets (n,): numbers, or class codes from 0."""

    rows: NDArray[np.float32]
    target: NDArray[Any]


@cache
def read(name: str) -> Table:
    """Read a data set in an order shuffled by a fixed seed."""
    table = synthetic() if name == "synthetic" else _from_file(name)
    order = np.random.default_rng(0).permutation(len(table.rows))
    return Table(table.rows[order], table.target[order])


def synthetic() -> Table:
    """Draw normal rows whose noisy target makes every split of a deep tree worth its while."""
    rng = np.random.default_rng(50)
    rows = rng.normal(size=SYNTHETIC_SHAPE).astype(np.float32)
    return Table(rows, (rows @ rng.normal(size=rows.shape[1]) + rng.normal(size=len(rows))).astype(np.float32))


def rows_of(name: str, n_rows: int) -> NDArray[np.float32]:
    """Take the first rows, over and over if there are fewer."""
    rows = read(name).rows
    return np.ascontiguousarray(rows[np.arange(n_rows) % len(rows)])


def tiled_parquet(name: str, n_rows: int) -> Path:
    """Write the data set's rows, over and over, as a Parquet file without the target."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = CACHE / f"{name}-{n_rows}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = rows_of(name, GROUP_ROWS)
        group = pa.table({f"f{feature}": column for feature, column in enumerate(rows.T)})
        with replacing(path) as partial, pq.ParquetWriter(partial, group.schema) as writer:
            for start in range(0, n_rows, GROUP_ROWS):
                writer.write_table(group.slice(0, n_rows - start))
    return path


def _from_file(name: str) -> Table:
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; set SILVA_DATA to the folder of {path.name}")
    import pyarrow.parquet as pq

    *columns, target = pq.read_table(path).columns
    codes = OBJECTIVES[name] != "regression"
    return Table(
        np.stack([_numbers(column) for column in columns], axis=1).astype(np.float32),
        _codes(target) if codes else _numbers(target),
    )


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    values = column.to_numpy()
    return _codes(column) if values.dtype.kind in "OU" else values


def _codes(column: pa.ChunkedArray) -> NDArray[Any]:
    """Position of each value among the sorted distinct ones; missing ones come first."""
    return np.unique(column.fill_null("").to_numpy() if column.null_count else column.to_numpy(), return_inverse=True)[
        1
    ]
