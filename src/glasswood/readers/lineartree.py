"""linear-tree: trees whose leaves hold linear models, and forests beside one linear model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import NUMBER, TreeEnsemble
from glasswood.readers import refuse_own_methods_of
from glasswood.readers.assemble import NodeArrays, assemble, less_than
from glasswood.readers.sklearn.trees import check_layout, common_fields, read_average

READ = "LinearTreeRegressor, LinearForestRegressor and LinearForestClassifier"


def read(model: Any) -> TreeEnsemble:
    """Read a LinearTreeRegressor, or a linear forest: one more tree, whose only leaf is the linear model.

    Path-dependent explanations need `Forest.with_means`, since linear-tree keeps no means of the features.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    NotImplementedError
        If it is of another kind, has several targets, or its models are not linear.
    """
    names = {kind.__name__ for kind in type(model).__mro__}
    if "LinearTreeRegressor" in names:
        _check_fitted(model, "_leaves")
        return _read_tree(model)
    if names & {"LinearForestRegressor", "LinearForestClassifier"}:
        _check_fitted(model, "forest_estimator_")
        return _read_forest(model)
    raise NotImplementedError(f"{type(model).__name__} of linear-tree is not supported; glasswood reads {READ}")


def _check_fitted(model: Any, attribute: str) -> None:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, attribute)


def _fields(model: Any) -> dict[str, Any]:
    from importlib.metadata import version

    return common_fields(model) | {"source": f"linear-tree {version('linear-tree')}", "nan_allowed": False}


def _read_tree(model: Any) -> TreeEnsemble:
    """Read the nodes, whose keys are their paths from the root: an L or R a step."""
    if model.n_targets_ > 1:
        raise NotImplementedError(
            f"{type(model).__name__} of {model.n_targets_} targets is not supported; fit one each"
        )
    nodes = model._nodes | model._leaves
    keys = list(nodes)
    place = {key: at for at, key in enumerate(keys)}
    fields = _fields(model)
    check_layout(fields["source"], "the number of leaves", len(model._leaves), len(model._nodes) + 1)
    splits = np.array([place[key] for key in model._nodes], np.int64)
    left, right, feature = np.full((3, len(keys)), -1)
    left[splits] = [place[keys[at] + "L"] for at in splits]
    right[splits] = [place[keys[at] + "R"] for at in splits]
    tests = [nodes[keys[at] + "L"].threshold[-1] for at in splits]
    feature[splits] = [test[0] for test in tests]
    threshold = np.zeros(len(keys))
    threshold[splits] = [test[2] for test in tests]
    trees = assemble(
        NodeArrays(
            counts=np.array([len(keys)]),
            left=left,
            right=right,
            feature=feature,
            threshold=less_than(threshold, np.float32),
            default_left=np.zeros(len(keys), np.bool_),
            cover=np.array([node.n_samples for node in nodes.values()], np.float64),
            value=np.zeros(len(keys)),
            leaf_id=np.array([node.id for node in nodes.values()]),
        ),
        tree_weight=np.ones(1),
        base_score=np.zeros(1),
        **fields,
    )
    models = {leaf.id: leaf.model for leaf in model._leaves.values()}
    features = np.asarray(model._linear_features)
    return _with_models(trees, [models[leaf] for leaf in trees.leaf_id.tolist()], features)


def _read_forest(model: Any) -> TreeEnsemble:
    forest = read_average(model.forest_estimator_)
    if forest.n_outputs > 1:
        raise NotImplementedError(
            f"{type(model).__name__} of {forest.n_outputs} targets is not supported; fit one each"
        )
    fields = _fields(model)
    if hasattr(model, "classes_"):
        fields |= {"classes": (np.asarray(model.classes_),), "link": "logistic", "prediction": "half"}
    leaf: dict[str, Any] = {
        "tree_offsets": np.append(forest.tree_offsets, forest.n_nodes + 1),
        "feature": np.append(forest.feature, np.int32(-1)),
        "threshold": np.append(forest.threshold, np.float32(0)),
        "left": np.append(forest.left, np.int32(0)),
        "default_left": np.append(forest.default_left, False),
        "cover": np.append(forest.cover, forest.cover[0]),
        "leaf_value": np.append(forest.leaf_value, [[0.0]], axis=0),
        "leaf_id": np.append(forest.leaf_id, np.int32(0)),
        "tree_output": np.append(forest.tree_output, np.int32(0)),
        "tree_weight": np.append(forest.tree_weight, 1.0),
    }
    trees = dataclasses.replace(forest, **leaf, **fields)
    models = [None] * forest.n_leaves + [model.base_estimator_]
    return _with_models(trees, models, np.arange(trees.n_features))


def _with_models(trees: TreeEnsemble, models: Sequence[Any], features: Array) -> TreeEnsemble:
    """Give leaves their linear models; None leaves a leaf as it is."""
    refuse_own_methods_of(model for model in models if model is not None)
    value = trees.leaf_value.copy()
    terms, counts = [], np.zeros(trees.n_leaves, np.int64)
    for leaf, model in enumerate(models):
        if model is not None:
            value[leaf] = np.ravel(model.intercept_)
            terms.append(_coefficients(model))
            counts[leaf] = len(features)
    coefficient = np.concatenate(terms)
    return dataclasses.replace(
        trees,
        leaf_value=value,
        leaf_range=np.tile([-np.inf, np.inf], (trees.n_leaves, 1)),
        linear_offsets=np.concatenate([[0], np.cumsum(counts)]),
        linear_feature=np.tile(features, len(terms)).astype(np.int32),
        linear_category=np.full(len(coefficient), NUMBER, np.int32),
        linear_coefficient=coefficient,
        linear_mean=np.zeros(len(coefficient)),
        means_known=False,
    )


def _coefficients(model: Any) -> Doubles:
    if "LinearModel" not in {kind.__name__ for kind in type(model).__mro__}:
        raise NotImplementedError(
            f"leaves of {type(model).__name__} are not supported; glasswood reads linear models of scikit-learn "
            "without a link, such as LinearRegression or Ridge"
        )
    return np.ravel(np.asarray(model.coef_, np.float64))
