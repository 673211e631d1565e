"""Shares of the explained variance, by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from silva.grow.tree.assembly import GrownTree
    from silva.typing import Doubles


def feature_importances(grown: GrownTree, unit: float) -> tuple[Doubles, float]:
    """Variance between the sides of each split, and that of each term of a leaf, in shares of their sum, and its root.

    float64, (n_features,). What a leaf's equation explains is divided among its terms by coefficient² times variance of
    the feature; correlations between them are left out of the division. `unit` is that of the leaves' squares. The root
    is in units of y.
    """
    forest = grown.forest
    gains = np.zeros(forest.n_features)
    weight, mean = forest.cover.astype(np.float64), np.zeros(len(forest.cover))
    mean[forest.feature < 0] = [model.value / unit for model in grown.models]
    for node in np.flatnonzero(forest.feature >= 0)[::-1]:
        left = int(forest.left[node])
        sides, means = weight[left : left + 2], mean[left : left + 2]
        mean[node] = sides @ means / sides.sum()
        gains[forest.feature[node]] += sides @ (means - mean[node]) ** 2
    for model in grown.models:
        np.add.at(gains, model.features, model.explained)
    total = gains.sum()
    return (gains / total if total > 0 else gains), float(np.sqrt(total)) * unit
