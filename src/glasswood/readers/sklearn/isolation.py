"""Isolation forests: path lengths in place of leaf values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, forest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    trees = [estimator.tree_ for estimator in model.estimators_]
    members = [
        Member(tree, lengths, weight, features)
        for tree, lengths, features in zip(trees, _path_lengths(trees), _columns(model), strict=True)
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


def _path_lengths(trees: Sequence[Any]) -> list[Doubles]:
    """Add to the splits above each node what isolating its samples would take further."""
    from sklearn.ensemble._iforest import _average_path_length

    further = _average_path_length(np.concatenate([tree.n_node_samples for tree in trees]))
    ends = np.cumsum([tree.node_count for tree in trees])
    # Depths count from 1 at the root.
    return [
        np.asarray(tree.compute_node_depths() + part - 1.0, np.float64)[:, None]
        for tree, part in zip(trees, np.split(further, ends[:-1]), strict=True)
    ]


def _accepts_nan(model: BaseEstimator) -> bool:
    tags = model.__sklearn_tags__() if hasattr(model, "__sklearn_tags__") else None
    return bool(tags.input_tags.allow_nan) if tags else bool(model._get_tags()["allow_nan"])
