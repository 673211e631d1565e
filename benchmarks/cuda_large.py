"""Large forests on this machine's GPU, beside the same calls on its processors.

    python benchmarks/cuda_large.py --results FOLDER

A random forest of scikit-learn with its default settings (trees of full depth) of California housing: predictions, SHAP
values, and values against a background. Rows and results are on the device that computes. Medians of interleaved runs;
a result that differs from the processors' has an error and no time.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import time

import numpy as np

import glasswood

TOLERANCE = 1e-5
"""Error that a result may have, relative to the largest value."""

BACKGROUND = 1_000


def trained(X, y):
    from sklearn.ensemble import RandomForestRegressor

    return glasswood.load(RandomForestRegressor(100, n_jobs=-1, random_state=0).fit(X, y))


def calls_of(forest, X):
    """Functions of rows, by what they compute and where, with the numbers of rows."""
    devices = ("cuda", "cpu")
    plain = {device: glasswood.Explainer(forest, device=device) for device in devices}
    against = {device: glasswood.Explainer(forest, X[:BACKGROUND], device=device) for device in devices}
    return {
        "predictions": ((20_000, 1), {d: lambda rows, d=d: forest.predict(rows, device=d) for d in devices}),
        "values": ((2_000, 20_000), {d: plain[d].shap_values for d in devices}),
        f"values against {BACKGROUND:,} rows": ((100, 2_000), {d: against[d].shap_values for d in devices}),
    }


def on_host(result):
    return np.asarray(result.get() if hasattr(result, "get") else result)


def measure(forest, X):
    """Seconds and errors, one entry for each call and number of rows."""
    import cupy

    from benchmarks.cuda_tables import seconds

    for what, (counts, calls) in calls_of(forest, X).items():
        for count in counts:
            rows = {"cuda": cupy.asarray(X[:count]), "cpu": X[:count]}
            results, first = {}, {}
            try:
                for device, call in calls.items():
                    began = time.perf_counter()
                    results[device] = on_host(call(rows[device]))
                    first[device] = time.perf_counter() - began
            except NotImplementedError as error:
                yield {"what": what, "rows": count, "refused": str(error)}
                continue
            error = float(np.abs(results["cuda"] - results["cpu"]).max() / np.abs(results["cpu"]).max())
            found = {"what": what, "rows": count, "error": error, "first": first}
            if error <= TOLERANCE:
                found["seconds"] = seconds({d: functools.partial(calls[d], rows[d]) for d in calls})
            yield found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True)
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    from benchmarks.cuda_tables import machine

    X, y = glasswood.datasets.california()
    X = X.to_numpy(np.float32)
    forest = trained(X, y)
    result = {"machine": machine(arguments.commit), "leaves": forest.n_leaves, "large": []}
    for found in measure(forest, X):
        result["large"].append(found)
        print(json.dumps(found), flush=True)
    pathlib.Path(arguments.results, "large.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
