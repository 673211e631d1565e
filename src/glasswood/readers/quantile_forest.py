"""Forests of quantile-forest: means of the training targets that the leaves keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, accepts_nan, check_layout, forest_of


def read(model: Any) -> TreeEnsemble:
    """Read a RandomForestQuantileRegressor or ExtraTreesQuantileRegressor as the mean of its leaves' means.

    That is ``model.predict(X, quantiles="mean", aggregate_leaves_first=False)``; quantiles are not sums over trees.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it holds no trees.
    NotImplementedError
        If it keeps targets in another layout.
    """
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(model, "max_samples_leaf"):
        raise TypeError(f"got {type(model).__name__} of quantile-forest, expected a quantile regressor")
    check_is_fitted(model, "forest_")
    kept, targets = np.asarray(model.forest_.y_train_leaves), np.asarray(model.forest_.y_train)
    check_layout(_source(), "the number of axes of y_train_leaves", kept.ndim, 4)
    members = []
    for estimator, of_tree, bounds in zip(model.estimators_, kept, _bounds(model), strict=True):
        tree = estimator.tree_
        means = _leaf_means(of_tree[: tree.node_count], targets, bounds)
        members.append(Member(tree, means, 1 / len(model.estimators_)))
    return forest_of(
        model, members, base_score=np.zeros(len(targets)), nan_allowed=accepts_nan(model), source=_source()
    )


def predict(model: Any, X: Any) -> Any:
    """Predict means with the live model itself."""
    return model.predict(X, quantiles="mean", aggregate_leaves_first=False)


def _source() -> str:
    import quantile_forest

    return f"quantile-forest {quantile_forest.__version__}"


def _bounds(model: Any) -> Any:
    """Bounds of the nodes' targets that monotone constraints set, (n_trees, n_nodes, 2), or None for each tree."""
    if model.monotonic_cst is None:
        return [None] * len(model.estimators_)
    return np.asarray(model.forest_.y_bound_leaves)


def _leaf_means(kept: Array, targets: Doubles, bounds: Doubles | None) -> Doubles:
    """Mean target of each node, (n_nodes, n_outputs), 0 where it keeps none; `kept` counts rows from 1."""
    means = np.empty(kept.shape[:2])
    for output, of_output in enumerate(targets):
        places = kept[:, output]
        values = np.where(places > 0, of_output[places - 1], 0.0)
        if bounds is not None:
            values = np.clip(values, bounds[: len(values), :1], bounds[: len(values), 1:])
        means[:, output] = values.sum(axis=1) / np.maximum((places > 0).sum(axis=1), 1)
    return means
