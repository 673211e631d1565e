"""imodels: trees with hierarchical shrinkage (HSTree), and sums of trees (FIGS)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import read_model
from glasswood.readers.assemble import NodeArrays, assemble, less_than
from glasswood.readers.sklearn.trees import check_layout

EXPECTED = "HSTreeRegressor, HSTreeClassifier, FIGSRegressor, FIGSClassifier, or one of their CV variants"


def read(model: Any) -> TreeEnsemble:
    """Read an HSTree, whose trees scikit-learn has grown, or FIGS.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it is another model of imodels.
    NotImplementedError
        If it encodes categories itself, or its nodes have another layout.
    """
    names = {kind.__name__ for kind in type(model).__mro__}
    if "HSTree" in names:
        return _read_shrunk(model)
    if "FIGSCV" in names:
        if not hasattr(model, "figs"):
            _refuse_unfitted(model)
        model, names = model.figs, {"FIGS"}
    if "FIGS" in names:
        return _read_sums(model)
    raise TypeError(f"got {type(model).__name__} of imodels, expected {EXPECTED}")


def _refuse_unfitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(f"this {type(model).__name__} is not fitted; train it first")


def _fields(model: Any) -> dict[str, Any]:
    from importlib.metadata import version

    names = getattr(model, "feature_names_in_", None)
    return {
        "source": f"imodels {version('imodels')}",
        "feature_names": None if names is None else tuple(str(name) for name in names),
        "is_estimator": True,
    }


def _read_shrunk(model: Any) -> TreeEnsemble:
    """Read the estimator whose values shrinkage has rewritten; its labels are those of the model."""
    forest = read_model(model.estimator_)
    fields = {name: value for name, value in _fields(model).items() if value is not None}
    if hasattr(model, "classes_") and forest.classes:
        fields["classes"] = (np.asarray(model.classes_),)
    return dataclasses.replace(forest, **fields)


def _read_sums(model: Any) -> TreeEnsemble:
    """Read trees that add up; a classifier's probabilities are the softmax of the sums."""
    if not hasattr(model, "trees_"):
        _refuse_unfitted(model)
    if hasattr(model, "_encoder"):
        raise NotImplementedError(
            f"{type(model).__name__}.fit(categorical_features=...) encodes columns itself; encode them before fit"
        )
    trees = [_preorder(root) for root in model.trees_]
    nodes = [node for tree in trees for node in tree]
    fields = _fields(model)
    check_layout(fields["source"], "a node's value_sklearn", hasattr(nodes[0], "value_sklearn"), True)
    is_leaf = np.array([_is_leaf(node) for node in nodes])
    splits = np.flatnonzero(~is_leaf)
    place = {id(node): at for tree in trees for at, node in enumerate(tree)}
    left, right, feature = np.full((3, len(nodes)), -1)
    left[splits] = [place[id(nodes[at].left)] for at in splits]
    right[splits] = [place[id(nodes[at].right)] for at in splits]
    feature[splits] = [nodes[at].feature for at in splits]
    threshold = np.zeros(len(nodes))
    threshold[splits] = [nodes[at].threshold for at in splits]
    value = np.zeros((len(nodes), model.n_outputs))
    value[is_leaf] = [np.ravel(node.value) for node in nodes if _is_leaf(node)]
    if hasattr(model, "predict_proba") and hasattr(model, "_class_map"):
        labels = np.array([model._class_map[i] for i in range(model.n_outputs)])
        fields |= {"classes": (labels,), "link": "softmax", "prediction": "argmax_margin"}
    return assemble(
        NodeArrays(
            counts=np.array([len(tree) for tree in trees]),
            left=left,
            right=right,
            feature=feature,
            threshold=less_than(threshold, np.float64),
            default_left=np.zeros(len(nodes), np.bool_),
            cover=np.array([np.sum(node.value_sklearn) for node in nodes], np.float64),
            value=value,
            leaf_id=np.concatenate([np.arange(len(tree)) for tree in trees]),
        ),
        n_features=int(model.n_features_in_),
        tree_weight=np.ones(len(trees)),
        base_score=np.zeros(model.n_outputs),
        nan_allowed=False,
        objective=str(getattr(model, "criterion", "")),
        **fields,
    )


def _is_leaf(node: Any) -> bool:
    return node.left is None or node.right is None


def _preorder(root: Any) -> list[Any]:
    """List the nodes of a tree, each before those below it."""
    nodes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not _is_leaf(node):
            waiting += [node.right, node.left]
    return nodes
