"""Forests of the shapes of SilvanForge's eight data sets, on a GPU beside nvForest or on cores beside XGBoost.

    python -m benchmarks.evaluate.published_shapes --results FOLDER [--device cuda] [--sparse ROWS]

Shapes, not data: features, trees, classes, depth and leaves are those of the models that SilvanForge's authors publish
(Prasad et al. 2024, doi:10.1145/3694715.3695958, and its repository), counted in them; trees and rows are drawn by
`benchmarks.evaluate.forests`. All libraries read one document; probabilities of classes, otherwise margins, are
compared before they are timed. Rows of a GPU lie there. Medians of calls in turns. A cell is held against the bytes of
its rows and results over the bandwidth of a copy, measured in the same run, and against the nodes that its rows visit.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import glasswood
from benchmarks.evaluate.forests import TREES_AT_ONCE, grow, sample_rows, to_xgboost, tree_documents
from benchmarks.machine import conditions


class Shape(NamedTuple):
    """Features, those that the published model uses, trees, classes (0: one margin), depth, least rows of a split."""

    features: int
    used: int
    trees: int
    classes: int
    depth: int
    least_rows: int


SHAPES = {
    "abalone": Shape(8, 8, 1000, 0, 6, 120),
    "airline": Shape(13, 12, 100, 0, 8, 2),
    "airline-ohe": Shape(692, 692, 1000, 0, 8, 25),
    "bosch": Shape(968, 600, 100, 0, 8, 90),
    "covtype": Shape(54, 54, 800, 8, 8, 60),
    "epsilon": Shape(2000, 1631, 100, 0, 8, 2),
    "letters": Shape(16, 16, 26_000, 26, 6, 500),
    "year_prediction_msd": Shape(90, 90, 100, 0, 8, 12),
}
PUBLISHED_LEAVES = {
    "abalone": 44_215, "airline": 25_521, "airline-ohe": 127_984, "bosch": 7_008,
    "covtype": 69_561, "epsilon": 25_517, "letters": 520_478, "year_prediction_msd": 16_329,
}  # fmt: skip
BATCHES = {"cuda": (512, 16_384, 1_000_000), "cpu": (1, 512, 10_000)}
MOST_VALUES, MOST_RESPONSES = 4e8, 1.6e7
"""Values and responses of a batch at most: one of 2,000 features has 200,000 rows; nvForest refuses more responses."""

MOST_WALKS = 2e7
"""Rows times trees up to which treelite's interpreter is asked."""

RUNS, TOLERANCE, DENSITY = 5, 1e-6, 0.01
"""Runs of a call; differences a tree that pass; part of the sparse rows' values that are stored."""


def document_of(shape):
    """A model of the shape, in Universal Binary JSON; workers grow its trees."""
    firsts = range(0, shape.trees, TREES_AT_ONCE)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = pool.map(documents_of, [shape] * len(firsts), firsts)
        documents = [document for part in parts for document in part]
    return to_xgboost(documents, shape.features, shape.classes)


def documents_of(shape, first):
    n_trees = min(TREES_AT_ONCE, shape.trees - first)
    trees = grow(1, first, n_trees, shape.depth, shape.used, shape.least_rows)
    return tree_documents(dataclasses.replace(trees, n_features=shape.features), first)


def rows_of(shape, n_rows, module):
    rows = module.zeros((n_rows, shape.features), module.float32)
    rows[:, : shape.used] = sample_rows(7, n_rows, shape.used, module)
    return rows


def forest_of(document):
    """The model as glasswood reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ubj"
        path.write_bytes(document)
        return glasswood.load(path)


def calls_of(document, shape, device):
    """A function of rows for each library."""
    forest = forest_of(document)
    output = "probability" if shape.classes else "margin"
    calls = {"glasswood": functools.partial(forest.predict, output=output, device=device)}
    if device == "cuda":
        import nvforest
        import treelite

        rival = nvforest.load_from_treelite_model(treelite.frontend.from_xgboost_ubjson(document), device="gpu")

        def tuned(rows):
            found = rival.optimize(data=rows, timeout=0.1)
            return found.predict_proba if shape.classes else found.predict

        return forest, calls, {"nvforest": tuned}
    import treelite
    import xgboost

    booster = xgboost.Booster(model_file=bytearray(document))
    model = treelite.frontend.from_xgboost_ubjson(document)
    booster.set_param({"nthread": os.cpu_count()})
    kind = {"predict_type": "value" if shape.classes else "margin"}
    calls["xgboost"] = lambda rows: booster.inplace_predict(rows, **kind)
    calls["treelite"] = lambda rows: treelite.gtil.predict(model, rows, nthread=os.cpu_count())
    return forest, calls, {}


def seconds_of(call, rows):
    """Seconds of one call, waiting for what it leaves to the GPU."""
    start = time.perf_counter()
    result = call(rows)
    if hasattr(result, "__cuda_array_interface__"):
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    return time.perf_counter() - start


def host(array):
    return np.asarray(array.get() if hasattr(array, "get") else array)


def measure(calls, rows, n_trees):
    """Seconds by library, and the largest difference from glasswood; those that differ are left out."""
    found = {name: host(call(rows)).reshape(len(rows), -1) for name, call in calls.items()}
    worst = {name: float(np.abs(value - found["glasswood"]).max()) for name, value in found.items()}
    kept = {name: call for name, call in calls.items() if worst[name] <= TOLERANCE * n_trees}
    times = {name: [] for name in kept}
    for _ in range(RUNS):
        for name, call in kept.items():
            n_calls = 1 if len(rows) * n_trees > 1e6 else 20
            times[name].append(np.median([seconds_of(call, rows) for _ in range(n_calls)]))
    del worst["glasswood"]
    return {"s": {name: float(np.median(t)) for name, t in times.items()}, "difference": worst}


def bandwidth(device):
    """Bytes a second that a copy reads and writes."""
    if device == "cuda":
        import cupy as module
    else:
        module = np
    source = module.ones(2**30 if device == "cuda" else 2**26, module.float32)
    target = module.empty_like(source)

    def copy(rows):
        target[:] = rows
        return target

    return 2 * source.nbytes / min(seconds_of(copy, source) for _ in range(6))


def measure_shape(name, device, copied):
    shape = SHAPES[name]
    document = document_of(shape)
    forest, calls, tuning = calls_of(document, shape, device)
    record = {**shape._asdict(), "leaves": forest.n_leaves, "published leaves": PUBLISHED_LEAVES[name], "batches": {}}
    if device == "cuda":
        import cupy as module
    else:
        module = np
    most = int(min(max(BATCHES[device]), MOST_VALUES // shape.features, MOST_RESPONSES // max(shape.classes, 1)))
    rows = rows_of(shape, most, module)
    for batch in sorted({min(batch, most) for batch in BATCHES[device]}):
        part = rows[:batch]
        for rival, tuned in tuning.items():
            calls[rival] = tuned(part)
        is_long = batch * shape.trees > MOST_WALKS
        asked = {name: call for name, call in calls.items() if not (is_long and name == "treelite")}
        found = measure(asked, part, shape.trees)
        n_bytes = 4 * batch * (shape.features + max(shape.classes, 1))
        found |= {"s of bytes": n_bytes / copied, "nodes": batch * shape.trees * shape.depth}
        record["batches"][str(batch)] = found
        print(name, batch, found, flush=True)
    return record


def measure_sparse(n_rows, device):
    """Rows of 2,000 features, one value in a hundred stored, from the host, beside the bytes that they have."""
    import scipy.sparse

    shape = SHAPES["epsilon"]._replace(used=2000)
    forest = forest_of(document_of(shape))
    part = scipy.sparse.random(100_000, shape.features, DENSITY, "csr", np.float32, np.random.default_rng(1))
    n_parts = -(-n_rows // part.shape[0])
    counts = np.tile(np.diff(part.indptr), n_parts)
    arrays = np.tile(part.data, n_parts), np.tile(part.indices, n_parts), np.concatenate([[0], np.cumsum(counts)])
    rows = scipy.sparse.csr_matrix(arrays, shape=(n_parts * part.shape[0], shape.features))
    few, filled = rows[:1000], np.full((1000, shape.features), np.nan, np.float32)  # to XGBoost, the rest is missing
    filled[few.nonzero()] = few.data
    dense = forest.predict(filled, output="margin", device="cpu")
    difference = float(np.abs(forest.predict(few, output="margin", device=device) - dense).max())
    seconds = [seconds_of(functools.partial(forest.predict, output="margin", device=device), rows) for _ in range(2)]
    n_bytes = sum(array.nbytes for array in arrays)
    return {"rows": rows.shape[0], "features": 2000, "stored": int(rows.nnz), "bytes": n_bytes, "s": seconds,
            "rows a second": rows.shape[0] / min(seconds), "difference": difference}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--device", choices=BATCHES, default="cpu")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--sparse", type=int, default=0, help="rows; 0 leaves them out")
    options = parser.parse_args()
    copied = bandwidth(options.device)
    report = {"conditions": conditions(), "bytes a second": copied, "shapes": {}}
    target = options.results / f"published-shapes-{options.device}.json"
    for name in options.shapes:
        try:
            report["shapes"][name] = measure_shape(name, options.device, copied)
        except Exception as error:
            report["shapes"][name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            print(name, report["shapes"][name], flush=True)
        target.write_text(json.dumps(report, indent=1))
    if options.sparse:
        report["sparse"] = measure_sparse(options.sparse, options.device)
        print(report["sparse"])
        target.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
