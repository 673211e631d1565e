"""Small LightGBM models of every kind."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
from tests.readers.adversarial import adversarial_rows

N_ROWS = 400
COMMON = {
    "verbose": -1,
    "num_leaves": 7,
    "num_threads": 1,
    "min_data_in_leaf": 5,
    "min_data_per_group": 1,
    "cat_smooth": 1,
    "seed": 7,
}


def make_data():
    """Rows with zeros, missing entries and 40 categories, and a target that needs all of them."""
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(N_ROWS, 5)), 2)
    X[rng.random(X.shape) < 0.15] = 0
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = rng.integers(0, 40, N_ROWS)
    X[::9, 4] = np.nan
    effects = np.append(rng.normal(size=40), 2.0)
    y = np.nan_to_num(X[:, 0], nan=1.5) + (X[:, 1] == 0) + effects[np.nan_to_num(X[:, 4], nan=40).astype(int)]
    return X, y + 0.1 * rng.normal(size=N_ROWS)


def train(data, params, n_trees=12, **fit):
    X, y = data
    targets = {"binary": y > 0.5, "cross_entropy": 1 / (1 + np.exp(-y)), "multiclass": np.digitize(y, [0, 1])}
    targets["cross_entropy_lambda"] = targets["cross_entropy"]
    targets["multiclassova"] = targets["multiclass"]
    targets |= dict.fromkeys(("poisson", "tweedie", "gamma", "mape"), np.abs(y) + 0.5)
    targets |= dict.fromkeys(("lambdarank", "rank_xendcg"), np.digitize(y, [0, 1, 2]))
    target = targets.get(params.get("objective"), y).astype(float)
    group = np.full(N_ROWS // 20, 20) if "rank" in str(params.get("objective")) else None
    categorical = [] if params.get("linear_tree") else [4]
    dataset = lgb.Dataset(X, target, group=group, categorical_feature=categorical)
    return lgb.train({**COMMON, **params}, dataset, n_trees, **fit)


def squared(margin, dataset):
    return margin - dataset.get_label(), np.ones_like(margin)


def adversarial(forest, data):
    rows = data[0].copy()
    rows[~(rows[:, 4] >= 0), 4] = np.nan
    return adversarial_rows(forest, rows, max_rows=6000)


BOOSTERS = {
    "regression": {},
    "nothing missing": {"use_missing": False},
    "zeros missing": {"zero_as_missing": True},
    "many leaves": {"num_leaves": 60, "min_data_in_leaf": 1},
    "one category against the rest": {"max_cat_to_onehot": 50},
    "no boost from average": {"boost_from_average": False},
    "extremely random": {"extra_trees": True},
    "monotone": {"monotone_constraints": [1, 0, 0, -1, 0]},
    "goss": {"data_sample_strategy": "goss"},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "dart, multi-class": {"boosting": "dart", "objective": "multiclass", "num_class": 3},
    "random forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "random forest, binary": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "objective": "binary"},
    "random forest, multi-class": {
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.5,
        "objective": "multiclass",
        "num_class": 3,
    },
    "square root": {"reg_sqrt": True},
    "l1": {"objective": "regression_l1"},
    "l1, square root": {"objective": "regression_l1", "reg_sqrt": True},
    "huber, square root ignored": {"objective": "huber", "reg_sqrt": True},
    "fair, square root": {"objective": "fair", "reg_sqrt": True},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "mape": {"objective": "mape"},
    "poisson": {"objective": "poisson"},
    "gamma": {"objective": "gamma"},
    "tweedie": {"objective": "tweedie", "tweedie_variance_power": 1.3},
    "binary": {"objective": "binary"},
    "binary, sigmoid": {"objective": "binary", "sigmoid": 0.7, "is_unbalance": True},
    "cross entropy": {"objective": "cross_entropy"},
    "cross entropy lambda": {"objective": "cross_entropy_lambda"},
    "multi-class": {"objective": "multiclass", "num_class": 3},
    "one versus all": {"objective": "multiclassova", "num_class": 3, "sigmoid": 1.7},
    "lambdarank": {"objective": "lambdarank"},
    "rank xendcg": {"objective": "rank_xendcg"},
    "custom objective": {"objective": squared},
}
