"""Rows and targets of the data sets: float32 without names, or frames with categories."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("GLASSWOOD_DATA", ROOT.parent / "shared" / "data"))
CACHE = ROOT / "build" / "benchmarks"

OBJECTIVES = {
    "california_housing": "regression",
    "adult": "binary",
    "covtype": "multiclass",
    "fashion_mnist": "multiclass",
    "image_segmentation": "multiclass",
    "synthetic": "regression",
    "adult with categories": "binary",
    "airlines": "binary",
    "cities": "binary",
}
"""What a model of each data set learns."""

SYNTHETIC_SHAPE = (20_000, 50)
GROUP_ROWS = 500_000


@dataclass(frozen=True)
class Table:
    """Rows (n, n_features) float32, or a frame, and targets (n,): numbers, or class codes from 0."""

    rows: Any
    target: NDArray[Any]


@cache
def read(name: str) -> Table:
    """Read a data set in an order shuffled by a fixed seed."""
    table = MADE[name]() if name in MADE else _from_file(name)
    order = np.random.default_rng(0).permutation(len(table.rows))
    return Table(_take(table.rows, order), table.target[order])


def _take(rows: Any, places: NDArray[np.intp]) -> Any:
    return rows.iloc[places].reset_index(drop=True) if hasattr(rows, "iloc") else rows[places]


def synthetic() -> Table:
    """Draw normal rows whose noisy target makes every split of a deep tree worth its while."""
    rng = np.random.default_rng(50)
    rows = rng.normal(size=SYNTHETIC_SHAPE).astype(np.float32)
    return Table(rows, (rows @ rng.normal(size=rows.shape[1]) + rng.normal(size=len(rows))).astype(np.float32))


def adult_with_categories() -> Table:
    """Adult with its texts as categories."""
    import pandas

    frame = pandas.read_parquet(FOLDER / "adult.parquet")
    target = np.unique(frame.pop("income"), return_inverse=True)[1]
    texts = [name for name in frame if not pandas.api.types.is_numeric_dtype(frame[name])]
    return Table(frame.astype(dict.fromkeys(texts, "category")), target)


def airlines() -> Table:
    """Draw flights like those of the airlines data: whether one is late, by six categories and two numbers."""
    rng = np.random.default_rng(3)
    sizes = {"Month": 12, "DayofMonth": 31, "DayOfWeek": 7, "UniqueCarrier": 22, "Origin": 300, "Dest": 300}
    codes = {name: _drawn_codes(rng, size) for name, size in sizes.items()}
    departure, distance = rng.integers(0, 2400, MADE_ROWS), 50 + rng.gamma(2, 400, MADE_ROWS).astype(int)
    delay = 0.8 * np.sin(departure / 400) + 0.0005 * distance + rng.normal(size=MADE_ROWS)
    for name, column in codes.items():
        delay += rng.normal(size=sizes[name])[column] * (1 if sizes[name] > 100 else 0.4)
    return _late(codes, {"DepTime": departure, "Distance": distance}, delay)


def cities() -> Table:
    """Draw four numbers beside one of 5,000 cities, most of them rare."""
    rng = np.random.default_rng(4)
    city, numbers = _drawn_codes(rng, 5000), rng.normal(size=(4, MADE_ROWS))
    score = 1.5 * rng.normal(size=5000)[city] + numbers[0] + np.sin(2 * numbers[1]) + rng.normal(size=MADE_ROWS)
    return _late({"city": city}, dict(zip("abcd", numbers, strict=True)), score)


def _drawn_codes(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Draw codes, of many categories the first far more often."""
    shares = 1 / (1 + np.arange(n)) if n > 100 else np.ones(n)
    return rng.choice(n, MADE_ROWS, p=shares / shares.sum())


def _late(codes: dict[str, Any], numbers: dict[str, Any], score: NDArray[np.float64]) -> Table:
    """Make a frame of categories and numbers, and whether the score is above its median."""
    import pandas

    texts = {name: np.array([f"{name} {code}" for code in range(column.max() + 1)]) for name, column in codes.items()}
    columns = {name: pandas.Categorical(texts[name][column], texts[name]) for name, column in codes.items()}
    return Table(pandas.DataFrame(columns | numbers), (score > np.median(score)).astype(int))


MADE = {"synthetic": synthetic, "adult with categories": adult_with_categories, "airlines": airlines, "cities": cities}
"""Data sets that are no file of float32."""

MADE_ROWS = 60_000


def rows_of(name: str, n_rows: int) -> Any:
    """Take the first rows, over and over if there are fewer."""
    rows = read(name).rows
    taken = _take(rows, np.arange(n_rows) % len(rows))
    return taken if hasattr(taken, "iloc") else np.ascontiguousarray(taken)


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
        raise FileNotFoundError(f"{path} does not exist; set GLASSWOOD_DATA to the folder of {path.name}")
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
