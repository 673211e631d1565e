"""Checks that every Forest passes before a kernel sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from silva.forest import Forest

LARGEST_FOREST = 2**31 - 1
"""Most nodes of a forest: kernels index them by int32."""


def validate(forest: Forest) -> None:
    """Check shapes, dtypes, ranges and tree structure.

    Raises
    ------
    ValueError
        If a field has the wrong shape, dtype or values; the message names field, value and tree.

    Notes
    -----
    O(n_nodes), vectorised: 1000 trees of depth 8 take 15 ms.
    """
    _check_arrays(forest)
    _check_trees(forest)
    _check_splits(forest)
    _check_leaves(forest)
    _check_sets(forest)
    _check_meaning(forest)


def _refuse(what: str) -> None:
    raise ValueError(f"corrupt forest: {what}")


def _check_arrays(forest: Forest) -> None:
    """dtypes and lengths; nothing is indexed before this has passed."""
    n_nodes, n_trees = len(forest.feature), len(forest.tree_offsets) - 1
    if n_nodes > LARGEST_FOREST:
        _refuse(f"{n_nodes} nodes, at most {LARGEST_FOREST} are supported")
    row_type = np.float64 if forest.threshold.dtype == np.float64 else np.float32
    n_sets = len(forest.set_others_left)
    expected = {
        "tree_offsets": (np.int64, None),
        "feature": (np.int32, n_nodes),
        "threshold": (row_type, n_nodes),
        "left": (np.int32, n_nodes),
        "default_left": (np.bool_, n_nodes),
        "cover": (np.float64, n_nodes),
        "leaf_id": (np.int32, len(forest.leaf_value)),
        "tree_output": (np.int32, n_trees),
        "tree_weight": (np.float64, n_trees),
        "base_score": (np.float64, None),
        "category_set": (np.int32, n_nodes if len(forest.category_set) else 0),
        "set_offsets": (np.int64, n_sets + 1),
        "set_words": (np.uint32, None),
        "set_others_left": (np.bool_, None),
        "zero_missing": (np.bool_, forest.n_features if len(forest.zero_missing) else 0),
    }
    for name, (dtype, length) in expected.items():
        array = getattr(forest, name)
        if array.ndim != 1 or array.dtype != dtype:
            _refuse(f"{name} is {array.ndim}-dimensional {array.dtype}, expected 1-dimensional {np.dtype(dtype)}")
        if length is not None and len(array) != length:
            _refuse(f"{name} has {len(array)} entries, expected {length}")
    if forest.leaf_value.ndim != 2 or forest.leaf_value.dtype != np.float64:
        _refuse(f"leaf_value is {forest.leaf_value.ndim}-dimensional {forest.leaf_value.dtype}, expected 2-d float64")


def _check_trees(forest: Forest) -> None:
    """Breadth-first numbering, which excludes cycles and shared children."""
    offsets = forest.tree_offsets
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != forest.n_nodes:
        _refuse(f"tree_offsets must run from 0 to {forest.n_nodes}")
    sizes = np.diff(offsets)
    if (sizes < 1).any():
        _refuse(f"tree {int(np.argmax(sizes < 1))} has no nodes")
    is_split = forest.feature >= 0
    splits = np.concatenate([[0], np.cumsum(is_split)])
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    expected = np.where(is_split, 2 * (splits[:-1] - splits[offsets[:-1]][tree]) + 1, 0)
    if (wrong := forest.left != expected).any():
        _refuse(f"left of node {int(np.argmax(wrong))} is not in breadth-first order")
    n_splits = np.diff(splits[offsets])
    if (wrong := sizes != 2 * n_splits + 1).any():
        at = int(np.argmax(wrong))
        _refuse(f"tree {at} has {sizes[at]} nodes and {n_splits[at]} splits, a binary tree has 2 × splits + 1 nodes")
    # A node's position must lie below its last possible parent: node i > 0 is a child of split (i - 1) // 2.
    position = np.arange(forest.n_nodes) - offsets[:-1][tree]
    if (wrong := is_split & (forest.left <= position)).any():
        _refuse(f"node {int(np.argmax(wrong))} is its own descendant")


def _check_splits(forest: Forest) -> None:
    feature, threshold = forest.feature, forest.threshold
    if forest.n_features < 0:
        _refuse(f"n_features is {forest.n_features}")
    if (wrong := (feature < -1) | (feature >= forest.n_features)).any():
        at = int(np.argmax(wrong))
        _refuse(f"node {at} splits on feature {feature[at]}, the forest has {forest.n_features}")
    if (wrong := np.isnan(threshold)).any():
        _refuse(f"the threshold of node {int(np.argmax(wrong))} is NaN")
    cover = forest.cover
    if (wrong := ~(np.isfinite(cover) & (cover >= 0))).any():
        at = int(np.argmax(wrong))
        _refuse(f"the cover of node {at} is {cover[at]}, expected a finite number of at least 0")


def _check_leaves(forest: Forest) -> None:
    n_leaves = int((forest.feature < 0).sum())
    width = forest.leaf_value.shape[1]
    if len(forest.leaf_value) != n_leaves:
        _refuse(f"leaf_value has {len(forest.leaf_value)} rows, the trees have {n_leaves} leaves")
    if width not in {1, forest.n_outputs}:
        _refuse(f"leaves hold {width} values, expected 1 or {forest.n_outputs}, the number of outputs")
    for name in ("leaf_value", "tree_weight", "base_score"):
        if not np.isfinite(getattr(forest, name)).all():
            _refuse(f"{name} holds NaN or infinity")
    output = forest.tree_output
    limit = forest.n_outputs if width == 1 else 1
    if (wrong := (output < 0) | (output >= limit)).any():
        at = int(np.argmax(wrong))
        _refuse(f"tree {at} adds to output {output[at]}, expected 0 to {limit - 1}")


def _check_sets(forest: Forest) -> None:
    offsets = forest.set_offsets
    if offsets[0] != 0 or offsets[-1] != len(forest.set_words) or (np.diff(offsets) < 0).any():
        _refuse(f"set_offsets must rise from 0 to {len(forest.set_words)}")
    sets = forest.category_set
    if not len(sets):
        return
    n_sets = len(offsets) - 1
    if (wrong := (sets < -1) | (sets >= n_sets) | ((sets >= 0) & (forest.feature < 0))).any():
        at = int(np.argmax(wrong))
        _refuse(f"node {at} uses category set {sets[at]}, the forest has {n_sets}")


def _check_meaning(forest: Forest) -> None:
    from silva.forest import LINKS, PREDICTIONS

    if forest.n_outputs < 1:
        _refuse("base_score is empty, expected one entry an output")
    if forest.link not in LINKS:
        _refuse(f"link is {forest.link!r}, expected one of {', '.join(LINKS)}")
    if forest.prediction not in PREDICTIONS:
        _refuse(f"prediction is {forest.prediction!r}, expected one of {', '.join(PREDICTIONS)}")
    if forest.result_dtype not in {"float32", "float64"}:
        _refuse(f"result_dtype is {forest.result_dtype!r}, expected 'float32' or 'float64'")
    for name in ("feature_names", "categories"):
        values = getattr(forest, name)
        if values is not None and len(values) != forest.n_features:
            _refuse(f"{name} has {len(values)} entries for {forest.n_features} features")
