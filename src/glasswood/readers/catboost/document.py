"""CatBoost's JSON documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from glasswood.base.typing import Doubles, Int64s
from glasswood.readers.catboost.ctr import read_json
from glasswood.readers.catboost.model import (
    MAX_OUTPUTS,
    NO_LEAF,
    CategoryFeature,
    Model,
    NumberFeature,
    StepTrees,
    refuse_estimated,
)
from glasswood.readers.documents import as_array, concatenate, get, get_int, to_float32, to_int32

TESTS = ("FloatFeature", "OneHotFeature", "OnlineCtr")
"""Kinds of splits that test a feature as it is."""


def parse_document(document: object) -> Model:
    """Read what ``save_model(format="json")`` writes; it means what CatBoost reads from it.

    Raises
    ------
    ValueError
        If members are missing or do not fit together.
    NotImplementedError
        If trees test computed features.
    """
    if not isinstance(document, dict):
        raise ValueError(f"it is a {type(document).__name__}, expected an object")
    features = get(document, "features_info", dict)
    is_oblivious = "oblivious_trees" in document
    trees = _objects(document, "oblivious_trees" if is_oblivious else "trees", is_required=True)
    numbers = [_number(feature) for feature in _objects(features, "float_features")]
    categories = [_category(feature) for feature in _objects(features, "categorical_features")]
    described = _objects(features, "ctrs")
    parts = _oblivious(trees) if is_oblivious else _steps(trees)
    scale, bias = _scale_and_bias(document, parts["n_outputs"])
    ctrs, tables = read_json(document, described, numbers, categories) if described else ([], [])
    return Model(
        numbers=numbers,
        categories=categories,
        ctrs=ctrs,
        tables=tables,
        scale=scale,
        bias=bias,
        info=get(document, "model_info", dict),
        **parts,
    )


def _objects(parent: dict[str, Any], key: str, is_required: bool = False) -> list[dict[str, Any]]:
    """Members of a list of objects; CatBoost writes null for an empty one."""
    values = parent.get(key)
    if values is None and (key in parent or not is_required):
        return []
    for value in get(parent, key, list):
        if not isinstance(value, dict):
            raise ValueError(f"{key!r} holds a {type(value).__name__}, expected objects")
    return get(parent, key, list)


def _number(feature: dict[str, Any]) -> NumberFeature:
    column, borders = get_int(feature, "flat_feature_index"), feature.get("borders")
    if borders is None and "borders" in feature:  # null for a feature without any, before 1.1
        borders = []
    borders = to_float32(as_array(borders, "borders"))
    if not np.isfinite(borders).all():  # CatBoost writes no infinities into JSON
        raise ValueError(f"feature {column} has a border that is not finite")
    return NumberFeature(
        column=column,
        name=_name(feature),
        borders=borders,
        nan_is_right=bool(feature.get("has_nans")) and feature.get("nan_value_treatment") == "AsTrue",
    )


def _category(feature: dict[str, Any]) -> CategoryFeature:
    return CategoryFeature(
        column=get_int(feature, "flat_feature_index"),
        name=_name(feature),
        hashes=to_int32(as_array(feature.get("values") or [], "values"), "values"),
    )


def _name(feature: dict[str, Any]) -> str:
    """Name of a column; documents before 1.1 leave out those that are empty."""
    return get(feature, "feature_id", str) if "feature_id" in feature else ""


def _scale_and_bias(document: dict[str, Any], n_outputs: int) -> tuple[float, Doubles]:
    """Read both; documents before 0.24 hold one number as the bias, of all outputs.

    CatBoost 1.2 takes such a number for 0. Here it counts, as it did in the version that wrote it.
    """
    pair = get(document, "scale_and_bias", list)
    if len(pair) != 2 or isinstance(pair[0], bool) or not isinstance(pair[0], int | float):
        raise ValueError("'scale_and_bias' is not a pair of a number and a list")
    is_number = isinstance(pair[1], int | float) and not isinstance(pair[1], bool)
    bias = [pair[1]] * n_outputs if is_number else pair[1] or []
    return float(pair[0]), as_array(bias, "scale_and_bias").astype(np.float64)


def _test_number(split: Any) -> int:
    if not isinstance(split, dict):
        raise ValueError(f"a split is a {type(split).__name__}, expected an object")
    if (kind := split.get("split_type")) not in TESTS:
        refuse_estimated(f"others ({kind})")
    return get_int(split, "split_index")


def _oblivious(trees: list[dict[str, Any]]) -> dict[str, Any]:
    splits = [tree.get("splits") or [] for tree in trees]
    if any(not isinstance(of_tree, list) for of_tree in splits):
        raise ValueError("'splits' is not a list")
    sizes = np.array([len(of_tree) for of_tree in splits], np.int64)
    values, n_values = concatenate([tree.get("leaf_values") for tree in trees], "leaf_values")
    weights, n_weights = concatenate([tree.get("leaf_weights") or [] for tree in trees], "leaf_weights")
    n_leaves = np.exp2(sizes)
    n_outputs = int(n_values[0] / n_leaves[0]) if len(trees) else 1
    if not 1 <= n_outputs <= MAX_OUTPUTS or (n_values != n_leaves * n_outputs).any():
        raise ValueError("a tree's 'leaf_values' are not as many for each leaf as those of the first")
    if n_weights.any() and (n_weights != n_leaves).any():
        raise ValueError("a tree's 'leaf_weights' are not one for each leaf")
    return {
        "n_outputs": n_outputs,
        "sizes": sizes,
        "splits": _integers([_test_number(split) for split in chain.from_iterable(splits)], "split_index"),
        "leaf_value": values.astype(np.float64),
        "leaf_weight": weights.astype(np.float64),
        "steps": None,
    }


def _steps(trees: list[dict[str, Any]]) -> dict[str, Any]:
    """Give nodes and leaves numbers in preorder, as CatBoost does when it reads the document."""
    step: list[list[int]] = []
    splits: list[int] = []
    leaf: list[int] = []
    values: list[Any] = []
    weights: list[Any] = []
    sizes = []
    for tree in trees:
        first = len(step)
        for parent, side, node in _preorder(tree, len(step)):
            if parent >= 0:
                step[parent][side] = len(step) - parent
            step.append([0, 0])
            is_leaf = "value" in node
            splits.append(0 if is_leaf else _test_number(node.get("split")))
            leaf.append(len(values) if is_leaf else NO_LEAF)
            if is_leaf:
                values.append(node["value"])
                weights.append(node.get("weight", 0))
        sizes.append(len(step) - first)
    n_outputs = len(values[0]) if values and isinstance(values[0], list) else 1
    flat = chain.from_iterable(value if isinstance(value, list) else [value] for value in values)
    if not 1 <= n_outputs <= MAX_OUTPUTS or any(_width(value) != n_outputs for value in values):
        raise ValueError(f"a leaf does not hold {n_outputs} values")
    leaves = np.array(leaf, np.int64)
    return {
        "n_outputs": n_outputs,
        "sizes": np.array(sizes, np.int64),
        "splits": _integers(splits, "split_index"),
        "leaf_value": as_array(list(flat), "value").astype(np.float64),
        "leaf_weight": as_array(weights, "weight").astype(np.float64),
        "steps": StepTrees(
            np.array(step, np.int64).reshape(-1, 2), np.where(leaves == NO_LEAF, NO_LEAF, leaves * n_outputs)
        ),
    }


def _integers(values: list[int], name: str) -> Int64s:
    return to_int32(as_array(values, name), name).astype(np.int64)


def _width(value: object) -> int:
    return len(value) if isinstance(value, list) else 1


def _preorder(root: dict[str, Any], first: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Walk through the nodes of a tree, each with the number of its parent and its side; the root has parent -1."""
    stack: list[tuple[int, int, Any]] = [(-1, 0, root)]
    number = first
    while stack:
        parent, side, node = stack.pop()
        if not isinstance(node, dict):
            raise ValueError(f"a node is a {type(node).__name__}, expected an object")
        yield parent, side, node
        if "value" not in node:
            stack += [(number, 1, node.get("right")), (number, 0, node.get("left"))]
        number += 1
