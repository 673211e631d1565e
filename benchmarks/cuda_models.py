"""Data sets and models of the GPUTreeShap paper's tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import glasswood

FILES = {"cal_housing": "california_housing", "adult": "adult", "covtype": "covtype", "fashion_mnist": "fashion_mnist"}
OBJECTIVES = {"cal_housing": "reg:squarederror", "adult": "binary:logistic"}
SHAPES = {"small": (10, 3), "med": (100, 8), "large": (1000, 16)}
CUT = {"covtype-large": 100, "fashion_mnist-large": 100}
"""Rounds of models that take too long here, unless --whole asks for the paper's 1000."""


def load_data(folder, name):
    import pandas as pd

    frame = pd.read_parquet(Path(folder) / f"{FILES[name]}.parquet")
    X, y = frame.iloc[:, :-1].copy(), frame.iloc[:, -1]
    for column in X.columns:
        if X[column].dtype.kind not in "biuf":
            X[column] = X[column].astype("category").cat.codes
    if name != "cal_housing":
        y = y.astype("category").cat.codes
    return X.to_numpy(np.float32), y.to_numpy()


def train(model, X, y, folder=None):
    """Booster of a table's row; it is kept in `folder`, where an earlier call may have left it."""
    import xgboost

    path = None if folder is None else Path(folder, f"{model}.ubj")
    if path is not None and path.exists():
        return xgboost.Booster({"device": "cuda"}, model_file=path)
    name, size = model.rsplit("-", 1)
    rounds, depth = SHAPES[size]
    objective = OBJECTIVES.get(name, "multi:softmax")
    parameters = {"objective": objective, "max_depth": depth, "learning_rate": 0.01, "device": "cuda"}
    if objective == "multi:softmax":
        parameters["num_class"] = int(y.max()) + 1
    booster = xgboost.train(parameters, xgboost.DMatrix(X, y), CUT.get(model, rounds))
    if path is not None:
        booster.save_model(path)
    return booster


def load_forest(model, data_folder, folder):
    """Forest of a table's row, without XGBoost where an earlier call left the model."""
    path = Path(folder or "", f"{model}.ubj")
    return glasswood.load(
        path if folder and path.exists() else train(model, *load_data(data_folder, name_of(model)), folder)
    )


def name_of(model):
    return model.rsplit("-", 1)[0]
