"""Splits and leaves of a tree in words, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Array, Bools, Doubles
from glasswood.base.wording import (
    SEPARATED,
    Wording,
    count_text,
    number_text,
    percent_text,
    quoted_name,
    threshold_texts,
)
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name
from glasswood.words.equation_texts import equation_text, exponential_text, odds_text, rate_text
from glasswood.words.equations import EXACT, leaf_equation, multiplies

SHOWN_CATEGORIES, SHOWN_CLASSES = 6, 3

ROUNDED = 0.005
"""Share of a feature's range by which thresholds may be rounded."""

SHORT = 7
"""Letters of a number that people would have written as the last value of a side."""


def node_tests(
    forest: TreeEnsemble, tree: int, wording: Wording, ends: Mapping[int, list[float]] | None = None
) -> list[tuple[str, str]]:
    """Write what a row passes to go left, and to go right, at each node of a tree; empty texts at leaves.

    Missing values are not spoken of where an earlier test has let none through. Thresholds have as many digits
    as make them differ from each other, and that they are near within their feature's range where `ends` has it.
    """
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    limits = _limits(forest, first, last, wording.digits, ends or {})
    tests, present = [("", "")] * (last - first), [frozenset[int]()] * (last - first)
    for node in range(last - first):  # breadth-first: parents come first
        feature, left = int(forest.feature[first + node]), int(forest.left[first + node])
        if feature < 0:
            continue
        is_known = feature in present[node]
        tests[node] = (
            _side_text(forest, first + node, 0, wording, limits, is_known),
            _side_text(forest, first + node, 1, wording, limits, is_known),
        )
        for side in (0, 1):
            is_passed = _takes_missing(forest, first + node, side)
            present[left + side] = present[node] if is_passed else present[node] | {feature}
    return tests


def _takes_missing(forest: TreeEnsemble, node: int, side: int) -> bool:
    return bool(forest.default_left[node]) == (side == 0)


def _limits(
    forest: TreeEnsemble, first: int, last: int, digits: int, ends: Mapping[int, list[float]]
) -> dict[int, dict[float, str]]:
    """Write the thresholds of a tree, by feature."""
    compares = (forest.feature[first:last] >= 0) & np.isfinite(forest.threshold[first:last])
    if forest.is_categorical:
        compares &= forest.category_set[first:last] < 0
    features, thresholds = forest.feature[first:last][compares], forest.threshold[first:last][compares]
    return {
        f: _between(thresholds[features == f].tolist(), ends.get(f, []), digits) for f in np.unique(features).tolist()
    }


def _between(thresholds: list[float], ends: list[float], digits: int) -> dict[float, str]:
    """Write the thresholds of a feature, rounded by little of its range, each on its own side of the range's ends."""
    texts = threshold_texts(thresholds, digits)
    is_near = all(abs(float(text.replace(",", "")) - value) < _room(value, ends) for value, text in texts.items())
    return texts if is_near or digits >= EXACT else _between(thresholds, ends, digits + 1)


def _room(value: float, ends: list[float]) -> float:
    """How far the text of a threshold may be from the threshold; the ends of a range are given, or none."""
    gaps = [abs(value - end) for end in ends]
    if ends:
        gaps.append((max(ends) - min(ends)) * ROUNDED)
    return min((gap for gap in gaps if gap > 0), default=np.inf)


def _side_text(
    forest: TreeEnsemble, node: int, side: int, wording: Wording, limits: dict[int, dict[float, str]], is_present: bool
) -> str:
    """Write the test of one side: a comparison, one category or several, a value that is there or not."""
    feature, threshold = int(forest.feature[node]), forest.threshold[node]
    name = feature_name(forest, feature)
    said = quoted_name(name)
    if forest.is_categorical and forest.category_set[node] >= 0:
        listed, is_this = _categories(forest, node, side)
        if (
            forest.unseen_apart and not listed and is_this == _takes_missing(forest, node, side)
        ):  # splits by whether there is a category
            return f"{said} {'missing' if is_this else 'present'}"
        single = len(listed) == 1
        sign = ("=" if single else "in") if is_this else ("!=" if single else "not in")
        text = wording.text(sign, name=said, listed=_listed(listed, wording))
    elif np.isinf(threshold):
        return wording.text("is missing" if side else "is present", name=said)
    else:
        included = _included(forest, float(threshold))
        signs, limit = (("<", ">="), limits[feature][float(threshold)])
        if included is not None:
            signs, limit = (("<=", ">"), f"{included:.{EXACT}g}" if included else "0")
        text = f"{said} {signs[side]} {wording.with_unit(wording.number(limit), name)}"
    says_missing = _takes_missing(forest, node, side) and _may_be_missing(forest, feature) and not is_present
    return wording.text("or missing", test=text) if says_missing else text


def _included(forest: TreeEnsemble, threshold: float) -> float | None:
    """Find a short number that is the last one on the left side; None where the threshold itself says more.

    Readers turn ``x <= 25`` into ``x < t``, t the next number above 25 in the type that rows are compared in. Where a
    zero stands for a range of numbers (LightGBM), that range is 0.
    """
    if 0 < threshold <= 2 * forest.zero_threshold:
        return 0.0
    kind = forest.threshold.dtype.type
    before = float(np.nextafter(kind(threshold), kind(-np.inf)))
    if not before:
        return 0.0
    is_short = len(f"{before:.{EXACT}g}") <= SHORT and len(repr(threshold)) > SHORT
    return before if is_short and abs(before) < SEPARATED else None


def _listed(names: list[str], wording: Wording) -> str:
    if len(names) == 1:
        return names[0]
    n_more = 0 if wording.digits >= EXACT else len(names) - SHOWN_CATEGORIES
    more = f", ... {wording.text('more', n=str(n_more))}" if n_more > 0 else ""
    return "{" + ", ".join(names[: len(names) - max(n_more, 0)]) + more + "}"


def _may_be_missing(forest: TreeEnsemble, feature: int) -> bool:
    """Whether the side of missing values says something; where training had none it is a guess."""
    allowed = forest.nan_allowed or (len(forest.nan_allowed_in) > 0 and bool(forest.nan_allowed_in[feature]))
    return allowed and (not len(forest.missing_seen) or bool(forest.missing_seen[feature]))


def paths(forest: TreeEnsemble, tree: int, wording: Wording) -> dict[int, list[str]]:
    """List the tests from the root to each leaf of a tree, by the leaf's index into the forest's leaves.

    If several tests compare a number, only the closest ones are listed.
    """
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    tests = node_tests(forest, tree, wording)
    ways: dict[int, list[tuple[int, int]]] = {first: []}
    leaf, found = leaf_of_node(forest, first), {}
    for node in range(first, last):  # breadth-first: parents come first, leaves in their order
        if forest.feature[node] < 0:
            found[leaf] = [tests[node - first][side] for node, side in _closest(forest, ways[node])]
            leaf += 1
            continue
        for side in (0, 1):
            ways[first + int(forest.left[node]) + side] = [*ways[node], (node, side)]
    return found


def _closest(forest: TreeEnsemble, way: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out what later comparisons of the same number imply: farther limits, and that it is present."""
    closest: dict[object, tuple[int, int]] = {}
    for node, side in way:
        feature = int(forest.feature[node])
        if forest.is_categorical and forest.category_set[node] >= 0:
            closest[node] = (node, side)
        elif np.isinf(forest.threshold[node]):
            closest[feature, "present"] = (node, side)
        else:
            closest.pop((feature, "present"), None)
            closest[feature, side] = (node, side)
    return list(closest.values())


def rule_table(forest: TreeEnsemble, summary: dict[str, Any]) -> dict[str, Any]:
    """One entry per leaf of all trees: leaf, rule, rows, mean, equation, and rmse (log_loss) as in `summary`."""
    wording = wording_of(forest)
    n_trees = forest.n_trees - forest.n_curves
    rules = {leaf: tests for tree in range(n_trees) for leaf, tests in paths(forest, tree, wording).items()}
    error = "rmse" if "rmse" in summary else "log_loss"
    return {
        "leaf": np.arange(len(rules)),
        "rule": np.array([shown(" and ".join(tests)) or "all rows" for tests in rules.values()]),
        "rows": summary["n_rows"],
        "mean": summary["mean"],
        "equation": np.array([shown(value_text(forest, leaf, wording)) for leaf in rules]),
        error: summary[error],
    }


def wording_of(forest: TreeEnsemble) -> Wording:
    """How leaves are written in tables: equations as sums, what multiplies rates as factors."""
    return Wording(style="centered" if multiplies(forest) else "equation")


def value_text(forest: TreeEnsemble, leaf: int, wording: Wording) -> str:
    """Write the leaf's value, a number or an equation; of classifiers what multiplies the odds, if not told else.

    Leaves of logarithms are rates, or factors of these, and what multiplies them.
    """
    if not forest.has_linear_leaves:
        if multiplies(forest):
            return wording.number(exponential_text(float(forest.leaf_value[leaf, 0]), wording.digits))
        return _values_text(forest, forest.leaf_value[leaf], wording)
    found = leaf_equation(forest, leaf, wording)
    if multiplies(forest):
        return (
            rate_text(found, wording)
            if found.terms or found.n_smaller
            else exponential_text(found.value, wording.digits)
        )
    if wording.log_odds or not speaks_of_odds(forest):
        return equation_text(found, wording)
    factors = odds_text(found, wording)
    return wording.text("odds times", factors=factors) if factors else wording.text("same for all")


def speaks_of_odds(forest: TreeEnsemble) -> bool:
    """Whether leaves hold log-odds of a class: one tree a class, or one of the second of two classes."""
    n_trees = forest.n_trees - forest.n_curves
    return forest.link in {"logistic", "softmax"} and n_trees == forest.n_outputs and forest.leaf_width == 1


def sum_note(forest: TreeEnsemble, tree: int, wording: Wording) -> str:
    """Say how predictions follow from the leaves of this tree and others; empty where they are its leaves."""
    output, width = int(forest.tree_output[tree]), forest.leaf_width
    is_own = (forest.tree_output == output) if width == 1 else np.ones(forest.n_trees, bool)
    is_curve = is_own & (np.arange(forest.n_trees) >= forest.n_trees - forest.n_curves)
    own = forest.tree_weight[is_own & ~is_curve]
    base = forest.base_score if width > 1 else forest.base_score[[output]]
    if not len(own) or (len(own) == 1 and own[0] == 1 and not base.any() and not is_curve.any()):
        return ""
    if multiplies(forest):
        return _product_note(own, float(forest.tree_weight[tree]), float(base[0]), int(is_curve.sum()), wording)
    name = class_of(forest, tree)
    is_margin = forest.link not in {"identity", "shares"}
    what = ("log-odds" if name else "margin") if is_margin else "prediction"
    what = wording.text(f"sum {what} of", name=shown(name)) if name else wording.text(f"sum {what}")
    constants = ", ".join(wording.number(number_text(value, max(wording.digits, 6))) for value in base)
    said = _sum_text(own, float(forest.tree_weight[tree]), wording)
    if n_curves := int(is_curve.sum()):
        said += f" + {wording.text('and curves', n=wording.number(f'{n_curves:,}'))}"
    return f"{what} = {f'{constants} + ' if base.any() else ''}{said}."


def _product_note(own: Doubles, weight: float, base: float, n_curves: int, wording: Wording) -> str:
    """Say how predictions are products of leaves."""
    n, power = len(own), wording.number(number_text(weight, wording.digits))
    count = wording.number(f"{n:,}")
    if (own != own[0]).any():
        leaves = wording.text("product of weighted", n=count, weight=power)
    elif n > 1 and abs(own.sum() - 1) < 1e-9:
        leaves = wording.text("geometric mean of leaves", n=count)
    else:
        leaves = wording.text("its leaf") if n == 1 else wording.text("product of leaves", n=count)
        leaves = leaves if weight == 1 else wording.text("to the power", leaves=leaves, weight=power)
    constant = f"{wording.number(exponential_text(base, max(wording.digits, 6)))} × " if base else ""
    curves = f" × {wording.text('and curves', n=wording.number(f'{n_curves:,}'))}" if n_curves else ""
    return f"{wording.text('sum prediction')} = {constant}{leaves}{curves}."


def _sum_text(own: Doubles, weight: float, wording: Wording) -> str:
    """Write the sum of the leaves of trees with weights."""
    n = len(own)
    leaves = wording.text("its leaf") if n == 1 else wording.text("leaves of trees", n=wording.number(f"{n:,}"))
    factor = wording.number(number_text(weight, wording.digits))
    if (own != own[0]).any():
        return wording.text("weighted leaves", leaves=leaves, weight=factor)
    if abs(own.sum() - 1) < 1e-9:
        return wording.text("mean of leaves", n=wording.number(f"{n:,}")) if n > 1 else leaves
    return leaves if weight == 1 else f"{factor} × {leaves}"


def class_of(forest: TreeEnsemble, tree: int) -> str:
    """Name the class that the values of a tree speak for; empty where there is none."""
    place = class_index(forest, tree)
    return "" if place is None or forest.leaf_width > 1 else str(forest.classes[0][place])


@dataclass(frozen=True, eq=False)
class ClassShares:
    """Shares of classes among the training rows of a tree's nodes: names, (n_nodes, n_classes), and which one counts.

    A tree of one of several classes knows that class and the others together. `explained` is the class that the
    tree's values speak for, -1 where they speak for all.
    """

    names: list[str]
    shares: Doubles
    explained: int


def class_shares(forest: TreeEnsemble, tree: int, summary: dict[str, Any] | None) -> ClassShares | None:
    """Shares of classes among the training rows of each node; None where the model does not know them."""
    leaves = slice(*forest.leaf_offsets[tree : tree + 2])
    name, labels = class_of(forest, tree), [str(label) for labels in forest.classes for label in labels.tolist()]
    if summary is not None and "share" in summary and name:
        share = np.asarray(summary["share"][leaves])
        others = labels[0] if forest.n_outputs == 1 else f"not {name}"
        return ClassShares([others, name], _over_nodes(forest, tree, np.column_stack([1 - share, share])), 1)
    values = forest.leaf_value[leaves]
    if len(forest.classes) != 1 or values.shape[1] != len(labels) or (values < 0).any():
        return None
    if not np.allclose(values.sum(axis=1), 1, atol=1e-5) or forest.cover[forest.tree_offsets[tree]] <= 0:
        return None
    return ClassShares(labels, _over_nodes(forest, tree, values), -1)


def share_of_second(forest: TreeEnsemble, summary: dict[str, Any] | None) -> float | None:
    """Share of the second class among training rows, where the first tree of a model knows it."""
    found = class_shares(forest, 0, summary) if forest.n_trees else None
    return None if found is None or len(found.names) != 2 else float(found.shares[0, 1])


def turned_facts(summary: Any) -> Any:
    """Table of the leaves of a forest whose classes have changed places."""
    return summary and (summary | {"share": 1 - np.asarray(summary["share"])} if "share" in summary else summary)


def _over_nodes(forest: TreeEnsemble, tree: int, of_leaves: Doubles) -> Doubles:
    """Means over the rows of every node from those of the leaves."""
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    cover, leaf = forest.cover[first:last], len(of_leaves)
    means = np.zeros((last - first, of_leaves.shape[1]))
    for node in range(last - first - 1, -1, -1):  # children stand behind their parents
        if forest.feature[first + node] < 0:
            leaf -= 1
            means[node] = of_leaves[leaf]
        else:
            sides = [int(forest.left[first + node]), int(forest.left[first + node]) + 1]
            weight = cover[sides] if cover[sides].sum() > 0 else np.ones(2)
            means[node] = weight @ means[sides] / weight.sum()
    return means


def shares_text(names: list[str], shares: Doubles, wording: Wording) -> str:
    """List the classes of the largest shares."""
    order = np.argsort(-shares, kind="stable")
    found = [k for k in order[:SHOWN_CLASSES].tolist() if shares[k] > 0]
    listed = [f"{wording.number(percent_text(float(shares[k])))} {names[k]}" for k in found]
    n_more = int((shares[order[SHOWN_CLASSES:]] > 0).sum())
    return ", ".join([*listed, *([wording.text("more", n=str(n_more))] if n_more else [])])


def _values_text(forest: TreeEnsemble, values: Array, wording: Wording) -> str:
    """Write a leaf's values, those of classes by name and without those that are 0."""
    if len(forest.classes) != 1 or not 1 < len(values) == len(forest.classes[0]):
        return ", ".join(wording.number(number_text(value, wording.digits)) for value in values)
    labels = [str(label) for label in forest.classes[0].tolist()]
    if (values >= 0).all() and abs(float(values.sum()) - 1) < 1e-5:
        return shares_text(labels, values, wording)
    texts = [wording.number(number_text(value, wording.digits)) for value in values]
    named = [f"{text} [{label}]" for value, text, label in zip(values, texts, labels, strict=True) if value]
    return ", ".join(named) or "0"


def leaf_of_node(forest: TreeEnsemble, node: int) -> int:
    """Index into the forest's leaves of a leaf node."""
    return int((forest.feature[:node] < 0).sum())


def common_range(forest: TreeEnsemble, tree: int, wording: Wording) -> str:
    """Range that all leaves of a tree are clipped to; empty where there is none, or each leaf has its own."""
    if not forest.has_linear_leaves:
        return ""
    nodes = slice(*forest.tree_offsets[tree : tree + 2])
    first = leaf_of_node(forest, nodes.start)
    ranges = forest.leaf_range[first : first + int((forest.feature[nodes] < 0).sum())]
    is_common = (ranges == ranges[0]).all() and np.isfinite(ranges[0]).all()
    return range_text(forest, first, wording) if is_common else ""


def range_text(forest: TreeEnsemble, leaf: int, wording: Wording) -> str:
    """Write the ends of what a leaf is clipped to, in the units in which leaves are written."""
    write = exponential_text if multiplies(forest) else number_text
    return " ... ".join(wording.number(write(limit, wording.digits)) for limit in forest.leaf_range[leaf].tolist())


def _categories(forest: TreeEnsemble, node: int, side: int) -> tuple[list[str], bool]:
    """List the categories of one side, and say whether it is this one (0: left, 1: right).

    The side of fewer categories where all are known (others count as missing), the asked one of two equal ones;
    otherwise the left one, unless it takes categories that nobody can list: those that training did not keep, or of
    which hashes are known, which stand behind a #.
    """
    at = int(forest.category_set[node])
    words = forest.set_words[forest.set_offsets[at] : forest.set_offsets[at + 1]]
    goes_left = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
    table = forest.categories[int(forest.feature[node])] if forest.categories else None
    if table is not None and not forest.unseen_apart:
        sides = np.full(max(len(table), len(goes_left)), forest.set_others_left[at])
        sides[: len(goes_left)] = goes_left
        sides = sides[: len(table)]
        n_left, n_right = int(sides.sum()), int((~sides).sum())
        is_left = side == 0 if n_left == n_right == 1 else n_left <= n_right
        return [str(table[code]) for code in np.flatnonzero(sides == is_left)], is_left == (side == 0)
    is_left = not forest.set_others_left[at]
    codes = np.flatnonzero(goes_left == is_left)
    if table is not None and forest.category_hash:
        return [f"#{table[code]:08x}" for code in codes], is_left == (side == 0)
    names = [str(code if table is None else table[code]) for code in codes]
    return names, is_left == (side == 0)


def goes_left(forest: TreeEnsemble, node: int, values: Array) -> Bools:
    """Whether each value goes left at a split; codes of categories are numbers."""
    if not forest.is_categorical or forest.category_set[node] < 0:
        left: Bools = np.asarray(values < forest.threshold[node]) | np.isinf(forest.threshold[node])
        return left
    which = int(forest.category_set[node])
    words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
    codes = values.astype(np.int64)
    known = (codes >= 0) & (codes < len(bits))
    result = np.full(len(values), forest.set_others_left[which])
    result[known] = bits[codes[known]]
    return result


def class_index(forest: TreeEnsemble, tree: int) -> int | None:
    """Place of the class that a tree speaks for among the classes; of leaves that hold all classes the second of two.

    None where there is none: regressions, and leaves that hold more classes.
    """
    if len(forest.classes) != 1:
        return None
    n_classes, output = len(forest.classes[0]), int(forest.tree_output[tree])
    if n_classes == 2:
        return 1
    return output if forest.leaf_width == 1 and n_classes == forest.n_outputs else None


def covers_are_counts(forest: TreeEnsemble, tree: int) -> bool:
    """Whether a tree's covers are numbers of training rows; sums of Hessians or of weights seldom are whole."""
    covers = forest.cover[slice(*forest.tree_offsets[tree : tree + 2])]
    return bool(covers[0] > 0 and (covers == np.round(covers)).all())


def cover_texts(forest: TreeEnsemble, tree: int, summary: dict[str, Any] | None = None) -> list[str]:
    """Say of each node of a tree how many training rows it had, or what the model has kept of them, if anything.

    Trees of rates weigh rows by their working weights; the estimator's table of leaves knows their number.
    """
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    covers = forest.cover[first:last].tolist()
    if covers_are_counts(forest, tree):
        return [f"{count_text(cover)} rows" for cover in covers]
    if multiplies(forest) and summary is not None:
        n_rows, leaf = np.zeros(last - first), leaf_of_node(forest, last)
        for node in range(last - first - 1, -1, -1):  # children stand behind their parents
            left, is_leaf = int(forest.left[first + node]), bool(forest.feature[first + node] < 0)
            leaf -= is_leaf
            n_rows[node] = summary["n_rows"][leaf] if is_leaf else n_rows[left] + n_rows[left + 1]
        return [f"{count_text(n)} rows" for n in n_rows.tolist()]
    return [f"cover {number_text(cover, 6)}" if covers[0] > 0 else "" for cover in covers]
