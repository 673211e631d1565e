"""Predictions on a GPU beside nvForest, rows on the GPU, over trees × depth × features × batch.

    python benchmarks/evaluate/gpu_grid.py --results FOLDER [--seconds 280] [--quick]

Forests are those of `benchmarks.evaluate.forests`, read by both libraries from the same bytes. nvForest is measured
after its own `optimize` on the same rows, for each batch anew; where its result differs, its time is dropped. Times are
medians of calls in turns, each from the call to the end of the work on the GPU. Without nvForest glasswood is measured
alone. After each forest FOLDER/gpu_grid.json and the tables in FOLDER/gpu_grid.md are written anew; the largest forests
come last, so that a run that has to end early has the most cells.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import platform
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cupy
import numpy as np

import glasswood
from benchmarks.evaluate.forests import sample_rows, write_models
from benchmarks.evaluate.grid_report import BATCHES, crossover_table, grid_tables, summary_lines
from glasswood.cuda.encoder import row_strides
from glasswood.plans import plan_of

N_TREES, FEATURES = (100, 1000), (50, 30, 200)
CASES = [
    *((n_trees, depth, n_features) for depth in (8, 4, 6) for n_features in FEATURES for n_trees in N_TREES),
    *((n_trees, depth, n_features) for n_trees, depth in ((100, 12), (100, 16)) for n_features in FEATURES),
    *((1000, depth, n_features) for depth in (12, 16) for n_features in FEATURES),
]
QUICK = [case for case in CASES if case[2] == 50 and case[:2] != (1000, 16)]
CROSSOVERS = ((6, 30, 100), (8, 50, 1000))
RUNS, FEW_RUNS, LONG_SECONDS = 9, 5, 0.01
MOST_CALLS = 100
"""Calls of a batch that takes microseconds, per run."""


def nvforest_of(document):
    """Load the model for nvForest, None where it is not installed."""
    try:
        import nvforest
        import treelite
    except ImportError as error:
        print("without nvForest:", error)
        return None
    return nvforest.load_from_treelite_model(treelite.frontend.from_xgboost_ubjson(document), device="gpu")


def seconds_of(call, n_calls):
    """Seconds of a call; one whose result is on the GPU is waited for, others have waited themselves."""
    cupy.cuda.Device().synchronize()
    wait = cupy.cuda.get_current_stream().synchronize if hasattr(call(), "__cuda_array_interface__") else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
        wait()
    return (time.perf_counter() - start) / n_calls


def medians(calls):
    """Median seconds of each call; runs of the calls alternate."""
    first = {name: seconds_of(call, 2) for name, call in calls.items()}
    n_runs = FEW_RUNS if max(first.values()) > LONG_SECONDS else RUNS
    n_calls = {name: max(1, min(MOST_CALLS, int(2e-3 / max(t, 1e-7)))) for name, t in first.items()}
    times = {name: [] for name in calls}
    for _ in range(n_runs):
        for name, call in calls.items():
            times[name].append(seconds_of(call, n_calls[name]))
    return {name: float(np.median(values)) for name, values in times.items()}


def measure_batch(forest, rival, x, host):
    """Milliseconds by name; that of a rival whose result is another one is left out, and the difference says why."""
    calls = {"glasswood": lambda: forest.predict(x, output="margin")}
    if len(x) == 1:
        calls["host"] = lambda: forest.predict(host[None], output="margin", device="cuda")
    result = {}
    if rival is not None:
        tuned = rival.optimize(data=x, timeout=0.1)
        found, theirs = forest.predict(x, output="margin"), cupy.asarray(tuned.predict(x)).ravel()
        result["difference"] = float(cupy.abs(found - theirs).max())
        if result["difference"] <= 1e-6 * forest.n_trees:
            calls["nvforest"] = lambda: tuned.predict(x)
        else:
            print(f"nvForest differs by {result['difference']}: its time is dropped")
    return {**{name: 1e3 * t for name, t in medians(calls).items()}, **result}


def measure_encoding(forest, x):
    """Milliseconds of the kernel that encodes rows, by events."""
    codes, stride, times = plan_of(forest, "cuda").packed.codes, -(-len(x) // 1024) * 1024, []
    launch, result = codes.prepare(x.dtype, row_strides(x), len(x), stride), codes.empty(stride)
    launch.cell("X")[0], launch.cell("codes")[0] = x.data.ptr, result.data.ptr
    for _ in range(6):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        launch(cupy.cuda.get_current_stream().ptr)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return float(np.median(times[1:]))


def measure_forest(case, path, rows, until):
    """Results of one forest, batch by batch."""
    forest, rival = glasswood.load(path), nvforest_of(path.read_bytes())
    path.unlink()
    x, results = rows(case["features"]), []
    for batch in BATCHES:
        if time.perf_counter() > until:
            break
        found = measure_batch(forest, rival, x[:batch], x[0].get())
        if batch == max(BATCHES):
            found["encoding"] = measure_encoding(forest, x)
        results.append({**case, "leaves": forest.n_leaves, "batch": batch, **found})
    return results


def crossover(paths):
    """Microseconds of host rows on the CPU and on the GPU, around the size from which the GPU is the faster."""
    result = []
    for (depth, n_features, n_trees), path in zip(CROSSOVERS, paths, strict=True):
        forest, rows = glasswood.load(path), sample_rows(9, 100_000, n_features)
        for n_rows in (300, 1000, 3000, 10_000, 30_000, 100_000):
            predict = functools.partial(forest.predict, rows[:n_rows], output="margin")
            calls = {device: functools.partial(predict, device=device) for device in ("cpu", "cuda")}
            case = {"trees": n_trees, "depth": depth, "rows": n_rows}
            result.append({**case, **{device: 1e6 * t for device, t in medians(calls).items()}})
    return result


def write(folder, report):
    (folder / "gpu_grid.json").write_text(json.dumps(report, indent=1))
    tables = [*grid_tables(report["results"]), *crossover_table(report.get("crossover", ()))]
    (folder / "gpu_grid.md").write_text("\n".join(tables) + "\n")


def describe():
    machine = {
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "python": platform.python_version(),
    }
    return {"machine": machine, "glasswood": glasswood.__version__, "cupy": cupy.__version__, "results": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="for models")
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--quick", action="store_true", help="50 features, and 1000 trees of up to 12 levels")
    options = parser.parse_args()
    until = time.perf_counter() + options.seconds
    report, cases = describe(), QUICK if options.quick else CASES
    shapes = sorted({case[1:] for case in cases}, reverse=True)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        paths = write_models(options.folder, shapes, N_TREES, pool)
    print(f"{time.perf_counter() - until + options.seconds:.0f} s for the models", flush=True)
    of_case = {
        (n, *shape): path for (shape, n), path in zip(((s, n) for s in shapes for n in N_TREES), paths, strict=True)
    }
    if not options.quick:
        report["crossover"] = crossover([of_case[n, depth, f] for depth, f, n in CROSSOVERS])
    rows = functools.lru_cache(maxsize=len(FEATURES))(lambda n_features: sample_rows(7, max(BATCHES), n_features, cupy))
    for n_trees, depth, n_features in cases:
        if time.perf_counter() > until:
            break
        case = {"trees": n_trees, "depth": depth, "features": n_features}
        report["results"] += measure_forest(case, of_case[n_trees, depth, n_features], rows, until)
        print(grid_tables(report["results"])[1].splitlines()[-1], flush=True)
        write(options.results, report)
    print("\n".join(summary_lines(report["results"])))


if __name__ == "__main__":
    main()
