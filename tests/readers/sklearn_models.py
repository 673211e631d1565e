"""Data and checks that the tests of scikit-learn's estimators share."""

from __future__ import annotations

import numpy as np
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees

import glasswood

N_ROWS, N_TREES = 300, 7
MAX_ROWS = 4000


def make_rows():
    """Rows with ties, and numbers that lie between two float32 ones."""
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(N_ROWS, 5)), 1)
    X[:, 1] = rng.normal(size=N_ROWS)
    X[:, 2] = rng.integers(0, 8, N_ROWS) * 0.1
    X[:, 3] *= 1e-37
    return X


def make_target(X):
    return X[:, 0] + np.sin(3 * X[:, 1]) + 5 * X[:, 2] + 1e36 * X[:, 3]


def with_holes(X):
    """The same rows with missing entries in two columns."""
    result = X.copy()
    result[::5, 0] = np.nan
    result[::3, 2] = np.nan
    return result


def two(y):
    return np.where(y > 1.5, "yes", "no")


def three(y):
    return np.array([30, 10, 20])[np.digitize(y, [1, 2.5])]


def check(model, X, *, margins=None, leaves=None, allow_inf=False, max_rows=MAX_ROWS):
    """Compare with a fitted estimator on adversarial rows; `margins` and `leaves` are functions of rows."""
    forest = glasswood.load(model)
    rows = adversarial_rows(forest, X, allow_nan=forest.ensemble.nan_allowed, allow_inf=allow_inf, max_rows=max_rows)
    with np.errstate(invalid="ignore"):  # the library adds all entries up to look for NaN, also -3.4e38 and 3.4e38
        expected = {
            "leaves": None if leaves is None else leaves(rows),
            "margins": None if margins is None else margins(rows),
            "predictions": model.predict(rows),
            "probabilities": model.predict_proba(rows) if hasattr(model, "predict_proba") else None,
        }
    assert_agrees(forest, rows, **expected, sums="float64")
    assert forest.ensemble.nan_allowed == takes(model, np.nan)
    assert forest.source.startswith("scikit-learn")
    for classes, expected in zip(forest.classes, _classes(model), strict=True):
        np.testing.assert_array_equal(classes, expected)
    return forest


def _classes(model):
    classes = getattr(model, "classes_", [])
    return classes if isinstance(classes, list) else [classes]


def takes(model, value):
    try:
        model.predict(np.full((1, model.n_features_in_), value))
    except ValueError:
        return False
    return True
