"""Data of the paper's tables 3 and 4, or of their shape, all of it for training; its times and our targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.grow import cases

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class GpuCase:
    """Rows, and seconds of 10,000 generations.

    Attributes
    ----------
    name : str
    make : callable
        From a folder of data sets to X and y.
    paper : float, optional
        On its fastest GPU, an RTX 2080 Ti, in float32 (tables 3 and 4); for data of the same shape where the paper's
        are not public.
    target : float, optional
        What we set ourselves on an H200.
    """

    name: str
    make: Callable[[Path], Rows]
    paper: float | None = None
    target: float | None = None


def whole(case: cases.Case) -> Rows:
    """Training and test part together."""
    return np.concatenate([case.X, case.X_test]), np.concatenate([case.y, case.y_test])


def armchair(n_rows: int, n_attributes: int) -> Rows:
    """The paper's artificial data, as recalled."""
    return whole(cases.armchair(0, n_attributes - 2, n_rows))


def planes(n_rows: int, n_attributes: int) -> Rows:
    """Six planes over all attributes, split by four of them, with noise."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_rows, n_attributes))
    leaf = np.select([X[:, 0] < -0.5, X[:, 1] < 0, X[:, 2] < 0.3, X[:, 3] < 0, X[:, 1] < 1], [0, 1, 2, 3, 4], 5)
    y = np.empty(n_rows)
    for value in range(6):
        y[leaf == value] = X[leaf == value] @ rng.standard_normal(n_attributes)
    return X, y + 0.5 * rng.standard_normal(n_rows)


def elevation(folder: Path) -> Rows:
    """Covertype's elevation from its other attributes."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "covtype.parquet")
    values = np.column_stack([table.column(i).to_numpy().astype(float) for i in range(54)])
    return values[:, 1:], values[:, 0]


def california(folder: Path) -> Rows:
    """California housing."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "california_housing.parquet")
    values = np.column_stack([column.to_numpy().astype(float) for column in table.columns])
    return values[:, :-1], values[:, -1]


def _armchair_case(rows: str, n_attributes: int, paper: float | None = None, target: float | None = None) -> GpuCase:
    n_rows = int(float(rows.replace("K", "e3").replace("M", "e6")))
    return GpuCase(f"armchair {rows} x {n_attributes}", lambda _: armchair(n_rows, n_attributes), paper, target)


LARGE = [
    _armchair_case("10M", 2, 70_648, 60),
    _armchair_case("1M", 2, 6_404, 20),
    _armchair_case("10K", 2, 267, 30),
    GpuCase("generated 515K x 90", lambda _: planes(515_345, 90), 4_257, 60),
    GpuCase("elevation 581K x 53", elevation, None, 60),
    GpuCase("generated 5M x 17", lambda _: planes(5_000_000, 17), 149_565, 120),
]
"""Those with targets, by importance."""

SMALL = [
    _armchair_case("100K", 2, 654),
    GpuCase("2dplanes 41K x 10", lambda _: whole(cases.two_planes(0)), 662),
    GpuCase("fried 41K x 10", lambda _: whole(cases.fried(0)), 548),
    GpuCase("mv 41K x 11", lambda _: whole(cases.mv(0)), 872),
    GpuCase("california 21K x 8", california, 431),
    _armchair_case("50K", 2, 432),
    _armchair_case("500K", 2, 2_870),
    _armchair_case("5M", 2, 33_955),
]
MORE_ATTRIBUTES = [_armchair_case(rows, n) for n in (10, 4, 6, 8) for rows in ("1M", "100K")]
SEVERAL_GPUS = [_armchair_case("10M", 10)]
IN_FLOATS = [LARGE[0], *SEVERAL_GPUS, LARGE[3], LARGE[5]]
"""Those whose rows are also kept as float32: sums that wait for memory, and sums of many columns."""

CASES = {case.name: case for case in [*LARGE, *SMALL, *MORE_ATTRIBUTES, *SEVERAL_GPUS]}
