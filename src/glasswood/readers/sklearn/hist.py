"""HistGradientBoosting: float64 thresholds, categorical sets and columns that its encoder has put in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Bools, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import NodeArrays, assemble, less_than
from glasswood.readers.sklearn.boosting import link_of
from glasswood.readers.sklearn.trees import class_fields, common_fields

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

WORDS = 8
"""A set has 256 bits."""


def read_hist_gradient_boosting(model: BaseEstimator) -> TreeEnsemble:
    """Read a HistGradientBoostingClassifier or -Regressor; leaf ids are indices of its nodes."""
    predictors = [predictor for iteration in model._predictors for predictor in iteration]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    base_score = np.array(model._baseline_prediction, np.float64).ravel()
    fields = common_fields(model) | class_fields(model)
    if fields.get("classes"):
        fields["prediction"] = "argmax_margin" if len(base_score) > 1 else "positive"
    is_split = nodes["is_leaf"] == 0
    columns = _original_columns(model)
    feature = np.where(is_split, nodes["feature_idx"], 0)
    if feature.max() >= len(columns):
        raise ValueError(f"a tree splits on feature {feature.max()}, the model was trained on {len(columns)}")
    counts = np.array([len(predictor.nodes) for predictor in predictors])
    is_set = is_split & (nodes["is_categorical"] > 0)
    category_set, sets = _category_sets(model, predictors, nodes, is_set)
    return assemble(
        NodeArrays(
            counts=counts,
            left=np.where(is_split, nodes["left"].astype(np.int64), -1),
            right=np.where(is_split, nodes["right"].astype(np.int64), -1),
            feature=columns[feature],
            threshold=np.where(is_set, 0.0, less_than(nodes["num_threshold"], np.float64)),
            default_left=nodes["missing_go_to_left"].astype(np.bool_),
            cover=nodes["count"],
            value=nodes["value"],
            leaf_id=np.concatenate([np.arange(count) for count in counts]),
            category_set=category_set,
        ),
        tree_output=np.arange(len(predictors)) % len(base_score),
        tree_weight=np.ones(len(predictors)),
        base_score=base_score,
        categories=_category_tables(model),
        link=link_of(model),
        **sets,
        **fields,
    )


def _original_columns(model: BaseEstimator) -> NDArray[np.intp]:
    """Return the column of X of each feature of the trees: the encoder puts categorical columns first."""
    is_categorical = model.is_categorical_
    if is_categorical is None:
        return np.arange(model.n_features_in_)
    return np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])


def _category_tables(model: BaseEstimator) -> tuple[Array | None, ...] | None:
    """Return the values that the encoder turns into 0, 1, ...; the missing one comes last there and is left out."""
    if model.is_categorical_ is None:
        return None
    tables: list[Array | None] = [None] * model.n_features_in_
    encoder = model._preprocessor.named_transformers_["encoder"]
    for feature, values in zip(np.flatnonzero(model.is_categorical_), encoder.categories_, strict=True):
        known = values[:-1] if len(values) and _is_nan(values[-1]) else values
        if any(value is None for value in known):
            raise NotImplementedError(
                f"column {feature} has None as a category of its own, apart from NaN; train with NaN for missing values"
            )
        tables[feature] = np.array(known)
    return tuple(tables)


def _is_nan(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _category_sets(
    model: BaseEstimator, predictors: list[Any], nodes: Array, is_set: Bools
) -> tuple[Int64s | None, dict[str, Any]]:
    """Return each node's set, and all sets: the categories that go left; unknown ones go where missing ones go."""
    if not is_set.any():
        return None, {}
    bits = np.concatenate([predictor.raw_left_cat_bitsets.reshape(-1, WORDS) for predictor in predictors])
    n_sets = np.array([len(predictor.raw_left_cat_bitsets) for predictor in predictors])
    tree = np.repeat(np.arange(len(predictors)), [len(predictor.nodes) for predictor in predictors])[is_set]
    index = nodes["bitset_idx"][is_set].astype(np.int64)
    if (index >= n_sets[tree]).any():
        raise ValueError(f"tree {tree[np.argmax(index >= n_sets[tree])]} has a categorical split without its set")
    known, place = model._bin_mapper.make_known_categories_bitsets()
    missing_left = nodes["missing_go_to_left"][is_set].astype(np.bool_)
    unknown = ~known[place[nodes["feature_idx"][is_set]]]
    left = bits[(np.cumsum(n_sets) - n_sets)[tree] + index]
    words = np.where(missing_left[:, None], left | unknown, left)
    category_set = np.full(len(nodes), -1)
    category_set[is_set] = np.arange(len(words))
    return category_set, {
        "set_offsets": np.arange(len(words) + 1, dtype=np.int64) * WORDS,
        "set_words": words.astype(np.uint32).ravel(),
        "set_others_left": missing_left,
    }
