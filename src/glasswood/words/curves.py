"""Curves and surfaces of a forest, read from their trees: their steps, and a line of text for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Bools, Doubles
from glasswood.base.wording import number_text, quoted_name, signed_text, threshold_text
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name
from glasswood.words.equation_texts import factor_text
from glasswood.words.equations import multiplies

MOST_NAMES = 3
"""Categories that a line names for the lowest and for the highest step."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A leaf of a curve or of a surface.

    Attributes
    ----------
    value : float
    rows : float
        Weight of the training rows.
    numbers : dict
        By feature of numbers, from which on and below which; an empty interval where none comes.
    categories : dict
        By feature, which codes come here: bool, (n_categories,).
    missing : dict
        By feature, whether rows without a value come here. It has all features that the way to the leaf tests.
    """

    value: float
    rows: float
    numbers: dict[int, Interval]
    categories: dict[int, Bools]
    missing: dict[int, bool]


def curve_trees(forest: TreeEnsemble) -> range:
    """Numbers of the trees that are curves and surfaces."""
    return range(forest.n_trees - forest.n_curves, forest.n_trees)


def features_of(forest: TreeEnsemble, tree: int) -> list[int]:
    """Features that a tree tests, rising."""
    own = forest.feature[forest.tree_offsets[tree] : forest.tree_offsets[tree + 1]]
    features: list[int] = np.unique(own[own >= 0]).tolist()
    return features


def boxes_of(forest: TreeEnsemble, tree: int, output: int = 0) -> list[Box]:
    """Leaves of a curve or surface, with what comes to each and, of vectors, their value for an output."""
    first = int(forest.tree_offsets[tree])
    whole = Box(0.0, 0.0, {}, {}, {})
    leaf = int((forest.left[:first] == 0).sum())
    is_leaf = forest.left[first : forest.tree_offsets[tree + 1]] == 0
    number = leaf + np.cumsum(is_leaf) - 1
    pending, found = [(0, whole)], []
    while pending:
        node, box = pending.pop()
        if is_leaf[node]:
            value = float(
                forest.leaf_value[number[node], output if forest.leaf_width > 1 else 0] * forest.tree_weight[tree]
            )
            found.append(Box(value, float(forest.cover[first + node]), box.numbers, box.categories, box.missing))
            continue
        left = int(forest.left[first + node])
        pending += [(left + side, _below(forest, first + node, box, side == 0)) for side in (1, 0)]
    return found


def _below(forest: TreeEnsemble, node: int, box: Box, is_left: bool) -> Box:
    """Confine a box to one side of a split."""
    feature = int(forest.feature[node])
    missing = {**box.missing, feature: box.missing.get(feature, True) and forest.default_left[node] == is_left}
    if forest.is_categorical and (chosen := int(forest.category_set[node])) >= 0:
        goes_left = _set(forest, chosen, feature)
        own = box.categories.get(feature, np.ones(len(goes_left), bool)) & (goes_left == is_left)
        return Box(0.0, 0.0, box.numbers, {**box.categories, feature: own}, missing)
    low, high = box.numbers.get(feature, (-math.inf, math.inf))
    cut = float(forest.threshold[node])
    part = (low, min(high, cut)) if is_left else (max(low, cut), high)
    return Box(0.0, 0.0, {**box.numbers, feature: part}, box.categories, missing)


def _set(forest: TreeEnsemble, chosen: int, feature: int) -> Bools:
    words = forest.set_words[forest.set_offsets[chosen] : forest.set_offsets[chosen + 1]]
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool)
    table = None if forest.categories is None else forest.categories[feature]
    return bits if table is None else bits[: len(table)]


@dataclass(frozen=True, eq=False)
class Side:
    """Values of a feature among which a curve or surface tells apart: intervals or categories, and missing ones last.

    Attributes
    ----------
    feature : int
    edges : float64, (n_intervals - 1,)
        Between intervals; numbers from an edge on belong to the one behind it.
    n_categories : int
        Each by itself, in the order of codes; 0 for numbers.
    """

    feature: int
    edges: Doubles
    n_categories: int

    def __len__(self) -> int:
        return (self.n_categories or len(self.edges) + 1) + 1

    def interval(self, at: int) -> Interval:
        """From which number on and below which."""
        low = float(self.edges[at - 1]) if at else -math.inf
        return low, float(self.edges[at]) if at < len(self.edges) else math.inf

    def holds(self, box: Box) -> Bools:
        """Which of the values come to a leaf: bool, (len(self),)."""
        missing = box.missing.get(self.feature, True)
        if self.n_categories:
            return np.append(box.categories.get(self.feature, np.ones(self.n_categories, bool)), missing)
        low, high = box.numbers.get(self.feature, (-math.inf, math.inf))
        inside = (low <= np.append(-np.inf, self.edges)) & (np.append(self.edges, np.inf) <= high)
        return np.append(inside, missing)


def table_of(forest: TreeEnsemble, tree: int, output: int = 0) -> tuple[list[Side], Doubles]:
    """Tell what a curve or surface adds by its feature's values, or by those of both: float64, (n,) or (n, m)."""
    boxes = boxes_of(forest, tree, output)
    sides = [_side(feature, boxes) for feature in features_of(forest, tree)]
    values = np.zeros([len(side) for side in sides])
    for box in boxes:
        values[np.ix_(*(side.holds(box) for side in sides))] = box.value
    return sides, values


def _side(feature: int, boxes: list[Box]) -> Side:
    known = [box.categories[feature] for box in boxes if feature in box.categories]
    edges = {end for box in boxes for end in box.numbers.get(feature, ()) if math.isfinite(end)}
    return Side(feature, np.array(sorted(edges)), len(known[0]) if known else 0)


def curve_lines(forest: TreeEnsemble, output: int, digits: int) -> list[str]:
    """Write one line for each curve and surface of an output: its first and last step, and how many there are."""
    lines, write = [], factor_text if multiplies(forest) else signed_text
    for tree in [tree for tree in curve_trees(forest) if forest.tree_output[tree] == output]:
        features, boxes = features_of(forest, tree), boxes_of(forest, tree)
        title = " × ".join(quoted_name(feature_name(forest, feature)) for feature in features) or "all rows"
        said = (
            _curve(forest, features[0], boxes, digits, write) if len(features) == 1 else _surface(boxes, digits, write)
        )
        lines.append(shown(f"{title}: {said}"))
    return lines


def _surface(boxes: list[Box], digits: int, write: Callable[[float, int], str]) -> str:
    values = [box.value for box in boxes]
    low, high = (write(value, digits) for value in (min(values), max(values)))
    return f"{low} … {high}, cells {len(boxes)}"


def _curve(
    forest: TreeEnsemble, feature: int, boxes: list[Box], digits: int, write: Callable[[float, int], str]
) -> str:
    missing = "" if not _is_seen(forest, feature) else next(
        (f", missing {write(box.value, digits)}" for box in boxes if box.missing[feature]), ""
    )  # fmt: skip
    if any(feature in box.categories for box in boxes):
        own = sorted((box for box in boxes if box.categories[feature].any()), key=lambda box: box.value)
        ends = [f"{write(box.value, digits)} for {_names(forest, feature, box)}" for box in (own[0], own[-1])]
        return f"{' … '.join(ends)}, steps {len(own)}{missing}"
    own = sorted(
        (box for box in boxes if box.numbers[feature][0] < box.numbers[feature][1]), key=lambda b: b.numbers[feature]
    )
    first, last = own[0], own[-1]
    if len(own) == 1:
        return f"{write(first.value, digits)} for numbers{missing}"
    below = f"{write(first.value, digits)} below {threshold_text(first.numbers[feature][1], digits)}"
    above = f"{write(last.value, digits)} from {threshold_text(last.numbers[feature][0], digits)} on"
    return f"{below} … {above}, steps {len(own)}{missing}"


def _is_seen(forest: TreeEnsemble, feature: int) -> bool:
    return bool(len(forest.missing_seen)) and bool(forest.missing_seen[feature])


def _names(forest: TreeEnsemble, feature: int, box: Box) -> str:
    table = None if forest.categories is None else forest.categories[feature]
    codes = np.flatnonzero(box.categories[feature]).tolist()
    names = [number_text(code, 4) if table is None else str(table[code]) for code in codes]
    more = len(names) - MOST_NAMES
    return f"{', '.join(names[:MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"
