"""Forests written out, models for leaves, and what it means for forests to be the same."""

from __future__ import annotations

import dataclasses

import numpy as np

from glasswood import Forest
from glasswood.base.typing import Checked, Choice
from glasswood.model.ensemble import TreeEnsemble
from tests.strategies import Node, Options, flatten, random_forest

EVERYTHING = {
    "feature_names": ("plain", "with space", "größe\n", "", '"'),
    "outputs": ("0.5", "", "größe\n"),
    "categories": (
        None,
        np.array(["red", "", "grün"]),
        np.array(["x", None, 3.5, True, 7], object),
        np.array([3, 1, 2], np.int8),
        np.array([0.1, np.nan, np.inf]),
    ),
    "classes": (np.array(["no", "yes"]), np.array([False, True]), np.array([], np.int64), np.array([2.5], np.float32)),
    "category_hash": "city64",
    "zero_missing": np.array([True, False, True, False, True]),
    "missing_seen": np.array([False, False, True, False, True]),
    "zero_threshold": float(np.float32(1e-35)),
    "missing": -999.25,
    "nan_allowed": False,
    "link": "softmax",
    "link_scale": 0.1,
    "prediction": "argmax",
    "prediction_offset": 1 / 3,
    "is_estimator": True,
    "result_dtype": "float32",
    "leaf_shape": (1, 2),
    "source": "some library 1.2",
    "objective": "multi:softmax",
    "choices": (Choice(1, "cpu", "windowed", 4, 1e-6), Choice(10_000, "cuda", "by_sample", 0, 1 / 3)),
}


def whole_forest() -> Forest:
    """Two trees, categorical splits, and no field at its default."""
    options = Options(n_trees=2, n_features=5, n_outputs=3, categorical=True, weights="dart", meaning=EVERYTHING)
    forest = with_linear_leaves(random_forest(3, options))
    return dataclasses.replace(
        forest,
        leaf_missing=np.arange(forest.n_leaves) + 0.25,
        absent_missing=np.array([False, True]),
        checked=Checked(64, 1e-7, ("a part",)),
        columns="subset",
        metadata={"author": "somebody", "rows": 12, "splits": [{"seed": None}]},
        means_known=False,
    )


def with_linear_leaves(forest: Forest) -> Forest:
    """One term in every leaf, its feature that of the leaf's number."""
    leaves = np.arange(forest.n_leaves)
    return dataclasses.replace(
        forest,
        linear_offsets=np.arange(forest.n_leaves + 1),
        linear_feature=(leaves % forest.n_features).astype(np.int32),
        linear_category=np.full(forest.n_leaves, -1, np.int32),
        linear_coefficient=leaves + 0.5,
        linear_mean=leaves / 4 + 0.25,
        linear_deviation=leaves / 8 + 0.5,
        leaf_range=np.column_stack([leaves - 100.0, leaves + 100.0]),
    )


def small_forest() -> Forest:
    """Nodes 0 and 1 are splits, the second one categorical; then a tree of a single leaf."""
    inner = Node(3, feature=1, threshold=0.0, category_set=0, children=(Node(1, 1.0), Node(2, 2.0)))
    tree = Node(4, feature=0, threshold=0.5, children=(inner, Node(1, 3.0)))
    return flatten([tree, Node(4, 5.0)], n_features=2, sets=[([5], False)])


def empty_forest() -> Forest:
    """No tree at all: every margin is the base score, 0.5."""
    forest = flatten([Node(1, 2.0)], n_features=3, base_score=np.array([0.5]))
    by_node = ("feature", "threshold", "left", "default_left", "cover")
    by_leaf_or_tree = ("leaf_value", "leaf_id", "tree_output", "tree_weight")
    nothing = {name: getattr(forest, name)[:0] for name in (*by_node, *by_leaf_or_tree)}
    return dataclasses.replace(forest, tree_offsets=np.zeros(1, np.int64), **nothing)


def assert_same(found: Forest, expected: Forest) -> None:
    for field in dataclasses.fields(TreeEnsemble):
        trees = [forest.ensemble if isinstance(forest, Forest) else forest for forest in (found, expected)]
        _assert_same_value(*(getattr(one, field.name) for one in trees), field.name)


def _assert_same_value(found, expected, name) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected), name
        for one, other in zip(found, expected, strict=True):
            _assert_same_value(one, other, name)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, name
        assert found.shape == expected.shape, name
        np.testing.assert_array_equal(found, expected, err_msg=name)
        if expected.dtype == object:
            assert list(map(type, found)) == list(map(type, expected)), name
    else:
        np.testing.assert_equal(found, expected, err_msg=name)


def with_models(forest, seed, low=-np.inf, high=np.inf):
    """Random models of none to all features in the leaves, clipped to their value at the means plus low to high."""
    rng = np.random.default_rng(seed)
    terms = [np.flatnonzero(rng.random(forest.n_features) < rng.random()) for _ in range(forest.n_leaves)]
    n_terms = sum(map(len, terms))
    return dataclasses.replace(
        forest,
        linear_offsets=np.cumsum([0, *map(len, terms)]),
        linear_feature=np.concatenate(terms).astype(np.int32),
        linear_category=np.full(n_terms, -1, np.int32),
        linear_coefficient=rng.normal(size=n_terms),
        linear_mean=rng.normal(size=n_terms),
        leaf_range=forest.ensemble.leaf_value + np.array([low, high]),
    )
