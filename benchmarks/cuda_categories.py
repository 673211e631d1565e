"""Models with categories on this machine's GPU, beside XGBoost on it: predictions of 20,000 rows and of one, values.

    GLASSWOOD_DATA=FOLDER python benchmarks/cuda_categories.py --results FOLDER

Rows are on the GPU, categories as codes. XGBoost's `inplace_predict` takes the array, its values a new DMatrix in each
call. Medians of interleaved runs; a result that differs has an error and no time.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import numpy as np

import glasswood
from benchmarks.data import read

DATA = ("adult with categories", "airlines", "cities")
N_ROWS, N_EXPLAINED = 20_000, 2_000
TOLERANCE = 1e-4
"""Error that a result may have, relative to the largest value."""


def coded(frame):
    """Categories as codes, and XGBoost's types of the columns."""
    kinds = ["c" if frame[name].dtype == "category" else "q" for name in frame]
    columns = [frame[name].cat.codes if kind == "c" else frame[name] for name, kind in zip(frame, kinds, strict=True)]
    return np.stack([column.to_numpy(np.float32) for column in columns], axis=1), kinds


def trained(rows, kinds, target):
    import xgboost

    parameters = {"objective": "binary:logistic", "max_depth": 8, "device": "cuda"}
    matrix = xgboost.DMatrix(rows, target, feature_types=kinds, enable_categorical=True)
    return xgboost.train(parameters, matrix, 100)


def calls_of(booster, forest, rows, kinds):
    """By what is measured and library."""
    import cupy
    import xgboost

    on_gpu, one = cupy.asarray(rows), cupy.asarray(rows[:1])
    explained = on_gpu[:N_EXPLAINED]
    explainer = glasswood.Explainer(forest, device="cuda")

    def contributions():
        matrix = xgboost.DMatrix(explained, feature_types=kinds, enable_categorical=True)
        return booster.predict(matrix, pred_contribs=True)[:, :-1]

    def margin(X):
        return {
            "glasswood": lambda: forest.predict(X, output="margin", device="cuda"),
            "XGBoost": lambda: booster.inplace_predict(X, predict_type="margin"),
        }

    values = {"glasswood": lambda: explainer.shap_values(explained), "XGBoost": contributions}
    return {f"margin, {len(rows)} rows": margin(on_gpu), "margin, 1 row": margin(one), "values": values}


def on_host(result):
    return np.asarray(result.get() if hasattr(result, "get") else result)


def measure(name):
    from benchmarks.cuda_tables import seconds

    table = read(name)
    rows, kinds = coded(table.rows)
    booster = trained(rows, kinds, table.target)
    forest = glasswood.load(booster)
    measured = {}
    for what, calls in calls_of(booster, forest, rows[:N_ROWS], kinds).items():
        results = {library: on_host(call()) for library, call in calls.items()}
        largest = np.abs(results["XGBoost"]).max()
        error = float(np.abs(results["glasswood"] - results["XGBoost"]).max() / largest)
        measured[what] = {"error": error} | ({"seconds": seconds(calls)} if error <= TOLERANCE else {})
    return {"data": name, "leaves": forest.n_leaves, "measured": measured}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True)
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    from benchmarks.cuda_tables import machine

    result = {"machine": machine(arguments.commit), "categories": []}
    for name in DATA:
        result["categories"].append(measure(name))
        print(json.dumps(result["categories"][-1]), flush=True)
    pathlib.Path(arguments.results, "categories.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
