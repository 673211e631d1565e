"""Values of millions of rows against millions of background rows that lie in the memory of one GPU, all in.

    python -m benchmarks.wide_background --results FOLDER [--rival]

XGBoost, 100 trees of depth 6, trained on products of neighbouring columns: 3 million rows of 127 features against 5
million (the shape of woodelf's published table), and a million rows of 8 features against a million, from the GPU's
memory and from the host's. A time goes from arrays to values: checks, the copy of the background, its mean, tables,
values. `--rival` runs woodelf on the same GPU, with fewer rows first, whose values are compared with ours.

Limits: the background is read twice (copied, then encoded), rows once, and their values are written.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import cupy
import numpy as np
import xgboost

import glasswood
from benchmarks.machine import conditions
from benchmarks.strongest import waited

CASES = {"127 features": (127, 3_000_000, 5_000_000), "8 features": (8, 1_000_000, 1_000_000)}
"""Number of features, of rows, of background rows."""

CHECKED, COMPARED = 500, (100_000, 100_000)
"""Rows whose values are compared with those of the cores; rows and background rows of the rival's comparison."""

TOLERANCE, DIFFERING = 1e-4, 0.01
"""Of a value, in shares of the largest; share of the rows beyond it up to which the rival's time counts. Some numbers
equal a threshold, which XGBoost sends right and woodelf left: the margins say who is right."""

RUNS, BANDWIDTH = 5, 4.8e12
"""Timed runs after the first; bytes a second of an H200's memory."""


def trained(n_features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, n_features)).astype(np.float32)
    y = (X * np.roll(X, 1, axis=1) * rng.uniform(1, 2, n_features)).sum(axis=1)
    return xgboost.XGBRegressor(n_estimators=100, max_depth=6, random_state=0).fit(X, y)


def on_gpu(n, n_features, seed):
    return cupy.random.default_rng(seed).standard_normal((n, n_features), np.float32)


def seconds(call):
    """Of the first call, and the median of later ones."""
    times = []
    for _ in range(RUNS + 1):
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        call()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return {"first": times[0], "again": float(np.median(times[1:]))}


def explained(forest, rows, background):
    return waited(glasswood.Explainer(forest, background, device="cuda").shap_values, rows)


def parts(forest, rows, background):
    """Seconds of the steps of one call."""
    result, began = {}, time.perf_counter()
    explainer = glasswood.Explainer(forest, background, device="cuda")
    cupy.cuda.Device().synchronize()
    result["background"] = time.perf_counter() - began
    for name, call in {"tables": explainer.prepare, "values": lambda: explainer.shap_values(rows)}.items():
        began = time.perf_counter()
        call()
        cupy.cuda.Device().synchronize()
        result[name] = time.perf_counter() - began
    return result


def error(forest, rows, background):
    """Largest difference to the cores' float64, in shares of the largest value, against a tenth of the background."""
    some = background[: len(background) // 10]
    exact = glasswood.Explainer(forest, cupy.asnumpy(some), device="cpu", dtype="float64")
    expected = exact.shap_values(cupy.asnumpy(rows[:CHECKED]))
    found = cupy.asnumpy(explained(forest, rows[:CHECKED], some))
    ours = glasswood.Explainer(forest, some, device="cuda").expected_value
    assert ours == exact.expected_value
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def woodelf_seconds(model, forest, rows, background):
    """Compare values of fewer rows, then time all of them, from frames in the host's memory.

    Its explainer makes a frame of CuPy's arrays, which pandas refuses: the function behind it is called.
    """
    import pandas as pd
    from woodelf.core.cube_metric import ShapleyValues
    from woodelf.high_depth_woodelf import woodelf_for_high_depth

    def values(n_rows, n_background):
        x, b = (pd.DataFrame(cupy.asnumpy(part)) for part in (rows[:n_rows], background[:n_background]))
        began = time.perf_counter()
        found = woodelf_for_high_depth(model, x, b, ShapleyValues(), GPU=True, verbose=False)
        cupy.cuda.Device().synchronize()
        elapsed = time.perf_counter() - began
        zeros = cupy.zeros(n_rows)
        return [found.get(feature, zeros) for feature in x.columns], elapsed

    found, few = values(*COMPARED)
    ours = cupy.asnumpy(explained(forest, rows[: COMPARED[0]], background[: COMPARED[1]]))
    theirs = np.stack([cupy.asnumpy(column) for column in found], axis=1)
    differences = np.abs(theirs - ours).max(axis=1) / np.abs(ours).max()
    result = {"differing": float((differences > TOLERANCE).mean()), "compared_s": few}
    if result["differing"] < DIFFERING:
        result["s"] = values(len(rows), len(background))[1]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    parser.add_argument("--rival", action="store_true")
    arguments = parser.parse_args()
    records = {}
    for name, (n_features, n_rows, n_background) in CASES.items():
        model = trained(n_features)
        forest = glasswood.load(model)
        rows, background = on_gpu(n_rows, n_features, 1), on_gpu(n_background, n_features, 2)
        moved = 2 * background.nbytes + 2 * rows.nbytes
        record = {"rows": n_rows, "background": n_background, "limit_s": moved / BANDWIDTH}
        margins = model.predict(cupy.asnumpy(rows[:100_000]), output_margin=True)
        assert np.allclose(cupy.asnumpy(forest.predict(rows[:100_000])), margins, rtol=1e-4, atol=1e-4)
        record["error"] = error(forest, rows, background)
        record["s"] = seconds(lambda f=forest, r=rows, b=background: explained(f, r, b))
        record["parts_s"] = parts(forest, rows, background)
        if n_features == 8:
            host = cupy.asnumpy(rows), cupy.asnumpy(background)
            record["from_host_s"] = seconds(lambda f=forest, h=host: explained(f, *h))
            record["host_parts_s"] = parts(forest, *host)
        if arguments.rival:
            record["woodelf"] = woodelf_seconds(model, forest, rows, background)
        records[name] = record
        print(json.dumps({name: record}), flush=True)
    if arguments.results:
        about = {"conditions": conditions(), "records": records}
        pathlib.Path(arguments.results, "wide-background-nvidia-h200.json").write_text(
            json.dumps(about, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
