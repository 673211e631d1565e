"""Checks that every ensemble passes before a kernel sees it."""

from __future__ import annotations

import math
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import ALGORITHMS, DEVICES, FLOAT_TYPES, LINKS, PREDICTIONS, Array, Bools, Choice

LARGEST_FOREST = 2**31 - 1
"""Most nodes of a forest: kernels index them by int32."""

MOST_FEATURES = 2**24
"""Tables by feature are built from a forest alone, so a corrupt file must not declare more than memory holds."""

VECTORS = {
    "tree_offsets": np.int64,
    "feature": np.int32,
    "threshold": None,
    "left": np.int32,
    "default_left": np.bool_,
    "cover": np.float64,
    "leaf_id": np.int32,
    "tree_output": np.int32,
    "tree_weight": np.float64,
    "base_score": np.float64,
    "category_set": np.int32,
    "set_offsets": np.int64,
    "set_words": np.uint32,
    "set_others_left": np.bool_,
    "linear_offsets": np.int64,
    "linear_feature": np.int32,
    "linear_category": np.int32,
    "linear_coefficient": np.float64,
    "linear_mean": np.float64,
    "linear_deviation": np.float64,
    "leaf_missing": np.float64,
    "zero_missing": np.bool_,
    "absent_missing": np.bool_,
    "missing_seen": np.bool_,
    "nan_allowed_in": np.bool_,
}
"""dtypes of the fields that are one-dimensional arrays; thresholds have the row type."""

SCALARS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "n_features": (Integral, "an integer"),
    "zero_threshold": (Real, "a number"),
    "missing": (Real, "a number"),
    "nan_allowed": ((bool, np.bool_), "True or False"),
    "means_known": ((bool, np.bool_), "True or False"),
    "link": (str, "a string"),
    "link_scale": (Real, "a number"),
    "prediction": (str, "a string"),
    "prediction_offset": (Real, "a number"),
    "category_hash": (str, "a string"),
    "is_estimator": ((bool, np.bool_), "True or False"),
    "result_dtype": (str, "a string"),
    "source": (str, "a string"),
    "objective": (str, "a string"),
}


def validate(forest: SimpleNamespace) -> None:
    """Check kinds, shapes, dtypes, ranges and tree structure.

    Raises
    ------
    ValueError
        If a field has the wrong kind, shape, dtype or values; the message names field, value and node or tree.

    Notes
    -----
    O(n_nodes), vectorised: 1000 trees of depth 8 take 15 ms.
    """
    _check_scalars(forest)
    _check_dtypes(forest)
    _check_lengths(forest)
    _check_trees(forest)
    _check_splits(forest)
    _check_leaves(forest)
    _check_linear_leaves(forest)
    _check_sets(forest)
    _check_meaning(forest)
    _check_labels(forest)


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"corrupt forest: {shown(what)}")


def _refuse_any(wrong: Bools, what: str, values: Array | None = None) -> None:
    """Refuse the first wrong entry; `what` has room for its index and its value."""
    if wrong.any():
        at = int(np.argmax(wrong))
        _refuse(what.format(at=at, value=None if values is None else values[at]))


def _check_scalars(forest: SimpleNamespace) -> None:
    for name, (kind, expected) in SCALARS.items():
        value = getattr(forest, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind in {Integral, Real}):
            _refuse(f"{name} is {value!r}, expected {expected}")
    for name in ("zero_threshold", "link_scale", "prediction_offset"):
        if not math.isfinite(getattr(forest, name)):
            _refuse(f"{name} is {getattr(forest, name)}, expected a finite number")
    if forest.zero_threshold < 0:
        _refuse(f"zero_threshold is {forest.zero_threshold}, expected at least 0")
    if not 0 <= forest.n_features <= MOST_FEATURES:
        _refuse(f"n_features is {forest.n_features}, expected 0 to {MOST_FEATURES}")


def _check_dtypes(forest: SimpleNamespace) -> None:
    """Nothing is indexed before this has passed."""
    for name, dtype in VECTORS.items():
        array = getattr(forest, name)
        if not isinstance(array, np.ndarray):
            _refuse(f"{name} is a {type(array).__name__}, expected a NumPy array")
        if array.ndim != 1 or (dtype is not None and array.dtype != dtype):
            _refuse(f"{name} is {array.ndim}-dimensional {array.dtype}, expected 1-dimensional {np.dtype(dtype)}")
        if dtype is np.bool_ and (array.view(np.uint8) > 1).any():
            _refuse(f"{name} holds bytes other than 0 and 1")
    if forest.threshold.dtype not in {np.dtype(np.float32), np.dtype(np.float64)}:
        _refuse(f"threshold is {forest.threshold.dtype}, expected float32 or float64")
    value = forest.leaf_value
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype != np.float64:
        _refuse(
            f"leaf_value is {getattr(value, 'ndim', 0)}-dimensional {getattr(value, 'dtype', type(value).__name__)}"
            ", expected 2-dimensional float64"
        )


def _check_lengths(forest: SimpleNamespace) -> None:
    n_nodes, n_trees = len(forest.feature), len(forest.tree_offsets) - 1
    if n_nodes > LARGEST_FOREST:
        _refuse(f"{n_nodes} nodes, at most {LARGEST_FOREST} are supported")
    expected = {
        "threshold": n_nodes,
        "left": n_nodes,
        "default_left": n_nodes,
        "cover": n_nodes,
        "leaf_id": len(forest.leaf_value),
        "tree_output": n_trees,
        "tree_weight": n_trees,
        "category_set": n_nodes if len(forest.category_set) else 0,
        "set_offsets": len(forest.set_others_left) + 1,
        "linear_offsets": len(forest.leaf_value) + 1 if len(forest.linear_offsets) else 0,
        "linear_category": len(forest.linear_feature),
        "linear_coefficient": len(forest.linear_feature),
        "linear_mean": len(forest.linear_feature),
        "linear_deviation": len(forest.linear_feature) if len(forest.linear_deviation) else 0,
        "leaf_missing": len(forest.leaf_value) if len(forest.leaf_missing) else 0,
        "zero_missing": forest.n_features if len(forest.zero_missing) else 0,
        "absent_missing": len(forest.tree_offsets) - 1 if len(forest.absent_missing) else 0,
        "missing_seen": forest.n_features if len(forest.missing_seen) else 0,
        "nan_allowed_in": forest.n_features if len(forest.nan_allowed_in) else 0,
    }
    for name, length in expected.items():
        if len(getattr(forest, name)) != length:
            _refuse(f"{name} has {len(getattr(forest, name))} entries, expected {length}")


def _check_trees(forest: SimpleNamespace) -> None:
    """Breadth-first numbering, which excludes cycles and shared children."""
    offsets, n_trees = forest.tree_offsets, len(forest.tree_offsets) - 1
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(forest.feature):
        _refuse(f"tree_offsets must run from 0 to {len(forest.feature)}")
    _refuse_any(offsets[1:] <= offsets[:-1], "tree {at} has no nodes")
    sizes = np.diff(offsets)
    is_split = forest.feature >= 0
    splits = np.concatenate([[0], np.cumsum(is_split)])
    tree = np.repeat(np.arange(n_trees), sizes)
    expected = np.where(is_split, 2 * (splits[:-1] - splits[offsets[:-1]][tree]) + 1, 0)
    _refuse_any(
        forest.left != expected,
        "left of node {at} is {value}: the trees are cyclic, share nodes or are not in breadth-first order",
        forest.left,
    )
    n_splits = np.diff(splits[offsets])
    _refuse_any(
        sizes != 2 * n_splits + 1,
        "tree {at} has {value[0]} nodes and {value[1]} splits, a binary tree has 2 * splits + 1 nodes",
        np.column_stack([sizes, n_splits]),
    )
    # A node's position must lie below its last possible parent: node i > 0 is a child of split (i - 1) // 2.
    position = np.arange(len(forest.feature)) - offsets[:-1][tree]
    _refuse_any(is_split & (forest.left <= position), "node {at} is its own descendant")


def _check_splits(forest: SimpleNamespace) -> None:
    feature = forest.feature
    _refuse_any(
        (feature < -1) | (feature >= forest.n_features),
        f"node {{at}} splits on feature {{value}}, the forest has {forest.n_features}",
        feature,
    )
    _refuse_any(np.isnan(forest.threshold), "the threshold of node {at} is NaN")


def _check_leaves(forest: SimpleNamespace) -> None:
    n_leaves = int((forest.feature < 0).sum())
    width = forest.leaf_value.shape[1]
    if len(forest.leaf_value) != n_leaves:
        _refuse(f"leaf_value has {len(forest.leaf_value)} rows, the trees have {n_leaves} leaves")
    if len(forest.base_score) < 1:
        _refuse("base_score is empty, expected one entry per output")
    if width not in {1, len(forest.base_score)}:
        _refuse(f"leaves hold {width} values, expected 1 or {len(forest.base_score)}, the number of outputs")
    for name in ("leaf_value", "tree_weight", "base_score"):
        if not np.isfinite(getattr(forest, name)).all():
            _refuse(f"{name} holds NaN or infinity")
    output = forest.tree_output
    limit = len(forest.base_score) if width == 1 else 1
    _refuse_any(
        (output < 0) | (output >= limit), f"tree {{at}} adds to output {{value}}, expected 0 to {limit - 1}", output
    )


def _check_linear_leaves(forest: SimpleNamespace) -> None:
    offsets, n_terms = forest.linear_offsets, len(forest.linear_feature)
    _check_leaf_range(forest)
    if not len(offsets):
        if n_terms:
            _refuse(f"linear_offsets is empty, but there are {n_terms} terms of linear models")
        if len(forest.leaf_missing):
            _refuse("linear_offsets is empty, but leaf_missing holds values of linear leaves")
        return
    if offsets[0] != 0 or offsets[-1] != n_terms or (offsets[1:] < offsets[:-1]).any():
        _refuse(f"linear_offsets must rise from 0 to {n_terms}")
    if forest.leaf_value.shape[1] != 1:
        _refuse(f"linear leaves hold {forest.leaf_value.shape[1]} values, expected 1")
    _refuse_any(
        (forest.linear_feature < 0) | (forest.linear_feature >= forest.n_features),
        f"term {{at}} of the linear models uses feature {{value}}, the forest has {forest.n_features}",
        forest.linear_feature,
    )
    _refuse_any(
        forest.linear_category < -3,
        "term {at} of the linear models takes category {value}, expected -3 (the logarithm), -2 (missing), "
        "-1 (the number) or a code",
        forest.linear_category,
    )
    for name in ("linear_coefficient", "linear_mean", "linear_deviation", "leaf_missing"):
        if not np.isfinite(getattr(forest, name)).all():
            _refuse(f"{name} holds NaN or infinity")


def _check_leaf_range(forest: SimpleNamespace) -> None:
    ranges = forest.leaf_range
    if not isinstance(ranges, np.ndarray) or ranges.ndim != 2 or ranges.dtype != np.float64:
        _refuse("leaf_range is not a 2-dimensional float64 array")
    shape = (len(forest.leaf_value) if len(forest.linear_offsets) else 0, 2)
    if ranges.shape != shape:
        _refuse(f"leaf_range has the shape {ranges.shape}, expected {shape}")
    _refuse_any(~(ranges[:, 0] <= ranges[:, 1]), "the range of leaf {at} is {value}", ranges)


def _check_sets(forest: SimpleNamespace) -> None:
    offsets, sets = forest.set_offsets, forest.category_set
    if offsets[0] != 0 or offsets[-1] != len(forest.set_words) or (offsets[1:] < offsets[:-1]).any():
        _refuse(f"set_offsets must rise from 0 to {len(forest.set_words)}")
    if not len(sets):
        return
    n_sets = len(offsets) - 1
    _refuse_any(
        (sets < -1) | (sets >= n_sets),
        f"node {{at}} uses category set {{value}}, the forest has {n_sets}",
        sets,
    )
    _refuse_any((sets >= 0) & (forest.feature < 0), "node {at} is a leaf and uses category set {value}", sets)
    above_minus_one = np.nextafter(np.asarray(-1, forest.threshold.dtype), np.asarray(0, forest.threshold.dtype))
    _refuse_any(
        (sets >= 0) & (forest.threshold != 0) & (forest.threshold != above_minus_one),
        f"the smallest category of node {{at}} is {{value}}, expected 0 or {above_minus_one!s}",
        forest.threshold,
    )
    is_set = sets >= 0
    both = np.intersect1d(forest.feature[is_set], forest.feature[~is_set & (forest.feature >= 0)])
    if len(both):
        _refuse(f"feature {both[0]} is split both as a number and as a category")


def _check_meaning(forest: SimpleNamespace) -> None:
    allowed = {
        "link": LINKS,
        "prediction": PREDICTIONS,
        "result_dtype": FLOAT_TYPES,
        "category_hash": ("", "city64"),
    }
    for name, choices in allowed.items():
        if getattr(forest, name) not in choices:
            _refuse(f"{name} is {getattr(forest, name)!r}, expected one of {', '.join(choices)}")
    if forest.link == "mean_and_variance" and len(forest.base_score) != 2:
        _refuse(f"link is {forest.link!r}, which requires 2 outputs, but there are {len(forest.base_score)}")
    _check_choices(forest.choices)
    if forest.transform is not None and not (callable(forest.transform) or hasattr(forest.transform, "source_columns")):
        _refuse(f"transform is a {type(forest.transform).__name__}, expected a callable or None")
    if not _is_count(forest.round_trees, 0):
        _refuse(f"round_trees is {forest.round_trees!r}, expected a number of trees")
    shape, n_trees = forest.leaf_shape, len(forest.tree_offsets) - 1
    if not _is_count(forest.n_curves, 0) or forest.n_curves > n_trees:
        _refuse(f"n_curves is {forest.n_curves!r}, expected a number of the {n_trees} trees")
    if not isinstance(shape, tuple) or not all(isinstance(n, int | np.integer) and n >= 0 for n in shape):
        _refuse(f"leaf_shape is {shape!r}, expected a tuple of integers")
    if shape and math.prod(shape) != n_trees:
        _refuse(f"leaf_shape {shape} has room for {math.prod(shape)} trees, the forest has {n_trees}")


def _check_labels(forest: SimpleNamespace) -> None:
    for name in ("feature_names", "categories"):
        values = getattr(forest, name)
        if values is not None and not isinstance(values, tuple):
            _refuse(f"{name} is a {type(values).__name__}, expected a tuple or None")
        if values is not None and len(values) != forest.n_features:
            _refuse(f"{name} has {len(values)} entries for {forest.n_features} features")
    if not all(isinstance(name, str) for name in forest.feature_names or ()):
        _refuse("feature_names holds something other than strings")
    outputs = forest.outputs
    if not isinstance(outputs, tuple) or not all(isinstance(name, str) for name in outputs):
        _refuse(f"outputs is {outputs!r}, expected a tuple of strings")
    if outputs and (len(outputs) != len(forest.base_score) or len(set(outputs)) != len(outputs)):
        _refuse(f"outputs has {len(set(outputs))} different names for {len(forest.base_score)} outputs")
    if not isinstance(forest.classes, tuple):
        _refuse(f"classes is a {type(forest.classes).__name__}, expected a tuple")
    _check_open_tables(forest)
    tables = ("categories", forest.categories or ()), ("open_tables", forest.open_tables)
    for name, arrays in (("classes", forest.classes), *tables):
        for labels in arrays:
            if (name != "categories" or labels is not None) and (
                not isinstance(labels, np.ndarray) or labels.ndim != 1
            ):
                _refuse(f"{name} holds a {type(labels).__name__}, expected 1-dimensional NumPy arrays")


def _check_open_tables(forest: SimpleNamespace) -> None:
    tables, places = forest.open_tables, forest.table_places
    if not isinstance(tables, tuple):
        _refuse(f"open_tables is a {type(tables).__name__}, expected a tuple")
    shape = (len(tables), int(forest.n_features)) if tables else (0, 0)
    if not isinstance(places, np.ndarray) or places.dtype != np.bool_ or places.shape != shape:
        _refuse(f"table_places has shape {np.shape(places)}, expected booleans {shape}")
    if tables and forest.categories is not None:
        _refuse("open_tables holds tables beside those of categories")


def _check_choices(choices: object) -> None:
    if not isinstance(choices, tuple) or not all(isinstance(choice, Choice) for choice in choices):
        _refuse(f"choices is {choices!r}, expected a tuple of glasswood.base.typing.Choice")
    for choice in choices:
        if (
            not _is_count(choice.n_rows, 1)
            or choice.device not in DEVICES
            or choice.algorithm not in ALGORITHMS[1:]
            or not _is_count(choice.setting, 0)
            or not (isinstance(choice.seconds, float) and choice.seconds > 0 and math.isfinite(choice.seconds))
        ):
            _refuse(f"choices holds {choice!r}, which no tuning writes")


def _is_count(value: int | np.integer[Any], least: int) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and least <= int(value) < 2**63
