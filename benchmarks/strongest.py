"""The strongest pairs of each row and overall (`top=3`), beside all interactions of the same rows.

    python -m benchmarks.strongest --device cuda --results FOLDER

Gradient boosting of scikit-learn, 100 trees of depth 6, whose target is made of products of all neighbouring columns.
Rows lie where they are computed. Medians of interleaved runs; pairs and values are compared with the matrices first,
and a result that differs has no time. One run of many rows has no matrices beside it: they would not fit.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import time

import numpy as np

import glasswood
from benchmarks.machine import conditions
from benchmarks.timing import interleaved

ROWS = {"cuda": {8: 500_000, 32: 200_000, 127: 50_000, 500: 3_000}, "cpu": {8: 20_000, 32: 5_000, 127: 1_000, 500: 100}}
"""By the number of features."""

MANY = {"cuda": 3_000_000, "cpu": 20_000}
"""Rows of 127 features that are searched without matrices beside them."""

TOP = 3


def trained(n_features):
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, n_features)).astype(np.float32)
    y = (X * np.roll(X, 1, axis=1) * rng.uniform(1, 2, n_features)).sum(axis=1)
    model = HistGradientBoostingRegressor(max_iter=100, max_depth=6, random_state=0)
    return glasswood.load(model.fit(X, y))


def on_host(result):
    return np.asarray(result.get() if hasattr(result, "get") else result)


def faults(explainer, X, rows):
    """What differs between searches and matrices of some rows."""
    matrices = np.concatenate([on_host(explainer.shap_interaction_values(rows[i : i + 64])) for i in range(0, 256, 64)])
    i, j = np.triu_indices(X.shape[1], 1)
    entries = matrices[:, i, j]
    order = np.argsort(-np.abs(entries), axis=1, kind="stable")[:, :TOP]
    found, values = map(on_host, explainer.shap_interaction_values(rows[:256], top=TOP))
    wrong = [] if np.array_equal(found, np.stack([i[order], j[order]], axis=2)) else ["other pairs"]
    wrong += [] if np.array_equal(values, np.take_along_axis(entries, order, axis=1)) else ["other values"]
    overall = on_host(explainer.shap_interaction_values(rows[:256], top=TOP, overall=True)[0])
    first = np.argsort(-np.abs(entries).sum(axis=0, dtype=np.float64), kind="stable")[:TOP]
    return wrong + ([] if np.array_equal(overall, np.stack([i, j], axis=1)[first]) else ["other pairs overall"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=list(ROWS), default="cpu")
    parser.add_argument("--results", default="")
    arguments = parser.parse_args()
    where = arguments.device
    records = []
    for n_features, n in ROWS[where].items():
        explainer = glasswood.Explainer(trained(n_features), device=where)
        X = np.random.default_rng(1).normal(size=(n, n_features)).astype(np.float32)
        rows = X
        if where == "cuda":
            import cupy

            rows = cupy.asarray(X)
        record = {"features": n_features, "rows": n, "differs": faults(explainer, X, rows)}
        if not record["differs"]:
            values = functools.partial(waited, explainer.shap_interaction_values, rows)
            calls = {
                "all pairs": values,
                "top": functools.partial(values, top=TOP),
                "overall": functools.partial(values, top=TOP, overall=True),
            }
            times = {name: float(np.median(runs)) for name, runs in interleaved(calls).items()}
            record |= {"seconds": times, "ratios": {name: times[name] / times["all pairs"] for name in times}}
        if n_features == 127:
            many = np.random.default_rng(2).normal(size=(MANY[where], n_features)).astype(np.float32)
            rows = cupy.asarray(many) if where == "cuda" else many
            searched = functools.partial(waited, explainer.shap_interaction_values, rows, top=TOP)
            began = time.perf_counter()
            searched()
            record["many"] = {"rows": MANY[where], "seconds": time.perf_counter() - began}
            began = time.perf_counter()
            searched(overall=True)
            record["many"]["overall"] = time.perf_counter() - began
        print(json.dumps(record), flush=True)
        records.append(record)
    if arguments.results:
        name = "strongest-nvidia-h200" if where == "cuda" else "strongest-cpu"
        about = {"conditions": conditions(), "top": TOP, "records": records}
        pathlib.Path(arguments.results, f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


def waited(function, rows, **options):
    """Call with rows that may lie on a GPU, and wait for what it computes there."""
    result = function(rows, **options)
    if not isinstance(rows, np.ndarray):
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    return result


if __name__ == "__main__":
    main()
