"""Brute force for trees as dictionaries of arrays: plain NumPy, float64, nothing from src/."""

import numpy as np


def leaf_rows(tree, X):
    """Rows of every node by the values of its tests; cuts given as values, missing to the named side."""
    rows = {0: np.arange(len(X))}
    for node, attribute in enumerate(tree["feature"]):
        if attribute < 0:
            continue
        x = X[rows[node], attribute]
        left = np.where(np.isnan(x), bool(tree["missing_left"][node]), x < cut_value(tree, node, X))
        rows[int(tree["left"][node])] = rows[node][left]
        rows[int(tree["right"][node])] = rows[node][~left]
    return {node: at for node, at in rows.items() if tree["feature"][node] < 0}


def cut_value(tree, node, X):
    column = X[:, tree["feature"][node]]
    distinct = np.unique(column[~np.isnan(column)])
    return distinct[tree["threshold"][node]] if tree["threshold"][node] < len(distinct) else np.inf


def residual(X, y, weight, columns):
    """Weighted residual sum of squares by QR on centred, scaled columns; missing values by the mean of the rows."""
    root = np.sqrt(weight)
    design = [np.ones(len(X))]
    for k in columns:
        x = X[:, k].copy()
        present = ~np.isnan(x)
        mean = np.average(x[present], weights=weight[present]) if present.any() else 0.0
        x[~present] = mean
        spread = np.abs(x - mean).max()
        if spread > 1e-12 * abs(mean):
            design.append((x - mean) / spread)
    q = independent(np.column_stack(design) * root[:, None])
    target = (y - np.average(y, weights=weight)) * root
    rest = target - q @ (q.T @ target)
    rest -= q @ (q.T @ rest)
    return float(rest @ rest)


def independent(A):
    """Orthonormal basis of the columns that are not combinations of earlier ones."""
    basis = np.zeros((len(A), 0))
    for column in A.T:
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        if np.linalg.norm(rest) > 1e-5 * np.linalg.norm(column - column.mean()) and np.linalg.norm(rest) > 0:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return basis


def tree_error(tree, X, y, weight):
    """Sum over leaves of the residual sums, in units of the weighted variance of y."""
    model = np.asarray(tree["model"]).reshape(len(tree["feature"]), -1)
    variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    weight = weight / weight.mean()
    total = 0.0
    for node, rows in leaf_rows(tree, X).items():
        total += residual(X[rows], y[rows], weight[rows], np.flatnonzero(model[node]))
    return total / variance


def stored_error(tree, X, rows):
    """The same of the rows that a search stores, whose tests are still those of X."""
    z = rows.z.astype(np.float64)
    values = z[:, rows.column] / z[:, :1]
    missing = np.where(rows.indicator >= 0, z[:, rows.indicator] != 0, False)
    values[missing] = np.nan
    model = np.asarray(tree["model"]).reshape(len(tree["feature"]), -1)
    return sum(
        residual(values[at], z[at, -1] / z[at, 0], z[at, 0] ** 2, np.flatnonzero(model[node]))
        for node, at in leaf_rows(tree, X).items()
    )


def bic(error, tree, n_rows, penalty=1.0, test_weight=2.0):
    n_tests = int((tree["feature"] >= 0).sum())
    n_attributes = int(np.asarray(tree["model"]).sum())
    parameters = test_weight * n_tests + n_attributes + n_tests + 1
    return n_rows * np.log(max(error, 1e-12 * n_rows) / n_rows) + penalty * np.log(n_rows) * parameters
