"""Where the rows go and what they get: plain recursion over the arrays of a forest, sharing no code with it.

Written from the docstring of TreeEnsemble alone. Rows are numbers (float64); categories are their codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from glasswood import Forest


def routed_values(forest: Forest, X: Any) -> NDArray[Any]:
    """Rows as the splits see them: in the row type, missing entries NaN, tiny numbers 0."""
    trees = forest.ensemble
    given = np.asarray(X, np.float64)
    with np.errstate(over="ignore"):
        values = given.astype(trees.threshold.dtype)
        marker = np.asarray(trees.missing).astype(trees.threshold.dtype)
    values = np.where(values == marker, np.asarray(np.nan, values.dtype), values)
    if trees.zero_threshold > 0:
        values = np.where(np.abs(values) <= trees.zero_threshold, np.asarray(0, values.dtype), values)
    if len(trees.zero_missing):
        values = np.where((values == 0) & trees.zero_missing, np.asarray(np.nan, values.dtype), values)
    return values


def visits(forest: Forest, X: Any) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
    """Yield tree, node (an index into the forest's arrays) and the rows that reach it, parents before children."""
    trees = forest.ensemble
    columns = np.ascontiguousarray(routed_values(forest, X).T)
    feature, left_child, all_rows = trees.feature.tolist(), trees.left.tolist(), np.arange(len(X))
    for tree, root in enumerate(trees.tree_offsets[:-1].tolist()):
        pending = [(root, all_rows)]
        while pending:
            node, rows = pending.pop()
            yield tree, node, rows
            if feature[node] >= 0:
                left = goes_left(forest, node, columns[feature[node]][rows])
                child = root + left_child[node]
                pending += [(child, rows[left]), (child + 1, rows[~left])]


def goes_left(forest: Forest, node: int, x: NDArray[Any]) -> NDArray[np.bool_]:
    """Side of values (in the row type, missing is NaN) at a split."""
    trees = forest.ensemble
    threshold = trees.threshold[node]
    if len(trees.category_set) and trees.category_set[node] >= 0:
        left = _is_in_set(forest, int(trees.category_set[node]), threshold, x)
    else:
        left = x < threshold if threshold != np.inf else np.ones(len(x), bool)
    left[np.isnan(x)] = trees.default_left[node]
    return left


def _is_in_set(forest: Forest, which: int, smallest: float, x: NDArray[Any]) -> NDArray[np.bool_]:
    trees = forest.ensemble
    words = trees.set_words[trees.set_offsets[which] : trees.set_offsets[which + 1]]
    x, result = x.astype(np.float64), np.full(len(x), trees.set_others_left[which], bool)
    if len(words):
        known = (x >= float(smallest)) & (x < 32 * len(words))
        place = x[known].astype(np.int64)  # towards 0
        result[known] = words[place // 32].astype(np.int64) >> place % 32 & 1
    return result


def leaves(forest: Forest, X: Any) -> NDArray[np.int64]:
    """Leaf that each row reaches in each tree, an index into `leaf_value`: (n_rows, n_trees)."""
    trees = forest.ensemble
    result = np.full((len(X), len(trees.tree_offsets) - 1), -1, np.int64)
    number = np.where(trees.feature < 0, np.cumsum(trees.feature < 0) - 1, -1).tolist()
    for tree, node, rows in visits(forest, X):
        if number[node] >= 0:
            result[rows, tree] = number[node]
    return result


def leaf_ids(forest: Forest, X: Any) -> NDArray[np.int32]:
    """The source library's leaf ids: (n_rows, n_trees)."""
    trees = forest.ensemble
    return trees.leaf_id[leaves(forest, X)]


def tree_values(forest: Forest, X: Any) -> NDArray[np.float64]:
    """What each tree adds to each output: (n_trees, n_rows, n_outputs)."""
    trees = forest.ensemble
    reached = leaves(forest, X)
    result = np.zeros((reached.shape[1], len(reached), len(trees.base_score)))
    for tree in range(reached.shape[1]):
        values = leaf_values(forest, X, reached[:, tree]) * trees.tree_weight[tree]
        if values.shape[1] == 1 and result.shape[2] > 1:
            result[tree, :, trees.tree_output[tree]] = values[:, 0]
        else:
            result[tree] = values
    return result


def leaf_values(forest: Forest, X: Any, reached: NDArray[np.int64]) -> NDArray[np.float64]:
    """What the rows' leaves return in one tree: (n_rows, leaf_width)."""
    trees = forest.ensemble
    if not len(trees.linear_offsets):
        return trees.leaf_value[reached]
    rows, result = np.asarray(X, np.float64), np.zeros((len(reached), 1))
    for leaf in np.unique(reached):
        here = np.flatnonzero(reached == leaf)
        value, lacks_number = np.full(len(here), trees.leaf_value[leaf, 0], np.float64), np.zeros(len(here), bool)
        for term in range(int(trees.linear_offsets[leaf]), int(trees.linear_offsets[leaf + 1])):
            x, category = rows[here, trees.linear_feature[term]], int(trees.linear_category[term])
            with np.errstate(over="ignore", invalid="ignore"):
                if category in (-1, -3):
                    number = x if category == -1 else logarithm(x)
                    lacks_number |= np.isnan(number)
                    difference = np.where(np.isnan(number), 0.0, number - trees.linear_mean[term])
                else:
                    difference = (np.isnan(x) if category == -2 else x == category) - trees.linear_mean[term]
                value += trees.linear_coefficient[term] * difference
        value = np.minimum(np.maximum(value, trees.leaf_range[leaf, 0]), trees.leaf_range[leaf, 1])
        is_constant = lacks_number & bool(len(trees.leaf_missing))
        result[here, 0] = np.where(is_constant, trees.leaf_missing[leaf], value) if is_constant.any() else value
    return result


def logarithm(x: Any) -> NDArray[np.float64]:
    """Natural logarithm; NaN where a number has none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(x, np.float64) > 0, np.log(np.asarray(x, np.float64)), np.nan)


def margins(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Base score plus the trees: float64 (n_rows, n_outputs)."""
    trees = forest.ensemble
    return trees.base_score + tree_values(forest, X).sum(axis=0)


def term_sizes(forest: Forest, X: Any) -> NDArray[np.float64]:
    """Magnitudes of terms and constants of the equations that rows reach, added up: (n_rows, n_outputs)."""
    trees = forest.ensemble
    reached, rows = leaves(forest, X), np.abs(np.nan_to_num(np.asarray(X, np.float64)))
    result = np.zeros((len(reached), len(trees.base_score)))
    for tree in range(reached.shape[1]):
        for leaf in np.unique(reached[:, tree]):
            here = np.flatnonzero(reached[:, tree] == leaf)
            terms = slice(int(trees.linear_offsets[leaf]), int(trees.linear_offsets[leaf + 1]))
            numbers = rows[here][:, trees.linear_feature[terms]]
            logarithms = np.abs(np.nan_to_num(logarithm(numbers)))
            numbers = np.select([trees.linear_category[terms] == kind for kind in (-1, -3)], [numbers, logarithms], 1.0)
            numbers += np.abs(trees.linear_mean[terms])
            size = numbers @ np.abs(trees.linear_coefficient[terms]) + abs(float(trees.leaf_value[leaf, 0]))
            result[here, trees.tree_output[tree]] += abs(float(trees.tree_weight[tree])) * size
    return result


def summation_bound(forest: Forest, X: Any, unit: float = 2.0**-24) -> NDArray[np.float64]:
    """Largest error of adding the base score and n trees in any order, each term and sum rounded to `unit`.

    Summing n + 1 terms takes n additions, each with a relative error of at most u of a partial sum that is at most the
    sum of the magnitudes; one more u for rounding the terms themselves, doubled for a product with a tree weight.
    """
    trees = forest.ensemble
    size = np.abs(trees.base_score) + np.abs(tree_values(forest, X)).sum(axis=0)
    n_roundings = len(trees.tree_offsets) - 1 + 2
    if len(trees.linear_offsets):  # terms may cancel each other
        size = size + term_sizes(forest, X)
        n_roundings += int(np.diff(trees.linear_offsets).max(initial=0)) + 2
    return n_roundings * unit / (1 - n_roundings * unit) * size
