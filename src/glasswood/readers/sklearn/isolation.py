"""Isolation forests: path lengths in place of leaf values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, forest_of

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def read_isolation_forest(model: BaseEstimator) -> TreeEnsemble:
    """Read an IsolationForest.

    The margin is the mean path length in units of that expected of an unsuccessful search, so that ``score_samples`` is
    ``-2 ** -margin``.
    """
    from sklearn.ensemble._iforest import _average_path_length

    n_trees = len(model.estimators_)
    unit = float(_average_path_length([model._max_samples])[0])
    # One sample a tree makes every path 0 long; the library then takes the ratio 0 / 0 as 1.
    weight = 1 / (n_trees * unit) if unit else 0.0
    members = [
        Member(estimator.tree_, _path_lengths(estimator.tree_), weight, features)
        for estimator, features in zip(model.estimators_, _columns(model), strict=True)
    ]
    return forest_of(
        model,
        members,
        base_score=np.zeros(1) if unit else np.ones(1),
        link="path_length",
        prediction="sign",
        prediction_offset=float(model.offset_),
        nan_allowed=_accepts_nan(model),
        objective="path_length",
    )


def _columns(model: BaseEstimator) -> list[Array | None]:
    """Return the columns of each tree; all of them are given in their own order, whatever the list says."""
    if model._max_features == model.n_features_in_:
        return [None] * len(model.estimators_)
    return [np.asarray(features) for features in model.estimators_features_]


def _path_lengths(tree: Any) -> Doubles:
    """Add to the splits above each node what isolating its samples would take further."""
    from sklearn.ensemble._iforest import _average_path_length

    # Depths count from 1 at the root.
    lengths = tree.compute_node_depths() + _average_path_length(tree.n_node_samples) - 1.0
    return np.asarray(lengths, np.float64)[:, None]


def _accepts_nan(model: BaseEstimator) -> bool:
    tags = model.__sklearn_tags__() if hasattr(model, "__sklearn_tags__") else None
    return bool(tags.input_tags.allow_nan) if tags else bool(model._get_tags()["allow_nan"])
