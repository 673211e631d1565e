"""Write small documents of the installed CatBoost, and what it predicts on adversarial rows, beside this file.

Run from the repository root with each version of CatBoost whose documents the tests shall keep:
    PYTHONPATH=src:. python tests/readers/data/make_catboost.py
"""

from __future__ import annotations

import json
from pathlib import Path

import catboost
import numpy as np
from tests.readers.adversarial import adversarial_rows
from tests.readers.catboost_models import DEPTHWISE, LOSSGUIDE, Case, train

import glasswood

SMALL = {"iterations": 4, "depth": 3}
MODELS = {
    "classes.cbm": train("CatBoostClassifier", "colors", nan_mode="Max", **SMALL),
    "lossguide.cbm": train(**{**LOSSGUIDE, "iterations": 4}),
    "depthwise.json": train("CatBoostRegressor", "positive", "Poisson", **DEPTHWISE, **SMALL),
}


def write(name: str, case: Case, folder: Path) -> None:
    target = folder / f"catboost-{catboost.__version__}-{name}"
    case.model.save_model(str(target), format=target.suffix[1:])
    if target.suffix == ".json":
        target.write_text(json.dumps(json.loads(target.read_text())))
    model = catboost.CatBoost().load_model(str(target), target.suffix[1:])
    X = adversarial_rows(glasswood.load(target), case.rows, max_rows=150)
    np.savez_compressed(
        target.with_name(target.name + ".npz"),
        X=X,
        leaves=model.calc_leaf_indexes(X.copy()).astype(np.int16),
        margins=model.predict(X.copy()),
        predictions=model.predict(X.copy()),
    )


if __name__ == "__main__":
    for file_name, make in MODELS.items():
        write(file_name, make(), Path(__file__).parent)
