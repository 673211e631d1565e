"""Rows whose values are ranks already: predicting them again and again searches no thresholds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles, Floats
from glasswood.model.ensemble import TreeEnsemble


class Ranks:
    """A forest of float64 thresholds as one of float32 ranks, to the same leaves.

    The rank of a number is how many of the feature's thresholds are not above it, so that x < t where rank(x) is below
    the rank of t.
    """

    def __init__(self, forest: TreeEnsemble) -> None:
        self._forest = forest
        self._thresholds: dict[int, Doubles] = {}
        threshold = np.zeros(forest.n_nodes, np.float32)
        for feature in np.unique(forest.feature[forest.feature >= 0]).tolist():
            nodes = np.flatnonzero(forest.feature == feature)
            values, ranks = np.unique(forest.threshold[nodes], return_inverse=True)
            self._thresholds[feature] = values
            threshold[nodes] = np.where(forest.threshold[nodes] == np.inf, np.inf, ranks + 1)
        unset: dict[str, Any] = {
            "zero_threshold": 0.0,
            "zero_missing": np.zeros(0, np.bool_),
            "missing": float("nan"),
            "choices": (),
        }
        self.forest: TreeEnsemble = dataclasses.replace(forest, threshold=threshold, **unset)

    @staticmethod
    def serve(forest: TreeEnsemble) -> bool:
        """Whether they save anything, and neither leaves nor sets of categories need the values themselves."""
        is_float64 = bool(forest.threshold.dtype == np.float64)
        return is_float64 and not forest.has_linear_leaves and not forest.is_categorical

    def rows(self, rows: Floats) -> Floats:
        """Ranks of rows that `as_rows` made: float32, (n, n_features)."""
        result = np.empty(rows.shape, np.float32)
        for feature in range(rows.shape[1]):
            result[:, feature] = self.column(feature, rows[:, feature])
        return result

    def column(self, feature: int, values: Array) -> Array:
        """Ranks of a feature's values; NaN where one is missing."""
        numbers = settled(self._forest, feature, values.astype(np.float64))
        if feature not in self._thresholds:
            return numbers
        ranks = np.searchsorted(self._thresholds[feature], numbers, side="right")
        return np.where(np.isnan(numbers), np.nan, ranks)


def settled(forest: TreeEnsemble, feature: int, values: Doubles) -> Doubles:
    """Numbers as the forest compares them: small ones as 0, and NaN where zeros are missing; in place."""
    if forest.zero_threshold > 0:
        values[np.abs(values) <= forest.zero_threshold] = 0
    if len(forest.zero_missing) and forest.zero_missing[feature]:
        values[values == 0] = np.nan
    return values
