"""Single trees, and ensembles that average them: forests and bagging."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.typing import Array, Checked, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import refuse_own_methods_of
from glasswood.readers.assemble import NodeArrays, assemble, less_than

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

COUNTS = ("n_features_in_", "n_features_", "n_features")
"""Where estimators say how many features they were trained on: scikit-learn's first, those of other libraries then."""


@dataclass(frozen=True, eq=False)
class Member:
    """A tree of an ensemble.

    Attributes
    ----------
    tree : sklearn.tree._tree.Tree
    value : (n_nodes, leaf_width)
        What a row adds that ends in a node.
    weight : float
    features : (n,) or None
        The ensemble's columns that the tree was given; None if all.
    """

    tree: Any
    value: Doubles
    weight: float = 1.0
    features: Array | None = None


def forest_of(
    model: BaseEstimator, members: Sequence[Member], row_type: DTypeLike = np.float32, **meaning: Any
) -> TreeEnsemble:
    """Assemble members to the forest of a fitted estimator; `meaning` adds and overrides fields of Forest."""
    fields = common_fields(model) | meaning
    return assemble(
        _node_arrays(members, fields["n_features"], row_type),
        tree_weight=np.array([member.weight for member in members], np.float64),
        **fields,
    )


def check_layout(source: str, what: str, found: object, expected: object) -> None:
    """Refuse a model that keeps something in another shape than the versions that are read.

    Raises
    ------
    NotImplementedError
        The message names what it is, and the source's version.
    """
    if found != expected:
        raise NotImplementedError(
            f"{what} is {found}, expected {expected}: this layout of {source} is not read; upgrade glasswood"
        )


def common_fields(model: BaseEstimator) -> dict[str, Any]:
    """Return what holds for every estimator of scikit-learn, and of libraries that have its interface."""
    import sklearn

    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": next(int(getattr(model, name)) for name in COUNTS if hasattr(model, name)),
        "feature_names": None if names is None else tuple(str(name) for name in names),
        "is_estimator": True,
        "source": f"scikit-learn {sklearn.__version__}",
        "objective": str(getattr(model, "loss", getattr(model, "criterion", ""))),
    }


def class_fields(model: BaseEstimator) -> dict[str, Any]:
    """Return the labels of a classifier, one array an output, if it is one."""
    if not hasattr(model, "classes_"):
        return {}
    classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
    return {"classes": tuple(np.asarray(labels) for labels in classes), "prediction": "argmax"}


def read_average(model: BaseEstimator) -> TreeEnsemble:
    """Read a tree, a forest or trees bagged: the mean of the values or class probabilities of all trees."""
    members, classes = members_of(model), class_fields(model)
    return forest_of(
        model,
        members,
        base_score=np.zeros(members[0].value.shape[1]),
        nan_allowed=accepts_nan(model),
        **classes,
        **(check_of_classes([member.tree for member in members]) if classes else {}),
    )


def members_of(model: BaseEstimator) -> list[Member]:
    """Return the trees of an averaging estimator, weighted; bagging may hold forests or bagging again.

    Raises
    ------
    NotImplementedError
        If it averages something else.
    """
    if hasattr(model, "tree_"):
        return [Member(model.tree_, _leaf_vectors(model))]
    if hasattr(model, "estimators_features_"):
        groups = [_bagged(model, *pair) for pair in zip(model.estimators_, model.estimators_features_, strict=True)]
    else:
        groups = [members_of(estimator) for estimator in model.estimators_]
    return [replace(member, weight=member.weight / len(groups)) for group in groups for member in group]


def _bagged(model: BaseEstimator, estimator: BaseEstimator, features: Array) -> list[Member]:
    """Members of one estimator, in terms of the columns and classes of the whole."""
    refuse_own_methods_of([estimator])
    if hasattr(model, "classes_") != hasattr(estimator, "classes_"):
        kinds = type(model).__name__, type(estimator).__name__
        raise NotImplementedError(
            f"{kinds[0]} of {kinds[1]} is not supported: a mean of labels is no sum of trees, nor are votes of numbers"
            "; pass its estimators one by one"
        )
    if not hasattr(estimator, "tree_") and not _is_average(estimator):
        raise NotImplementedError(
            f"{type(model).__name__} of {type(estimator).__name__} is not supported; glasswood reads bagging of trees"
        )
    features = np.asarray(features)
    return [
        replace(
            member,
            features=features if member.features is None else features[member.features],
            value=_spread(member.value, estimator, model),
        )
        for member in members_of(estimator)
    ]


def is_bag_of_trees(model: BaseEstimator) -> bool:
    """Say whether all estimators of a bag are trees, forests or such bags of scikit-learn."""
    return all(
        hasattr(one, "tree_")
        or (_is_average(one) and (not hasattr(one, "estimators_features_") or is_bag_of_trees(one)))
        for one in model.estimators_
    )


def _is_average(estimator: BaseEstimator) -> bool:
    from sklearn import ensemble

    forests = (ensemble.RandomForestClassifier, ensemble.RandomForestRegressor)
    extra = (ensemble.ExtraTreesClassifier, ensemble.ExtraTreesRegressor)
    return isinstance(estimator, (*forests, *extra, ensemble.BaggingClassifier, ensemble.BaggingRegressor))


def _spread(value: Doubles, estimator: BaseEstimator, model: BaseEstimator) -> Doubles:
    """Give classes that a bag of rows did not hold the probability 0."""
    n_classes = len(getattr(model, "classes_", ()))
    if n_classes in {0, value.shape[1]}:
        return value
    result = np.zeros((len(value), n_classes))
    result[:, estimator.classes_] = value
    return result


def _leaf_vectors(estimator: BaseEstimator) -> Doubles:
    """Return the outputs of a node, those of a classifier being the probabilities of all classes of all outputs."""
    value = np.asarray(estimator.tree_.value, np.float64)
    if not hasattr(estimator, "classes_"):
        return value[:, :, 0]
    value = shares(estimator.tree_)
    return np.concatenate([value[:, output, :n] for output, n in enumerate(np.ravel(estimator.n_classes_))], axis=1)


def shares(tree: Any) -> Doubles:
    """Return the share of each class at each node of a classifier's tree, (n_nodes, n_outputs, n_classes).

    Pickles of scikit-learn before 1.4 hold the weight of each class.
    """
    value = np.asarray(tree.value, np.float64)
    return value / value.sum(axis=2, keepdims=True) if holds_counts(tree) else value


def holds_counts(tree: Any) -> bool:
    """Say whether a classifier's tree holds weights of classes, as those pickled by scikit-learn before 1.4 do."""
    if all(abs(total - 1.0) < 1e-6 for total in tree.value[0].sum(axis=1).tolist()):
        return False  # at the root, and so everywhere
    totals = np.asarray(tree.value, np.float64).sum(axis=2)
    weight = np.asarray(tree.weighted_n_node_samples, np.float64)[:, None]
    is_share = np.isclose(totals, 1.0, rtol=0, atol=1e-6).all()
    return bool(not is_share and np.isclose(totals, weight, rtol=1e-6, atol=0).all())


def accepts_nan(model: BaseEstimator) -> bool:
    """Say whether the estimator takes rows with NaN, which depends on its splitter, criterion and constraints."""
    while not hasattr(model, "tree_"):
        model = model.estimators_[0]
    if not hasattr(model, "monotonic_cst"):  # pickled by scikit-learn before 1.4, which knew no constraints
        model = copy.copy(model)
        model.monotonic_cst = None
    return bool(model._support_missing_values(np.zeros((1, 1))))


def check_of_classes(trees: Sequence[Any]) -> dict[str, Any]:
    """Return why predictions of a classifier of old are not compared, as a field of TreeEnsemble."""
    if not any(map(holds_counts, trees)):
        return {}
    why = "probabilities: scikit-learn adds up the weights that pickles of before 1.4 hold in place of shares"
    return {"checked": Checked(0, 0.0, (why,))}


def _node_arrays(members: Sequence[Member], n_features: int, row_type: DTypeLike) -> NodeArrays:
    trees = [member.tree for member in members]
    counts = np.array([tree.node_count for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    return NodeArrays(
        counts=counts,
        left=np.concatenate([tree.children_left for tree in trees]),
        right=np.concatenate([tree.children_right for tree in trees]),
        feature=np.concatenate([_features(member, n_features) for member in members]),
        threshold=less_than(threshold, row_type),
        default_left=np.concatenate([_missing_left(tree) for tree in trees]).astype(np.bool_),
        cover=np.concatenate([tree.weighted_n_node_samples for tree in trees]),
        value=np.concatenate([member.value for member in members]),
        leaf_id=np.concatenate([np.arange(count) for count in counts]),
    )


def _missing_left(tree: Any) -> Array:
    """Side of missing values; trees of other libraries (econml) have none and refuse rows with NaN."""
    missing_left: Array = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count, np.bool_))
    return missing_left


def _features(member: Member, n_features: int) -> Array:
    """Return the features of a tree's splits as columns of the ensemble."""
    columns = np.arange(n_features) if member.features is None else member.features
    feature = np.where(member.tree.children_left < 0, 0, member.tree.feature)
    if feature.min() < 0 or feature.max() >= len(columns):
        raise ValueError(f"a tree splits on feature {feature.max()}, it was trained on {len(columns)}")
    return columns[feature]
