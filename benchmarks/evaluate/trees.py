"""Trees and rows of the paper's experiment, and of the geometries that its section 6 asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood import Forest
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    Rows = NDArray[np.float32]

N_RECORDS = 65_536
IMAGE_SEGMENTATION = Path(__file__).with_name("image_segmentation.npz")
"""Image Segmentation (UCI 1990, CC BY 4.0): rows (2310, 18) float32 without the constant attribute, categories, names,
and the tree of scikit-learn's DecisionTreeClassifier(max_leaf_nodes=16, random_state=0)."""


def image_segmentation() -> tuple[Forest, Rows]:
    """The paper's classifier, 31 nodes and 16 leaves, and its 65,536 records in random order."""
    data = np.load(IMAGE_SEGMENTATION)
    rows, rng = data["rows"], np.random.default_rng(0)
    order = np.concatenate([rng.permutation(len(rows)) for _ in range(-(-N_RECORDS // len(rows)))])[:N_RECORDS]
    tree = make_tree(data["feature"], data["threshold"], data["left"], rows.shape[1])
    return tree, np.ascontiguousarray(rows[order])


def balanced(depth: int, n_features: int = 18) -> Forest:
    """A complete tree whose splits halve uniform rows."""
    n_splits = 2**depth - 1
    node = np.arange(2 * n_splits + 1)
    feature = np.where(node < n_splits, np.floor(np.log2(node + 1)).astype(int) % n_features, -1)
    # A feature's second split halves what its first one left, so thresholds lie in the middle of the node's interval.
    low, high = np.zeros((2 * n_splits + 1, n_features)), np.ones((2 * n_splits + 1, n_features))
    threshold = np.zeros(2 * n_splits + 1)
    for at in range(n_splits):
        threshold[at] = (low[at, feature[at]] + high[at, feature[at]]) / 2
        for child in (2 * at + 1, 2 * at + 2):
            low[child], high[child] = low[at], high[at]
        high[2 * at + 1, feature[at]] = low[2 * at + 2, feature[at]] = threshold[at]
    return make_tree(feature, threshold, np.where(node < n_splits, 2 * node + 1, 0), n_features)


def degenerate(depth: int, n_features: int = 18) -> Forest:
    """A path of `depth` splits with a leaf beside each, where a fifth of the uniform rows leaves it."""
    level = np.arange(depth)
    at = np.maximum(2 * level - 1, 0)
    feature, threshold, left = np.full(2 * depth + 1, -1), np.zeros(2 * depth + 1), np.zeros(2 * depth + 1)
    feature[at], threshold[at], left[at] = level % n_features, 0.8 ** (level // n_features + 1), 2 * level + 1
    return make_tree(feature, threshold, left, n_features)


def uniform_rows(n_features: int = 18) -> Rows:
    return np.random.default_rng(1).random((N_RECORDS, n_features), dtype=np.float32)


def ordered(forest: Forest, rows: Rows) -> Rows:
    """Rows sorted by their leaf: neighbours take one path."""
    leaf = forest.predict(rows, output="leaf", algorithm="serial", device="cpu")[:, 0]
    return np.ascontiguousarray(rows[np.argsort(leaf, kind="stable")])


def mean_depth(forest: Forest, rows: Rows) -> float:
    """Mean number of splits that the rows pass: the paper's d_mu."""
    leaf = forest.predict(rows, output="leaf", algorithm="serial", device="cpu")[:, 0]
    return float(forest.ensemble.node_depth[leaf].mean())


def make_tree(feature: NDArray[Any], threshold: NDArray[Any], left: NDArray[Any], n_features: int) -> Forest:
    """One tree, its leaf ids the positions of its nodes."""
    is_leaf = feature < 0
    n_leaves = int(is_leaf.sum())
    ensemble = TreeEnsemble(
        tree_offsets=np.array([0, len(feature)]),
        feature=feature.astype(np.int32),
        threshold=np.where(is_leaf, 0, threshold).astype(np.float32),
        left=left.astype(np.int32),
        default_left=np.ones(len(feature), bool),
        cover=np.ones(len(feature)),
        leaf_value=np.arange(n_leaves, dtype=np.float64)[:, None],
        leaf_id=np.flatnonzero(is_leaf).astype(np.int32),
        tree_output=np.zeros(1, np.int32),
        tree_weight=np.ones(1),
        base_score=np.zeros(1),
        n_features=n_features,
    )
    return Forest(ensemble)
