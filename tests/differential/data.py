"""Tables that trees are trained on: ties, denormals, huge numbers, gaps and categories."""

from __future__ import annotations

import numpy as np

N_ROWS = 250


def pick(rng, values):
    """One of them, as it is."""
    return values[int(rng.integers(len(values)))]


def numbers(rng, n_features=None, missing=0.1):
    """Columns of numbers of very different kinds: (N_ROWS, n_features) float64."""
    n_features = n_features or int(rng.integers(1, 9))
    X = np.column_stack([pick(rng, COLUMNS)(rng) for _ in range(n_features)])
    X[rng.random(X.shape) < missing * rng.random()] = np.nan
    return X


COLUMNS = (
    lambda rng: rng.normal(size=N_ROWS),
    lambda rng: np.round(rng.normal(size=N_ROWS), 1),
    lambda rng: rng.integers(-3, 4, N_ROWS).astype(float),
    lambda rng: rng.normal(size=N_ROWS) * 1e-38,
    lambda rng: rng.normal(size=N_ROWS) * 1e-42,
    lambda rng: rng.normal(size=N_ROWS) * 1e30,
    lambda rng: 16777216 + rng.integers(0, 64, N_ROWS).astype(float),
    lambda rng: 1 + rng.integers(0, 40, N_ROWS) * 2.0**-25,
    lambda rng: np.where(rng.random(N_ROWS) < 0.6, 0.0, rng.normal(size=N_ROWS)),
)


def codes(rng, n_columns):
    """Columns of category codes, few and many."""
    return np.column_stack([rng.integers(0, pick(rng, (2, 5, 40)), N_ROWS).astype(float) for _ in range(n_columns)])


def target(rng, X):
    """A number that depends on every column, missing values too."""
    scale = np.nanstd(X, axis=0)
    scaled = np.nan_to_num((X - np.nanmean(X, axis=0)) / np.where(scale > 0, scale, 1), nan=2.0)
    weights = rng.normal(size=X.shape[1])
    return np.sin(2 * scaled) @ weights + scaled @ rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=len(X))
