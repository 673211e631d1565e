"""Write LightGBM's models; run once, from the root: python -m tests.fuzz.seeds.make_lightgbm."""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb

from tests.readers.lightgbm_models import make_data, train

MODELS = {
    "regression": {},
    "binary": {"objective": "binary", "use_missing": False},
    "classes": {"objective": "multiclass", "num_class": 3},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "zeros": {"zero_as_missing": True, "objective": "poisson"},
}

if __name__ == "__main__":
    for name, params in MODELS.items():
        path = Path(__file__).parent / f"lightgbm-{lgb.__version__}-{name}.txt"
        train(make_data(), params, n_trees=2).save_model(path)
