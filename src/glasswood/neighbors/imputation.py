"""Missing values from the most similar training rows."""

from __future__ import annotations

import numpy as np

from glasswood.base.typing import Array, Bools, Doubles, Int32s
from glasswood.model.ensemble import TreeEnsemble


def are_codes(forest: TreeEnsemble) -> Bools:
    """Features whose values are categories."""
    tables = forest.categories or (None,) * forest.n_features
    return np.array([table is not None for table in tables])


def typical_row(rows: Array, codes: Bools) -> Doubles:
    """Medians of numbers, the most frequent categories; NaN where no row has a value."""
    result = np.full(rows.shape[1], np.nan)
    for feature in range(rows.shape[1]):
        column = rows[:, feature][~np.isnan(rows[:, feature])]
        if len(column):
            result[feature] = _most_frequent(column, np.ones(len(column))) if codes[feature] else np.median(column)
    return result


def fill(
    rows: Array, missing: Bools, training: Array, nearest: Int32s, similarity: Doubles, codes: Bools, typical: Doubles
) -> Array:
    """Put means (of categories the most frequent) of the nearest rows that have a value in the places of missing ones.

    Parameters
    ----------
    rows : (m, F)
    missing : (m, F)
    training : (n, F)
    nearest, similarity : (m, k)
        Rows, -1 where there are fewer.
    codes : (F,)
    typical : (F,)
        Where none of them has a value.
    """
    result = rows.copy()
    for row, feature in np.argwhere(missing):
        near = nearest[row][nearest[row] >= 0]
        values, weight = training[near, feature], similarity[row][nearest[row] >= 0]
        known = ~np.isnan(values)
        if not known.any():
            result[row, feature] = typical[feature]
        elif codes[feature]:
            result[row, feature] = _most_frequent(values[known], weight[known])
        else:
            result[row, feature] = np.average(values[known], weights=weight[known])
    return result


def _most_frequent(values: Array, weight: Doubles) -> float:
    distinct, place = np.unique(values, return_inverse=True)
    return float(distinct[np.bincount(place.reshape(-1), weight).argmax()])
