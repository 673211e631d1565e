"""The experiment of Spencer 2011 (doi:10.48550/arXiv.1111.1373): python -m benchmarks.evaluate.paper [--device cuda].

Table 1's three functions, and windowed, on the Image Segmentation tree; then the geometries that the paper's section 6
asks for. Outer times are calls of Forest.predict with rows on the host. Inner times are those of the runner alone: on
the CPU with checked rows, on a GPU those of the kernel on encoded rows, a share of a graph of launches. The results are
kept as JSON and rewrite their tables in results/evaluate_paper.md. One thread of a GPU takes a fraction of a second
for the records, so measurements end early when they have taken their time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import ROOT
from benchmarks.evaluate import report, trees
from benchmarks.machine import conditions, machine_name
from glasswood.base.typing import ALGORITHMS, Choice
from glasswood.evaluate.choice import most_splits, runnable
from glasswood.plans import plan_of

if TYPE_CHECKING:
    from glasswood import Forest

RESULTS = ROOT / "benchmarks" / "results"
N_CALLS, N_GRID_CALLS, N_WARM = 500, 21, 3
N_LAUNCHES = 20
SECONDS, GRID_SECONDS, LEAST_CALLS = 3.0, 0.25, 2
DEPTHS = (3, 4, 5, 6, 8, 10, 12, 16)


def main() -> None:
    """Measure on one device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluate.paper", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--machine", default=machine_name(), help="name of the file of results (default: %(default)s)")
    options = parser.parse_args()
    kind = "cpu" if options.device == "cpu" else "cuda"
    results = {"conditions": {**conditions(), "gpu": _gpu_name(kind)}, "table": table(kind), "grid": list(grid(kind))}
    path = RESULTS / f"evaluate-{kind}-{options.machine}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    report.update(kind, results)


def table(kind: str) -> dict[str, Any]:
    """Table 1: outer and inner times of each function on the paper's tree."""
    forest, rows = trees.image_segmentation()
    expected = forest.predict(rows, output="leaf", algorithm="serial", device="cpu")
    result: dict[str, Any] = {"depth": forest.depth, "mean_depth": trees.mean_depth(forest, rows), "algorithms": {}}
    for algorithm in ALGORITHMS[1:]:
        found = forest.predict(rows, output="leaf", algorithm=algorithm, device=kind, n_jobs=1)
        np.testing.assert_array_equal(found, expected)

        def outer(algorithm: str = algorithm) -> Any:
            return forest.predict(rows, output="leaf", algorithm=algorithm, device=kind, n_jobs=1)

        choice = Choice(len(rows), kind, algorithm)
        result["algorithms"][algorithm] = {
            "outer": _statistics(_times(outer, N_CALLS, SECONDS)),
            "inner": _statistics(_inner_times(forest, rows, choice, N_CALLS, SECONDS)),
        }
        print(kind, algorithm, result["algorithms"][algorithm], flush=True)
    return result


def grid(kind: str) -> Iterator[dict[str, Any]]:
    """Inner times over depths, shapes and orders of rows."""
    random = trees.uniform_rows()
    for shape in (trees.balanced, trees.degenerate):
        for depth in DEPTHS:
            forest = shape(depth)
            for order, rows in (("random", random), ("ordered", trees.ordered(forest, random))):
                names = runnable(forest.ensemble)
                choices = {name: Choice(len(rows), kind, name) for name in names}
                found = {
                    name: _inner_times(forest, rows, choice, N_GRID_CALLS, GRID_SECONDS)
                    for name, choice in choices.items()
                }
                line = {
                    "shape": shape.__name__,
                    "depth": depth,
                    "splits": most_splits(forest.ensemble),
                    "mean_depth": trees.mean_depth(forest, rows),
                    "rows": order,
                    "times": {name: median(times) for name, times in found.items()},
                    "calls": {name: len(times) for name, times in found.items()},
                }
                print(line, flush=True)
                yield line


def _inner_times(forest: Forest, rows: Any, choice: Choice, n_calls: int, seconds: float) -> list[float]:
    """Seconds of the runner alone; on a GPU of its kernel, on encoded rows, as launches of one graph."""
    if choice.device == "cpu":
        return _times(lambda: plan_of(forest).leaves(rows, choice, 1), n_calls, seconds)
    import cupy

    walks, n_launches = plan_of(forest, "cuda").nodes, 1 if choice.algorithm == "serial" else N_LAUNCHES
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        codes = walks.encode(cupy.asarray(rows))
        walks.walk(codes, len(rows), choice)
        stream.synchronize()
        stream.begin_capture()
        for _ in range(n_launches):
            walks.walk(codes, len(rows), choice)
        graph = stream.end_capture()

        def run() -> None:
            graph.launch(stream)
            stream.synchronize()

        return [taken / n_launches for taken in _times(run, n_calls, seconds)]


def _times(call: Callable[[], Any], n_calls: int, seconds: float) -> list[float]:
    """Seconds of calls, after some that are not counted; fewer calls than asked for where they take so long."""
    begin = time.perf_counter()
    times = []
    for n in range(-N_WARM, n_calls):
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        is_over = end - begin > seconds
        if n >= 0 or is_over:
            times.append(end - start)
        if is_over and len(times) >= LEAST_CALLS:
            break
    return times


def _gpu_name(kind: str) -> str | None:
    if kind == "cpu":
        return None
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def _statistics(times: list[float]) -> dict[str, float]:
    return {
        "mean": mean(times),
        "min": min(times),
        "max": max(times),
        "deviation": stdev(times),
        "median": median(times),
        "calls": len(times),
    }


if __name__ == "__main__":
    main()
