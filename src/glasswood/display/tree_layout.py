"""The layout of a picture of a tree: texts are measured, nodes stand below each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.base.wording import Wording, number_text, percent_text, quoted_name
from glasswood.display.report.trees import shown_class
from glasswood.display.text import leaf_facts, leaf_number
from glasswood.model.ensemble import TreeEnsemble
from glasswood.words.equation_texts import described, smaller_text
from glasswood.words.equations import leaf_equation, multiplies
from glasswood.words.rules import (
    class_of,
    leaf_of_node,
    shares_text,
    speaks_of_odds,
)

if TYPE_CHECKING:
    from glasswood.display.measured import Ruler
    from glasswood.display.report.rows import ReportRows
    from glasswood.words.equations import Term
    from glasswood.words.rules import ClassShares

INDENT, LINE, CURVE, TICKS, TERM = 0.2, 0.17, 0.86, 0.5, 0.18
"""Inches: indentation a level, heights of a line of text, of the chart at a split, of its names, of a term."""

NAME, YTICKS = 0.95, 0.42
"""Inches: widths of the name of a chart's feature, and of the ticks at its left."""

TEST, FACTS, SMALL, TICK = 8.5, 7.5, 7.0, 6.0
"""Points of the fonts: of tests, of what stands beside them, of terms and of ticks."""

MOST_LINES = 3
"""Lines of a test."""


@dataclass(frozen=True, eq=False)
class Bar:
    """A term as it is drawn: its name, what its text says, the effect of one standard deviation and its error.

    A term with a curve has this in place of a bar.
    """

    name: str
    text: str
    effect: float
    error: float = math.nan
    is_of_levels: bool = False
    curve: Sequence[tuple[float, float]] = ()


@dataclass(eq=False)
class Node:
    """A node of the picture: its place in the forest, what leads there, in lines, and where it is drawn."""

    at: int
    test: str
    depth: int
    lines: list[str]
    facts: list[str]
    bars: list[Bar]
    top: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn; rows are None if none were given."""

    forest: TreeEnsemble
    tree: int
    wording: Wording
    summary: Any
    errors: Array | None
    rows: ReportRows | None
    reached: Array | None
    shares: ClassShares | None
    tests: list[tuple[str, str]]
    sizes: list[str]
    under: list[list[int]]
    means: Array
    ruler: Ruler

    @property
    def first(self) -> int:
        """Root of the tree."""
        return int(self.forest.tree_offsets[self.tree])

    def inside(self, at: int) -> Array:
        """Whether each row reaches a node."""
        assert self.reached is not None
        return np.isin(self.reached, self.under[at - self.first])


@dataclass(frozen=True, eq=False)
class Columns:
    """Where the columns of the picture end, in inches: tests, what is known of nodes, names of terms, and their bars.

    Charts begin behind what is known of nodes; texts of terms are the last column.
    """

    tests: float
    facts: float
    names: float
    bars: float
    width: float


def shown_number(picture: Picture) -> str:
    """Say what a node's number is."""
    name = class_of(picture.forest, picture.tree)
    if picture.rows is not None:
        place = shown_class(picture.rows, picture.tree)
        return "mean" if place is None else f"share of {picture.rows.classes[place]}"
    if picture.shares is not None:
        return f"share of {name}" if picture.shares.explained >= 0 else "share of the most frequent class"
    return "mean log-odds" if name else "mean"


def laid_out(picture: Picture, heading: list[str], width: float) -> tuple[list[Node], Columns, float]:
    """Divide the texts into lines, and place the nodes below each other, children after their parent."""
    forest, nodes = picture.forest, []
    pending = [(picture.first, "All rows", 0)]
    while pending:
        at, test, depth = pending.pop()
        nodes.append(Node(at, test, depth, [], _facts(picture, at), _bars(picture, at)))
        if forest.feature[at] >= 0:
            left, tests = picture.first + int(forest.left[at]), picture.tests[at - picture.first]
            pending += [(left + side, tests[side], depth + 1) for side in (1, 0)]
    columns = _columns(picture, nodes, width)
    top = 0.3 + LINE * len(legend_lines(picture, heading, width)) + (0.0 if picture.shares is None else 0.2)
    for node in nodes:
        room = max(columns.tests - node.depth * INDENT - 0.3, 0.6)
        node.lines = picture.ruler.wrapped(node.test, room, TEST, MOST_LINES, True)
        n_facts = len(node.facts) + (picture.shares is not None)
        node.height = max(LINE * max(len(node.lines), n_facts) + 0.12, _panel_height(picture, node, columns))
        node.top, top = top, top + node.height
    return nodes, columns, top + 0.1


def _columns(picture: Picture, nodes: list[Node], width: float) -> Columns:
    """Give each column the width of its widest text, within limits."""
    ruler, bars = picture.ruler, [bar for node in nodes for bar in node.bars]
    facts = max(ruler.widest(node.facts, FACTS) for node in nodes) + 0.25
    facts = max(facts, 1.3) if picture.shares is not None else facts
    wide = max(node.depth * INDENT + 0.4 + ruler.width(node.test, TEST, True) for node in nodes)
    wide = min(wide, max(0.42 * width, 0.78 * width - 2.6 - facts), width - 2.6 - facts)
    left = wide + facts
    names = left + 0.1 + min(ruler.widest([bar.name for bar in bars], SMALL), 0.34 * (width - left))
    texts = min(ruler.widest([bar.text for bar in bars], SMALL), 0.42 * (width - left))
    return Columns(wide, left, names, width - texts - 0.15, width)


def legend_lines(picture: Picture, heading: list[str], width: float) -> list[str]:
    """Divide the legend into lines."""
    return picture.ruler.wrapped(heading[1], width - 0.2, SMALL, 4)


def _panel_height(picture: Picture, node: Node, columns: Columns) -> float:
    if picture.forest.feature[node.at] < 0:
        return 0.1 + TERM * len(node.bars)
    if picture.rows is None:
        return 0.0
    return CURVE + (TICKS if is_turned(picture, node, columns) else 0.0)


def names_at(picture: Picture, node: Node) -> list[str] | None:
    """Categories of a split that its rows have, in the order of their codes; None for numbers."""
    rows, feature = picture.rows, int(picture.forest.feature[node.at])
    assert rows is not None
    own = rows.own[picture.inside(node.at), feature] if rows.source is None else np.empty(0)
    codes = rows.settled[picture.inside(node.at), feature]
    is_set = picture.forest.is_categorical and picture.forest.category_set[node.at] >= 0
    if not is_set:
        return None
    present = ~np.isnan(codes)
    _, first = np.unique(codes[present], return_index=True)
    return [str(own[present][place]) if len(own) else str(place) for place in first]


def is_turned(picture: Picture, node: Node, columns: Columns) -> bool:
    """Whether the names of categories do not fit side by side."""
    names = names_at(picture, node)
    if not names:
        return False
    return picture.ruler.widest(names, TICK) > (columns.width - columns.facts - NAME - YTICKS - 0.1) / len(names) - 0.05


def _facts(picture: Picture, at: int) -> list[str]:
    """Lines of what is known of a node."""
    forest, place, leaf = picture.forest, at - picture.first, leaf_of_node(picture.forest, at)
    is_leaf, mean = forest.feature[at] < 0, picture.means[at - picture.first]
    first = [f"leaf {leaf_number(forest, leaf, picture.summary)}"] if is_leaf else []
    if picture.shares is not None and picture.shares.explained < 0:
        said = shares_text(picture.shares.names, picture.shares.shares[place], picture.wording)
    elif mean != mean:
        said = "no rows of X"
    elif shown_number(picture).startswith("share of"):
        said = percent_text(mean)
    else:
        said = f"mean {number_text(mean, 3)}"
    lines = [", ".join(part for part in (*first, picture.sizes[place], said) if part)]
    known = leaf_facts(forest, leaf, picture.summary, 3) if is_leaf else []
    known = [fact for fact in known if not fact.startswith(("mean", "centre"))]
    return [*lines, ", ".join(known)] if known else lines


def _bars(picture: Picture, at: int) -> list[Bar]:
    """Describe the terms of a leaf, the strongest first; the number of others is the last one."""
    forest = picture.forest
    if forest.feature[at] >= 0 or not forest.has_linear_leaves:
        return []
    found = leaf_equation(forest, leaf_of_node(forest, at), picture.wording, picture.errors)
    are_factors = speaks_of_odds(forest) or multiplies(forest)
    bars = [_bar(term, are_factors, picture.wording) for term in found.terms]
    size = smaller_text(found, are_factors, picture.wording)
    more = Bar(f"{found.n_smaller} smaller", f"±{size}", 0.0)
    return [*bars, more] if found.n_smaller else bars


def _bar(term: Term, are_factors: bool, wording: Wording) -> Bar:
    """Write beside a bar what it shows: what one standard deviation adds, of categories what each one adds."""
    name, text, effect, error = described(term, are_factors, wording)
    if term.curve is not None:
        text = text.removeprefix("rising, ").removeprefix("falling, ")
        return Bar(quoted_name(name), text, effect, curve=term.curve.points)
    return Bar(name if term.levels else quoted_name(name), text, effect, error, is_of_levels=bool(term.levels))
