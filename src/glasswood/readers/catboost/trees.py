"""Nodes of CatBoost's trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Bools, Doubles, Int64s
from glasswood.model.validation import LARGEST_FOREST
from glasswood.readers.assemble import WORD_BITS, NodeArrays, less_than

if TYPE_CHECKING:
    from glasswood.readers.catboost.model import Model, StepTrees

DEEPEST = 30
"""CatBoost itself stops at depth 16."""
MOST_TESTED = 2**10
"""Categories that a feature's one-hot splits may test; CatBoost itself stops at 255."""
LARGEST, BEYOND = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
"""The largest float32, and the smallest number that rounds to infinity."""


@dataclass(frozen=True, eq=False)
class Tests:
    """All tests that the trees of a model choose from, as columns of NodeArrays, and the sets as fields of Forest.

    Behind them comes one more that no split uses, for leaves to name.
    """

    feature: Int64s
    threshold: Array
    default_left: Bools
    category_set: Int64s
    sets: dict[str, Any]

    def check(self, splits: Int64s) -> None:
        """Raise ValueError unless all splits name tests."""
        n_tests = len(self.feature) - 1
        if len(splits) and not 0 <= splits.min() <= splits.max() < n_tests:
            raise ValueError(f"a split names test {splits.min()} to {splits.max()} of {n_tests}")


def read_tests(model: Model) -> Tests:
    """List the borders of the numerical features, the categories of the categorical ones, the borders of statistics.

    ``x > border`` goes right, compared in float32. Equality with a category goes right.
    """
    n_borders = [len(number.borders) for number in model.numbers]
    n_hashes = [len(category.hashes) for category in model.categories]
    n_sets = sum(n_hashes)
    ctr_borders = [np.zeros(0, np.float32), *(ctr.borders for ctr in model.ctrs)]
    n_ctr_borders = [len(borders) for borders in ctr_borders[1:]]
    borders = np.concatenate([np.zeros(0, np.float32), *(number.borders for number in model.numbers)])
    thresholds = _thresholds(np.concatenate([borders, *ctr_borders]))
    thresholds, of_ctrs = np.split(thresholds, [sum(n_borders)])
    ctr_columns = model.n_features + np.arange(len(model.ctrs))
    nan_is_right = np.repeat(np.array([number.nan_is_right for number in model.numbers], np.bool_), n_borders)
    nan_is_right &= borders < np.inf  # which the stand-in for missing values, +inf, is not above
    return Tests(
        feature=np.concatenate(
            [
                np.repeat([feature.column for feature in model.features], n_borders + n_hashes),
                np.repeat(ctr_columns, n_ctr_borders),
                [0],
            ]
        ).astype(np.int64),
        threshold=np.concatenate([thresholds, np.zeros(n_sets), of_ctrs, [0]]).astype(thresholds.dtype),
        default_left=np.concatenate([~nan_is_right, np.ones(n_sets + len(of_ctrs) + 1, np.bool_)]),
        category_set=np.concatenate([np.full(len(thresholds), -1), np.arange(n_sets), np.full(len(of_ctrs) + 1, -1)]),
        sets=_sets(np.array(n_hashes, np.int64)) if n_sets else {},
    )


def _sets(n_categories: Int64s) -> dict[str, Any]:
    """Fields of Forest for one set per category, which sends all others of its feature left."""
    if n_categories.max() > MOST_TESTED:
        raise ValueError(f"a feature tests {n_categories.max()} categories, expected at most {MOST_TESTED}")
    n_words = np.repeat(-(-n_categories // WORD_BITS), n_categories)
    offsets = np.concatenate([[0], np.cumsum(n_words)]).astype(np.int64)
    category = np.concatenate([np.arange(n) for n in n_categories])
    words = np.full(int(offsets[-1]), 0xFFFFFFFF, np.uint32)
    words[offsets[:-1] + category // WORD_BITS] ^= np.uint32(1) << (category % WORD_BITS).astype(np.uint32)
    return {"set_offsets": offsets, "set_words": words, "set_others_left": np.ones(len(n_words), np.bool_)}


def _thresholds(borders: NDArray[np.float32]) -> Array:
    """Turn ``float32(x) <= border`` into ``x < threshold``.

    Above the largest float32 comes infinity, the threshold that every number passes; there +inf must go right, as
    CatBoost's stand-in for missing values does. Thresholds are float64 then: the smallest numbers that round to a
    float32 above the border. Columns with infinities have borders at -inf, and at +inf, which no number is above.
    """
    if not (borders == LARGEST).any():
        return less_than(borders, np.float32)
    # Half a step is exact in float64; beyond the largest float32 the steps go on as if the exponent did.
    wide = borders.astype(np.float64)
    with np.errstate(all="ignore"):
        below = np.nextafter(borders, np.float32(-np.inf)).astype(np.float64)
        above = np.nextafter(borders, np.float32(np.inf)).astype(np.float64)
        middle = np.where(np.isinf(above), wide + (wide - below) / 2, (wide + above) / 2)
        middle = np.where(np.isneginf(wide), -BEYOND, middle)
        is_right = middle.astype(np.float32) > borders
    return np.where(is_right, middle, np.nextafter(middle, np.inf))


def oblivious_nodes(model: Model, tests: Tests) -> NodeArrays:
    """Write oblivious trees out as complete binary trees, in breadth-first order.

    The last test of a tree decides the highest bit of the leaf's number; it comes first, as in CatBoost's explanations.
    """
    depths = model.sizes
    if len(depths) and not 0 <= depths.min() <= depths.max() <= DEEPEST:
        raise ValueError(f"its trees have {depths.min()} to {depths.max()} levels, expected 0 to {DEEPEST}")
    if len(model.splits) != depths.sum():
        raise ValueError(f"it holds {len(model.splits)} splits, expected {depths.sum()}")
    tests.check(model.splits)
    n_leaves = 1 << depths
    value, weight = _leaves(model, int(n_leaves.sum()))
    counts = 2 * n_leaves - 1
    if (n_nodes := int(counts.sum())) > LARGEST_FOREST:
        raise ValueError(f"its trees have {n_nodes} nodes, at most {LARGEST_FOREST} are supported")
    test, leaf, cover = np.full(n_nodes, -1), np.full(n_nodes, -1), np.zeros(n_nodes)
    starts, first_leaf, last_split = np.cumsum(counts) - counts, np.cumsum(n_leaves) - n_leaves, np.cumsum(depths) - 1
    for depth in np.unique(depths).tolist():
        trees = np.flatnonzero(depths == depth)
        leaves = first_leaf[trees, None] + np.arange(1 << depth)
        leaf[_level(starts[trees], depth)] = leaves
        weights = cover[_level(starts[trees], depth)] = weight[leaves]
        for level in reversed(range(depth)):
            nodes = _level(starts[trees], level)
            test[nodes] = model.splits[last_split[trees, None] - level]
            weights = cover[nodes] = weights.reshape(len(trees), -1, 2).sum(axis=2)
    is_leaf = leaf >= 0
    place = np.arange(n_nodes) - np.repeat(starts, counts)
    return _nodes(
        tests,
        counts,
        np.where(is_leaf, -1, 2 * place + 1),
        np.where(is_leaf, -1, 2 * place + 2),
        test=test,
        cover=cover,
        value=value[np.where(is_leaf, leaf, 0)],
        leaf_id=leaf - np.repeat(first_leaf, counts),
    )


def _level(starts: Int64s, level: int) -> Int64s:
    """Nodes of a level of complete trees that start at the given nodes: (n_trees, 2^level)."""
    return np.asarray(starts[:, None] + (1 << level) - 1 + np.arange(1 << level))


def step_nodes(model: Model, steps: StepTrees, tests: Tests) -> NodeArrays:
    """Give every leaf a node of its own; CatBoost keeps a leaf beside a subtree in their parent."""
    value, weight = _leaves(model, len(model.leaf_value) // model.n_outputs)
    _check_steps(model, steps)
    is_leaf = (steps.step == 0).all(axis=1)
    has_inline = (steps.step == 0).any(axis=1) & ~is_leaf
    tests.check(model.splits[~is_leaf])
    leaf = _leaf_numbers(model, steps, is_leaf | has_inline)
    # A leaf kept in its parent gets the place right behind it.
    width = 1 + has_inline
    place = np.cumsum(width) - width
    tree = np.repeat(np.arange(len(model.sizes)), model.sizes)
    counts = np.bincount(tree, width, len(model.sizes)).astype(np.int64)
    new_tree = np.repeat(tree, width)
    n_nodes = len(new_tree)
    of_node, test, children = np.full(n_nodes, -1), np.full(n_nodes, -1), np.full((n_nodes, 2), -1)
    of_node[place[is_leaf]], of_node[place[has_inline] + 1] = leaf[is_leaf], leaf[has_inline]
    test[place] = np.where(is_leaf, -1, model.splits)
    target = np.minimum(np.arange(len(tree))[:, None] + steps.step, len(tree) - 1)
    children[place] = np.where(is_leaf[:, None], -1, np.where(steps.step > 0, place[target], place[:, None] + 1))
    first_leaf = np.full(len(model.sizes), len(value))
    np.minimum.at(first_leaf, new_tree[of_node >= 0], of_node[of_node >= 0])
    start = (np.cumsum(counts) - counts)[new_tree]
    return _nodes(
        tests,
        counts,
        np.where(children[:, 0] < 0, -1, children[:, 0] - start),
        np.where(children[:, 1] < 0, -1, children[:, 1] - start),
        test=test,
        cover=_covers(children, of_node, weight),
        value=value[np.maximum(of_node, 0)],
        leaf_id=of_node - first_leaf[new_tree],
    )


def _nodes(tests: Tests, counts: Int64s, left: Any, right: Any, *, test: Int64s, **columns: Any) -> NodeArrays:
    return NodeArrays(
        counts=counts,
        left=left,
        right=right,
        feature=tests.feature[test],
        threshold=tests.threshold[test],
        default_left=tests.default_left[test],
        category_set=tests.category_set[test] if tests.sets else None,
        **columns,
    )


def _leaves(model: Model, n_leaves: int) -> tuple[Doubles, Doubles]:
    """Values (n_leaves, n_outputs) and weights of the leaves; weights are 0 where the document has none."""
    found, expected = len(model.leaf_value), n_leaves * model.n_outputs
    if found != expected:
        raise ValueError(f"it holds {found} leaf values, expected {expected}")
    weight = model.leaf_weight if len(model.leaf_weight) else np.zeros(n_leaves)
    if len(weight) != n_leaves:
        raise ValueError(f"it holds {len(weight)} leaf weights for {n_leaves} leaves")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("a leaf weight is negative or not finite")
    return model.leaf_value.reshape(n_leaves, model.n_outputs), weight


def _leaf_numbers(model: Model, steps: StepTrees, holds: Bools) -> Int64s:
    """Leaf of each node that holds one, -1 elsewhere."""
    wrong = holds & ((steps.leaf % model.n_outputs != 0) | (steps.leaf >= len(model.leaf_value)))
    if wrong.any():
        raise ValueError(f"node {np.argmax(wrong)} names a leaf that does not exist")
    return np.where(holds, steps.leaf // model.n_outputs, -1)


def _check_steps(model: Model, steps: StepTrees) -> None:
    """Children come after their parent, in its tree, and have one parent."""
    sizes, n_nodes = model.sizes, len(steps.step)
    if len(sizes) and sizes.min() < 1:
        raise ValueError(f"a tree has {sizes.min()} nodes")
    if {int(sizes.sum()), len(steps.leaf), len(model.splits)} != {n_nodes}:
        raise ValueError(f"its trees declare {sizes.sum()} nodes, but it holds {n_nodes}")
    parent = np.repeat(np.arange(n_nodes), 2)[(is_child := steps.step.reshape(-1) > 0)]
    child = parent + steps.step.reshape(-1)[is_child]
    end = np.repeat(np.cumsum(sizes), sizes)
    if (wrong := child >= end[parent]).any():
        raise ValueError(f"node {parent[np.argmax(wrong)]} names a child beyond its tree")
    if len(child) and (n_parents := np.bincount(child)).max() > 1:
        raise ValueError(f"node {np.argmax(n_parents)} has several parents")


def _covers(children: Int64s, of_node: Int64s, weight: Doubles) -> Doubles:
    """Add the leaves' weights up, level by level from the deepest."""
    cover = np.where(of_node >= 0, weight[np.maximum(of_node, 0)], 0.0)
    is_split = of_node < 0
    has_parent = np.zeros(len(children), np.bool_)
    has_parent[children[is_split]] = True
    levels = [np.flatnonzero(~has_parent)]
    while len(level := levels[-1]):
        levels.append(children[level[is_split[level]]].ravel())
    for level in levels[::-1]:
        splits = level[is_split[level]]
        cover[splits] = cover[children[splits]].sum(axis=1)
    return cover
