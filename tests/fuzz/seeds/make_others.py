"""Write ONNX's, CatBoost's and LightGBM's models; run once, from the root: python -m tests.fuzz.seeds.make_others."""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb

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
    path = FOLDER / f"lightgbm-{lgb.__version__}-linear.txt"
    train(make_data(), {"linear_tree": True}, n_trees=3).save_model(path)
