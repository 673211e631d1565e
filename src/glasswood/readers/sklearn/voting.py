"""Means of estimators: voting, and bagging of anything but trees, as one forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.sources import OTHER_PREDICTIONS
from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import class_fields, common_fields

JOINED = (
    "threshold", "left", "default_left", "cover", "leaf_id", "tree_output", "set_words", "set_others_left",
)  # fmt: skip

SAME = ("n_outputs", "leaf_width", "zero_threshold", "category_hash")


def read_voting(model: Any, read: Callable[[Any], TreeEnsemble]) -> TreeEnsemble:
    """Read a VotingRegressor, or a VotingClassifier that averages probabilities.

    Raises
    ------
    NotImplementedError
        If it votes by labels, or an estimator's prediction is not a sum of trees.
    """
    if getattr(model, "voting", "soft") != "soft":
        raise NotImplementedError("VotingClassifier(voting='hard') counts labels; glasswood reads voting='soft'")
    weights = np.ones(len(model.estimators_))
    if model.weights is not None:
        pairs = zip(model.estimators, model.weights, strict=True)
        weights = np.array([weight for (_, kind), weight in pairs if kind != "drop"], np.float64)
    members = [_read_member(model, estimator, read) for estimator in model.estimators_]
    return _joined(model, members, weights / weights.sum())


def read_bagging(model: Any, read: Callable[[Any], TreeEnsemble]) -> TreeEnsemble:
    """Read bagging of estimators that are not trees or forests of scikit-learn: the mean of their predictions.

    Raises
    ------
    NotImplementedError
        If an estimator's prediction is not a sum of trees.
    """
    members = [_read_member(model, estimator, read) for estimator in model.estimators_]
    columns = [np.asarray(features) for features in model.estimators_features_]
    return _joined(model, members, np.full(len(members), 1 / len(members)), columns)


def _read_member(model: Any, estimator: Any, read: Callable[[Any], TreeEnsemble]) -> TreeEnsemble:
    name, kind = type(model).__name__, type(estimator).__name__
    try:
        forest = read(estimator)
    except (TypeError, NotImplementedError) as error:
        raise NotImplementedError(
            f"{name} of {kind} is not supported; glasswood reads means of trees ({error})"
        ) from error
    if forest.source.startswith(OTHER_PREDICTIONS):
        raise NotImplementedError(
            f"{name} of {kind} is not supported: it averages what {kind}.predict returns, which is no sum of trees; "
            "pass its estimators one by one"
        )
    _refuse_other_kind(model, estimator, forest)
    if forest.link != "identity" or forest.prediction_offset:
        raise NotImplementedError(
            f"{name} of {kind} averages responses, which are not sums of trees (link {forest.link!r}); pass its "
            "estimators one by one"
        )
    if forest.has_linear_leaves or forest.categories is not None or forest.open_tables or forest.transform is not None:
        raise NotImplementedError(f"{name} of {kind} with linear leaves, categories or a transformer is not supported")
    return forest


def _refuse_other_kind(model: Any, estimator: Any, forest: TreeEnsemble) -> None:
    """Refuse a mean of labels: a regressor's mean of classifiers, or of margins whose sign decides."""
    averages_classes = hasattr(model, "classes_")
    if averages_classes == bool(forest.classes) and (averages_classes or forest.prediction in {"response", "margin"}):
        return
    raise NotImplementedError(
        f"{type(model).__name__} of {type(estimator).__name__} is not supported: a mean of labels is no sum of trees, "
        "nor are votes of numbers; pass its estimators one by one"
    )


def _joined(
    model: Any, members: Sequence[TreeEnsemble], weights: Array, columns: Sequence[Array] | None = None
) -> TreeEnsemble:
    """Put the trees of all members behind each other, in terms of the columns of the whole."""
    first, n_features = members[0], int(model.n_features_in_)
    if columns is None:
        columns = [np.arange(n_features)] * len(members)
    for member in members:
        _refuse_different(model, first, member)
    pairs = list(zip(members, columns, strict=True))
    fields = common_fields(model) | class_fields(model)
    absent = np.concatenate([member.absent_of_trees for member in members])
    if absent.all():
        fields["source"] = f"{first.source} in {fields['source']}"
    elif absent.any():
        fields["absent_missing"] = absent
    joined: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in members]) for name in JOINED}
    return TreeEnsemble(
        **joined,
        **_sets(members),
        tree_offsets=_ends([np.diff(member.tree_offsets) for member in members]),
        feature=np.concatenate([_mapped(member.feature, column) for member, column in pairs]),
        leaf_value=np.concatenate([member.leaf_value for member in members]),
        tree_weight=np.concatenate([one.tree_weight * weight for one, weight in zip(members, weights, strict=True)]),
        base_score=np.sum([one.base_score * weight for one, weight in zip(members, weights, strict=True)], axis=0),
        zero_missing=_zero_missing(model, pairs, n_features),
        zero_threshold=first.zero_threshold,
        missing=first.missing,
        nan_allowed=all(member.nan_allowed for member in members),
        **fields,
    )


def _refuse_different(model: Any, one: TreeEnsemble, other: TreeEnsemble) -> None:
    """Refuse members that compare in different types or treat missing values differently."""
    same = all(getattr(one, name) == getattr(other, name) for name in SAME)
    same_missing = one.missing == other.missing or (np.isnan(one.missing) and np.isnan(other.missing))
    if not same or not same_missing or one.threshold.dtype != other.threshold.dtype:
        raise NotImplementedError(
            f"{type(model).__name__} of estimators that compare differently ({shown(one.source)} in "
            f"{one.threshold.dtype}, {shown(other.source)} in {other.threshold.dtype}) is not supported; pass its "
            "estimators one by one"
        )


def _mapped(feature: Array, columns: Array) -> Array:
    return np.where(feature < 0, -1, columns[np.maximum(feature, 0)]).astype(np.int32)


def _zero_missing(model: Any, pairs: Sequence[tuple[TreeEnsemble, Array]], n_features: int) -> Array:
    """Features whose zeros are missing, on which all members that use a feature must agree."""
    result = np.zeros(n_features, np.bool_)
    for member, columns in pairs:
        if len(member.zero_missing):
            result[columns[member.zero_missing]] = True
    for member, columns in pairs:
        used = np.unique(member.feature[member.feature >= 0])
        own = member.zero_missing if len(member.zero_missing) else np.zeros(member.n_features, np.bool_)
        if (own[used] != result[columns[used]]).any():
            raise NotImplementedError(
                f"estimators of the {type(model).__name__} disagree on whether zeros are missing; pass them one by one"
            )
    return result if result.any() else result[:0]


def _sets(members: Sequence[TreeEnsemble]) -> dict[str, Any]:
    if not any(member.is_categorical for member in members):
        return {"category_set": np.zeros(0, np.int32), "set_offsets": np.zeros(1, np.int64)}
    parts, before = [], 0
    for member in members:
        own = member.category_set if member.is_categorical else np.full(member.n_nodes, -1)
        parts.append(np.where(own < 0, -1, own + before))
        before += len(member.set_offsets) - 1
    return {
        "category_set": np.concatenate(parts).astype(np.int32),
        "set_offsets": _ends([np.diff(member.set_offsets) for member in members]),
    }


def _ends(lengths: Sequence[Array]) -> Array:
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
