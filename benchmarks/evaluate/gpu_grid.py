"""Predictions on a GPU beside nvForest, rows on the GPU, over trees × depth × features × batch.

    python benchmarks/evaluate/gpu_grid.py --results FOLDER [--seconds 300] [--quick]

Forests are those of `benchmarks.evaluate.forests`, read by both libraries from the same bytes. nvForest is measured
after its own `optimize` on the same rows, for each batch anew; its result is compared before its time counts. Times are
medians of calls in turns, each from the call to the end of the work on the GPU. Without nvForest silva is measured
alone.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import platform
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cupy
import numpy as np

import silva
from benchmarks.evaluate.forests import sample_rows, write_models

N_TREES, DEPTHS, FEATURES, BATCHES = (1000, 100), (8, 6, 4, 12, 16), (50, 30, 200), (1, 100, 10_000, 1_000_000)
QUICK = [(8, 50), (6, 30), (4, 30), (16, 50), (8, 200), (12, 50)]
RUNS, FEW_RUNS, LONG_SECONDS = 15, 5, 0.02
MOST_CALLS = 200
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
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
        cupy.cuda.get_current_stream().synchronize()
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
    calls = {"silva": lambda: forest.predict(x, output="margin")}
    if len(x) == 1:
        predict = forest.predictor(output="margin", device="cuda")
        calls["predictor"] = lambda: predict(host)
    difference = None
    if rival is not None:
        tuned = rival.optimize(data=x, timeout=0.1)
        calls["nvforest"] = lambda: tuned.predict(x)
        found, theirs = forest.predict(x, output="margin"), cupy.asarray(tuned.predict(x)).ravel()
        difference = float(cupy.abs(found - theirs).max())
        if difference > 1e-6 * forest.n_trees:
            print(f"nvForest differs by {difference}")
    return {**{name: 1e3 * t for name, t in medians(calls).items()}, "difference": difference}


def measure_parts(forest, x):
    """Milliseconds of the kernels that encode rows, and of the whole, by events."""
    packed = forest.cuda_evaluator.packed
    stride = -(-len(x) // 1024) * 1024
    calls = {"encode": lambda: packed.codes.encode(x, stride), "all": lambda: forest.predict(x, output="margin")}
    result = {}
    for name, call in calls.items():
        call()
        times = []
        for _ in range(5):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end))
        result[name] = float(np.median(times))
    return result


def models(shapes, folder, until):
    """Yield case, forest and rival; all trees are grown before the first time is taken."""
    with ProcessPoolExecutor(8, multiprocessing.get_context("spawn")) as pool:
        written = [pool.submit(write_models, folder, *shape, N_TREES) for shape in shapes]
        paths = [future.result() for future in written]
    for (depth, n_features), of_shape in zip(shapes, paths, strict=True):
        for n_trees, path in zip(N_TREES, of_shape, strict=True):
            if time.perf_counter() > until:
                return
            forest, rival = silva.load(path), nvforest_of(path.read_bytes())
            path.unlink()
            yield {"trees": n_trees, "depth": depth, "features": n_features, "leaves": forest.n_leaves}, forest, rival


def crossover(folder):
    """Microseconds of host rows on the CPU and on the GPU, around the size from which the GPU is the faster."""
    result = []
    for depth, n_features, n_trees in ((6, 30, 100), (8, 50, 1000)):
        (path,) = write_models(folder, depth, n_features, (n_trees,))
        forest, rows = silva.load(path), sample_rows(9, 100_000, n_features)
        path.unlink()
        for n_rows in (300, 1000, 3000, 10_000, 30_000, 100_000):
            predict = functools.partial(forest.predict, rows[:n_rows], output="margin")
            calls = {device: functools.partial(predict, device=device) for device in ("cpu", "cuda")}
            case = {"trees": n_trees, "depth": depth, "rows": n_rows}
            result.append({**case, **{device: 1e6 * t for device, t in medians(calls).items()}})
            print(result[-1], flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="for models")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    until = time.perf_counter() + options.seconds
    results = []
    rows = {}
    shapes = QUICK if options.quick else list(itertools.product(DEPTHS, FEATURES))
    for case, forest, rival in models(shapes, options.folder, until):
        n_features = case["features"]
        if n_features not in rows:
            rows = {n_features: sample_rows(7, max(BATCHES), n_features, cupy)}
        x = rows[n_features]
        host = x[0].get()
        line = [f"{case['trees']:5d} x {case['depth']:2d} x {n_features:3d} ({case['leaves']} leaves):"]
        for batch in BATCHES:
            if time.perf_counter() > until:
                break
            found = measure_batch(forest, rival, x[:batch], host)
            if batch == max(BATCHES):
                found["parts"] = measure_parts(forest, x)
            results.append({**case, "batch": batch, **found})
            ratio = f" {found['nvforest'] / found['silva']:.2f}x" if "nvforest" in found else ""
            more = f" predictor {1e3 * found['predictor']:.1f} us" if "predictor" in found else ""
            line.append(f"[{batch}: {found['silva']:.4f} ms{ratio}{more}]")
        if "parts" in results[-1]:
            line.append(str({name: round(t, 3) for name, t in results[-1]["parts"].items()}))
        print(" ".join(line), flush=True)
        machine = {
            "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
            "python": platform.python_version(),
        }
        report = {"machine": machine, "silva": silva.__version__, "cupy": cupy.__version__, "results": results}
        (options.results / "gpu_grid.json").write_text(json.dumps(report, indent=1))
    if ratios := [r["nvforest"] / r["silva"] for r in results if "nvforest" in r]:
        print(f"{len(ratios)} cells: median {np.median(ratios):.2f}, least {min(ratios):.2f}")
    report["crossover"] = crossover(options.folder)
    (options.results / "gpu_grid.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
