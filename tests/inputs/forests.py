"""Forests of one split, with names and categories."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.array_forest import ArrayForest

NAN = float("nan")
NAMES = ("a", "b", "c")
BIG = 2**24 + 1
"""The smallest integer that float32 does not hold: float32 gives 2**24."""
HUGE = 2**60 + 2**36 + 1
"""float32 gives 2**60 + 2**37; by way of float64, which drops the last 1, the tie goes to even: 2**60."""


def stump(n_features=3, row_type=np.float32, **meaning):
    """A forest of one split on feature 0."""
    return ArrayForest(
        tree_offsets=np.array([0, 3]),
        feature=np.array([0, -1, -1], np.int32),
        threshold=np.array([0.5, 0, 0], row_type),
        left=np.array([1, 0, 0], np.int32),
        default_left=np.zeros(3, np.bool_),
        cover=np.ones(3),
        leaf_value=np.array([[1.0], [2.0]]),
        leaf_id=np.array([1, 2], np.int32),
        tree_output=np.zeros(1, np.int32),
        tree_weight=np.ones(1),
        base_score=np.zeros(1),
        n_features=n_features,
        **meaning,
    )


def set_stump(**meaning):
    """One split that tests feature 0 for category 1."""
    return dataclasses.replace(
        stump(1, **meaning),
        threshold=np.zeros(3, np.float32),
        category_set=np.array([0, -1, -1], np.int32),
        set_offsets=np.array([0, 1]),
        set_words=np.array([2], np.uint32),
        set_others_left=np.zeros(1, np.bool_),
    )


def named(**meaning):
    return stump(feature_names=NAMES, **meaning)


def categories(*tables, row_type=np.float32, source="XGBoost 3.2.0", **meaning):
    return stump(len(tables), row_type, categories=tables, source=source, **meaning)


LETTERS = np.array(["x", "y", "z"], object)
