"""Forests of any size without training: random splits of sampled rows, as a document that XGBoost's readers take.

Each tree starts with all sampled rows. A node picks a feature and one of its rows at random and splits at the histogram
bin (of 255 quantiles a feature) of that row, until it has few rows or lies at the last level: like extremely randomised
trees (Geurts et al. 2006, doi:10.1007/s10994-006-6226-1), so depths, sizes and paths are those of trained trees, and
thresholds those of histogram training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from concurrent.futures import Executor

N_SAMPLED, N_BINS, LEAST_ROWS = 10_000, 255, 5
TREES_AT_ONCE = 100


@dataclass(frozen=True)
class Trees:
    """Nodes of trees, breadth-first; `left` and `right` are -1 at leaves, where `condition` is the leaf's value."""

    n_features: int
    offsets: NDArray[np.int64]
    feature: NDArray[np.int32]
    condition: NDArray[np.float32]
    left: NDArray[np.int32]


def sample_rows(seed: int, n_rows: int, n_features: int, module: Any = np) -> Any:
    """Rows that are neither uniform nor independent: float32, from NumPy or CuPy."""
    rng = module.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_features), dtype=module.float32)
    rows[:, 1::2] += 0.5 * rows[:, : rows[:, 1::2].shape[1]]
    return rows


def grow(seed: int, first: int, n_trees: int, depth: int, n_features: int, least_rows: int = LEAST_ROWS) -> Trees:
    """Grow trees `first`, first + 1, ... of a forest: each part of a forest is drawn for itself."""
    rows = sample_rows(seed, N_SAMPLED, n_features)
    cuts = np.quantile(rows, np.arange(1, N_BINS + 1) / (N_BINS + 1), axis=0).astype(np.float32)
    bins = np.stack([np.searchsorted(cuts[:, f], rows[:, f], side="right") for f in range(n_features)], axis=1)
    sizes, *columns = _grow_part(np.random.default_rng([seed, first]), n_trees, depth, bins, cuts, least_rows)
    return Trees(n_features, np.concatenate([[0], np.cumsum(sizes)]), *columns)


def _grow_part(
    rng: np.random.Generator, n_trees: int, depth: int, bins: NDArray[Any], cuts: NDArray[np.float32], least_rows: int
) -> tuple[NDArray[Any], ...]:
    """Sizes of the trees, then feature, condition and left child of their nodes, tree by tree."""
    n_rows, n_features = bins.shape
    row = np.tile(np.arange(n_rows), n_trees)
    node = np.repeat(np.arange(n_trees), n_rows)
    tree = np.arange(n_trees)
    n_splits = np.zeros(n_trees, np.int64)
    levels = []
    for level in range(depth + 1):
        n_nodes = len(tree)
        counts = np.bincount(node, minlength=n_nodes)
        is_split = (counts >= least_rows) & (level < depth)
        feature = np.where(is_split, rng.integers(0, n_features, n_nodes), -1)
        chosen = np.zeros(n_nodes, np.int64)
        order = rng.permutation(len(row))
        chosen[node[order]] = row[order]
        at = np.maximum(bins[chosen, feature], 1)
        condition = np.where(is_split, cuts[at - 1, feature], rng.normal(0, 0.1, n_nodes)).astype(np.float32)
        before = np.cumsum(is_split) - is_split
        first = np.searchsorted(tree, tree)
        rank = n_splits[tree] + before - before[first]
        levels.append((tree, feature, condition, np.where(is_split, 2 * rank + 1, -1)))
        n_splits += np.bincount(tree[is_split], minlength=n_trees)
        moves = is_split[node]
        row, node = row[moves], node[moves]
        node = 2 * before[node] + (bins[row, feature[node]] >= at[node])
        tree = np.repeat(tree[is_split], 2)
    tree, *columns = (np.concatenate(column) for column in zip(*levels, strict=True))
    order = np.argsort(tree, kind="stable")
    types = (np.int32, np.float32, np.int32)
    return np.bincount(tree, minlength=n_trees), *(c[order].astype(t) for c, t in zip(columns, types, strict=True))


def write_models(folder: Path, shapes: list[tuple[int, int]], counts: tuple[int, ...], pool: Executor) -> list[Path]:
    """Write models of the first trees, for each shape (depth, features) one for each count; workers grow the trees."""
    firsts = range(0, max(counts), TREES_AT_ONCE)
    grown = [[pool.submit(_documents, first, *shape) for first in firsts] for shape in shapes]
    paths = []
    for (depth, n_features), parts in zip(shapes, grown, strict=True):
        documents = [document for part in parts for document in part.result()]
        for count in counts:
            paths.append(folder / f"{count}x{depth}x{n_features}.ubj")
            paths[-1].write_bytes(to_xgboost(documents[:count], n_features))
    return paths


def _documents(first: int, depth: int, n_features: int) -> list[bytes]:
    """Trees first ... first + TREES_AT_ONCE - 1, in Universal Binary JSON."""
    trees = grow(1, first, TREES_AT_ONCE, depth, n_features)
    return tree_documents(trees, first)


def tree_documents(trees: Trees, first: int) -> list[bytes]:
    """Trees in Universal Binary JSON, the first of which is tree `first` of its forest."""
    numbers = range(len(trees.offsets) - 1)
    return [b"".join(_encode(_tree_document(trees, tree, first + tree))) for tree in numbers]


def to_xgboost(documents: list[bytes], n_features: int, n_classes: int = 0) -> bytes:
    """Trees as a model of XGBoost, in Universal Binary JSON; of classes, each tree adds to the next one's margin."""
    n_trees = len(documents)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n_trees)},
        "iteration_indptr": list(range(0, n_trees + 1, max(n_classes, 1))),
        "tree_info": [tree % max(n_classes, 1) for tree in range(n_trees)],
        "trees": documents,
    }
    parameters = {"base_score": "5E-1", "boost_from_average": "1", "num_class": str(n_classes), "num_target": "1"}
    if n_classes:
        objective = {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": str(n_classes)}}
    else:
        objective = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {**parameters, "num_feature": str(n_features)},
        "objective": objective,
    }
    return b"".join(_encode({"learner": learner, "version": [2, 1, 4]}))


def _tree_document(trees: Trees, tree: int, number: int) -> dict[str, Any]:
    nodes = slice(*trees.offsets[tree : tree + 2])
    left, feature = trees.left[nodes], trees.feature[nodes]
    n_nodes = len(left)
    is_split = left >= 0
    parents = np.full(n_nodes, 2**31 - 1, np.int32)
    parents[left[is_split]] = parents[left[is_split] + 1] = np.flatnonzero(is_split)
    zeros, none = np.zeros(n_nodes, np.float32), np.zeros(0, np.int32)
    flags = np.zeros(n_nodes, np.uint8)
    counts = {"num_deleted": "0", "num_feature": str(trees.n_features), "num_nodes": str(n_nodes)}
    return {
        "base_weights": trees.condition[nodes],
        **dict.fromkeys(("categories", "categories_nodes"), none),
        **dict.fromkeys(("categories_segments", "categories_sizes"), none.astype(np.int64)),
        "default_left": flags,
        "id": number,
        "left_children": left,
        "loss_changes": zeros,
        "parents": parents,
        "right_children": np.where(is_split, left + 1, -1).astype(np.int32),
        "split_conditions": trees.condition[nodes],
        "split_indices": np.where(is_split, feature, 0).astype(np.int32),
        "split_type": flags,
        "sum_hessian": np.ones(n_nodes, np.float32),
        "tree_param": {**counts, "size_leaf_vector": "1"},
    }


MARKERS = {"float32": b"d", "int32": b"l", "int64": b"L", "uint8": b"U"}


def _encode(value: Any) -> list[bytes]:
    """Pieces of Universal Binary JSON."""
    if isinstance(value, dict):
        members = [piece for name, item in value.items() for piece in (_text(name), *_encode(item))]
        return [b"{", *members, b"}"]
    if isinstance(value, np.ndarray):
        head = b"[$" + MARKERS[value.dtype.name] + b"#L" + len(value).to_bytes(8, "big")
        return [head, value.astype(value.dtype.newbyteorder(">")).tobytes()]
    if isinstance(value, list):
        count = b"[#L" + len(value).to_bytes(8, "big")
        return [count, *(piece for item in value for piece in _encode(item))]
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, int):
        return [b"L" + value.to_bytes(8, "big")]
    return [b"S" + _text(value)]


def _text(text: str) -> bytes:
    data = text.encode()
    return b"L" + len(data).to_bytes(8, "big") + data
