"""Latencies of single rows that change with every call: p50, p99, p99.9 and the worst.

    python -m benchmarks.single_rows --results FOLDER [--rows 1000000] [--at-once 15] [--busy] [--only TEXT]

Shapes like those of an audited benchmark of finance (64 features and 12 thousand nodes, 128 features and 512 thousand),
grown by depth (XGBoost) and leaf by leaf (LightGBM), beside LightGBM's call for one row (its C interface) and
onnxruntime. A call is timed by itself, through Python, with the clock's own time in it; rows are float32 and never the
same twice. "--at-once" runs that many processes with a model each, every one on a core of its own, and reports the
slowest. C is what `export_c` writes, timed inside C. Margins are compared first. On a machine that does other work,
"--busy" leaves calls out during which the system gave the core to another process, and counts them.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy as np

import glasswood
from benchmarks.machine import conditions

SHAPES = {
    "64 features, 12 thousand nodes": (64, 100, 6),
    "128 features, 512 thousand nodes": (128, 1000, 8),
}
"""Features, trees, depth; trees grown leaf by leaf have as many leaves."""

SLOW, FEWER = 10e-6, 5
"""Seconds of a call above which only a share of the rows is timed: one in so many."""

MOST_NODES = 50_000
"""Of a model that is compiled as C: compilers take minutes for more."""

HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char** argv) {
  const int n = atoi(argv[2]), m = %d;
  float* rows = malloc(sizeof(float) * n * m);
  double* x = malloc(sizeof(double) * m), *taken = malloc(sizeof(double) * n);
  FILE* in = fopen(argv[1], "rb");
  if (!in || fread(rows, sizeof(float) * m, n, in) != (size_t)n) return 1;
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < m; ++k) x[k] = rows[i * m + k];
    const double start = now();
    const double y = predict(x);
    taken[i] = now() - start;
    sum += y;
  }
  fprintf(stderr, "%%.17g\\n", sum);
  fwrite(taken, sizeof(double), n, stdout);
}
"""


def trained(kind, n_features, n_trees, depth):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, n_features)).astype(np.float32)
    y = (X * np.roll(X, 1, axis=1) * rng.uniform(1, 2, n_features)).sum(axis=1)
    if kind == "by depth":
        import xgboost

        return xgboost.XGBRegressor(n_estimators=n_trees, max_depth=depth, max_bin=64, random_state=0).fit(X, y)
    import lightgbm

    model = lightgbm.LGBMRegressor(
        n_estimators=n_trees, num_leaves=2**depth, min_child_samples=5, max_bin=63, verbose=-1, random_state=0
    )
    return model.fit(X, y)


def quantiles(taken):
    """Microseconds of calls."""
    p50, p99, p999 = np.quantile(taken, [0.5, 0.99, 0.999]) / 1000
    return {"p50": p50, "p99": p99, "p99.9": p999, "worst": float(taken.max() / 1000), "calls": len(taken)}


def switched():
    """How often the system has taken the core away from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def latencies(call, rows, busy=False):
    """Time each call; faults are pages that the system had to give while calls ran."""
    for row in rows[:2000]:
        call(row)
    began = time.perf_counter()
    for row in rows[:200]:
        call(row)
    some = rows if (time.perf_counter() - began) / 200 < SLOW else rows[::FEWER]
    taken, clock = np.zeros(len(some), np.int64), time.perf_counter_ns
    gc.collect()
    gc.disable()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for i, row in enumerate(some):
        before = switched() if busy else 0
        start = clock()
        call(row)
        taken[i] = clock() - start
        if busy and switched() != before:
            taken[i] = 0
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    gc.enable()
    left_out = {"left_out": int((taken == 0).sum())} if busy else {}
    return quantiles(taken[taken > 0]) | {"faults_per_1000": 1000 * faults / len(some)} | left_out


def lightgbms(booster, n_features):
    """LightGBM's call for one row, prepared once, by its C interface."""
    from lightgbm.basic import _LIB

    fast, size, out = ctypes.c_void_p(), ctypes.c_int64(), (ctypes.c_double * 1)()
    arguments = (0, 0, -1, 0, n_features, b"", ctypes.byref(fast))
    assert _LIB.LGBM_BoosterPredictForMatSingleRowFastInit(booster._handle, *arguments) == 0
    predict, at_size = _LIB.LGBM_BoosterPredictForMatSingleRowFast, ctypes.byref(size)

    def call(row):
        predict(fast, ctypes.c_void_p(row.ctypes.data), at_size, out)
        return out[0]

    return call


def onnxruntimes(forest, folder):
    """onnxruntime of the model's ONNX file, with one thread."""
    import onnxruntime

    path = str(pathlib.Path(folder, "model.onnx"))
    forest.save(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    [given] = session.get_inputs()
    if "double" in given.type:
        return lambda row: session.run(None, {given.name: row[None].astype(np.float64)})[0]
    return lambda row: session.run(None, {given.name: row[None]})[0]


def of_c(forest, rows, folder):
    """Latencies inside C of what `export_c` writes; the sum of its margins is compared."""
    source, program, data = (str(pathlib.Path(folder, name)) for name in ("model.c", "model", "rows.bin"))
    code = glasswood.export_c(forest)
    pathlib.Path(source).write_text(code + HARNESS % rows.shape[1])
    subprocess.run(["gcc", "-O2", "-ffp-contract=off", "-o", program, source, "-lm"], check=True)
    rows.tofile(data)
    done = subprocess.run([program, data, str(len(rows))], capture_output=True, check=True)
    expected = float(np.sum(forest.predict(rows, "margin"), dtype=np.float64))
    assert abs(float(done.stderr) - expected) <= 1e-5 * np.abs(forest.predict(rows, "margin")).sum()
    return quantiles(np.frombuffer(done.stdout))


def measured(kind, shape, n_rows, rivals, busy):
    """Latencies of a model by what answers."""
    n_features = shape[0]
    model = trained(kind, *shape)
    forest = glasswood.load(model)
    X = np.random.default_rng(1).normal(size=(n_rows, n_features)).astype(np.float32)
    X += 0  # so that pages of new memory are there before calls are timed
    rows = list(X)
    record = {"nodes": forest.n_nodes}
    with tempfile.TemporaryDirectory() as folder:
        calls = {"prediction": forest.predictor("margin")}
        explainer = glasswood.Explainer(forest).prepare()
        calls["reasons"] = explainer.row(top=3)
        if rivals and kind != "by depth":
            calls["LightGBM"] = lightgbms(model.booster_, n_features)
        if rivals:
            calls["onnxruntime"] = onnxruntimes(forest, folder)
        expected = forest.predict(X[:100], "margin")
        for name, call in calls.items():
            if name != "reasons":
                found = np.array([np.ravel(call(row))[0] for row in rows[:100]])
                assert np.allclose(found, expected, rtol=1e-4, atol=1e-4), name
            record[name] = latencies(call, rows if name != "reasons" else rows[: n_rows // 10], busy)
        if forest.n_nodes <= MOST_NODES:
            record["C"] = of_c(forest, X, folder)
    return record


def one_of_many(arguments):
    core, kind, shape, n_rows = arguments
    os.sched_setaffinity(0, {core})
    forest = glasswood.load(trained(kind, *shape))
    rows = list(np.random.default_rng(core).normal(size=(n_rows, shape[0])).astype(np.float32))
    return latencies(forest.predictor("margin"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--at-once", type=int, default=0)
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--only", default="", help="of names of models")
    given = parser.parse_args()
    records = {}
    for name, shape in SHAPES.items():
        for kind in ("by depth", "leaf by leaf"):
            if given.only not in f"{name}, {kind}":
                continue
            record = measured(kind, shape, given.rows, not given.no_rivals, given.busy)
            if given.at_once:
                jobs = [(core, kind, shape, given.rows // 5) for core in range(given.at_once)]
                with multiprocessing.get_context("spawn").Pool(given.at_once) as pool:
                    found = pool.map(one_of_many, jobs)
                record["at once"] = {key: max(one[key] for one in found) for key in ("p50", "p99", "p99.9", "worst")}
            records[f"{name}, {kind}"] = record
            print(json.dumps({f"{name}, {kind}": record}), flush=True)
    if given.results:
        about = {
            "conditions": conditions(),
            "rows": given.rows,
            "at_once": given.at_once,
            "busy": given.busy,
            "microseconds": records,
        }
        pathlib.Path(given.results, "single-rows.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
