"""Plot a tree with matplotlib: one node per line, with a chart of its contents beside it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import PICTURE, shown
from glasswood.base.extras import import_extra
from glasswood.base.pictures import class_colours, tone
from glasswood.base.typing import Array, Rows
from glasswood.base.wording import Wording, checked_wording, leaves_text, tick_texts
from glasswood.display.curves import mean_curve
from glasswood.display.measured import Ruler
from glasswood.display.report.rows import read_rows
from glasswood.display.report.trees import leaves_under, range_ends, shown_class, standard_errors, target_of
from glasswood.display.text import check_tree, facts_of
from glasswood.display.tree_layout import (
    CURVE,
    FACTS,
    INDENT,
    LINE,
    NAME,
    SMALL,
    TERM,
    TEST,
    TICK,
    TICKS,
    YTICKS,
    Bar,
    Columns,
    Node,
    Picture,
    is_turned,
    laid_out,
    legend_lines,
    names_at,
    shown_number,
)
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.forest import Forest
from glasswood.inputs import with_tables
from glasswood.inputs.tables import refuse_open_tables, with_sets
from glasswood.inputs.targets import own_labels
from glasswood.loading import load
from glasswood.model.ensemble import LOGARITHM, TreeEnsemble
from glasswood.model.events import of_event, speaks_of_second
from glasswood.model.facts import exposure_text, feature_name, feature_names
from glasswood.words.equations import leaf_equation, multiplies
from glasswood.words.rules import (
    class_of,
    class_shares,
    common_range,
    cover_texts,
    goes_left,
    node_tests,
    share_of_second,
    speaks_of_odds,
    sum_note,
    turned_facts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glasswood.display.report.rows import ReportRows
    from glasswood.words.rules import ClassShares

WIDTH, LEAST_WIDTH = 11.0, 7.5
"""Inches of the picture, and those below which everything becomes smaller."""

MOST_LEAVES, MOST_TICKS = 500, 30
"""Leaves of a tree that is drawn, and categories that have names below a chart."""

LEFT, RIGHT, LIMIT = "#2b6cb0", "#a9adb3", "#c53030"
UP, DOWN, BOTH = "#d1495b", "#3d7ab8", "#8b79b0"

MOST_ERROR = 1.6
"""Length of the column of bars on either side, in bars of the strongest term; longer errors are cut."""

SMALL_CURVE = 0.11
"""Inches from the lowest to the highest point of a small curve."""


def plot_tree(
    model: object,
    X: Rows | None = None,
    y: ArrayLike | None = None,
    *,
    tree: int = 0,
    max_terms: int | None = 5,
    units: Mapping[str, str] | None = None,
    title: str | None = None,
    positive: object = None,
    exposure: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tree as an outline: the test that leads to each node, its share of the rows and its mean.

    A split shows the mean of y (for classifiers, the share of a class) over the values of its feature, with the
    threshold; rows whose value is missing are at the left. A leaf shows its strongest terms as bars: the effect of one
    standard deviation of the leaf's rows, with two standard errors if the model has them. A feature with a logarithm
    is a small curve over the middle 80 % of the leaf's rows, with what it changes there. Bars behind the nodes are as
    wide as their share of the rows. Text is divided into lines and shortened, so that it never overlaps.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `glasswood.load` reads
    X : array-like or frame of shape (n, n_features), optional
        Rows for the charts at the splits. Default: no charts.
    y : array-like of shape (n,), optional
        Their targets; default: the model's predictions.
    tree : int, default=0
    max_terms : int or None, default=5
        Terms of a leaf's equation; None shows all.
    units : mapping of str to str, optional
        Units by the name of the feature.
    title : str, optional
        Default: what the tree predicts.
    positive : object, optional
        Which of two classes is the event, of which the picture speaks. Default: the rarer one, by y or by the
        model's training rows, otherwise the second one.
    exposure : array-like of shape (n,), optional
        What y was counted over, above 0: means are then rates, y for each unit of it. A model that was fitted with
        exposures needs it, if there is y: ones if y are rates.
    ax : matplotlib Axes, optional
        The picture fits into these axes, with smaller text if there is little space. Default: a new figure whose size
        fits the tree; ``ax.figure.savefig("tree.svg")`` writes it.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the forest has no such tree, the tree has more than 500 leaves, X and y do not fit, or `positive`
        is none of two classes.
    """
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    forest = load(model).ensemble
    forest = forest if X is None else with_tables(X, forest)
    refuse_open_tables(forest, "a picture of a tree")
    forest = with_sets(forest)
    check_tree(forest, tree)
    if (n_leaves := int(np.diff(forest.leaf_offsets)[tree])) > MOST_LEAVES:
        raise ValueError(f"tree {tree} has {n_leaves:,} leaves, pictures show at most {MOST_LEAVES}; use export_text")
    wording = Wording(max_terms=max_terms, units=units or {}, style="centered")
    wording = checked_wording(wording, feature_names(forest))
    picture = _picture(model, forest, tree, wording, X, y, positive, exposure)
    heading = _heading(picture, title, getattr(y, "name", None))
    with pyplot.rc_context(PICTURE):
        if ax is None:
            nodes, columns, height = laid_out(picture, heading, WIDTH)
            figure = pyplot.figure(figsize=(WIDTH, height))
            ax, scale = figure.add_axes((0, 0, 1, 1)), 1.0
        else:
            picture, scale = _fitting(picture, heading, ax)
            nodes, columns, height = laid_out(picture, heading, _size(ax)[0] / scale)
            height = max(height, _size(ax)[1] / scale)
        _draw(ax, picture, heading, nodes, columns, height, scale)
    return ax


def _size(ax: Axes) -> tuple[float, float]:
    """Inches of a pair of axes."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def _fitting(picture: Picture, heading: list[str], ax: Axes) -> tuple[Picture, float]:
    """Choose the size of everything, 1 for that of a figure of its own, at which the tree fits into axes."""
    width, height = _size(ax)
    scale = min(1.0, width / LEAST_WIDTH)
    for _ in range(30):
        picture = dataclasses.replace(picture, ruler=Ruler(max(10.0, round(ax.figure.dpi * scale))))
        if laid_out(picture, heading, width / scale)[2] * scale <= height:
            break
        scale *= 0.85
    return picture, scale


def _picture(
    model: object,
    forest: TreeEnsemble,
    tree: int,
    wording: Wording,
    X: Rows | None,
    y: ArrayLike | None,
    positive: object,
    exposure: ArrayLike | None,
) -> Picture:
    if X is not None and not forest.means_known:
        forest = Forest(forest).with_means(X).ensemble
    summary = facts_of(model)
    known = share_of_second(forest, summary)
    if y is not None and speaks_of_second(forest):
        y, known = own_labels(y, forest)
    forest, is_turned = of_event(forest, positive, known)
    summary = turned_facts(summary) if is_turned else summary
    rows, reached = None if X is None else read_rows(forest, X, y, exposure), None
    if rows is not None:
        evaluator = CpuEvaluator(forest)
        reached = evaluator.numbered().leaves(rows.settled, evaluator.choice_for_next(len(rows)), None)[:, tree]
    shares, under = class_shares(forest, tree, summary), leaves_under(forest, tree)
    return Picture(
        forest,
        tree,
        wording,
        summary,
        standard_errors(model, forest),
        rows,
        reached,
        shares,
        node_tests(forest, tree, wording, {} if rows is None else range_ends(rows)),
        cover_texts(forest, tree, summary),
        under,
        _means(forest, tree, rows, reached, shares, under),
        Ruler(),
    )


def _means(
    forest: TreeEnsemble,
    tree: int,
    rows: ReportRows | None,
    reached: Array | None,
    shares: ClassShares | None,
    under: Any,
) -> Array:
    """Mean of each node: of the rows that are given, else of classes among training rows, else of the leaves."""
    if rows is not None and reached is not None:
        target = target_of(rows, tree)
        parts = [np.flatnonzero(np.isin(reached, leaves)) for leaves in under]
        return np.array([rows.mean(target, part) if len(part) else np.nan for part in parts])
    if shares is not None and shares.explained >= 0:
        return shares.shares[:, shares.explained]
    if shares is not None:
        return np.asarray(shares.shares.max(axis=1))
    cover = np.maximum(forest.cover[forest.feature < 0], 1e-300)
    values = np.exp(forest.leaf_value[:, 0]) if multiplies(forest) else forest.leaf_value[:, 0]
    return np.array([np.average(values[leaves], weights=cover[leaves]) for leaves in under])


def _heading(picture: Picture, title: str | None, target: object) -> list[str]:
    """Write the title, and lines that say what is drawn."""
    forest, name = picture.forest, class_of(picture.forest, picture.tree)
    n_leaves = int(np.diff(forest.leaf_offsets)[picture.tree])
    of = f"probability of {name}" if name else f"{target}" if isinstance(target, str) else "the target"
    n_trees = forest.n_trees - forest.n_curves
    which = f"Tree {picture.tree} of {n_trees}" if n_trees > 1 else "Tree"
    lines = [title if title is not None else f"{which}, {leaves_text(n_leaves)}: {of}"]
    what = shown_number(picture)
    parts = ["Grey bar: share of the rows.", f"Square: {what}, from blue (low) to red (high)."]
    if picture.rows is not None and n_leaves > 1:
        parts.append(f"Splits: {what} over the feature; blue goes to the first branch, grey to the second.")
    if forest.has_linear_leaves:
        error = "" if picture.errors is None else "; thin line: two standard errors"
        does = "adds to the log-odds" if speaks_of_odds(forest) else "adds"
        does = "multiplies the prediction with" if multiplies(forest) else does
        parts.append(
            f"Leaves: the strongest terms; bar and number, on one scale: what one standard deviation {does}{error}."
        )
        leaves = range(*forest.leaf_offsets[picture.tree : picture.tree + 2].tolist())
        equations = (leaf_equation(forest, leaf, picture.wording) for leaf in leaves)
        if (forest.linear_category == LOGARITHM).any() and any(one.curve for found in equations for one in found.terms):
            parts.append("Curve: what the feature adds over the middle 80 % of the leaf's rows.")
    if added := sum_note(forest, picture.tree, picture.wording):
        parts.append(added)
    if common := "" if name else common_range(forest, picture.tree, picture.wording):
        is_part = bool(added) or (forest.link == "exp" and not multiplies(forest))
        clipped = "Leaves" if is_part else "Predictions"
        parts.append(f"{clipped} are clipped to {common}.")
    if said := exposure_text(forest):
        parts.append(said)
    return [*lines, " ".join(parts)]


def _draw(
    ax: Axes, picture: Picture, heading: list[str], nodes: list[Node], columns: Columns, height: float, scale: float
) -> None:
    """Draw all nodes, their branches and what explains them, in inches of a picture that is not scaled."""
    ax.set_xlim(0, columns.width)
    ax.set_ylim(height, 0)
    ax.axis("off")
    pen = _Pen(ax, picture, columns, height, scale)
    bars = [bar for node in nodes for bar in node.bars if not bar.curve]
    # One term whose error is large would make the bars of all others small.
    most = MOST_ERROR * max((abs(bar.effect) for bar in bars), default=0.0)
    pen.longest = min(max(map(_reach, bars), default=0.0), most) or 1.0
    pen.title(heading)
    for node in nodes:
        pen.line(node)
        if node.bars:
            pen.bars(node)
        elif picture.forest.feature[node.at] >= 0 and picture.rows is not None:
            pen.curve(node)
    pen.branches(nodes)


def _reach(bar: Bar) -> float:
    """Length of a bar with its error, in units of the target."""
    return abs(bar.effect) + 2 * (bar.error if bar.error == bar.error else 0.0)


class _Pen:
    """Draws the parts of a picture."""

    def __init__(self, ax: Axes, picture: Picture, columns: Columns, height: float, scale: float) -> None:
        self.ax, self.picture, self.columns, self.height, self.scale = ax, picture, columns, height, scale
        shares = None if picture.shares is None else picture.shares.shares[0]
        self.longest = 1.0
        self.colours = class_colours([] if shares is None else shares.tolist())
        known = picture.means[np.isfinite(picture.means)]
        self.low, self.high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)

    def text(self, x: float, y: float, text: str, size: float, **settings: Any) -> None:
        """Write a text whose middle is at a height; sizes are those of an unscaled picture."""
        self.ax.text(x, y, shown(text), fontsize=size * self.scale, va="center", zorder=3, **settings)

    def box(self, x: float, y: float, width: float, height: float, colour: Any, zorder: float = 0) -> None:
        """Fill a rectangle."""
        from matplotlib.patches import Rectangle

        self.ax.add_patch(Rectangle((x, y), width, height, color=colour, linewidth=0, zorder=zorder))

    def title(self, heading: list[str]) -> None:
        """Write the title and the legend, classes with their colours."""
        width = self.columns.width
        self.text(0.1, 0.16, self.picture.ruler.shortened(heading[0], width - 0.2, 10, True), 10, fontweight="bold")
        lines = legend_lines(self.picture, heading, width)
        for i, line in enumerate(lines):
            self.text(0.1, 0.36 + LINE * i, line, SMALL, color=tone(0.65))
        shares, x, y = self.picture.shares, 0.1, 0.36 + LINE * len(lines) + 0.04
        for k, name in enumerate([] if shares is None else shares.names):
            name = self.picture.ruler.shortened(name, 1.6, SMALL)
            if x + 0.2 + self.picture.ruler.width(name, SMALL) > width - 0.3:
                self.text(x, y, "…", SMALL)
                break
            self.box(x, y - 0.05, 0.1, 0.1, self.colours[k])
            self.text(x + 0.15, y, name, SMALL)
            x += 0.35 + self.picture.ruler.width(name, SMALL)

    def line(self, node: Node) -> None:
        """Draw a node: the bar of its rows, its square, what leads there and what is known of it."""
        from matplotlib import colormaps

        picture, left = self.picture, node.depth * INDENT
        forest, mean = picture.forest, picture.means[node.at - picture.first]
        share = min(max(forest.cover[node.at] / max(float(forest.cover[picture.first]), 1e-300), 0.0), 1.0)
        height = LINE * len(node.lines) + 0.06
        self.box(left, node.top + 0.02, (self.columns.tests - left) * share, height, tone(0.09))
        colour = (
            tone(0.2) if mean != mean else colormaps["coolwarm"]((mean - self.low) / ((self.high - self.low) or 1.0))
        )
        self.box(left + 0.05, node.top + 0.07, 0.12, 0.12, colour, 2)
        for i, text in enumerate(node.lines):
            self.text(left + 0.24, node.top + 0.13 + LINE * i, text, TEST, fontweight="bold")
        for i, text in enumerate(node.facts):
            self.text(self.columns.facts - 0.1, node.top + 0.13 + LINE * i, text, FACTS, ha="right")
        if picture.shares is not None:
            width, x = 1.1, self.columns.facts - 1.2
            for k, part in enumerate(picture.shares.shares[node.at - picture.first]):
                self.box(x, node.top + 0.09 + LINE * len(node.facts), width * part, 0.08, self.colours[k], 2)
                x += width * part

    def branches(self, nodes: list[Node]) -> None:
        """Lines from a split down to its children, as thick as the child's share of the rows."""
        picture, place = self.picture, {node.at: node for node in nodes}
        total = max(float(picture.forest.cover[picture.first]), 1e-300)
        for node in nodes:
            if picture.forest.feature[node.at] < 0:
                continue
            x, start = node.depth * INDENT + 0.11, node.top + 0.22
            first = picture.first + int(picture.forest.left[node.at])
            for child in (first + 1, first):
                end = place[child].top + 0.13
                thickness = (0.7 + 3.3 * float(picture.forest.cover[child]) / total) * self.scale
                self.ax.plot(
                    [x, x, x + INDENT - 0.06], [start, end, end], color=tone(0.25), linewidth=thickness, zorder=1
                )

    def bars(self, node: Node) -> None:
        """Draw a leaf's equation: bars from the middle of their column, those of categories to both sides."""
        columns, room = self.columns, (self.columns.bars - self.columns.names - 0.2) / 2
        center, unit = columns.names + 0.1 + room, room / self.longest
        for i, bar in enumerate(node.bars):
            y = node.top + 0.05 + TERM * (i + 0.5)
            name = self.picture.ruler.shortened(bar.name, columns.names - columns.facts - 0.09, SMALL)
            self.text(columns.names, y, name, SMALL, ha="right")
            if bar.curve:
                self.small_curve(bar, columns.names + 0.1, columns.bars - 0.1, y)
            else:
                start, end = center - abs(bar.effect) * unit * bar.is_of_levels, center + bar.effect * unit
                colour = BOTH if bar.is_of_levels else UP if bar.effect > 0 else DOWN
                self.box(min(start, end), y - 0.06, abs(end - start), 0.12, colour, 2)
            if bar.error == bar.error:
                ends = [(bar.effect + sign * 2 * bar.error) for sign in (-1, 1)]
                reach = [center + min(max(end, -self.longest), self.longest) * unit for end in ends]
                self.ax.plot(reach, [y, y], color=tone(1), linewidth=0.8 * self.scale, zorder=3)
            room = columns.width - columns.bars - 0.06
            text = self.picture.ruler.shortened(bar.text, room, SMALL, n_last=6 * bar.is_of_levels)
            self.text(columns.width - 0.08, y, text, SMALL, ha="right")

    def small_curve(self, bar: Bar, left: float, right: float, middle: float) -> None:
        """Draw what a feature with a logarithm adds over the middle of the leaf's rows, in the place of its bar."""
        x, y = np.array(bar.curve, np.float64).T
        high, low = float(y.max()), float(y.min())
        places = left + (right - left) * (x - x[0]) / ((x[-1] - x[0]) or 1.0)
        heights = middle + SMALL_CURVE * (0.5 - (y - low) / ((high - low) or 1.0))
        colour = UP if bar.effect > 0 else DOWN
        self.ax.plot(places, heights, color=colour, linewidth=1.3 * self.scale, zorder=2)
        self.ax.plot(places[[0, -1]], heights[[0, -1]], "o", color=colour, markersize=2 * self.scale, zorder=2)

    def curve(self, node: Node) -> None:
        """Mean target over the values of a split's feature; the side that goes left is dark."""
        picture = self.picture
        rows, forest, feature = picture.rows, picture.forest, int(picture.forest.feature[node.at])
        assert rows is not None
        inside, names = picture.inside(node.at), names_at(picture, node)
        values = rows.settled[inside, feature]
        target, groups = target_of(rows, picture.tree)[inside], MOST_TICKS * 100 if names else None
        found = mean_curve(values, target, groups=groups, weight=rows.weights(inside))
        if found is None:
            return
        turned = is_turned(picture, node, self.columns)
        left, bottom = self.columns.facts + NAME + YTICKS, node.top + CURVE - 0.2
        width, height = self.columns.width - left - 0.1, CURVE - 0.3
        parts = (self.columns.width, self.height)
        inset = self.ax.inset_axes((left / parts[0], 1 - bottom / parts[1], width / parts[0], height / parts[1]))
        is_left = goes_left(forest, node.at, found["x"])
        order = np.arange(len(is_left)) if names is None else np.lexsort((found["y"], ~is_left))
        x = found["x"] if names is None else order.argsort()
        sizes = (5 + 25 * found["n"] / found["n"].max()) * self.scale**2
        inset.scatter(x, found["y"], s=sizes, c=np.where(is_left, LEFT, RIGHT), linewidths=0, zorder=2, clip_on=False)
        self._missing(inset, node, found, x)
        self._axes(inset, node, feature, names and [names[k] for k in order], turned, width)

    def _missing(self, inset: Any, node: Node, found: dict[str, Any], x: Array) -> None:
        """Put the mean of rows without a value at the left, in the colour of the side that they take."""
        if found["missing"] is None:
            return
        span = float(np.ptp(x)) or 1.0
        place, (mean, _) = float(x.min()) - 0.12 * span, found["missing"]
        colour = LEFT if self.picture.forest.default_left[node.at] else RIGHT
        inset.scatter(
            [place], [mean], s=18 * self.scale**2, c=colour, marker="D", linewidths=0, zorder=2, clip_on=False
        )
        inset.axvline(place + 0.06 * span, color=tone(0.15), linewidth=0.8 * self.scale)
        inset.annotate("missing", (place, mean), xytext=(0, 4 * self.scale), textcoords="offset points",
                       fontsize=TICK * self.scale, color=tone(0.65), ha="center", annotation_clip=False)  # fmt: skip

    def _ticks(self, axis: Any, width: float, is_share: bool = False) -> None:
        """Write the numbers at an axis of `width` inches, without a factor or an offset that stands elsewhere."""
        low, high = sorted(axis.get_view_interval())
        places = [place for place in axis.get_majorticklocs() if low <= place <= high]
        places = [place for place in places if 0 <= place <= 1] if is_share else places
        texts = tick_texts(places, is_share=is_share)
        while len(places) > 2 and sum(self.picture.ruler.width(text, TICK) + 0.08 for text in texts) > width:
            places, texts = places[::2], texts[::2]
        if (
            places
            and (places[-1] - low) / (high - low) * width + self.picture.ruler.width(texts[-1], TICK) / 2 > width + 0.1
        ):
            places, texts = places[:-1], texts[:-1]
        axis.set_ticks(places, texts)

    def _axes(
        self, inset: Any, node: Node, feature: int, names: list[str] | None, is_slanted: bool, width: float
    ) -> None:
        """Write the ticks, names of categories among them, the threshold and the name of the feature."""
        picture, scale = self.picture, self.scale
        inset.tick_params(labelsize=TICK * scale, length=2 * scale, pad=1.5 * scale, width=0.6 * scale)
        inset.locator_params(axis="y", nbins=3)
        is_share = picture.rows is not None and shown_class(picture.rows, picture.tree) is not None
        self._ticks(inset.yaxis, math.inf, is_share)
        for side in ("top", "right"):
            inset.spines[side].set_visible(False)
        threshold = float(picture.forest.threshold[node.at])
        if names is not None:
            places = np.unique(np.linspace(0, len(names) - 1, min(len(names), int(width / 0.11))).astype(int))
            room = TICKS / math.sin(math.radians(38)) - 0.12 if is_slanted else width / len(names) - 0.04
            turned = {"rotation": 38, "ha": "right", "rotation_mode": "anchor"} if is_slanted else {}
            labels = picture.ruler.told([names[k] for k in places], room, TICK)
            inset.set_xticks(list(places), labels, **turned)
            inset.set_xlim(-0.6, len(names) - 0.4)
        elif np.isfinite(threshold):
            inset.axvline(threshold, color=LIMIT, linewidth=1 * scale, zorder=1)
        if names is None:
            self._ticks(inset.xaxis, width)
        name = feature_name(picture.forest, feature)
        unit = picture.wording.units.get(name)
        label = self.picture.ruler.wrapped(f"{name} ({unit})" if unit else name, NAME - 0.1, SMALL - 0.5, 3)
        ends = self.columns.facts + NAME
        for i, text in enumerate(label):
            self.text(ends, node.top + 0.3 + 0.12 * i, text, SMALL - 0.5, ha="right", color=tone(0.75))
