"""XGBoost's binary format, which XGBoost wrote up to 3.0 and has not read since 3.1, as the document that JSON holds.

Numbers are little-endian, texts and lists have their length before them in eight bytes. A file is: "binf" (since 1.0),
parameters of the learner (136 bytes), names of objective and booster, parameters of the trees (160 bytes), the trees
(each 148 bytes of parameters, 20 bytes of each node, 16 bytes of its statistics), the output of each tree, DART
weights, and attributes. It has no names of features. The layout is that of ``src/learner.cc``,
``src/gbm/gbtree_model.h`` and ``include/xgboost/tree_model.h`` of XGBoost 0.80 to 3.0.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from glasswood.base.typing import Array

MAGIC = b"binf"
BOOSTERS = (b"gbtree", b"dart", b"gblinear")
HEAD = struct.Struct("<fIiiiIIIi100x")
"""Base score, features, classes, whether there are attributes and metrics, version, targets, boost_from_average."""

OF_TREES = struct.Struct("<iiiiqii128x")
OF_TREE = struct.Struct("<iiiiIi124x")
LENGTH = struct.Struct("<Q")
NODE = np.dtype([("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("index", "<u4"), ("condition", "<f4")])
STATISTICS = np.dtype([("gain", "<f4"), ("cover", "<f4"), ("weight", "<f4"), ("leaves", "<i4")])
DEFAULT_LEFT = np.uint32(1 << 31)
"""Bit of a node's index that tells the side of missing values; the others are the feature."""

NEWEST = (3, 0)
LONGEST_NAME = 64
START = len(MAGIC) + HEAD.size + 2 * (LENGTH.size + LONGEST_NAME)
"""First bytes of a file that tell whether it is one."""


def is_binary(start: bytes) -> bool:
    """Tell by its first `START` bytes whether a file has XGBoost's binary format, with its first four bytes or bare."""
    if start.startswith(MAGIC):
        return True
    stream = Stream(start, 0)
    try:
        stream.unpack(HEAD)
        objective, booster = stream.text(LONGEST_NAME), stream.text(LONGEST_NAME)
    except ValueError:
        return False
    return bool(objective) and objective.isascii() and objective.isprintable() and booster.encode() in BOOSTERS


class Stream:
    """Reads a file from a place on, and never beyond its end."""

    data: bytes
    at: int

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, n_bytes: int) -> int:
        """Move on, and return where the bytes begin."""
        if n_bytes > len(self.data) - self.at:
            raise ValueError(f"it ends at byte {len(self.data)}, expected {n_bytes} more bytes from {self.at} on")
        start, self.at = self.at, self.at + n_bytes
        return start

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read numbers."""
        return layout.unpack_from(self.data, self.take(layout.size))

    def length(self, most: int, what: str) -> int:
        """Read a length."""
        (n,) = self.unpack(LENGTH)
        if n > most:
            raise ValueError(f"{what} at byte {self.at} has length {n}, expected at most {most}")
        return int(n)

    def text(self, most: int | None = None) -> str:
        """Read a text."""
        n = self.length(len(self.data) - self.at if most is None else most, "a text")
        start = self.take(n)
        return self.data[start : start + n].decode("utf-8", "replace")

    def array(self, dtype: Any, n: int) -> Array:
        """Read an array, as a view of the file's bytes."""
        size = np.dtype(dtype).itemsize
        return np.frombuffer(self.data, dtype, n, self.take(n * size)) if n else np.zeros(0, dtype)


def document_of(data: bytes) -> dict[str, Any]:
    """Read a binary file into the document that XGBoost's JSON would hold.

    Raises
    ------
    ValueError
        If it is truncated or corrupt.
    """
    stream = Stream(data, len(MAGIC) * data.startswith(MAGIC))
    base_score, n_features, n_classes, has_attributes, has_metrics, major, minor, n_targets, _ = stream.unpack(HEAD)
    objective, booster = stream.text(LONGEST_NAME), stream.text(LONGEST_NAME)
    if booster.encode() not in BOOSTERS:
        raise ValueError(f"it names the booster {booster!r}, expected gbtree or dart")
    if (major, minor) > NEWEST or (not major and minor):
        raise ValueError(f"it says that XGBoost {major}.{minor} wrote it, which wrote this format up to 3.0")
    learner = {
        "learner_model_param": {
            "base_score": repr(base_score),
            "num_feature": n_features,
            "num_class": n_classes,
            "num_target": max(n_targets, 1),
        },
        "objective": {"name": objective},
        "gradient_booster": {"name": booster},
    }
    if booster != "gblinear":
        learner["gradient_booster"] = _trees(stream, booster, max(n_classes, n_targets, 1))
        learner["attributes"] = _attributes(stream) if has_attributes else {}
        _check_end(stream, objective, has_metrics, major)
    return {"version": [major, minor], "learner": learner}


def _trees(stream: Stream, booster: str, n_outputs: int) -> dict[str, Any]:
    """Read the trees, what each adds to, and DART weights, which stand behind a length."""
    n_trees, parallel, *_ = stream.unpack(OF_TREES)
    if not 0 <= n_trees <= (len(stream.data) - stream.at) // OF_TREE.size:
        raise ValueError(f"it declares {n_trees} trees, more than its {len(stream.data)} bytes hold")
    trees = [_tree(stream, number) for number in range(n_trees)]
    outputs = stream.array("<i4", n_trees)
    if n_trees and (outputs.min() < 0 or outputs.max() >= n_outputs):
        raise ValueError(f"trees add to outputs {outputs.min()} to {outputs.max()}, it has {n_outputs}")
    parameters = {"num_trees": n_trees, "num_parallel_tree": max(parallel, 1)}
    model: dict[str, Any] = {"gbtree_model_param": parameters, "trees": trees, "tree_info": outputs}
    if booster == "dart" and n_trees:
        n_weights = stream.length(n_trees, "the list of weights")
        if n_weights != n_trees:
            raise ValueError(f"it has {n_weights} weights for {n_trees} trees")
        model["weight_drop"] = stream.array("<f4", n_weights)
    return {"name": "dart", "gbtree": {"model": model}} if booster == "dart" else {"name": booster, "model": model}


def _tree(stream: Stream, number: int) -> dict[str, Any]:
    n_roots, n_nodes, n_deleted, _, _, width = stream.unpack(OF_TREE)
    most = (len(stream.data) - stream.at) // (NODE.itemsize + STATISTICS.itemsize)
    if not 0 < n_nodes <= most:
        raise ValueError(f"tree {number} declares {n_nodes} nodes, expected 1 to {most}, for which there are bytes")
    if n_roots != 1 or width > 1:
        raise ValueError(f"tree {number} has {n_roots} roots and {width} values a leaf, expected one of each")
    nodes, statistics = stream.array(NODE, n_nodes), stream.array(STATISTICS, n_nodes)
    return {
        "tree_param": {"num_nodes": n_nodes, "num_deleted": n_deleted},
        "left_children": nodes["left"],
        "right_children": nodes["right"],
        "split_indices": (nodes["index"] & ~DEFAULT_LEFT).astype(np.int32),
        "split_conditions": nodes["condition"],
        "default_left": nodes["index"] >= DEFAULT_LEFT,
        "sum_hessian": statistics["cover"],
    }


def _attributes(stream: Stream) -> dict[str, str]:
    n = stream.length((len(stream.data) - stream.at) // (2 * LENGTH.size), "the list of attributes")
    return {stream.text(): stream.text() for _ in range(n)}


def _check_end(stream: Stream, objective: str, has_metrics: int, major: int) -> None:
    """Read what versions before 1.0 wrote behind the attributes; nothing may follow."""
    if major < 1 and objective == "count:poisson":
        stream.text()
    if major < 1 and has_metrics:
        for _ in range(stream.length((len(stream.data) - stream.at) // LENGTH.size, "the list of metrics")):
            stream.text()
    if stream.at != len(stream.data):
        raise ValueError(f"{len(stream.data) - stream.at} bytes follow its end at byte {stream.at}")
