"""LightGBM's linear trees: leaves that hold equations (`linear_tree`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Array, Bools, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.lightgbm.nodes import count_up

if TYPE_CHECKING:
    from glasswood.readers.lightgbm.nodes import Layout
    from glasswood.readers.lightgbm.text import Document

A_NUMBER = -1
"""In `linear_category`: the term is the feature's number."""


def linear_leaves(document: Document, layout: Layout, trees: TreeEnsemble) -> TreeEnsemble:
    """Add the equations of the leaves, if there are any.

    A leaf returns its constant plus coefficients times features, or, where one of these features is missing, the
    ``leaf_value`` that it would have without an equation. LightGBM does not treat zeros as missing here.

    Raises
    ------
    ValueError
        If the equations are not as many as the leaves, or hold what none can hold; the message names the tree.
    """
    is_linear = document.tree_flags("is_linear")
    if not is_linear.any():
        return trees
    of_leaf = np.where(is_linear, layout.n_leaves, 0)
    constant = layout.leaf_value.copy()
    constant[is_linear[layout.leaf_tree]] = document.tree_arrays("leaf_const", of_leaf, np.float64)
    counts = _term_counts(document, layout, trees.n_features, is_linear, of_leaf)
    n_terms = np.bincount(layout.leaf_tree, counts, len(of_leaf)).astype(np.int64)
    feature = document.tree_arrays("leaf_features", n_terms, np.int64)
    coefficient = document.tree_arrays("leaf_coeff", n_terms, np.float64)
    tree = np.repeat(np.arange(len(of_leaf)), n_terms)
    outside = (feature < 0) | (feature >= trees.n_features)
    layout.refuse(outside, f"has a leaf of a feature that does not exist; the model has {trees.n_features}", tree)
    layout.refuse(~np.isfinite(coefficient), "has a leaf_coeff that is not finite", tree)
    layout.refuse(~np.isfinite(constant), "has a leaf_const that is not finite", layout.leaf_tree)
    # Leaves of TreeEnsemble stand in another order than those of the text.
    place = (np.cumsum(layout.n_leaves) - layout.n_leaves)[_tree_of_leaves(trees)] + trees.leaf_id
    terms = np.repeat((np.cumsum(counts) - counts)[place], counts[place]) + count_up(counts[place])
    return dataclasses.replace(
        trees,
        leaf_value=constant[place, None],
        leaf_missing=layout.leaf_value[place],
        leaf_range=np.tile([-np.inf, np.inf], (trees.n_leaves, 1)),
        linear_offsets=np.concatenate([[0], np.cumsum(counts[place])]).astype(np.int64),
        linear_feature=feature[terms].astype(np.int32),
        linear_category=np.full(len(terms), A_NUMBER, np.int32),
        linear_coefficient=coefficient[terms],
        linear_mean=np.zeros(len(terms)),
        means_known=False,
    )


def _term_counts(document: Document, layout: Layout, n_features: int, is_linear: Bools, of_leaf: Int64s) -> Int64s:
    """Count the terms of each leaf."""
    counts = np.zeros(len(layout.leaf_tree), np.int64)
    counts[is_linear[layout.leaf_tree]] = document.tree_arrays("num_features", of_leaf, np.int64)
    outside = (counts < 0) | (counts > n_features)
    layout.refuse(outside, f"has a leaf with fewer than 0 or more than {n_features} features", layout.leaf_tree)
    return counts


def _tree_of_leaves(trees: TreeEnsemble) -> Array:
    return np.repeat(np.arange(trees.n_trees), np.diff(trees.leaf_offsets))
