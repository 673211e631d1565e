"""Values and predictions of host rows on one GPU and on all that CUDA_VISIBLE_DEVICES leaves, compared to the bit.

    python -m benchmarks.several_gpus cal_housing-med.ubj FOLDER

The model is the one that benchmarks/cuda_models.py trains; its rows are repeated. Results go to
FOLDER/several_gpus_<n>.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import cupy
import numpy as np

import glasswood

DATA = Path(glasswood.__file__).parent / "data" / "california_housing.parquet"
ROWS = (1_000_000, 4_000_000, 16_000_000, 64_000_000)
PREDICTED = 16_000_000


def seconds(call, n_runs):
    """Median after a warm run."""
    call()
    times = []
    for _ in range(n_runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure_values(model):
    import pandas as pd

    rows = pd.read_parquet(DATA).iloc[:, :-1].to_numpy(np.float32)
    one, several = (glasswood.Explainer(glasswood.load(model), device=device) for device in ("cuda", "cuda:all"))
    found = {}
    for n in ROWS:
        X = np.resize(rows, (n, rows.shape[1]))
        first, second = np.zeros((2, *X.shape), np.float32)
        found[n] = {
            "one": seconds(lambda x=X, out=first: one.shap_values(x, out=out), 5),
            "all": seconds(lambda x=X, out=second: several.shap_values(x, out=out), 5),
            "same_bits": bool(np.array_equal(first, second)),
        }
        print(n, found[n], flush=True)
    return found


def measure_predictions():
    """1000 trees of depth 8 on 50 features."""
    from sklearn.ensemble import ExtraTreesRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 50)).astype(np.float32)
    trees = ExtraTreesRegressor(1000, max_depth=8, max_features=10, n_jobs=-1, random_state=0)
    forest = glasswood.load(trees.fit(X, X[:, :10].sum(axis=1)))
    rows = np.resize(rng.normal(size=(100_000, 50)).astype(np.float32), (PREDICTED, 50))
    calls = {
        name: lambda device=device: forest.predict(rows, output="margin", device=device)
        for name, device in (("one", "cuda"), ("all", "cuda:all"))
    }
    same = bool(np.array_equal(*(call() for call in calls.values())))
    return {name: seconds(call, 3) for name, call in calls.items()} | {"same_bits": same}


def main(model, folder):
    n_gpus = cupy.cuda.runtime.getDeviceCount()
    result = {"n_gpus": n_gpus, "glasswood": glasswood.__version__, "cupy": cupy.__version__}
    result |= {"values": measure_values(model), "predictions": measure_predictions()}
    Path(folder, f"several_gpus_{n_gpus}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
