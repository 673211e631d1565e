"""A picture of a tree, by matplotlib: its nodes below each other, beside each what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.display.curves import mean_curve
from silva.display.plot import new_axes
from silva.display.report.rows import read_rows
from silva.display.report.trees import leaves_under, standard_errors, target_of
from silva.display.text import check_tree
from silva.ensemble import NUMBER
from silva.escapes import PICTURE, shown
from silva.evaluate.cpu import CpuEvaluator
from silva.evaluate.linear import term_name
from silva.facts import feature_name
from silva.loading import load
from silva.rules import common_range, cover_texts, leaf_of_node, node_tests
from silva.wording import Wording, number_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from silva.display.report.rows import ReportRows
    from silva.forest import Forest
    from silva.typing import Array, Rows

WIDTH, OUTLINE = 11.0, 6.4
"""Inches of the picture, and of the part that the outline takes."""

INDENT, LINE, CURVE, TERM = 0.22, 0.34, 0.86, 0.17
"""Inches: indentation a level, heights of a node's line, of the chart at a split and of a term."""

MOST_LEAVES, MOST_TERMS, NAME, TEST = 500, 8, 20, 48
"""Leaves of a tree that is drawn; terms shown in a leaf; characters of a term's name, and of a test."""


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the picture: what leads there, its place in the forest and in the picture."""

    at: int
    test: str
    depth: int
    top: float
    height: float


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn: rows are None where none were given."""

    forest: Forest
    tree: int
    digits: int
    summary: Any
    errors: Array | None
    rows: ReportRows | None
    reached: Array | None
    deviation: Array | None
    sizes: list[str]

    @property
    def first(self) -> int:
        """Root of the tree."""
        return int(self.forest.tree_offsets[self.tree])


def plot_tree(
    model: object,
    X: Rows | None = None,
    y: ArrayLike | None = None,
    *,
    tree: int = 0,
    digits: int = 4,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree as an outline: what leads to each node, its share of the rows, its mean; beside it its contents.

    A split shows the mean of y over the values of its feature, with the threshold; a leaf the terms of its equation as
    bars, with two standard errors where the model knows them. Bars behind the nodes are as wide as their rows.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` reads
    X : array-like or frame of shape (n, n_features), optional
        Rows for the charts at the splits; terms are then the effect of one standard deviation. Default: no charts, and
        coefficients as they are.
    y : array-like of shape (n,), optional
        Their targets; default the margins that the model predicts for them.
    tree : int, default=0
    digits : int, default=4
        Significant digits of numbers.
    ax : matplotlib Axes, optional
        Default: a new figure of a size that fits the tree; ``ax.figure.savefig("tree.svg")`` writes it.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the forest has no such tree, the tree has more than 500 leaves, or X and y do not fit.
    """
    forest = load(model)
    check_tree(forest, tree)
    n_leaves = int((forest.feature[slice(*forest.tree_offsets[tree : tree + 2])] < 0).sum())
    if n_leaves > MOST_LEAVES:
        raise ValueError(f"tree {tree} has {n_leaves:,} leaves, pictures have {MOST_LEAVES} at most; use export_text")
    picture = _picture(model, forest, tree, digits, X, y)
    nodes = _places(picture)
    if ax is None:
        ax = new_axes((WIDTH, nodes[-1].top + nodes[-1].height + 0.3))
    from matplotlib import rc_context

    with rc_context(PICTURE):
        return _draw(ax, picture, nodes)


def _draw(ax: Axes, picture: Picture, nodes: list[Node]) -> Axes:
    """Draw all nodes, their branches and what explains them."""
    forest, height = picture.forest, nodes[-1].top + nodes[-1].height
    ax.set_xlim(0, WIDTH)
    ax.set_ylim(height, -0.25)
    ax.axis("off")
    under = leaves_under(forest, picture.tree)
    means = {node.at: _mean(picture, under[node.at - picture.first]) for node in nodes}
    for node in nodes:
        _draw_line(ax, picture, node, means)
        if forest.feature[node.at] < 0:
            _draw_terms(ax, picture, node)
        elif picture.rows is not None:
            _draw_curve(ax, picture, node)
    _draw_branches(ax, picture, nodes)
    if common := common_range(forest, picture.tree, picture.digits):
        ax.set_title(f"predictions are clipped to {common}", fontsize=8, loc="left")
    ax.set_title(_legend(picture), fontsize=7, loc="right", color="0.4")
    return ax


def _legend(picture: Picture) -> str:
    """Say what the charts at splits and the bars in leaves show."""
    lines = []
    if picture.rows is not None and picture.forest.n_nodes > picture.forest.n_leaves:
        lines.append("at splits: mean target over the feature, blue on the way to the first branch")
    if picture.forest.has_linear_leaves:
        bar = "the coefficient" if picture.deviation is None else "what one standard deviation adds"
        error = "" if picture.errors is None else ", line: two standard errors"
        lines.append(f"in leaves: coefficients; bar: {bar}{error}")
    return "\n".join(lines)


def _picture(model: object, forest: Forest, tree: int, digits: int, X: Rows | None, y: ArrayLike | None) -> Picture:
    rows = None if X is None else read_rows(forest, X, y, None)
    reached = deviation = None
    if rows is not None:
        evaluator = CpuEvaluator(forest)
        reached = evaluator.numbered().leaves(rows.settled, evaluator.default_choice(len(rows)), None)[:, tree]
        deviation = np.array([np.nanstd(column.astype(np.float64)) for column in rows.settled.T])
    summary, errors = getattr(model, "leaf_summary_", None), standard_errors(model, forest)
    return Picture(forest, tree, digits, summary, errors, rows, reached, deviation, cover_texts(forest, tree))


def _places(picture: Picture) -> list[Node]:
    """Nodes below each other, children after their parent."""
    forest, nodes = picture.forest, []
    texts = node_tests(forest, picture.tree, Wording(picture.digits))
    pending, top = [(picture.first, "all rows", 0)], 0.0
    while pending:
        at, test, depth = pending.pop()
        nodes.append(Node(at, test, depth, top, _height(picture, at)))
        top += nodes[-1].height
        if forest.feature[at] >= 0:
            left = picture.first + int(forest.left[at])
            tests = texts[at - picture.first]
            pending += [(left + side, tests[side], depth + 1) for side in (1, 0)]
    return nodes


def _height(picture: Picture, at: int) -> float:
    if picture.forest.feature[at] >= 0:
        return LINE if picture.rows is None else CURVE
    return max(LINE, 0.1 + TERM * min(len(_terms(picture, at)), MOST_TERMS + 1))


def _mean(picture: Picture, leaves: list[int]) -> float:
    """Mean of y among the rows of a node; without rows, of the leaves' values by their training rows."""
    forest = picture.forest
    if picture.rows is not None and picture.reached is not None:
        inside = np.isin(picture.reached, leaves)
        return float(target_of(picture.rows, picture.tree)[inside].mean()) if inside.any() else float("nan")
    nodes = np.flatnonzero(forest.feature < 0)[leaves]
    cover = np.maximum(forest.cover[nodes], 1e-300)
    return float(np.average(forest.leaf_value[leaves, 0], weights=cover))


def _draw_line(ax: Axes, picture: Picture, node: Node, means: dict[int, float]) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    forest, left = picture.forest, node.depth * INDENT
    known = [mean for mean in means.values() if mean == mean]
    low, high = min(known, default=0.0), max(known, default=1.0)
    share = forest.cover[node.at] / max(float(forest.cover[picture.first]), 1e-300)
    middle = node.top + LINE / 2
    width = (OUTLINE - left) * min(max(share, 0.0), 1.0)
    ax.add_patch(Rectangle((left, node.top + 0.03), width, LINE - 0.06, color="0.92", zorder=0))
    colour = colormaps["coolwarm"]((means[node.at] - low) / ((high - low) or 1.0))
    ax.plot([left + 0.1], [middle], marker="s", markersize=7, color=colour, zorder=2)
    leaf = leaf_of_node(forest, node.at)
    number = leaf if picture.summary is not None else forest.leaf_id[leaf] if leaf < forest.n_leaves else 0
    name = _short(node.test, TEST) + (f"  leaf {number}" if forest.feature[node.at] < 0 else "")
    ax.text(left + 0.22, middle, name, va="center", fontsize=8.5, fontweight="bold", zorder=3)
    ax.text(OUTLINE, middle, _facts(picture, node.at, means[node.at]), va="center", ha="right", fontsize=7.5, zorder=3)


def _facts(picture: Picture, at: int, mean: float) -> str:
    parts = [part for part in (picture.sizes[at - picture.first], f"mean {number_text(mean, 3)}") if part]
    if picture.summary is not None and picture.forest.feature[at] < 0:
        error, leaf = "rmse" if "rmse" in picture.summary else "log_loss", leaf_of_node(picture.forest, at)
        parts.append(f"{error.replace('_', '-')} {number_text(picture.summary[error][leaf], 3)}")
        if picture.summary["n_clipped"][leaf]:
            parts.append(f"{picture.summary['n_clipped'][leaf]} clipped")
    return ", ".join(parts)


def _draw_branches(ax: Axes, picture: Picture, nodes: list[Node]) -> None:
    """Lines from a split down to its children, as thick as the child's share of the rows."""
    place = {node.at: node for node in nodes}
    total = max(float(picture.forest.cover[picture.first]), 1e-300)
    for node in nodes:
        if picture.forest.feature[node.at] < 0:
            continue
        x, start = node.depth * INDENT + 0.1, node.top + LINE / 2 + 0.08
        first = picture.first + int(picture.forest.left[node.at])
        for child in (first + 1, first):
            end = place[child].top + LINE / 2
            thickness = 0.7 + 4.3 * float(picture.forest.cover[child]) / total
            ax.plot([x, x, x + INDENT - 0.05], [start, end, end], color="0.72", linewidth=thickness, zorder=1)


def _terms(picture: Picture, at: int) -> list[tuple[str, float, float, float]]:
    """Name, size, standard error and coefficient of each term of a leaf's equation, the largest first."""
    forest = picture.forest
    if not forest.has_linear_leaves:
        return []
    terms = range(*forest.linear_offsets[(leaf := leaf_of_node(forest, at)) : leaf + 2].tolist())
    found = []
    for term in terms:
        feature, category = int(forest.linear_feature[term]), int(forest.linear_category[term])
        unit = 1.0 if picture.deviation is None or category != NUMBER else float(picture.deviation[feature])
        coefficient = float(forest.linear_coefficient[term])
        error = float("nan") if picture.errors is None else float(picture.errors[term]) * unit
        found.append((term_name(forest, feature, category), coefficient * unit, error, coefficient))
    return sorted(found, key=lambda term: -abs(term[1]))


def _draw_terms(ax: Axes, picture: Picture, node: Node) -> None:
    """Bars of a leaf's equation; a constant leaf has none."""
    terms = _terms(picture, node.at)
    if not terms:
        return
    shown = terms[:MOST_TERMS]
    sizes, errors = np.array([term[1] for term in shown]), np.array([term[2] for term in shown])
    reach = max(float(np.nanmax(np.abs(sizes) + 2 * np.nan_to_num(errors))), 1e-300)
    center, unit = OUTLINE + 2.6, 1.1 / reach
    for place, (name, size, error, coefficient) in enumerate(shown):
        y = node.top + 0.09 + TERM * (place + 0.5)
        ax.text(center - 1.2, y, _short(name, NAME), ha="right", va="center", fontsize=7)
        ax.barh(y, size * unit, height=TERM * 0.72, left=center, color="tab:red" if size > 0 else "tab:blue", alpha=0.8)
        if error == error:
            ends = [center + (size - 2 * error) * unit, center + (size + 2 * error) * unit]
            ax.plot(ends, [y, y], color="black", linewidth=0.8)
        ax.text(WIDTH, y, f"{coefficient:+.{min(picture.digits, 4)}g}", ha="right", va="center", fontsize=7)
    if len(terms) > MOST_TERMS:
        y = node.top + 0.09 + TERM * (MOST_TERMS + 0.5)
        ax.text(center - 1.2, y, f"{len(terms) - MOST_TERMS} more", ha="right", va="center", fontsize=7, color="0.4")


def _draw_curve(ax: Axes, picture: Picture, node: Node) -> None:
    """Mean target over the values of a split's feature; the side that goes left is dark."""
    rows, forest = picture.rows, picture.forest
    if rows is None or picture.reached is None:
        return
    inside = np.isin(picture.reached, leaves_under(forest, picture.tree)[node.at - picture.first])
    feature = int(forest.feature[node.at])
    values = rows.settled[inside, feature]
    found = mean_curve(values, target_of(rows, picture.tree)[inside])
    if found is None:
        return
    bottom, top = ax.get_ylim()
    place = ((OUTLINE + 1.4) / WIDTH, (bottom - node.top - CURVE + 0.22) / (bottom - top))
    inset = ax.inset_axes((*place, (WIDTH - OUTLINE - 1.5) / WIDTH, (CURVE - 0.32) / (bottom - top)))
    is_set = forest.is_categorical and forest.category_set[node.at] >= 0
    sides = _sides(forest, node.at, found["x"])
    sizes, colours = 5 + 25 * found["n"] / found["n"].max(), np.where(sides, "tab:blue", "0.6")
    inset.scatter(found["x"], found["y"], s=sizes, c=colours)
    threshold = float(forest.threshold[node.at])
    if not is_set and np.isfinite(threshold):
        inset.axvline(threshold, color="tab:red", linewidth=1)
    inset.tick_params(labelsize=6, length=2, pad=1)
    inset.locator_params(axis="y", nbins=3)
    for side in ("top", "right"):
        inset.spines[side].set_visible(False)
    inset.set_ylabel(_short(feature_name(forest, feature), 14), fontsize=6.5, rotation=0, ha="right", va="center")
    if is_set:
        inset.set_xticks([])


def _sides(forest: Forest, at: int, values: Array) -> Array:
    """Whether each value goes left at a split."""
    if not forest.is_categorical or forest.category_set[at] < 0:
        left: Array = values < forest.threshold[at]
        return left
    which = int(forest.category_set[at])
    words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(np.bool_)
    codes = values.astype(np.int64)
    known = (codes >= 0) & (codes < len(bits))
    result: Array = np.full(len(values), forest.set_others_left[which])
    result[known] = bits[codes[known]]
    return result


def _short(text: str, most: int) -> str:
    text = shown(text)
    return text if len(text) <= most else text[: most - 1] + "…"
