"""What the leaves of ONNX's trees hold, and what onnxruntime makes of their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Array
from glasswood.readers.onnx.graph import CLASSIFIER, ENSEMBLE
from glasswood.readers.onnx.nodes import LEAF, _Finder

if TYPE_CHECKING:
    from glasswood.readers.onnx.graph import Graph
    from glasswood.readers.onnx.nodes import TreeNodes

AVERAGE, SUM = "AVERAGE", "SUM"
AGGREGATES = (AVERAGE, SUM, "MIN", "MAX")
MOST_OUTPUTS = 2**16
LEAST_ROOM, ROOM_OF_A_WEIGHT = 2**22, 1000
"""Largest number of leaf values: the larger of a minimum and a number per weight."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """Values of leaves by output.

    Attributes
    ----------
    leaves : (n_nodes,) or (n_nodes, n_outputs)
    tree_output : (n_trees,) or None
        Where each tree adds to one output.
    base : (n_outputs,)
    tree_weight : float
    classes : array or None
        Class labels of a classifier.
    all_positive : bool
        Whether weights are of one class and none is negative: onnxruntime then takes the score for a probability.
    """

    leaves: Array
    tree_output: Array | None
    base: Array
    tree_weight: float
    classes: Array | None = None
    all_positive: bool = False


def output_values(graph: Graph, nodes: TreeNodes) -> Outputs:
    """Read weights, base values and labels.

    Raises
    ------
    ValueError
        If they do not fit the nodes.
    NotImplementedError
        If trees are not added up, two classes have two base values, or rows may have no score of a class.
    """
    place, output, weight = _weights(graph, nodes)
    classes = _classes(graph)
    n_outputs = graph.integer("n_targets", 1) if classes is None else len(classes)
    if not 1 <= n_outputs <= MOST_OUTPUTS:
        raise ValueError(f"it declares {n_outputs} outputs")
    if ((output < 0) | (output >= n_outputs)).any():
        raise ValueError(f"a leaf adds to output {output.max()}, there are {n_outputs}")
    if graph.own is not None and len(graph.own["base_score"]) != n_outputs:
        raise ValueError(
            f"glasswood noted {len(graph.own['base_score'])} base scores, the trees have {n_outputs} outputs"
        )
    base = graph.numbers("base_values").astype(np.float64)
    is_single = classes is not None and n_outputs == 2 and not output.any()
    if is_single:
        n_outputs = 1
    if classes is not None and len(classes) == 2 and (len(base) > 1 or (len(base) and not is_single)):
        raise NotImplementedError("base values of two classes with two scores are not read; onnxruntime mixes them up")
    if len(base) not in {0, n_outputs}:
        raise ValueError(f"'base_values' has {len(base)} entries, expected {n_outputs}")
    if classes is not None and len(classes) == 2 and len(np.unique(output)) == 2 and classes.tolist() != [0, 1]:
        raise NotImplementedError(
            f"two classes with two scores are read with the labels 0 and 1, not {classes.tolist()}: onnxruntime "
            "returns 0 and 1 whatever the labels"
        )
    if classes is not None and not is_single and not len(base):
        _refuse_unscored(nodes, (place, output, weight), n_outputs)
    leaves, tree_output = _leaf_values(nodes, (place, output, weight), n_outputs)
    return Outputs(
        leaves=leaves,
        tree_output=tree_output,
        base=base if len(base) else np.zeros(n_outputs),
        tree_weight=1 / len(nodes.counts) if _aggregate(graph) == AVERAGE else 1.0,
        classes=classes,
        all_positive=bool((weight >= 0).all() and len(np.unique(output)) == 1),
    )


def _refuse_unscored(nodes: TreeNodes, weights: tuple[Array, Array, Array], n_classes: int) -> None:
    """Refuse a classifier some of whose rows may have no score of a class, which onnxruntime then leaves out.

    Of two classes it takes the only score for that of a single output, of several the label from those with a score.

    Raises
    ------
    NotImplementedError
        If a class whose score counts is named by some leaves, and by all leaves of no tree.
    """
    place, output, weight = weights
    is_leaf = nodes.mode == LEAF
    if n_classes > 2 and (weight > 0).all() and np.isin(np.flatnonzero(is_leaf), place).all():
        return  # a class without a score is never the largest
    n_trees = len(nodes.counts)
    n_leaves = np.bincount(nodes.tree[is_leaf], minlength=n_trees)
    for one in range(1 if n_classes == 2 else 0, n_classes):
        scored = np.unique(place[output == one])
        if not (np.bincount(nodes.tree[scored], minlength=n_trees) == n_leaves).any():
            raise NotImplementedError(
                f"some leaves have no weight of class {one}, and onnxruntime decides otherwise where a row meets only "
                "such leaves; export leaves with a weight of every class"
            )


def _aggregate(graph: Graph) -> str:
    if graph.operator == ENSEMBLE:
        number = graph.integer("aggregate_function", 1)
        name = AGGREGATES[number] if 0 <= number < len(AGGREGATES) else str(number)
    else:
        name = graph.text("aggregate_function", SUM)
    if name not in {AVERAGE, SUM}:
        raise NotImplementedError(f"trees of the aggregate_function {shown(name)} are not read, sums and averages are")
    return name


def _weights(graph: Graph, nodes: TreeNodes) -> tuple[Array, Array, Array]:
    """Node, output and value of each weight."""
    if graph.operator == ENSEMBLE:
        target, weight = graph.integers("leaf_targetids"), graph.numbers("leaf_weights").astype(np.float64)
        if len(weight) != len(target):
            raise ValueError(f"'leaf_weights' has {len(weight)} entries, expected {len(target)}")
        place = np.flatnonzero(nodes.mode == LEAF)
        return place, target[nodes.leaf[place]], weight[nodes.leaf[place]]
    prefix = "class" if graph.operator == CLASSIFIER else "target"
    weight = graph.numbers(f"{prefix}_weights").astype(np.float64)
    tree, node, output = (graph.integers(f"{prefix}_{name}") for name in ("treeids", "nodeids", "ids"))
    if not len(weight) == len(tree) == len(node) == len(output) or not len(weight):
        raise ValueError(f"the lists of {prefix} weights have different lengths, or none has any")
    place = _Finder(nodes.tree_id, nodes.node_id)(tree, node, f"{prefix}_nodeids")
    if (nodes.mode[place] != LEAF).any():
        raise ValueError("a node that is not a leaf has weights")
    return place, output, weight


def _leaf_values(nodes: TreeNodes, weights: tuple[Array, Array, Array], n_outputs: int) -> tuple[Array, Array | None]:
    """Leaf values: scalars where each tree adds to one output."""
    place, output, weight = weights
    tree = nodes.tree[place]
    first = np.zeros(len(nodes.counts), np.int64)
    first[tree] = output
    if (first[tree] == output).all():
        scalars = np.zeros(len(nodes.mode))
        np.add.at(scalars, place, weight)
        return scalars, first
    if len(nodes.mode) * n_outputs > max(LEAST_ROOM, ROOM_OF_A_WEIGHT * len(weight)):
        raise NotImplementedError(
            f"leaves of {n_outputs} outputs with {len(weight)} weights for {len(nodes.mode)} nodes are not read: they "
            f"would hold more than {ROOM_OF_A_WEIGHT} zeros for each weight"
        )
    vectors = np.zeros((len(nodes.mode), n_outputs))
    np.add.at(vectors, (place, output), weight)
    return vectors, None


def _classes(graph: Graph) -> Array | None:
    if graph.operator != CLASSIFIER:
        return None
    names, numbers = graph.texts("classlabels_strings"), graph.integers("classlabels_int64s")
    if not names and not len(numbers):
        raise ValueError("the classifier has no labels")
    return np.array(names) if names else numbers
