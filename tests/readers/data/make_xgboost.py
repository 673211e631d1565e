"""Write small documents of the installed XGBoost, and what it predicts on adversarial rows, beside this file.

Run from the repository root with each version of XGBoost whose documents the tests shall keep:
    PYTHONPATH=src:. python tests/readers/data/make_xgboost.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xgboost
from tests.readers.adversarial import adversarial_rows
from tests.readers.xgboost_models import DART, Case, categorical, train

import glasswood

MODELS = {
    "logistic.json": train("binary:logistic", "binary", rounds=3, base_score=0.3),
    "softprob.ubj": train("multi:softprob", "classes", num_class=3, rounds=2),
    "dart.ubj": train("reg:squarederror", rounds=4, **DART),
    "vector.ubj": train("reg:squarederror", "multi", rounds=2, multi_strategy="multi_output_tree"),
    "categories.json": categorical(rounds=2, max_cat_to_onehot=5),
    "categories.ubj": categorical(rounds=2, max_cat_to_onehot=5),
}


def write(name: str, case: Case, folder: Path) -> None:
    target = folder / f"xgboost-{xgboost.__version__}-{name}"
    case.model.save_model(target)
    X = adversarial_rows(glasswood.load(case.model), case.rows, allow_inf=False, max_rows=150)
    matrix = xgboost.DMatrix(X, feature_types=case.feature_types, enable_categorical=True)
    np.savez_compressed(
        target.with_name(target.name + ".npz"),
        X=X,
        leaves=case.model.predict(matrix, pred_leaf=True).astype(np.int16),
        margins=case.model.predict(matrix, output_margin=True),
        predictions=case.model.predict(matrix),
    )


if __name__ == "__main__":
    for file_name, make in MODELS.items():
        write(file_name, make(), Path(__file__).parent)
