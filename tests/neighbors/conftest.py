"""Forests of several libraries on a few hundred rows."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def numbers():
    """Rows, targets with noise that depends on a feature, and rows to ask about."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)).astype(np.float32)
    y = X[:, 0] ** 2 + X[:, 1] + rng.normal(size=500) * (0.3 + np.abs(X[:, 2]))
    return X[:400], y[:400], X[400:], y[400:]


@pytest.fixture(scope="session")
def random_forest(numbers):
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(*numbers[:2])


@pytest.fixture(scope="session")
def classes(numbers):
    return np.array(["low", "middle", "high"])[np.digitize(numbers[1], [0.0, 1.5])]


@pytest.fixture(scope="session")
def classifier(numbers, classes):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, min_samples_leaf=3, random_state=0).fit(numbers[0], classes)


@pytest.fixture(scope="session")
def booster(numbers):
    import xgboost

    return xgboost.XGBRegressor(n_estimators=20, max_depth=3, learning_rate=0.3, n_jobs=1).fit(*numbers[:2])
