"""Growing on a GPU beside the cores of the same machine: `python -m benchmarks.grow.gpu --data DIR --out FILE`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow import cases
from silva import ModelTreeRegressor
from silva.grow import parts
from silva.grow.data import prepare
from silva.grow.search import SearchPlan, choose_gpus, make_engine, search

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.grow.data import TrainingRows

Rows = tuple[np.ndarray, np.ndarray]


def planes(n_rows: int, n_attributes: int) -> Rows:
    """Six planes over all attributes, split by four of them, with noise."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_rows, n_attributes))
    leaf = np.select([X[:, 0] < -0.5, X[:, 1] < 0, X[:, 2] < 0.3, X[:, 3] < 0, X[:, 1] < 1], [0, 1, 2, 3, 4], 5)
    y = np.empty(n_rows)
    for value in range(6):
        y[leaf == value] = X[leaf == value] @ rng.standard_normal(n_attributes)
    return X, y + 0.5 * rng.standard_normal(n_rows)


def armchair(n_rows: int, n_attributes: int) -> Rows:
    """All rows of the generator."""
    case = cases.armchair(0, n_attributes - 2, n_rows)
    return np.concatenate([case.X, case.X_test]), np.concatenate([case.y, case.y_test])


def elevation(folder: Path) -> Rows:
    """Covertype's elevation from its other attributes."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "covtype.parquet")
    values = np.column_stack([table.column(i).to_numpy().astype(float) for i in range(54)])
    return values[:, 1:], values[:, 0]


CASES: dict[str, Callable[[Path], Rows]] = {
    "armchair 10K x 2": lambda _: armchair(10_000, 2),
    "armchair 100K x 2": lambda _: armchair(100_000, 2),
    "armchair 1M x 2": lambda _: armchair(1_000_000, 2),
    "armchair 10M x 2": lambda _: armchair(10_000_000, 2),
    "armchair 1M x 10": lambda _: armchair(1_000_000, 10),
    "armchair 10M x 10": lambda _: armchair(10_000_000, 10),
    "elevation 581K x 53": elevation,
    "generated 515K x 90": lambda _: planes(515_345, 90),
    "generated 5M x 17": lambda _: planes(5_000_000, 17),
}


def run(rows: TrainingRows, device: str, generations: int, seconds: float | None, **parameters: Any) -> dict[str, Any]:
    """Time of a search over prepared rows, and where it went."""
    model = ModelTreeRegressor(device=device, generations=generations, n_iter_no_change=generations, **parameters)
    began = time.perf_counter()
    gpu = choose_gpus(device, model.algorithm, None, rows)
    engine = make_engine(rows, model._settings(rows), gpu)
    ready = time.perf_counter()
    result = search(engine, rows, SearchPlan(generations, generations, 1e-6, seconds), [], ready, gpu)
    took = time.perf_counter() - ready
    rounds, gpu_seconds = engine.gpu_counters
    return {
        "device": device,
        "algorithm": model.algorithm,
        "generations": len(result.history),
        "set_up": round(ready - began, 3),
        "seconds": round(took, 3),
        "ms_a_generation": round(1e3 * took / max(len(result.history), 1), 4),
        "rounds": rounds,
        "waiting": round(gpu_seconds, 3),
        "rows_read": result.n_rows_read,
        "rmse": result.history[-1].rmse,
        "leaves": result.history[-1].n_leaves,
        "fitness": result.history[-1].fitness,
    }


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--generations", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, help="limit of each search")
    parser.add_argument("--cpu", type=int, default=0, help="generations on the cores")
    parser.add_argument("--qr", type=int, default=0, help="generations by the paper's evaluation, on the cores")
    parser.add_argument("--core-work", type=int, default=parts.CORE_WORK, help="see silva.grow.cuda.CORE_WORK")
    arguments = parser.parse_args()
    parts.CORE_WORK = arguments.core_work
    for name in arguments.cases.split(","):
        began = time.perf_counter()
        X, y = CASES[name](arguments.data)
        made = time.perf_counter()
        rows = prepare(X, y, np.ones(len(y)), np.ones(X.shape[1], bool))
        found: dict[str, Any] = {"case": name, "made": made - began, "prepared": time.perf_counter() - made, "runs": []}
        plans = [
            ("cuda", arguments.generations, {}),
            ("cpu", arguments.cpu, {}),
            ("cpu", arguments.qr, {"algorithm": "qr"}),
        ]
        for device, generations, parameters in plans:
            if generations:
                found["runs"].append(run(rows, device, generations, arguments.seconds, **parameters))
        print(json.dumps(found), flush=True)
        with arguments.out.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
