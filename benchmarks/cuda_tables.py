"""Tables 3, 5, 6 and 7 of the GPUTreeShap paper on this machine's GPU, with throughput and crossover.

    python benchmarks/cuda_tables.py --data FOLDER --results FOLDER cal_housing-med adult-med ...

Models are trained here by XGBoost with the paper's settings, or read from the folder of an earlier call. Rivals that
are not installed are left out. A rival's result is compared with glasswood's first; one that is wrong is not timed.
Each time is the median of interleaved runs, or of one run above five seconds; glasswood's first calls, which plan and
fill tables, do not count. benchmarks/cuda_report.py makes tables of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cupy
import numpy as np

import glasswood
from benchmarks.cuda_models import CUT, SHAPES, load_data, load_forest, name_of, train
from glasswood.plans import plan_of
from glasswood.reference.paths import HEURISTICS, pack_paths

PAPER_LEAVES = {
    "covtype-small": 560, "covtype-med": 113_888, "covtype-large": 6_636_440, "cal_housing-small": 80,
    "cal_housing-med": 21_643, "cal_housing-large": 3_317_209, "fashion_mnist-small": 800, "fashion_mnist-med": 144_154,
    "fashion_mnist-large": 2_929_521, "adult-small": 80, "adult-med": 13_074, "adult-large": 642_035,
}  # fmt: skip
PAPER_VALUES = {
    "covtype-small": 0.02, "covtype-med": 0.45, "covtype-large": 50.88, "cal_housing-small": 0.01,
    "cal_housing-med": 0.09, "cal_housing-large": 16.91, "fashion_mnist-small": 0.17, "fashion_mnist-med": 1.13,
    "fashion_mnist-large": 47.53, "adult-small": 0.01, "adult-med": 0.08, "adult-large": 4.67,
}  # fmt: skip
PAPER_INTERACTIONS = {
    "covtype-small": 0.02, "covtype-med": 0.19, "covtype-large": 28.85, "cal_housing-small": 0.01,
    "cal_housing-med": 0.04, "cal_housing-large": 8.55, "fashion_mnist-small": 4.04, "fashion_mnist-med": 4.91,
    "fashion_mnist-large": 63.53, "adult-small": 0.01, "adult-med": 0.04, "adult-large": 2.76,
}  # fmt: skip
ROWS, INTERACTION_ROWS, RUNS, ONE_RUN_SECONDS, ENOUGH_SECONDS = 10_000, 200, 7, 5.0, 3.0
MOST_COMPARED = 10**8
"""Numbers of a rival's result that are compared."""

MOST_RESULT = 4 * 10**9
"""Bytes of interactions that are measured beside the walk."""

TOLERANCE = 1e-3
"""Of a rival's result, relative to the sum over trees of (largest - smallest leaf): XGBoost sums in float32."""


def timed(call):
    """Result and seconds of a call, with everything before and in it done."""
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    result = call()
    cupy.cuda.Device().synchronize()
    return result, time.perf_counter() - start


def seconds(calls, first=None):
    """Median time of each call, run in turns; `first` has the times of a first round, whose long calls are final."""
    first = {name: timed(call)[1] for name, call in calls.items()} if first is None else first
    times = {name: [first[name]] if first[name] > ONE_RUN_SECONDS else [] for name in calls}
    for _ in range(RUNS):
        for name, call in calls.items():
            if first[name] <= ONE_RUN_SECONDS and sum(times[name]) < ENOUGH_SECONDS:
                times[name].append(timed(call)[1])
    return {name: float(np.median(values)) for name, values in times.items()}


def gputreeshap(booster):
    """Explainer of the shap-cuda wheel, None where it is not installed or does not take the model."""
    try:
        import shap_cuda

        return shap_cuda.GPUTreeExplainer(booster)
    except Exception as error:
        print("GPUTreeShap left out:", str(error)[:200])
        return None


def spread(forest):
    starts = forest.ensemble.leaf_offsets[:-1]
    largest, smallest = (f.reduceat(forest.ensemble.leaf_value, starts).max(axis=1) for f in (np.maximum, np.minimum))
    return float((np.abs(forest.ensemble.tree_weight) * (largest - smallest)).sum())


def difference(found, expected, forest):
    """Largest difference, relative to the sum over trees of (largest - smallest leaf)."""
    found, expected = (np.asarray(cupy.asnumpy(a), np.float64) for a in (found, expected))
    return float(np.abs(found.reshape(expected.shape) - expected).max() / spread(forest))


def without_bias(contributions, n_outputs):
    """XGBoost puts outputs first and the bias last; glasswood (n, F[, F], k)."""
    if contributions.ndim == 2 and n_outputs == 1:
        return contributions[:, :-1]
    if n_outputs == 1:
        return contributions[:, :-1, :-1]
    if contributions.ndim == 3:
        return np.moveaxis(contributions[:, :, :-1], 1, -1)
    return np.moveaxis(contributions[:, :, :-1, :-1], 1, -1)


def measure_model(model, data_folder, folder, skip):
    X, y = load_data(data_folder, name_of(model))
    start = time.perf_counter()
    booster = train(model, X, y, folder)
    row = {"model": model, "ready_s": time.perf_counter() - start}
    forest = glasswood.load(booster)
    row |= {"trees": forest.n_trees, "leaves": forest.n_leaves, "paper_leaves": PAPER_LEAVES[model]}
    row["rounds"] = CUT.get(model, SHAPES[model.rsplit("-", 1)[1]][0])
    rows = np.resize(X, (ROWS, X.shape[1]))
    row["values"] = measure("values", booster, forest, rows, skip)
    row["interactions"] = measure("interactions", booster, forest, rows[:INTERACTION_ROWS], skip)
    row["beside_walk"] = measure_beside_walk(forest, rows)
    row["packing"] = measure_packing(forest) if "paths" not in skip else {}
    row["paper"] = {"values_s": PAPER_VALUES[model], "interactions_s": PAPER_INTERACTIONS[model]}
    return row


METHODS = {"values": ("shap_values", "pred_contribs"), "interactions": ("shap_interaction_values", "pred_interactions")}


def calls_of(kind, booster, forest, X, skip):
    """What a table's columns call, glasswood on GPU rows first."""
    import xgboost

    method, wanted = METHODS[kind]
    x, matrix = cupy.asarray(X), xgboost.DMatrix(X)
    options = {"gpu": {}, "host": {"device": "cuda"}, "paths": {"algorithm": "paths"}}
    explain = {name: getattr(glasswood.Explainer(forest, **given), method) for name, given in options.items()}
    calls = {"glasswood": lambda: explain["gpu"](x), "glasswood NumPy": lambda: explain["host"](X)}
    if "paths" not in skip:
        calls["glasswood paths"] = lambda: explain["paths"](x)
    if "xgboost" not in skip:
        calls["XGBoost"] = lambda: booster.predict(matrix, **{wanted: True})
    rival = None if {"gputreeshap", f"gputreeshap-{kind}"} & set(skip) else gputreeshap(booster)
    if rival is not None:
        more = {"check_additivity": False} if kind == "values" else {}
        calls["GPUTreeShap"] = lambda: getattr(rival, method)(X, **more)
    return calls


def measure(kind, booster, forest, X, skip):
    """Times of one table's columns for a model, and how far the others are from glasswood; wrong ones have no time."""
    calls = calls_of(kind, booster, forest, X, skip)
    expected, first, errors, wrong = calls["glasswood"](), {}, {}, []
    compared = max(1, MOST_COMPARED * len(X) // expected.size)
    reference = cupy.asnumpy(expected[:compared])
    del expected
    for name, call in calls.items():
        if name.startswith("glasswood"):
            call()
        found, first[name] = timed(call)
        found = without_bias(found, forest.n_outputs) if name == "XGBoost" else found
        errors[name] = difference(found[:compared], reference, forest)
        del found
        if not errors[name] <= TOLERANCE:
            print(f"   {name} is wrong and not timed: {errors[name]:.1e} of the spread away", flush=True)
            assert not name.startswith("glasswood")
            wrong.append(name)
    times = seconds({name: call for name, call in calls.items() if name not in wrong}, first)
    return {"seconds": times, "errors": errors, "wrong": wrong}


def measure_beside_walk(forest, X):
    """Seconds of interactions as glasswood computes them, and by the walk of all trees, of few and of many rows."""
    explain = {"glasswood": glasswood.Explainer(forest), "walk": glasswood.Explainer(forest, algorithm="quadrature")}
    result = {}
    for n in (INTERACTION_ROWS, ROWS):
        if 4 * n * forest.n_features**2 * forest.n_outputs > MOST_RESULT:
            continue
        x = cupy.asarray(X[:n])
        calls = {name: lambda e=e, x=x: e.shap_interaction_values(x) for name, e in explain.items()}
        found = [cupy.asnumpy(call()[:INTERACTION_ROWS]) for call in calls.values()]
        error = difference(*found, forest)
        assert error <= TOLERANCE
        result[n] = {"seconds": seconds(calls), "error": error}
    return result


def measure_packing(forest):
    explainer = glasswood.Explainer(forest, algorithm="paths", device="cuda")
    paths = plan_of(explainer, "cuda").job("values").paths
    lengths = np.diff(paths.arrays["offsets"]).astype(np.int32)
    result = {}
    for heuristic in HEURISTICS:
        start = time.perf_counter()
        packing = pack_paths(lengths, heuristic)
        result[heuristic] = {"s": time.perf_counter() - start, "bins": packing.n_bins, "used": packing.utilisation}
    return result


def measure_throughput(data_folder, folder):
    """Rows a second of cal_housing-med on one GPU and on all, and the batch from which the GPU is the faster."""
    forest = load_forest("cal_housing-med", data_folder, folder)
    X, _ = load_data(data_folder, "cal_housing")
    n_gpus = cupy.cuda.runtime.getDeviceCount()
    rates = {n: measure_rates(forest, np.resize(X, (n, X.shape[1])), n_gpus) for n in (1_000_000, 4_000_000)}
    crossover = {}
    cpu, gpu = glasswood.Explainer(forest, device="cpu"), glasswood.Explainer(forest, device="cuda")
    for n in (1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096):
        rows = X[:n]
        crossover[n] = seconds({"cpu": lambda r=rows: cpu.shap_values(r), "gpu": lambda r=rows: gpu.shap_values(r)})
    return {
        "rows_per_second": rates, "n_gpus": n_gpus, "cores": os.cpu_count(), "crossover_s": crossover,
        "splits": forest.n_nodes // 2,
    }  # fmt: skip


def measure_rates(forest, rows, n_gpus):
    """Rows a second from GPU array, and from host rows on one GPU and on all; the results must be the same bits."""
    on_gpu, on_host, on_all = (glasswood.Explainer(forest, device=device) for device in ("cuda", "cuda", "cuda:all"))
    x = cupy.asarray(rows)
    calls = {
        "GPU array, one GPU": lambda: on_gpu.shap_values(x),
        "NumPy, one GPU": lambda: on_host.shap_values(rows),
        f"NumPy, all {n_gpus} GPUs": lambda: on_all.shap_values(rows),
    }
    expected = calls["NumPy, one GPU"]()
    for call in calls.values():
        np.testing.assert_array_equal(cupy.asnumpy(call()), expected)
    return {name: len(rows) / t for name, t in seconds(calls).items()}


def measure_background(data_folder, folder):
    """Seconds from background rows and rows, both on the GPU, to a million rows' values, in the parts of a first call.

    Checked beside float64 on the cores, which suites compare with sums over coalitions and with shap.
    """
    forest = load_forest("cal_housing-med", data_folder, folder)
    X, _ = load_data(data_folder, "cal_housing")
    rng, n_rows = np.random.default_rng(0), 1_000_000
    rows = X[rng.integers(0, len(X), n_rows)]
    x, result = cupy.asarray(rows), {}
    glasswood.Explainer(forest, X[:10], device="cuda").shap_values(x)  # compiles
    for n_background in (100, 10_000, 1_000_000):
        background = X[rng.integers(0, len(X), n_background)]
        b, parts = cupy.asarray(background), {}
        explainer, parts["check"] = timed(lambda b=b: glasswood.Explainer(forest, b, device="cuda"))
        _, parts["tables"] = timed(explainer.prepare)
        found, parts["values"] = timed(lambda e=explainer: e.shap_values(x))
        again = seconds({"values": lambda e=explainer: e.shap_values(x)})["values"]
        exact = glasswood.Explainer(forest, background, device="cpu", dtype="float64").shap_values(rows[:1000])
        error = difference(found[:1000], exact, forest)
        assert error <= TOLERANCE
        result[n_background] = {"rows": n_rows, "first_s": parts, "again_s": again, "error": error}
    return result


def measure_wide():
    """Measure interactions of 784 features for 10,000 rows, 25 GB: in chunks, from and to the host."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 784)).astype(np.float32)
    forest = wide_forest(rng)
    explainer = glasswood.Explainer(forest, device="cuda")
    out = np.empty((ROWS, 784, 784), np.float32)
    _, elapsed = timed(lambda: explainer.shap_interaction_values(X, out=out))
    at = np.sort(rng.choice(ROWS, 50, replace=False))
    error = np.abs(out[at].sum(axis=2) - explainer.shap_values(X[at])).max() / spread(forest)
    assert error <= TOLERANCE
    pool = cupy.get_default_memory_pool().total_bytes()
    leaves = {"trees": forest.n_trees, "leaves": forest.n_leaves}
    return {"s": elapsed, "result_bytes": out.nbytes, "gpu_bytes": pool, "error": float(error), **leaves}


def wide_forest(rng, n_rows=2000):
    """Regression trees on 784 features; scikit-learn trains them in seconds."""
    from sklearn.ensemble import RandomForestRegressor

    X = rng.normal(size=(n_rows, 784)).astype(np.float32)
    forest = RandomForestRegressor(100, max_depth=8, max_features=50, random_state=0, n_jobs=-1)
    return glasswood.load(forest.fit(X, X[:, :100].sum(axis=1)))


PACKAGES = {"XGBoost": "xgboost", "CuPy": "cupy-cuda13x", "GPUTreeShap": "shap-cuda"}


def machine(commit):
    versions = {"glasswood": glasswood.__version__}
    for name, package in PACKAGES.items():
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            continue
    runtime = cupy.cuda.runtime
    gpu, driver = runtime.getDeviceProperties(0)["name"].decode(), runtime.driverGetVersion()
    cpu = platform.processor() or platform.machine()
    return {
        "gpu": gpu,
        "cpu": cpu,
        "cores": os.cpu_count(),
        "driver_cuda": driver,
        "commit": commit,
        "versions": versions,
    }


def measure_models(result, target, arguments):
    """One row a model; the file is written after each."""
    for model in arguments.models:
        row = measure_model(model, arguments.data, arguments.trained, arguments.skip.split(","))
        result["models"].append(row)
        print(model, row["trees"], row["leaves"], f"ready after {row['ready_s']:.1f} s")
        for kind in METHODS:
            times = {name: f"{1e3 * t:.3f}" for name, t in row[kind]["seconds"].items()}
            print("  ", kind, "ms", times, {name: f"{e:.1e}" for name, e in row[kind]["errors"].items()}, flush=True)
        for n, found in row["beside_walk"].items():
            times = {name: f"{1e3 * t:.3f}" for name, t in found["seconds"].items()}
            print("   interactions of", n, "rows, ms", times, f"{found['error']:.1e}", flush=True)
        target.write_text(json.dumps(result, indent=1))
        cupy.get_default_memory_pool().free_all_blocks()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--data", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--trained", help="folder where models are kept")
    parser.add_argument("--name", default="tables", help="of the file of results")
    parser.add_argument("--commit", default="")
    parser.add_argument("--skip", default="", help="comma-separated: paths, xgboost, gputreeshap[-interactions]")
    parser.add_argument("--whole", action="store_true", help="as many rounds as the paper's models have, in all models")
    parser.add_argument("--train", action="store_true", help="train the models and stop")
    parser.add_argument("--throughput", action="store_true", help="rows a second and crossover instead of models")
    parser.add_argument("--background", action="store_true", help="values against background rows instead of models")
    parser.add_argument("--wide", action="store_true", help="interactions of 784 features instead")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.whole:
        CUT.clear()
    target = Path(arguments.results) / f"{arguments.name}.json"
    if arguments.train:
        for model in arguments.models:
            _, elapsed = timed(lambda m=model: train(m, *load_data(arguments.data, name_of(m)), arguments.trained))
            print("trained", model, f"{elapsed:.1f} s", flush=True)
        return
    result = {"machine": machine(arguments.commit), "models": []}
    if arguments.wide:
        result["wide"] = measure_wide()
        print(json.dumps(result["wide"], indent=1))
    if arguments.background:
        result["background"] = measure_background(arguments.data, arguments.trained)
        print(json.dumps(result["background"], indent=1))
    if arguments.throughput:
        result["throughput"] = measure_throughput(arguments.data, arguments.trained)
        print(json.dumps(result["throughput"], indent=1))
    measure_models(result, target, arguments)
    target.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
