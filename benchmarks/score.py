"""Shapley values of a score beside qshap (path-dependent) and sage-importance (marginal).

    python -m benchmarks.score [--device cuda] [--results FOLDER]

XGBoost, 100 trees of depth 8, of California and Adult (categories as numbers); 1,000 test rows, 100 background rows,
two threads. Times are processor seconds, of all threads together, so that other work of the machine does not count;
wall times are beside them. qshap takes 10 rows, and its time is for these; sage takes 1,024 orders of 1,000 rows.
Results are compared first: values of one tree with those of qshap, means of sage within its own errors.
With --device cuda: 10,000 rows against the same background, by glasswood alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import pathlib
import time

import numpy as np

import glasswood
from benchmarks.machine import conditions, machine_name

ROWS, RIVAL_ROWS, BACKGROUND, ORDERS, GPU_ROWS = 1_000, 10, 100, 1_024, 10_000


def california():
    X, y = glasswood.datasets.california()
    return X.to_numpy(np.float32), np.asarray(y, float), "reg:squarederror"


def adult():
    X, y = glasswood.datasets.adult()
    frame = X.copy()
    for column in frame.columns:
        if frame[column].dtype.kind not in "biuf":
            frame[column] = frame[column].astype("category").cat.codes
    return frame.to_numpy(np.float32), np.unique(np.asarray(y), return_inverse=True)[1], "binary:logistic"


def trained(X, y, objective, rounds=100, depth=8, rate=0.1):
    import xgboost

    data = xgboost.DMatrix(X, y)
    return xgboost.train({"objective": objective, "max_depth": depth, "eta": rate, "nthread": 2}, data, rounds)


def seconds(call, repeats=3):
    """Median processor and wall seconds, and the last result."""
    times = []
    for _ in range(repeats):
        began = time.process_time(), time.perf_counter()
        result = call()
        times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    processor, wall = np.median(times, axis=0).tolist()
    return {"processor seconds": processor, "wall seconds": wall}, result


def beside_qshap(X, y, R, s):
    import qshap
    import xgboost

    version = importlib.metadata.version("qshap")
    single = xgboost.XGBRegressor(n_estimators=1, max_depth=8, learning_rate=1.0, n_jobs=2, base_score=0.0).fit(X, y)
    theirs = np.asarray(qshap.gazer(single).loss(R, s))  # also compiles its code
    ours = glasswood.score_values(single, R, s, per_row=True).rows
    record = {"version": version, "rows": len(R), "error of one tree": apart(theirs, ours), "ensembles apart": {}}
    for n_trees in (2, 10, 100):
        model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=8, learning_rate=0.1, n_jobs=2).fit(X, y)
        taken, of_ensemble = seconds(lambda m=model: np.asarray(qshap.gazer(m).loss(R, s)), repeats=1)
        mine = glasswood.score_values(model, R, s, per_row=True).rows
        record["ensembles apart"][n_trees] = apart(of_ensemble, mine)
    return record | taken


def apart(theirs, ours):
    """Largest difference, relative to the largest value; qshap's are increases of the loss in some versions."""
    sign = np.sign((theirs * ours).sum())
    return float(np.abs(sign * theirs - ours).max() / np.abs(ours).max())


def beside_sage(booster, R, s, B, is_class):
    import sage
    import xgboost

    def predict(rows):
        return booster.predict(xgboost.DMatrix(rows))

    imputer = sage.MarginalImputer(predict, B)
    estimator = sage.PermutationEstimator(imputer, "cross entropy" if is_class else "mse")
    how = {"bar": False, "verbose": False, "n_permutations": ORDERS, "detect_convergence": False}
    taken, found = seconds(lambda: estimator(R, s, **how), repeats=1)
    ours = glasswood.score_values(booster, R, s, background=B, loss="log_loss" if is_class else "squared")
    z = (found.values - ours.values) / np.maximum(found.std, 1e-12)
    error = float(np.sqrt((found.std**2).mean()) / np.abs(ours.values).max())
    version = importlib.metadata.version("sage-importance")
    return {"version": version, "rows": len(R), **taken, "largest |z|": float(np.abs(z).max()), "its error": error}


def on_gpu(forest, X, y, B, loss):
    """10,000 rows on a GPU: compared with the CPU on some first."""

    def score(n, device):
        with glasswood.config_context(device=device):
            return glasswood.score_values(forest, X[:n], y[:n], background=B, loss=loss)

    few = [score(200, device).values for device in ("cuda", "cpu")]
    error = float(np.abs(few[0] - few[1]).max() / np.abs(few[1]).max())
    taken, found = seconds(lambda: score(GPU_ROWS, "cuda"), repeats=5)
    return {"rows": GPU_ROWS, "error": error, "share": found.total / found.baseline, **taken}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    glasswood.set_config(n_jobs=2)
    records = []
    for make in (california, adult):
        X, y, objective = make()
        train = np.arange(len(y)) % 2 == 0
        booster = trained(X[train], y[train], objective)
        R, s, B = X[~train][:ROWS], y[~train][:ROWS], X[train][:BACKGROUND]
        record = {"data": make.__name__, "rows": ROWS, "background": BACKGROUND, "features": X.shape[1]}
        loss = "log_loss" if objective.startswith("binary") else "squared"
        forest = glasswood.load(booster)
        if arguments.device == "cuda":
            record |= on_gpu(forest, X[~train], y[~train], B, loss)
            print(json.dumps(record), flush=True)
            records.append(record)
            continue
        for game, background in (("marginal", B), ("path-dependent", None)):
            record[game], found = seconds(
                lambda b=background, f=forest, r=R, t=s, n=loss: glasswood.score_values(f, r, t, background=b, loss=n)
            )
            record[f"{game} share"] = found.total / found.baseline
        few = slice(0, RIVAL_ROWS)
        try:
            record["sage"] = beside_sage(booster, R, s, B, loss == "log_loss")
            if loss == "squared":
                record["qshap"] = beside_qshap(X[train], y[train], R[few], s[few])
        except ImportError as error:
            record["left out"] = str(error)
        print(json.dumps(record), flush=True)
        records.append(record)
    if arguments.results:
        name = f"score-{'nvidia-h200' if arguments.device == 'cuda' else machine_name()}.json"
        text = json.dumps({"conditions": conditions(), "records": records}, indent=1) + "\n"
        pathlib.Path(arguments.results, name).write_text(text)


if __name__ == "__main__":
    main()
