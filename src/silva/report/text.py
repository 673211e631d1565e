"""A tree as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.evaluate.linear import NUMBER, term_name
from silva.loading import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silva.forest import Forest

SHOWN_CATEGORIES = 6


def export_text(model: object, tree: int = 0, digits: int = 4) -> str:
    """Write a tree as indented rules, one line a test or leaf, and what confines the predictions of all leaves.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` reads
        A fitted `ModelTreeRegressor` also shows the error of each leaf, and how many of its rows are clipped.
    tree : int, default=0
        Which tree.
    digits : int, default=4
        Significant digits of numbers, enough to read an equation, not always to compute with it: a large intercept
        and large terms of opposite signs cancel. 17 digits are exact.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the forest has no such tree.
    """
    forest = load(model)
    check_tree(forest, tree)
    common = common_range(forest, tree, digits)
    lines = _lines(forest, tree, 0, "", digits, facts_of(model))
    return "\n".join([*lines, *([f"Predictions are clipped to {common}."] if common else [])])


def check_tree(forest: Forest, tree: int) -> None:
    """Raise ValueError unless the forest has a tree of this number."""
    if not 0 <= tree < forest.n_trees:
        raise ValueError(f"tree is {tree}, the forest has {forest.n_trees} trees: expected 0 to {forest.n_trees - 1}")


def facts_of(model: object) -> Any:
    """Table of the leaves, None if the model does not know it."""
    return getattr(model, "leaf_summary_", None)


def common_range(forest: Forest, tree: int, digits: int) -> str:
    """Range that all leaves of a tree are clipped to; empty where there is none, or each leaf has its own."""
    if not forest.has_linear_leaves:
        return ""
    nodes = slice(*forest.tree_offsets[tree : tree + 2])
    first = leaf_of_node(forest, nodes.start)
    ranges = forest.leaf_range[first : first + int((forest.feature[nodes] < 0).sum())]
    is_common = (ranges == ranges[0]).all() and np.isfinite(ranges[0]).all()
    return _range(ranges[0], digits) if is_common else ""


def _range(limits: Any, digits: int) -> str:
    return " ... ".join(_number(limit, digits) for limit in limits)


def feature_name(forest: Forest, feature: int) -> str:
    """Name a feature: its own name, or x and its number."""
    return forest.feature_names[feature] if forest.feature_names else f"x{feature}"


def test_text(forest: Forest, node: int, digits: int) -> tuple[str, str]:
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
        left, right = f"{name} < {_number(threshold, digits)}", f"{name} >= {_number(threshold, digits)}"
    if not forest.nan_allowed:
        return left, right
    return (f"{left} or missing", right) if forest.default_left[node] else (left, f"{right} or missing")


def equation(forest: Forest, leaf: int, digits: int) -> str:
    """Write the leaf's value as a formula."""
    if not forest.has_linear_leaves:
        return ", ".join(_number(value, digits) for value in forest.leaf_value[leaf])
    terms = slice(*forest.linear_offsets[leaf : leaf + 2])
    coefficients = forest.linear_coefficient[terms]
    intercept = forest.leaf_value[leaf, 0] - np.sum(coefficients * forest.linear_mean[terms])
    text = _number(intercept, digits)
    shown: dict[int, int] = {}
    features, categories = forest.linear_feature[terms], forest.linear_category[terms]
    for coefficient, feature, category in zip(coefficients, features.tolist(), categories.tolist(), strict=True):
        shown[feature] = shown.get(feature, 0) + 1
        if shown[feature] > SHOWN_CATEGORIES:
            continue
        name, sign = term_name(forest, feature, category), "-" if coefficient < 0 else "+"
        text += f" {sign} {_number(abs(coefficient), digits)} {name if category == NUMBER else f'[{name}]'}"
    more = {feature: n - SHOWN_CATEGORIES for feature, n in shown.items() if n > SHOWN_CATEGORIES}
    return text + "".join(f" + ... {n} more of {feature_name(forest, feature)}" for feature, n in more.items())


def leaf_text(forest: Forest, tree: int, node: int, digits: int, summary: Any) -> str:
    """Write the equation, the rows and, where known, the error of a leaf, and what it is clipped to by itself."""
    leaf = leaf_of_node(forest, node)
    facts = [f"{_number(forest.cover[node], 10)} rows"]
    if summary is not None:
        error = "rmse" if "rmse" in summary else "log_loss"
        facts.append(f"{error.replace('_', '-')} {_number(summary[error][leaf], digits)}")
        if summary["n_clipped"][leaf]:
            facts.append(f"{summary['n_clipped'][leaf]} clipped")
    if forest.has_linear_leaves and np.isfinite(forest.leaf_range[leaf]).all() and not common_range(forest, tree, 4):
        facts.append(f"clipped to {_range(forest.leaf_range[leaf], digits)}")
    return f"{equation(forest, leaf, digits)}   ({', '.join(facts)})"


def _lines(forest: Forest, tree: int, node: int, indent: str, digits: int, summary: Any) -> Iterator[str]:
    at = int(forest.tree_offsets[tree]) + node
    if forest.feature[at] < 0:
        yield indent + leaf_text(forest, tree, at, digits, summary)
        return
    for test, child in zip(test_text(forest, at, digits), (0, 1), strict=True):
        yield f"{indent}{test}"
        yield from _lines(forest, tree, int(forest.left[at]) + child, indent + "|   ", digits, summary)


def leaf_of_node(forest: Forest, node: int) -> int:
    """Index into the forest's leaves of a leaf node."""
    return int((forest.feature[:node] < 0).sum())


def _categories(forest: Forest, node: int) -> tuple[str, bool]:
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


def _number(value: float, digits: int) -> str:
    return f"{float(value):.{digits}g}"
