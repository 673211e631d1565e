"""Shapley values of a score beside qshap (path-dependent) and sage-importance (marginal).

    python -m benchmarks.score [--results FOLDER]

XGBoost, 100 trees of depth 8, of California and Adult (categories as numbers); 1,000 test rows, 100 background rows,
two threads. Rivals explain fewer rows, and their times are for these. Results are compared first: values of one tree
with those of qshap, means of sage within its own errors.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import numpy as np

import glasswood
from benchmarks.machine import conditions

ROWS, RIVAL_ROWS, BACKGROUND = 1_000, 20, 100


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


def trained(X, y, objective, rounds=100, depth=8):
    import xgboost

    data = xgboost.DMatrix(X, y)
    return xgboost.train({"objective": objective, "max_depth": depth, "eta": 0.1, "nthread": 2}, data, rounds)


def seconds(call, repeats=3):
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - began)
    return float(np.median(times)), result


def beside_qshap(X, y, R, s):
    import qshap
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=100, max_depth=8, learning_rate=0.1, n_jobs=2).fit(X, y)
    single = xgboost.XGBRegressor(n_estimators=1, max_depth=8, learning_rate=1.0, n_jobs=2, base_score=0.0).fit(X, y)
    theirs = np.asarray(qshap.gazer(single).loss(R, s))
    ours = glasswood.score_values(single, R, s, per_row=True).rows
    error = float(np.abs(np.abs(theirs) - np.abs(ours)).max() / np.abs(ours).max())
    began = time.perf_counter()
    of_ensemble = np.asarray(qshap.gazer(model).loss(R, s))
    taken = time.perf_counter() - began
    mine = glasswood.score_values(model, R, s, per_row=True).rows
    apart = float(np.abs(np.abs(of_ensemble) - np.abs(mine)).max() / np.abs(mine).max())
    return {"rows": len(R), "seconds": taken, "error of one tree": error, "ensembles apart": apart}


def beside_sage(booster, R, s, B, is_class):
    import sage
    import xgboost

    def predict(rows):
        return booster.predict(xgboost.DMatrix(rows))

    imputer = sage.MarginalImputer(predict, B)
    estimator = sage.PermutationEstimator(imputer, "cross entropy" if is_class else "mse")
    began = time.perf_counter()
    found = estimator(R, s, bar=False, verbose=False, thresh=0.05)
    taken = time.perf_counter() - began
    ours = glasswood.score_values(booster, R, s, background=B, loss="log_loss" if is_class else "squared")
    z = (found.values - ours.values) / np.maximum(found.std, 1e-12)
    return {"rows": len(R), "seconds": taken, "largest |z|": float(np.abs(z).max())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default="")
    arguments = parser.parse_args()
    records = []
    for make in (california, adult):
        X, y, objective = make()
        train = np.arange(len(y)) % 2 == 0
        booster = trained(X[train], y[train], objective)
        R, s, B = X[~train][:ROWS], y[~train][:ROWS], X[train][:BACKGROUND]
        record = {"data": make.__name__, "rows": ROWS, "background": BACKGROUND, "features": X.shape[1]}
        loss = "log_loss" if objective.startswith("binary") else "squared"
        forest = glasswood.load(booster)
        for game, background in (("marginal", B), ("path-dependent", None)):
            record[game], found = seconds(
                lambda b=background, f=forest, r=R, t=s, n=loss: glasswood.score_values(
                    f, r, t, background=b, loss=n, n_jobs=2
                )
            )
            record[f"{game} share"] = found.total / found.baseline
        few = slice(0, RIVAL_ROWS)
        try:
            record["sage"] = beside_sage(booster, R[:200], s[:200], B, loss == "log_loss")
            if loss == "squared":
                record["qshap"] = beside_qshap(X[train], y[train], R[few], s[few])
        except ImportError as error:
            record["left out"] = str(error)
        print(json.dumps(record), flush=True)
        records.append(record)
    if arguments.results:
        text = json.dumps({"conditions": conditions(), "records": records}, indent=1) + "\n"
        pathlib.Path(arguments.results, "score.json").write_text(text)


if __name__ == "__main__":
    main()
