"""Measures growing: `python -m benchmarks.grow.run SECTION... --data DIR --out FILE`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import glasswood
from benchmarks.grow import cases, classes, elevation, public, rivals
from glasswood.grow.search.engine import SearchSettings

SEEDS = range(1000, 1020)
"""Of known trees. Development looked at seeds below 300; these were first used after the defaults were frozen."""
SPLIT = 11
"""Seed of the splits and generators of the accuracy table and the curve, used first after that too."""
NOISE = (0, 4, 8, 16)
SIZES = {"fried": 32, "mv": 40, "california": 60, "2dplanes": 64, "diabetes": 64}
"""`max_leaves` of the accuracy table."""
PEERS = ("Cubist", "PILOT", "M5P", "linear-tree", "LightGBM linear trees", "linear regression")
"""Rivals of the accuracy table."""
CURVE = (2, 4, 8, 16, 32, 64)

MEMORY = """
import json, resource
import numpy as np
import glasswood
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, (10_000_000, 2))
y = 0.1 * rng.standard_normal(len(X))
y[X[:, 0] < 2] += X[X[:, 0] < 2, 1]
tree = glasswood.ModelTreeRegressor(generations=10).fit(X, y)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"leaves": tree.n_leaves_, "seconds": float(tree.history_["seconds"][-1]), "peak_MiB": peak}))
"""

Record = dict[str, Any]


def grow(case: cases.Case, kind: type[Any] = glasswood.ModelTreeRegressor, **parameters: Any) -> Record:
    """One fit: test error, leaves, wall seconds and the processor seconds of all threads."""
    began, worked = time.perf_counter(), time.process_time()
    tree = kind(**parameters).fit(case.X, case.y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {
        "case": case.name,
        "method": "glasswood",
        "rmse": cases.rmse(case.y_test, tree.predict(case.X_test)),
        "leaves": tree.n_leaves_,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "generations": tree.n_iter_,
    }


class Unpolished(glasswood.ModelTreeRegressor):
    """Trees without the local search."""

    search_settings = SearchSettings(polish=())


def rival(name: str, case: cases.Case) -> Record:
    """One fit of a rival; an error is its result."""
    began, worked = time.perf_counter(), time.process_time()
    try:
        predicted, leaves = rivals.RIVALS[name](case)
    except Exception as error:
        return {"case": case.name, "method": name, "error": f"{type(error).__name__}: {error}"}
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {
        "case": case.name, "method": name, "rmse": cases.rmse(case.y_test, predicted), "leaves": leaves,
        "seconds": seconds, "cpu_seconds": cpu,
    }  # fmt: skip


def recovery(_: Path) -> Iterator[Record]:
    """Known trees of five leaves among attributes of noise."""
    for make in (cases.armchair, cases.trap5):
        for extra in NOISE:
            for seed in SEEDS:
                case = make(seed, extra)
                yield {**grow(case, random_state=seed), "seed": seed, "truth": cases.true_error(case)}


def random_trees(_: Path) -> Iterator[Record]:
    """Random known trees."""
    for seed in SEEDS:
        case = cases.random_tree(seed)
        yield {**grow(case, random_state=seed), "seed": seed, "truth": cases.true_error(case)}


def hard_trees(_: Path) -> Iterator[Record]:
    """Random trees that are hard to find; no limit of time, so that a busy machine changes nothing."""
    for name, hard in cases.HARD.items():
        for seed in SEEDS:
            case = cases.hard_tree(seed, f"random trees, {name}", hard)
            record = grow(case, random_state=seed, time_limit=None)
            yield {**record, "seed": seed, "truth": cases.true_error(case)}
    for loss in ("squared", "huber"):
        for seed in SEEDS:
            case = cases.hard_tree(seed, f"8 leaves, t-noise, loss={loss}", cases.HEAVY)
            record = grow(case, random_state=seed, loss=loss, time_limit=None)
            yield {**record, "seed": seed, "truth": cases.true_error(case)}


def accuracy_jobs(data: Path) -> list[cases.Case]:
    """The data sets of the accuracy table."""
    makers = [cases.two_planes, cases.fried, cases.mv, lambda seed: cases.california(seed, data)]
    return [make(SPLIT) for make in makers] + [cases.diabetes(SPLIT + k) for k in range(5)]


def accuracy(data: Path) -> Iterator[Record]:
    """Error and size; no limit of time, so that a busy machine changes nothing."""
    for case in accuracy_jobs(data):
        truth = cases.true_error(case) if case.truth else None
        parameters = {"max_leaves": SIZES[case.name], "random_state": SPLIT, "time_limit": None}
        yield {**grow(case, **parameters), "truth": truth}


def accuracy_rivals(data: Path) -> Iterator[Record]:
    """The same of the rivals."""
    for case in accuracy_jobs(data):
        for name in PEERS:
            yield rival(name, case)


def public_sets(_: Path) -> Iterator[Record]:
    """A tree and an ensemble on public sets, with their defaults."""
    yield from public.records(iter(public.REPORTED))


def public_smoothed(_: Path) -> Iterator[Record]:
    """A smoothed tree on the same sets."""
    yield from public.smoothed_records(iter(public.REPORTED))


def public_boosting(_: Path) -> Iterator[Record]:
    """Boosted trees on the same sets."""
    yield from public.boosted_records(iter(public.REPORTED))


def public_rivals(_: Path) -> Iterator[Record]:
    """The rivals on the same sets."""
    yield from public.rival_records(iter(public.REPORTED))


def public_classes(_: Path) -> Iterator[Record]:
    """All methods on public sets of classes."""
    yield from classes.records()


def known_rivals(_: Path) -> Iterator[Record]:
    """The rivals on the known trees."""
    for make in (cases.armchair, cases.trap5):
        for name in PEERS:
            yield {**rival(name, make(SEEDS[0])), "seed": SEEDS[0]}


def curve(data: Path) -> Iterator[Record]:
    """Error by number of leaves."""
    for make in (cases.fried, cases.mv, lambda seed: cases.california(seed, data)):
        case = make(SPLIT)
        for max_leaves in CURVE:
            yield {**grow(case, max_leaves=max_leaves, n_iter_no_change=20, time_limit=10), "max_leaves": max_leaves}


def speed(_: Path) -> Iterator[Record]:
    """The paper's 10,000 generations of 64 trees, and the paper's own evaluation by time per generation."""
    yield from generations(10_000)


def speed_100k(_: Path) -> Iterator[Record]:
    """The same over ten times the rows."""
    yield from generations(100_000)


def generations(n_rows: int) -> Iterator[Record]:
    """Seconds of many generations on so many training rows."""
    case = cases.armchair(0, n_rows=n_rows * 3 // 2)
    grow(case, generations=1)
    full = {"generations": 10_000, "n_iter_no_change": 10_000}
    yield {**grow(case, **full), "n_rows": n_rows, "what": "10,000 generations"}
    for algorithm in ("gram", "qr"):
        pace = {
            "generations": 100,
            "algorithm": algorithm,
            "kind": Unpolished,
            "n_iter_no_change": 100,
        }
        yield {**grow(case, **pace), "n_rows": n_rows, "what": f"100 generations, {algorithm}, no polish"}


def covertype(data: Path) -> Iterator[Record]:
    """The elevation of 387,341 plots of land."""
    case = cases.covertype(SPLIT, data)
    cubist = rival("Cubist", case)
    yield cubist
    half = cubist["leaves"] // 2 if "leaves" in cubist else 64
    for max_leaves, seconds in ((64, 120), (half, 240)):
        yield {**grow(case, max_leaves=max_leaves, time_limit=seconds), "max_leaves": max_leaves}


def leaves_of_elevation(data: Path) -> Iterator[Record]:
    """The same with 64 and 128 leaves of every method whose size can be set."""
    yield from elevation.records(cases.covertype(SPLIT, data))


def memory(_: Path) -> Iterator[Record]:
    """Largest resident memory of a process that grows a tree over ten million rows of two attributes."""
    child = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    yield {"what": "10,000,000 x 2, 10 generations", **json.loads(child.stdout)}


SECTIONS = {
    function.__name__: function
    for function in (
        recovery,
        random_trees,
        hard_trees,
        speed,
        speed_100k,
        accuracy,
        accuracy_rivals,
        known_rivals,
        public_sets,
        public_smoothed,
        public_boosting,
        public_rivals,
        public_classes,
        curve,
        memory,
        covertype,
        leaves_of_elevation,
    )
}


def main() -> None:
    """Run sections and merge them into the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], default=[])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/grow.json"))
    options = parser.parse_args()
    grow(cases.diabetes(0), generations=1)
    for section in options.sections or SECTIONS:
        records = []
        for record in SECTIONS[section](options.data):
            records.append(record)
            print(section, json.dumps(record), flush=True)
            save(options.out, section, records)


def save(path: Path, section: str, records: list[Record]) -> None:
    """Replace one section of the result file."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[section] = {
        "machine": f"{platform.processor() or platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "load_average": os.getloadavg()[1],
        "versions": {"glasswood": glasswood.__version__, "numpy": np.__version__, **rivals.versions()},
        "records": records,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
