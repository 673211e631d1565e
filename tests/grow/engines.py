"""Engines over small data for tests of single operators."""

import signal

import numpy as np

from glasswood.grow.data.rows import prepare
from glasswood.grow.search.engine import OPERATORS, POLISH, make_engine


def settings(n_rows, **changes):
    defaults = {
        **OPERATORS,
        **{f"polish_{move}": 1 for move in POLISH},
        "bic": 1, "n": n_rows, "alpha": 0.001, "penalty": 1, "split_weight": 2, "min_samples_leaf": 5, "max_leaves": 64,
        "max_depth": 18, "seed": 0, "population": 32, "crossover": 0.2, "mutation": 0.8, "polish_interval": 0,
        "polish_random": 1, "n_threads": 1, "cache_bytes": 2**26, "qr": 0, "rows_per_parameter": 1,
    }  # fmt: skip
    return {**defaults, **changes}


def engine_of(X, y, weight=None, linear=None, storage="float64", **changes):
    X = np.ascontiguousarray(X, float)
    weight = np.ones(len(y)) if weight is None else weight
    rows = prepare(X, y, weight, np.ones(X.shape[1], bool) if linear is None else linear, 1, storage)
    return make_engine(rows, settings(len(y), **changes)), rows


def piecewise(n_rows, n_features=3, seed=0, noise=0.1):
    """Four planes over two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n_rows, n_features))
    y = np.where(X[:, 0] < 2, 3 * X[:, 1], np.where(X[:, 1] < 3, 10 - X[:, 0], X[:, 0] - 2 * X[:, 1]))
    return X, y + noise * rng.standard_normal(n_rows)


def stump(attribute, cut, n_features, models=None):
    """One test, two leaves with all features."""
    model = np.zeros((3, n_features), np.uint8)
    model[1:] = 1 if models is None else models
    return {
        "feature": np.array([attribute, -1, -1], np.int32),
        "threshold": np.array([cut, 0, 0], np.int32),
        "missing_left": np.array([1, 0, 0], np.uint8),
        "left": np.array([1, -1, -1], np.int32),
        "right": np.array([2, -1, -1], np.int32),
        "model": model.reshape(-1),
    }


def single_leaf(n_features):
    return {
        "feature": np.array([-1], np.int32), "threshold": np.zeros(1, np.int32), "missing_left": np.zeros(1, np.uint8),
        "left": np.array([-1], np.int32), "right": np.array([-1], np.int32), "model": np.ones(n_features, np.uint8),
    }  # fmt: skip


def given(tree):
    """A tree as the engine takes it, without what it found out."""
    return {name: tree[name] for name in ("feature", "threshold", "missing_left", "left", "right", "model")}


def interrupt_before(monkeypatch, module, number):
    """Interrupt the process before the module grows so many-th tree."""
    original, begun = module.fit_tree, []

    def grow(*arguments):
        begun.append(0)
        if len(begun) == number:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(module, "fit_tree", grow)
