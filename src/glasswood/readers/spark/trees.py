"""From the nodes of Spark's trees to a TreeEnsemble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Bools, Doubles, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.validation import MOST_FEATURES
from glasswood.readers.assemble import WORD_BITS, NodeArrays, assemble, less_than
from glasswood.readers.documents import get, get_int
from glasswood.readers.spark.splits import Tests, of_columns, thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.readers.spark.nodes import Nodes
    from glasswood.readers.spark.stages import Entry

MOST_CATEGORIES = 2**16
"""Most categories of a feature; Spark needs a bin for each, and `maxBins` is 32 by default."""

LEAST_WORDS, WORDS_OF_NODE = 2**21, 64
"""Largest number of words of 32 categories of all splits' sets: a minimum, and a number per node."""

OF_REGRESSION = 3
"""Statistics of a regression's node: weight, sum and sum of squares of the targets."""


def forest_of(
    nodes: Nodes,
    document: dict[str, Any],
    weights: Doubles | None,
    is_class: bool,
    entries_of: Callable[[int], list[Entry]] | None = None,
) -> TreeEnsemble:
    """Build the forest of an ensemble that adds its trees up (with weights), or averages them.

    With `entries_of`, which returns as many entries of columns as the trees have features, its features are columns.

    Raises
    ------
    ValueError
        If the nodes do not make trees, or are not those that the metadata declare.
    """
    n_features = get_int(document, "numFeatures")
    if not 0 < n_features <= MOST_FEATURES:
        raise ValueError(f"'numFeatures' is {n_features}")
    counts = _counts(nodes, document)
    of_classes = is_class and weights is None
    value, cover = _values(nodes, get_int(document, "numClasses") if of_classes else 0)
    is_split = nodes.left >= 0
    wrong = is_split & ((nodes.feature < 0) | (nodes.feature >= n_features))
    if wrong.any():
        raise ValueError(f"a split is on feature {nodes.feature[np.argmax(wrong)]}, it has {n_features} features")
    tests = _of_vectors(nodes, is_split, n_features)
    if entries_of is not None:
        tests = of_columns(nodes, is_split, entries_of(n_features), MOST_CATEGORIES)
    if weights is not None and len(weights) != len(counts):
        raise ValueError(f"it has {len(weights)} weights for {len(counts)} trees")
    return assemble(
        NodeArrays(
            counts=counts,
            left=_child(nodes.left),
            right=np.where(is_split, _child(nodes.right), -1),
            feature=tests.feature,
            threshold=tests.threshold,
            default_left=tests.default_left,
            cover=cover,
            value=value,
            leaf_id=nodes.id,
            category_set=tests.category_set,
        ),
        tree_weight=np.full(len(counts), 1 / len(counts)) if weights is None else weights,
        base_score=np.zeros(value.shape[1]),
        source=f"Spark {get(document, 'sparkVersion', str)[:20]}",
        objective=str(get(document, "class", str).rpartition(".")[2]),
        **tests.fields,
        **_meaning(value.shape[1], is_class, weights is not None),
    )


def _of_vectors(nodes: Nodes, is_split: Bools, n_features: int) -> Tests:
    """Return the splits of trees whose rows are vectors, as they are."""
    sets, others_left, tables = _sets(nodes, is_split, n_features)
    return Tests(
        feature=nodes.feature,
        threshold=np.where(sets, 0.0, less_than(thresholds(nodes, is_split & ~sets), np.float64)),
        default_left=others_left,
        category_set=np.where(sets, np.cumsum(sets) - 1, -1) if sets.any() else None,
        fields={"n_features": n_features, "categories": tables} | _packed(nodes, sets, others_left),
    )


def _meaning(n_outputs: int, is_class: bool, is_sum: bool) -> dict[str, Any]:
    """Say what Spark's prediction is: a number, the class of the largest probability, or the sign of a sum."""
    if not is_class:
        return {}
    if is_sum:
        labels = np.array([0.0, 1.0])
        return {"classes": (labels,), "link": "exponential", "prediction": "positive", "is_estimator": True}
    return {"classes": (np.arange(n_outputs, dtype=np.float64),), "prediction": "argmax", "is_estimator": True}


def _counts(nodes: Nodes, document: dict[str, Any]) -> Int64s:
    """Count the nodes of each tree, whose ids count from 0."""
    n_trees = get_int(document, "numTrees", 1)
    if not len(nodes.tree) or nodes.tree[0] != 0 or nodes.tree[-1] != n_trees - 1 or n_trees > len(nodes.tree):
        raise ValueError(f"it declares {n_trees} trees and holds others")
    counts = np.bincount(nodes.tree, minlength=n_trees)
    within = np.arange(len(nodes.tree)) - np.repeat(np.cumsum(counts) - counts, counts)
    if not counts.all() or (nodes.id != within).any():
        raise ValueError("the ids of a tree's nodes do not count from 0")
    return counts


def _child(place: Int64s) -> Int64s:
    """Places of children, those beyond int32 as one that no tree has."""
    return np.where(np.abs(place) < 2**31, place, 2**31 - 1)


def _values(nodes: Nodes, n_classes: int) -> tuple[Doubles, Doubles]:
    """Numbers that leaves add, (n_nodes, width), and the training weight of all nodes."""
    width = n_classes or OF_REGRESSION
    if (nodes.n_statistics != width).any():
        raise ValueError(f"'impurityStats' of a node has {nodes.n_statistics[nodes.n_statistics != width][0]} numbers")
    statistics = nodes.statistics.reshape(-1, width)
    if not n_classes:
        return nodes.prediction[:, None], statistics[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        total = statistics.sum(axis=1)
        return statistics / np.where(total == 0, 1, total)[:, None], total


def _sets(nodes: Nodes, is_split: Bools, n_features: int) -> tuple[Bools, Bools, tuple[Array | None, ...] | None]:
    """Find splits of categories, the side of other values at each, and the categories of all features.

    Spark keeps the shorter of the two sides, of which other values and NaN are not members.
    """
    sets = is_split & (nodes.n_categories >= 0)
    if not sets.any():
        return sets, sets, None
    counts = nodes.n_categories[sets]
    if counts.max() > MOST_CATEGORIES:
        raise ValueError(f"a split has {counts.max()} categories, at most {MOST_CATEGORIES} are supported")
    most = np.zeros(n_features, np.int64)
    np.maximum.at(most, nodes.feature[sets], counts)
    if (most[nodes.feature[sets]] != counts).any() or (most[nodes.feature[is_split & ~sets]] > 0).any():
        raise ValueError("splits of a feature disagree about its categories")
    tables = tuple(np.arange(n, dtype=np.float64) if n else None for n in most.tolist())
    return sets, sets & (nodes.n_sides > nodes.n_categories // 2), tables


def _packed(nodes: Nodes, sets: Bools, others_left: Bools) -> dict[str, Any]:
    """Return the fields of the sets: categories that go left."""
    if not sets.any():
        return {}
    at = np.flatnonzero(sets)
    counts, n_members, others = nodes.n_categories[at], nodes.n_sides[at], others_left[at]
    set_of_member = np.repeat(np.arange(len(at)), n_members)
    members = nodes.sides[np.repeat(sets, nodes.n_sides)]
    wrong = ~((members >= 0) & (members < counts[set_of_member]) & (members == np.floor(members)))
    if wrong.any():
        raise ValueError(f"a split on {counts[set_of_member[np.argmax(wrong)]]} categories sends others left")
    last = np.zeros(len(at), np.int64)
    np.maximum.at(last, set_of_member, members.astype(np.int64) + 1)
    n_words = -(-np.where(others, counts, last) // WORD_BITS)  # beyond them a set is what other values are
    offsets = np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64)
    if offsets[-1] > LEAST_WORDS + WORDS_OF_NODE * len(nodes.id):
        raise ValueError(f"its splits name {offsets[-1] * WORD_BITS} categories, more than its size allows")
    bits = np.repeat(others, n_words * WORD_BITS)
    listed = np.where(others, counts, 0)
    bits[_ranges(offsets[:-1] * WORD_BITS, listed)] = False
    bits[offsets[set_of_member] * WORD_BITS + members.astype(np.int64)] = True
    words = np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)
    return {"set_offsets": offsets, "set_words": words, "set_others_left": others}


def _ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """Numbers from each start on, as many as its length, behind each other."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
