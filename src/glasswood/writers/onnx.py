"""Forests as ONNX models for onnxruntime."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.files import replacing
from glasswood.base.typing import Array
from glasswood.model.ensemble import LOGARITHM, MISSING, OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import exposure_text
from glasswood.model.onnx_note import NEVER, note_of
from glasswood.writers.onnx_graph import BOOL, DOUBLE, FLOAT, INT64, STRING, TREES_DOMAIN, Graph

AT_MOST, LESS, MEMBER = 0, 1, 6
SIGMOIDS = {"logistic": 1.0, "one_vs_all": 1.0, "exponential": 2.0}


def save_onnx(forest: TreeEnsemble, path: str | os.PathLike[str]) -> None:
    """Write a forest as an ONNX model of doubles, complete or not at all.

    The input ``X`` has the forest's row type, categories as codes. Outputs: ``margin``, and where they differ from it
    ``response`` (probabilities of all classes) and ``label``.

    Raises
    ------
    NotImplementedError
        If the forest has a link that ONNX does not, or features that are computed first.
    """
    data = onnx_bytes(forest)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def onnx_bytes(forest: TreeEnsemble) -> bytes:
    """Write a forest as the bytes of an ONNX model."""
    _refuse(forest)
    graph = Graph()
    rows = _prepared_rows(forest, graph)
    margin = _linear_margins(forest, graph, rows) if forest.has_linear_leaves else _margins(forest, graph, rows)
    graph.add("Identity", margin, output="margin")
    outputs: list[tuple[str, int, tuple[int, ...]]] = [("margin", DOUBLE, (forest.n_outputs,))]
    response = _response(forest, graph, margin)
    if response != margin:
        outputs.append(("response", DOUBLE, (_add_response(forest, graph, response),)))
    if len(forest.classes) == 1:
        outputs.append(("label", _add_label(forest, graph, margin, response), ()))
    element = DOUBLE if forest.threshold.dtype == np.float64 else FLOAT
    return graph.model(("X", element, forest.n_features), outputs, note_of(forest), exposure_text(forest))


def _refuse(forest: TreeEnsemble) -> None:
    what = ""
    if forest.transform is not None:
        what = "features that are computed from others"
    elif forest.link not in {"identity", "softmax", "exp", *SIGMOIDS}:
        what = f"the link {forest.link!r}"
    elif forest.prediction == "sign":
        what = "labels by the sign of a response"
    elif forest.category_hash:
        what = "categories known by their hashes alone"
    elif len(forest.classes) > 1:
        what = "several classifications"
    elif not forest.n_trees:
        what = "no trees"
    if what:
        raise NotImplementedError(f"forests with {shown(what)} are not written as ONNX; save a .glasswood file")


def _prepared_rows(forest: TreeEnsemble, graph: Graph) -> str:
    """Rows as doubles, what counts as missing as NaN, tiny numbers as 0."""
    rows = "X"
    if not np.isnan(forest.missing):
        single = graph.constant([forest.missing], forest.threshold.dtype.name)
        nan = graph.constant([np.nan], forest.threshold.dtype.name)
        rows = graph.add("Where", graph.add("Equal", rows, single), nan, rows)
    if forest.threshold.dtype == np.float32:
        rows = graph.add("Cast", rows, to=DOUBLE)
    if forest.zero_threshold:
        tiny = graph.add("LessOrEqual", graph.add("Abs", rows), graph.constant([forest.zero_threshold]))
        rows = graph.add("Where", tiny, graph.constant([0.0]), rows)
    if len(forest.zero_missing):
        is_zero = graph.add("Equal", rows, graph.constant([0.0]))
        lacks = graph.add("And", is_zero, graph.constant(forest.zero_missing, "bool"))
        rows = graph.add("Where", lacks, graph.constant([np.nan]), rows)
    return rows


def _ensemble(forest: TreeEnsemble, graph: Graph, rows: str, target: Array, value: Array, n_targets: int) -> str:
    """Add a TreeEnsemble: each leaf adds a value to a target."""
    split = np.flatnonzero(forest.feature >= 0)
    inner = np.cumsum(forest.feature >= 0) - 1
    leaf = np.cumsum(forest.feature < 0) - 1
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    lone = np.flatnonzero(np.diff(forest.tree_offsets) == 1)
    left = (forest.tree_offsets[:-1][tree] + forest.left)[split]
    mode, threshold, members, is_swapped = _tests(forest, split)
    yes, no = np.where(is_swapped, left + 1, left), np.where(is_swapped, left, left + 1)
    ends = np.concatenate([split, forest.tree_offsets[:-1][lone]])
    # A tree of one leaf is a test whose sides are that leaf.
    only = forest.tree_offsets[:-1][lone]
    yes, no = np.concatenate([yes, only]), np.concatenate([no, only])
    roots = inner[forest.tree_offsets[:-1]].copy()
    roots[lone] = len(split) + np.arange(len(lone))
    columns: dict[str, Any] = {
        "nodes_featureids": np.maximum(forest.feature[ends], 0).astype(np.int64),
        "nodes_modes": np.concatenate([mode, np.full(len(lone), AT_MOST)]).astype(np.uint8),
        "nodes_splits": np.concatenate([threshold, np.zeros(len(lone))]),
        "nodes_missing_value_tracks_true": np.concatenate(
            [forest.default_left[split] ^ is_swapped, np.zeros(len(lone), np.bool_)]
        ).astype(np.int64),
        "leaf_targetids": target.astype(np.int64),
        "leaf_weights": value.astype(np.float64),
        "tree_roots": roots.astype(np.int64),
    }
    for name, child in (("true", yes), ("false", no)):
        is_leaf = forest.feature[child] < 0
        columns[f"nodes_{name}nodeids"] = np.where(is_leaf, leaf[child], inner[child]).astype(np.int64)
        columns[f"nodes_{name}leafs"] = is_leaf.astype(np.int64)
    if len(members):
        columns["membership_values"] = members
    numbers: dict[str, Any] = {"n_targets": n_targets, "aggregate_function": 1, "post_transform": 0}
    return graph.add("TreeEnsemble", rows, domain=TREES_DOMAIN, **columns, **numbers)


def _tests(forest: TreeEnsemble, split: Array) -> tuple[Array, Array, Array, Array]:
    """Comparison, threshold and members of each split, and whether its true side is the right one."""
    threshold = forest.threshold[split].astype(np.float64)
    is_all = np.isposinf(threshold)
    mode = np.where(is_all, AT_MOST, LESS)
    is_swapped, members = np.zeros(len(split), np.bool_), []
    if forest.is_categorical:
        for place in np.flatnonzero(forest.category_set[split] >= 0).tolist():
            which = int(forest.category_set[split[place]])
            words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
            bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
            is_swapped[place] = forest.set_others_left[which]
            codes = np.flatnonzero(bits ^ is_swapped[place])
            members.append(np.append(codes if len(codes) else [NEVER], np.nan))
            mode[place], threshold[place] = MEMBER, 0.0
    return mode, threshold, np.concatenate(members) if members else np.zeros(0), is_swapped


def _tree_of_leaves(forest: TreeEnsemble) -> Array:
    return np.repeat(np.arange(forest.n_trees), np.diff(forest.leaf_offsets))


def _margins(forest: TreeEnsemble, graph: Graph, rows: str) -> str:
    """Add weighted leaf values to the base score."""
    forest = _with_scalar_leaves(forest)
    tree, base = _tree_of_leaves(forest), graph.constant(forest.base_score[None, :])
    weighted, target = forest.leaf_value[:, 0] * forest.tree_weight[tree], forest.tree_output[tree]
    return graph.add("Add", _ensemble(forest, graph, rows, target, weighted, forest.n_outputs), base)


def _with_scalar_leaves(forest: TreeEnsemble) -> TreeEnsemble:
    """Give each output trees of its own where leaves hold vectors: a leaf of ONNX adds to one output."""
    if forest.leaf_width == 1:
        return forest
    n = forest.n_outputs
    nodes = ("feature", "threshold", "left", "default_left", "cover", "category_set")
    repeated: dict[str, Any] = {name: np.tile(getattr(forest, name), n) for name in (*nodes, "leaf_id", "tree_weight")}
    return dataclasses.replace(
        forest,
        tree_offsets=np.concatenate([[0], np.cumsum(np.tile(np.diff(forest.tree_offsets), n))]),
        tree_output=np.repeat(np.arange(n, dtype=np.int32), forest.n_trees),
        leaf_value=forest.leaf_value.T.reshape(-1, 1),
        leaf_shape=(),
        absent_missing=np.tile(forest.absent_missing, n),
        **repeated,
    )


def _linear_margins(forest: TreeEnsemble, graph: Graph, rows: str) -> str:
    """Margins of equations: the trees tell each row's leaves, whose coefficients are looked up."""
    tree = _tree_of_leaves(forest)
    number = _ensemble(forest, graph, rows, tree, np.arange(forest.n_leaves, dtype=np.float64), forest.n_trees)
    leaves = graph.add("Cast", number, to=INT64)
    raw = graph.add("Cast", "X", to=DOUBLE) if forest.threshold.dtype == np.float32 else "X"
    values, lacks, tables = _terms(forest, graph, raw)

    def look_up(table: Array) -> str:
        return graph.add("Gather", graph.constant(table), leaves, axis=0)

    deviation = graph.add("Sub", values, look_up(tables["mean"]))
    deviation = graph.add("Where", lacks, graph.constant([0.0]), deviation)
    last = graph.constant([2], "int64")
    sums = graph.add("ReduceSum", graph.add("Mul", look_up(tables["coefficient"]), deviation), last, keepdims=0)
    result = graph.add("Add", look_up(forest.leaf_value[:, 0]), sums)
    result = graph.add("Max", result, look_up(np.maximum(forest.leaf_range[:, 0], -1.7e308)))
    result = graph.add("Min", result, look_up(np.minimum(forest.leaf_range[:, 1], 1.7e308)))
    if len(forest.leaf_missing):
        lacking = graph.add("Mul", look_up(tables["uses"]), graph.add("Cast", lacks, to=DOUBLE))
        count = graph.add("ReduceSum", lacking, last, keepdims=0)
        is_constant = graph.add("Greater", count, graph.constant([0.0]))
        result = graph.add("Where", is_constant, look_up(forest.leaf_missing), result)
    weights = np.zeros((forest.n_trees, forest.n_outputs))
    weights[np.arange(forest.n_trees), forest.tree_output] = forest.tree_weight
    total = graph.add("MatMul", result, graph.constant(weights))
    return graph.add("Add", total, graph.constant(forest.base_score[None, :]))


def _terms(forest: TreeEnsemble, graph: Graph, rows: str) -> tuple[str, str, dict[str, Array]]:
    """Take of rows what equations need, (n, 1, n_terms); say where numbers are missing; make tables of leaves."""
    pairs = np.column_stack([forest.linear_feature, forest.linear_category])
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    columns = graph.add("Gather", rows, graph.constant(distinct[:, 0], "int64"), axis=1)
    is_missing = graph.add("IsNaN", columns)
    is_number = graph.constant(np.isin(distinct[:, 1], OF_NUMBERS), "bool")
    is_logarithm = distinct[:, 1] == LOGARITHM
    lacks = graph.add("And", is_missing, is_number)
    # NaN equals no value: -2, the code of "is missing", may be a number of a row.
    has_code = graph.add("Equal", columns, graph.constant(np.where(distinct[:, 1] < 0, np.nan, distinct[:, 1])))
    lacks_any = graph.add("And", is_missing, graph.constant(distinct[:, 1] == MISSING, "bool"))
    indicator = graph.add("Cast", graph.add("Or", lacks_any, has_code), to=DOUBLE)
    filled = graph.add("Where", is_missing, graph.constant([0.0]), columns)
    if is_logarithm.any():
        of_logarithms = graph.constant(is_logarithm, "bool")
        is_positive = graph.add("Greater", filled, graph.constant([0.0]))
        lacks_sign = graph.add("And", graph.add("Not", is_positive), of_logarithms)
        lacks = graph.add("Or", lacks, lacks_sign)
        logarithm = graph.add("Log", graph.add("Where", is_positive, filled, graph.constant([1.0])))
        filled = graph.add("Where", of_logarithms, logarithm, filled)
    values = graph.add("Where", is_number, filled, indicator)
    axis = graph.constant([1], "int64")
    leaf = np.repeat(np.arange(forest.n_leaves), np.diff(forest.linear_offsets))
    tables = {name: np.zeros((forest.n_leaves, len(distinct))) for name in ("coefficient", "mean", "uses")}
    place = (leaf, which.reshape(-1))
    np.add.at(tables["coefficient"], place, forest.linear_coefficient)
    tables["mean"][place], tables["uses"][place] = forest.linear_mean, 1.0
    return graph.add("Unsqueeze", values, axis), graph.add("Unsqueeze", lacks, axis), tables


def _response(forest: TreeEnsemble, graph: Graph, margin: str) -> str:
    if forest.link == "identity":
        return margin
    scale = SIGMOIDS.get(forest.link, 1.0) * forest.link_scale
    scaled = margin if scale == 1 else graph.add("Mul", margin, graph.constant([scale]))
    if forest.link == "softmax":
        return graph.add("Softmax", scaled, axis=1)
    return graph.add("Exp" if forest.link == "exp" else "Sigmoid", scaled)


def _add_response(forest: TreeEnsemble, graph: Graph, response: str) -> int:
    """Name the response, with a column for each of two classes; return its width."""
    if forest.n_outputs == 1 and forest.is_estimator and forest.classes:
        other = graph.add("Sub", graph.constant([1.0]), response)
        graph.add("Concat", other, response, axis=1, output="response")
        return 2
    graph.add("Identity", response, output="response")
    return forest.n_outputs


def _add_label(forest: TreeEnsemble, graph: Graph, margin: str, response: str) -> int:
    """Add the labels by the forest's rule; return their type."""
    labels, axis = forest.classes[0], graph.constant([1], "int64")
    if forest.n_outputs > 1 and forest.prediction != "second_positive":
        chosen = margin if forest.prediction in {"argmax_margin", "argmax_column"} else response
        index = graph.add("ArgMax", chosen, axis=1, keepdims=0)
    else:
        index = graph.add("Cast", graph.add("Squeeze", _is_second(forest, graph, margin, response), axis), to=INT64)
    if labels.dtype.kind in "OU":
        element, table = STRING, graph.constant(labels, "text")
    elif labels.dtype.kind == "b":
        element, table = BOOL, graph.constant(labels, "bool")
    elif labels.dtype.kind == "f":
        element, table = DOUBLE, graph.constant(labels)
    else:
        element, table = INT64, graph.constant(labels, "int64")
    graph.add("Gather", table, index, axis=0, output="label")
    return element


def _is_second(forest: TreeEnsemble, graph: Graph, margin: str, response: str) -> str:
    """Whether the second of two classes wins (glasswood.evaluate.links)."""
    if forest.prediction == "second_positive":
        margin = graph.add("Gather", margin, graph.constant([1], "int64"), axis=1)
    if forest.prediction in {"positive", "second_positive"}:
        return graph.add("Greater", margin, graph.constant([forest.prediction_offset]))
    if forest.prediction == "nonnegative":
        return graph.add("GreaterOrEqual", margin, graph.constant([0.0]))
    if forest.prediction == "argmax":
        return graph.add("Greater", response, graph.add("Sub", graph.constant([1.0]), response))
    return graph.add("Greater", response, graph.constant([0.5]))
