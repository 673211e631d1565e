"""Growing on a GPU beside the paper's evaluation on the same GPU and the cores of the same machine.

    python -m benchmarks.grow.gpu --data DIR --out benchmarks/results/grow_h200.json --budget 550

Runs what the file lacks, the most important first, until the budget of seconds is spent, and writes the file after each
run; call it again to go on. `python -m benchmarks.grow.gpu_report` makes the tables of results/grow.md from it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow.gpu_cases import CASES, IN_FLOATS, LARGE, MORE_ATTRIBUTES, SEVERAL_GPUS, SMALL
from benchmarks.machine import conditions
from glasswood import ModelTreeRegressor
from glasswood.grow.data.columns import numeric_columns
from glasswood.grow.data.rows import STORAGES, prepare
from glasswood.grow.search.engine import (
    Circumstances,
    SearchSettings,
    engine_numbers,
    find_sorter,
    make_engine,
    place_rows,
    search,
)

if TYPE_CHECKING:
    from glasswood import _core
    from glasswood.grow.cuda.rows import RowsOnGpus
    from glasswood.grow.data.rows import TrainingRows

WHOLE = 10_000
"""Generations of a whole run, as in the paper."""

PART = 100
"""Generations from which a time per generation is taken."""

ON_CORES = "armchair 10K x 2"
"""Must not be slower than on the cores."""

FIT = "fit "
"""Begins the names of runs that are whole calls of `fit`."""

POLISHED = ("generated 515K x 90", "elevation 581K x 53")
"""Whose polish takes long: run without it too, as the paper's search is."""


@dataclass(frozen=True)
class Run:
    """One search.

    Attributes
    ----------
    kind : str
        "whole", or which of the searches that are compared generation by generation.
    device, algorithm : str
    generations : int
    seconds : float
        Limit.
    polish : bool
        The paper's evaluation knows none: what is compared with it goes without.
    storage : str
        Type of the rows.
    """

    kind: str
    device: str
    algorithm: str
    generations: int
    seconds: float
    polish: bool = False
    storage: str = "float64"


def whole(seconds: float, device: str = "cuda", polish: bool = True) -> Run:
    """Search with the defaults to the paper's number of generations."""
    kind = f"whole {device}" if polish else f"whole {device} without polish"
    return Run(kind, device, "gram", WHOLE, seconds, polish=polish)


def parts(seconds: float, *wanted: str) -> list[Run]:
    """The same path by both methods on both machines."""
    runs = {
        f"{algorithm} {device}": Run(f"{algorithm} {device}", device, algorithm, PART, seconds)
        for device in ("cuda", "cpu")
        for algorithm in ("gram", "qr")
    }
    return [runs[name] for name in wanted or runs]


def storages(seconds: float) -> list[Run]:
    """The same search over rows of both types."""
    return [Run(f"{storage} cuda", "cuda", "gram", PART, seconds, storage=storage) for storage in STORAGES]


def plan() -> Iterator[tuple[str, list[Run]]]:
    """All runs, the most important first; a case comes again where it has less important ones."""
    for case in LARGE:
        yield case.name, [whole(max(45, 1.05 * (case.target or 0))), *parts(4, "gram cuda", "qr cuda", "gram cpu")]
        if case.name in POLISHED:
            yield case.name, [whole(max(45, 1.05 * (case.target or 0)), polish=False)]
        if case.name == ON_CORES:
            yield case.name, [whole(30, "cpu"), *parts(4, "qr cpu")]
    for case in IN_FLOATS:
        yield case.name, storages(4)
    for case in SMALL:
        yield case.name, [whole(30), *parts(4)]
    for case in MORE_ATTRIBUTES:
        yield case.name, parts(4)
    for case in LARGE:
        yield case.name, parts(4, "qr cpu")


def several_gpus() -> Iterator[tuple[str, list[Run]]]:
    """One GPU and all of the machine's, on the largest data."""
    for case in SEVERAL_GPUS:
        kinds = [(f"{what}{device} of {n_gpus()}", device) for what in ("", FIT) for device in ("cuda:0", "cuda:all")]
        yield case.name, [Run(kind, device, "gram", 300, 60, polish=True) for kind, device in kinds]


def n_gpus() -> int:
    """GPUs of this machine."""
    from glasswood.base.device import count_gpus

    return count_gpus()


def engine_of(model: ModelTreeRegressor, rows: TrainingRows, gpu: RowsOnGpus | None) -> _core.GrowEngine:
    """Build the engine that `fit` would, over rows of numbers alone."""
    columns = numeric_columns(np.empty((0, len(rows.ranks))))
    return make_engine(rows, engine_numbers(model, rows, columns, 1.0, 0), gpu)


class Unpolished(ModelTreeRegressor):
    """Trees without the local search."""

    search_settings = SearchSettings(polish=())


def tree_of(run: Run) -> type[ModelTreeRegressor]:
    """Trees with the local search, or without."""
    return ModelTreeRegressor if run.polish else Unpolished


def measure(rows: TrainingRows, run: Run, seconds: float) -> dict[str, Any]:
    """Time of a search over prepared rows, and where it went."""
    model = tree_of(run)(
        generations=run.generations,
        n_iter_no_change=run.generations,
        time_limit=min(run.seconds, seconds),
        algorithm=run.algorithm,
    )
    began = time.perf_counter()
    gpu = place_rows(run.device, run.algorithm, None, rows)
    engine = engine_of(model, rows, gpu)
    ready = time.perf_counter()
    result = search(engine, rows, model, Circumstances(0, ready), gpu)
    took = time.perf_counter() - ready
    history = result.history
    record = {
        "kind": run.kind,
        "generations": len(history),
        "set_up": round(ready - began, 3),
        "seconds": round(took, 3),
        "rounds": engine.gpu_counters[0],
        "waiting": round(engine.gpu_counters[1], 3),
        "evaluations": result.n_evaluations,
        "rows_read": result.n_rows_read,
        "gpu_bytes": 0 if gpu is None else sum(layout.on_device for layout in gpu.layouts),
        "procedures": {name: round(value, 6) for name, value in result.procedure_seconds.items() if value},
    }
    if len(history) > 1:
        stepping = history[-1].seconds - history[0].seconds
        record["ms_a_generation"] = round(1e3 * stepping / (history[-1].generation - history[0].generation), 4)
    if history:
        record |= {"rmse": history[-1].rmse, "leaves": history[-1].n_leaves, "fitness": history[-1].fitness}
    return record


def measure_fit(X: np.ndarray, y: np.ndarray, run: Run, seconds: float) -> dict[str, Any]:
    """Time of a whole `fit`, before its second generation and after its last; and a number that names its tree."""
    limits: dict[str, Any] = {
        "generations": run.generations,
        "n_iter_no_change": run.generations,
        "time_limit": seconds,
    }
    began = time.perf_counter()
    model = tree_of(run)(device=run.device, verbose=False, **limits).fit(X, y)
    took, forest, at = time.perf_counter() - began, model.forest_, model.history_["seconds"]
    arrays = (
        forest.ensemble.feature,
        forest.ensemble.threshold,
        forest.ensemble.leaf_value,
        forest.ensemble.linear_coefficient,
    )
    return {
        "kind": run.kind,
        "generations": len(at),
        "seconds": round(took, 3),
        "before": round(float(at[0]), 3),
        "after": round(took - float(at[-1]), 3),
        "ms_a_generation": round(1e3 * float(at[-1] - at[0]) / max(len(at) - 1, 1), 4),
        "tree": zlib.crc32(b"".join(array.tobytes() for array in arrays)),
    }


class Results:
    """The file, which holds what was measured so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self.cases: dict[str, Any] = known.get("cases", {})

    def lacks(self, case: str, run: Run) -> bool:
        return run.kind not in self.cases.get(case, {}).get("runs", {})

    def add(self, case: str, facts: dict[str, Any], record: dict[str, Any]) -> None:
        """Keep a run, and the file on disk whole at any time; its runs may be of several days and commits."""
        entry, where = self.cases.setdefault(case, {"runs": {}}), machine()
        entry |= facts
        entry["runs"][record["kind"]] = record | {name: where[name] for name in ("date", "commit")}
        content = {"machine": where, "cases": self.cases}
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        temporary.replace(self.path)
        print(case, json.dumps(record), flush=True)


def machine() -> dict[str, Any]:
    """The cores, and the GPUs where there are any."""
    facts = conditions()
    try:
        import cupy

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        return facts | {"gpu": name, "gpus": n_gpus(), "cupy": cupy.__version__}
    except Exception:
        return facts


def prepared(X: np.ndarray, y: np.ndarray, storage: str = "float64") -> tuple[TrainingRows, dict[str, Any]]:
    """Rows ready for the search, and how long they took; many are sorted on GPUs, as by `fit`."""
    began = time.perf_counter()
    sorter = find_sorter("auto", None, *X.shape)
    threads, linear = os.cpu_count() or 1, np.ones(X.shape[1], bool)
    rows = prepare(X, y, np.ones(len(y)), linear, threads, storage, sorter=sorter)
    seconds = time.perf_counter() - began
    return rows, {"rows": len(y), "attributes": X.shape[1], "width": rows.width, "prepare": round(seconds, 3)}


def main() -> None:
    """Run what is lacking while there is time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of covtype and california_housing .parquet")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, required=True, help="seconds")
    parser.add_argument("--cases", help="only cases whose names hold one of these, separated by commas")
    parser.add_argument("--kinds", help="only these kinds of runs, separated by commas")
    parser.add_argument("--gpus", action="store_true", help="compare one GPU with all of the machine's instead")
    arguments = parser.parse_args()
    end = time.perf_counter() + arguments.budget
    results = Results(arguments.out)
    for name, runs in several_gpus() if arguments.gpus else plan():
        if arguments.cases and not any(part in name for part in arguments.cases.split(",")):
            continue
        wanted = [r for r in runs if results.lacks(name, r)]
        wanted = [r for r in wanted if not arguments.kinds or r.kind in arguments.kinds.split(",")]
        if not wanted or time.perf_counter() > end:
            continue
        X, y = CASES[name].make(arguments.data)
        for storage in dict.fromkeys(run.storage for run in wanted):
            rows, facts = prepared(X, y, storage)
            for run in wanted:
                left = end - time.perf_counter()
                if left > 0 and run.storage == storage:
                    is_fit = run.kind.startswith(FIT)
                    results.add(name, facts, measure_fit(X, y, run, left) if is_fit else measure(rows, run, left))


if __name__ == "__main__":
    main()
