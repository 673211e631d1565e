"""Models of ONNX, CatBoost, LightGBM and treelite; run once, from the root: python -m tests.fuzz.seeds.make_others."""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb
import numpy as np
import treelite
import xgboost as xgb
from sklearn import ensemble

from tests.readers import onnx_models
from tests.readers.lightgbm_models import make_data, train
from tests.readers.test_catboost_ctr import make_frame
from tests.readers.test_catboost_ctr import train as train_catboost

FOLDER = Path(__file__).parent
NUMERIC = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
VALUES = [0.0, 1.0, 2.0, 7.0, 40.0]
CTR = ("squared, 1 one-hot", "combined Counter", "simple BinarizedTargetMeanValue", "three classes, 4 one-hot")


def onnx_seeds():
    """Models of both operators and of version 5, with every kind of comparison."""
    make = onnx_models.random_trees
    labels = {"classlabels_int64s": [0, 1, 2], "post_transform": "SOFTMAX"}
    never = {"tracks": lambda inner: [0] * len(inner)}
    return {
        "regressor": onnx_models.by_number("Regressor", make(1), NUMERIC, base_values=[0.5]),
        "targets": onnx_models.by_number("Regressor", make(2), NUMERIC, n_outputs=3, double=True),
        "classifier": onnx_models.by_number("Classifier", make(3), NUMERIC, n_outputs=3, **labels),
        "pair": onnx_models.by_number("Classifier", make(4), NUMERIC, ids=[0], classlabels_int64s=[0, 1]),
        "ensemble": onnx_models.by_position(make(5), [0, 1, 2, 3], n_outputs=2),
        "members": onnx_models.by_position(make(6, values=VALUES), [6], members=VALUES, double=True),
        "equal": onnx_models.by_position(make(7, values=VALUES), [4, 5], **never),
    }


def treelite_seeds():
    """Checkpoints with numbers and vectors in leaves, sets of categories, several targets, and averages."""
    X, y = make_data()
    several = np.column_stack([np.digitize(y, [0, 1]), y > 0.5])
    sets = {"min_data_per_group": 5, "cat_smooth": 1, "verbose": -1, "num_leaves": 5}
    boosted = lgb.train(sets, lgb.Dataset(X, y, categorical_feature=[4]), 2)
    forest = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
    classes = xgb.train(
        {"objective": "multi:softprob", "num_class": 3, "max_depth": 2}, xgb.DMatrix(X, several[:, 0]), 2
    )
    X = np.nan_to_num(X)
    sklearn, of_library = treelite.sklearn.import_model, treelite.frontend
    return {
        "numbers": of_library.from_lightgbm(boosted),
        "classes": of_library.from_xgboost(classes),
        "average": sklearn(ensemble.RandomForestRegressor(**forest).fit(X, y)),
        "targets": sklearn(ensemble.RandomForestClassifier(**forest).fit(X, several)),
        "boosted": sklearn(ensemble.GradientBoostingClassifier(**forest).fit(X, several[:, 0])),
    }


if __name__ == "__main__":
    for name, model in onnx_seeds().items():
        (FOLDER / f"onnx-{name}.onnx").write_bytes(model.SerializeToString())
    for name in CTR:
        model, stem = (
            train_catboost(name, make_frame(), iterations=3),
            f"catboost-ctr-{name.replace(', ', '-').replace(' ', '-')}",
        )
        model.save_model(str(FOLDER / f"{stem}.cbm"))
        model.save_model(str(FOLDER / f"{stem}.json"), format="json")
    for name, model in treelite_seeds().items():
        (FOLDER / f"treelite-{name}.treelite").write_bytes(model.serialize_bytes())
    path = FOLDER / f"lightgbm-{lgb.__version__}-linear.txt"
    train(make_data(), {"linear_tree": True}, n_trees=3).save_model(path)
