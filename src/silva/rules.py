"""Splits, leaves and equations of a tree in words, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.ensemble import NUMBER
from silva.evaluate.linear import term_name
from silva.facts import feature_name

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.typing import Array

SHOWN_CATEGORIES = 6


def test_text(forest: TreeEnsemble, node: int, digits: int) -> tuple[str, str]:
    """What a row passes to go left, and to go right."""
    name, threshold = feature_name(forest, int(forest.feature[node])), forest.threshold[node]
    if forest.is_categorical and forest.category_set[node] >= 0:
        listed, is_left = _categories(forest, node)
        left, right = f"{name} in {listed}", f"{name} not in {listed}"
        if not is_left:
            left, right = right, left
    elif np.isinf(threshold):
        return f"{name} present", f"{name} missing"
    else:
        left, right = f"{name} < {number_text(threshold, digits)}", f"{name} >= {number_text(threshold, digits)}"
    if not _may_be_missing(forest, int(forest.feature[node])):
        return left, right
    return (f"{left} or missing", right) if forest.default_left[node] else (left, f"{right} or missing")


def _may_be_missing(forest: TreeEnsemble, feature: int) -> bool:
    """Whether the side of missing values says something; where training had none it is a guess."""
    return forest.nan_allowed and (not len(forest.missing_seen) or bool(forest.missing_seen[feature]))


def paths(forest: TreeEnsemble, tree: int, digits: int) -> dict[int, list[str]]:
    """List the tests from the root to each leaf of a tree, by the leaf's index into the forest's leaves."""
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    tests: dict[int, list[str]] = {first: []}
    leaf, found = leaf_of_node(forest, first), {}
    for node in range(first, last):  # breadth-first: parents come first, leaves in their order
        if forest.feature[node] < 0:
            found[leaf] = tests[node]
            leaf += 1
            continue
        for side, test in enumerate(test_text(forest, node, digits)):
            tests[first + int(forest.left[node]) + side] = [*tests[node], test]
    return found


def rule_table(forest: TreeEnsemble, summary: dict[str, Any], digits: int = 4) -> dict[str, Any]:
    """One entry a leaf of all trees: leaf, rule, rows, mean, equation, and rmse (log_loss) as in `summary`."""
    rules = {leaf: tests for tree in range(forest.n_trees) for leaf, tests in paths(forest, tree, digits).items()}
    error = "rmse" if "rmse" in summary else "log_loss"
    return {
        "leaf": np.arange(forest.n_leaves),
        "rule": np.array([" and ".join(tests) or "all rows" for tests in rules.values()]),
        "rows": summary["n_rows"],
        "mean": summary["mean"],
        "equation": np.array([equation(forest, leaf, digits) for leaf in rules]),
        error: summary[error],
    }


def equation(forest: TreeEnsemble, leaf: int, digits: int) -> str:
    """Write the leaf's value as a formula."""
    if not forest.has_linear_leaves:
        return _values_text(forest, forest.leaf_value[leaf], digits)
    terms = slice(*forest.linear_offsets[leaf : leaf + 2])
    coefficients = forest.linear_coefficient[terms]
    intercept = forest.leaf_value[leaf, 0] - np.sum(coefficients * forest.linear_mean[terms])
    text = number_text(intercept, digits)
    shown: dict[int, int] = {}
    features, categories = forest.linear_feature[terms], forest.linear_category[terms]
    for coefficient, feature, category in zip(coefficients, features.tolist(), categories.tolist(), strict=True):
        shown[feature] = shown.get(feature, 0) + 1
        if shown[feature] > SHOWN_CATEGORIES:
            continue
        name, sign = term_name(forest, feature, category), "-" if coefficient < 0 else "+"
        text += f" {sign} {number_text(abs(coefficient), digits)} {name if category == NUMBER else f'[{name}]'}"
    more = {feature: n - SHOWN_CATEGORIES for feature, n in shown.items() if n > SHOWN_CATEGORIES}
    return text + "".join(f" + ... {n} more of {feature_name(forest, feature)}" for feature, n in more.items())


def _values_text(forest: TreeEnsemble, values: Array, digits: int) -> str:
    """Write a leaf's values, those of classes by name and without those that are 0."""
    if len(forest.classes) != 1 or not 1 < len(values) == len(forest.classes[0]):
        return ", ".join(number_text(value, digits) for value in values)
    labels = forest.classes[0].tolist()
    named = [f"{number_text(value, digits)} [{label}]" for value, label in zip(values, labels, strict=True) if value]
    return ", ".join(named) or "0"


def leaf_of_node(forest: TreeEnsemble, node: int) -> int:
    """Index into the forest's leaves of a leaf node."""
    return int((forest.feature[:node] < 0).sum())


def common_range(forest: TreeEnsemble, tree: int, digits: int) -> str:
    """Range that all leaves of a tree are clipped to; empty where there is none, or each leaf has its own."""
    if not forest.has_linear_leaves:
        return ""
    nodes = slice(*forest.tree_offsets[tree : tree + 2])
    first = leaf_of_node(forest, nodes.start)
    ranges = forest.leaf_range[first : first + int((forest.feature[nodes] < 0).sum())]
    is_common = (ranges == ranges[0]).all() and np.isfinite(ranges[0]).all()
    return range_text(ranges[0], digits) if is_common else ""


def range_text(limits: Any, digits: int) -> str:
    """Write the ends of a range."""
    return " ... ".join(number_text(limit, digits) for limit in limits)


def _categories(forest: TreeEnsemble, node: int) -> tuple[str, bool]:
    """List the categories of one side, the first few of them, and say whether it is the left one.

    The side of fewer categories where all are known (others count as missing); otherwise the left one, unless it takes
    categories that nobody can list. Hashes of categories stand behind a #.
    """
    at = int(forest.category_set[node])
    words = forest.set_words[forest.set_offsets[at] : forest.set_offsets[at + 1]]
    goes_left = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
    table = forest.categories[int(forest.feature[node])] if forest.categories else None
    if table is not None and not forest.category_hash:
        sides = np.full(max(len(table), len(goes_left)), forest.set_others_left[at])
        sides[: len(goes_left)] = goes_left
        sides = sides[: len(table)]
        is_left = bool(2 * sides.sum() <= len(table))
        names = [str(table[code]) for code in np.flatnonzero(sides == is_left)]
    else:
        is_left = not forest.set_others_left[at]
        codes = np.flatnonzero(goes_left == is_left)
        names = [str(code) if table is None else f"#{table[code]:08x}" for code in codes]
    more = f", ... {len(names) - SHOWN_CATEGORIES} more" if len(names) > SHOWN_CATEGORIES else ""
    return "{" + ", ".join(names[:SHOWN_CATEGORIES]) + more + "}", is_left


def covers_are_counts(forest: TreeEnsemble, tree: int) -> bool:
    """Whether a tree's covers are numbers of training rows; sums of Hessians or of weights seldom are whole."""
    covers = forest.cover[slice(*forest.tree_offsets[tree : tree + 2])]
    return bool(covers[0] > 0 and (covers == np.round(covers)).all())


def cover_texts(forest: TreeEnsemble, tree: int) -> list[str]:
    """Say of each node of a tree how many training rows it had, or what the model has kept of them, if anything."""
    covers = forest.cover[slice(*forest.tree_offsets[tree : tree + 2])].tolist()
    if covers_are_counts(forest, tree):
        return [f"{number_text(cover, 10)} rows" for cover in covers]
    return [f"cover {number_text(cover, 6)}" if covers[0] > 0 else "" for cover in covers]


def number_text(value: float, digits: int) -> str:
    """Write a number with so many significant digits."""
    return f"{float(value):.{digits}g}"
