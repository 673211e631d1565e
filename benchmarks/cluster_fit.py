"""Grow a model tree on generated rows of Dask, whose equations are known, by two workers of one thread each.

`python -m benchmarks.cluster_fit [ROWS [SAMPLE]]`. Rows are made anew each of the four times that they pass.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pandas as pd

import glasswood.dask
from benchmarks.cluster import RESULTS, peaks
from benchmarks.machine import conditions, machine_name

PART_ROWS, N_FEATURES, NOISE = 500_000, 8, 0.3


def make_part(number: int, n_rows: int = PART_ROWS) -> pd.DataFrame:
    """Two equations of three terms each, on either side of x0 = 0.3."""
    rng = np.random.default_rng([7, number])
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    first = 2 * X[:, 1] - X[:, 3] + 0.5 * X[:, 4]
    second = 1 - 3 * X[:, 2] + X[:, 5] + 0.25 * X[:, 6]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(N_FEATURES)])
    return frame.assign(y=np.where(X[:, 0] < 0.3, first, second) + rng.normal(scale=NOISE, size=n_rows))


def main(n_rows: int = 50_000_000, sample_rows: int = 1_000_000) -> dict[str, object]:
    """Fit, and say how far the tree is from the truth."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    facts = conditions()
    found: dict[str, object] = {name: facts[name] for name in ("date", "commit", "cpu", "kernels", "cores", "load")}
    data = dask.dataframe.from_map(make_part, range(n_rows // PART_ROWS), meta=make_part(0, 1)[:0])
    model = glasswood.ModelTreeRegressor(time_limit=None, generations=200, n_jobs=1, max_leaves=8)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        before, start = sum(client.run(time.process_time).values()), time.perf_counter()
        glasswood.dask.fit(model, data, "y", sample_rows=sample_rows)
        found |= {"s": time.perf_counter() - start, "processor s": sum(client.run(time.process_time).values()) - before}
        found["MiB of a worker"] = peaks(client)
    rest = make_part(10**9)
    rmse = float(np.sqrt(np.mean((model.predict(rest.drop(columns="y")) - rest["y"]) ** 2)))
    found |= {"rows": model.n_rows_, "rows searched": model.n_rows_searched_, "leaves": model.n_leaves_}
    found |= {"rmse of rows not seen": rmse, "rmse of the truth": NOISE}
    return found | {"equations": glasswood.export_text(model).splitlines()}


if __name__ == "__main__":
    text = json.dumps(main(*map(int, sys.argv[1:])), indent=1)
    (RESULTS / f"cluster-fit-{machine_name()}.json").write_text(text + "\n")
    print(text)
