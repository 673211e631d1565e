"""The worked example of docs/internals/values.md: `python tools/draw_values.py` writes its pictures and numbers.

Subtree tables in small: each function does for one tree, of numbers that nothing lacks, what the native file does that
it names.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DOCS = Path(__file__).parent.parent / "docs"
PAGE, IMAGES = DOCS / "internals" / "values.md", DOCS / "images"
Floats = NDArray[np.float64]


class Leaf(NamedTuple):
    """A leaf: its training rows and what it predicts."""

    cover: float
    value: float


class Split(NamedTuple):
    """A split: rows below the threshold go left."""

    feature: int
    threshold: float
    children: tuple[Any, Any]

    @property
    def cover(self) -> float:
        """Training rows below the split."""
        return float(sum(child.cover for child in self.children))


class Passed(NamedTuple):
    """What a path lets pass of a feature, low <= x < high, and the product of its cover shares."""

    z: float = 1.0
    low: float = -math.inf
    high: float = math.inf


AREA, DISTANCE, AGE = range(3)
FEATURES = ("area", "distance", "age")
SHOWN = Split(AGE, 20, (Split(DISTANCE, 12, (Leaf(12, 660), Leaf(6, 480))), Leaf(18, 360)))
"""The subtree of the pictures."""
TREE = Split(AREA, 80, (Split(DISTANCE, 5, (Leaf(24, 900), SHOWN)), Split(AGE, 20, (Leaf(16, 1500), Leaf(24, 1140)))))
ROOTS = (TREE.children[0].children[0], SHOWN, TREE.children[1])
"""The roots of three subtrees, which have all leaves."""
ROW = (65.0, 8.0, 10.0)

Known = dict[int, Passed]
States = dict[int, list[Passed | None]]
"""Of each feature: None outside of the path, then the intervals that the splits tell apart."""
Cell = tuple[Passed | None, ...]
Sums = dict[Cell, tuple[Floats, Floats]]
"""Of each cell of a split X, (features, points), and T, (points,)."""


def beyond(path: Known, split: Split, side: int) -> Known:
    """Add the edge to a child to a path."""
    z, low, high = path.get(split.feature, Passed())
    z *= split.children[side].cover / split.cover
    t = split.threshold
    return path | {split.feature: Passed(z, max(low, t), high) if side else Passed(z, low, min(high, t))}


def path_to(root: Any, node: Any = TREE, path: Known | None = None) -> Known | None:
    """Find the path to a root; None below other nodes."""
    path = path or {}
    if node is root:
        return path
    found = (path_to(root, child, beyond(path, node, side)) for side, child in enumerate(getattr(node, "children", ())))
    return next((one for one in found if one is not None), None)


def splits_of(node: Any) -> Iterator[Split]:
    """Visit the splits below a node, itself included."""
    if isinstance(node, Split):
        yield node
        for child in node.children:
            yield from splits_of(child)


def states_below(node: Any, path: Known) -> States:
    """Find the states of each feature below a node, as explain/tables/states.h."""
    states: States = {}
    for f in sorted({split.feature for split in splits_of(node)}):
        _, low, high = path.get(f, Passed())
        bounds = [
            low,
            *sorted(s.threshold for s in splits_of(node) if s.feature == f and low < s.threshold < high),
            high,
        ]
        states[f] = [None] * (f in path) + [Passed(1.0, *pair) for pair in itertools.pairwise(bounds)]
    return states


def state_of(states: list[Passed | None], low: float | None) -> int:
    """Find the place of the state that holds a number; None is outside."""
    inside = [i for i, one in enumerate(states) if one and low is not None and one.low <= low < one.high]
    return inside[0] if inside else 0


def cells_of(states: States) -> list[Cell]:
    """List the cells of features in the order of their numbers: the first feature's state runs fastest."""
    return [cell[::-1] for cell in itertools.product(*list(states.values())[::-1])]


def points(n: int) -> tuple[Floats, Floats]:
    """Find n points and weights on [0, 1], as explain/cpu/quadrature.h."""
    t, w = np.polynomial.legendre.leggauss(n)
    return (t + 1) / 2, w / 2


def split_edge(z_above: float, ratio: float, taken: int, side: int, t: Floats) -> tuple[Floats, Floats]:
    """Find A and κ / H² of an edge, as explain/tables/splits.h; taken: 0 outside of the path, 1 left, 2 right."""
    if not taken:
        return np.full_like(t, ratio), np.zeros_like(t)
    z, h, o = z_above * ratio, z_above + (1 - z_above) * t, float(taken == side + 1)
    return (z + (o - z) * t) / h, (o * z_above - z) / h**2


def sums_of(node: Any, path: Known, t: Floats) -> tuple[Sums, States]:
    """Sum X and T of all cells of a split, from those of its children, as `add_split` of explain/tables/build.h."""
    states = states_below(node, path)
    if isinstance(node, Leaf):
        return {(): (np.full((len(FEATURES), len(t)), node.value), np.full_like(t, node.value))}, states
    below = [sums_of(child, beyond(path, node, side), t) for side, child in enumerate(node.children)]
    sums = {}
    for cell in cells_of(states):
        of = dict(zip(states, cell, strict=True))
        own = of[node.feature]
        taken = 0 if own is None else 1 if own.low < node.threshold else 2
        X, T = np.zeros((len(FEATURES), len(t))), np.zeros_like(t)
        for side, (child_sums, child_states) in enumerate(below):
            at = tuple(child_states[f][state_of(child_states[f], of[f] and of[f].low)] for f in child_states)
            x, part = child_sums[at]
            ratio = node.children[side].cover / node.cover
            factor, slope = split_edge(path.get(node.feature, Passed()).z, ratio, taken, side, t)
            for lane in range(len(FEATURES)):
                if lane == node.feature:
                    X[lane] += factor * x[lane] + slope * part if lane in child_states else slope * part
                elif lane in child_states or lane not in states:
                    X[lane] += factor * x[lane]
            T += factor * part
        sums[cell] = X, T
    return sums, states


class Table(NamedTuple):
    """A subtree's table: the states of its features, those below it first, and an entry a key, (S, features)."""

    states: States
    entries: Floats


def table_of(root: Any) -> Table:
    """Fill a vector of values for each state, as `close_shared` and `write` of explain/tables/build.h."""
    path = path_to(root) or {}
    t, w = points(math.ceil(max(map(len, leaf_paths(root, path))) / 2))
    sums, states = sums_of(root, path, t)
    states = states | {f: [None, passed] for f, passed in sorted(path.items()) if f not in states}
    below, entries = states_below(root, path), []
    for cell in cells_of(states):
        of = dict(zip(states, cell, strict=True))
        X, T = sums[tuple(of[f] for f in below)]
        o = {f: float(of[f] is not None) for f in path}
        entry = np.zeros(len(FEATURES))
        for lane in states:
            others = math.prod((p.z + (o[f] - p.z) * t for f, p in path.items() if f != lane), start=np.ones_like(t))
            g = path[lane].z + (o[lane] - path[lane].z) * t if lane in path else 1.0
            value = X[lane] * g * others if lane in below else 0 * others
            if lane in path:
                value += (o[lane] - path[lane].z) * others * T
            entry[lane] = w @ value
        entries.append(entry)
    return Table(states, np.array(entries))


def leaf_paths(node: Any, path: Known) -> Iterator[Known]:
    """Visit the paths to the leaves below a node."""
    if isinstance(node, Leaf):
        yield path
    else:
        for side, child in enumerate(node.children):
            yield from leaf_paths(child, beyond(path, node, side))


def key_of(table: Table, row: tuple[float, ...]) -> int:
    """Find the number of the row's state, as `find_keys` of explain/tables/entries.h."""
    key, stride = 0, 1
    for f, states in table.states.items():
        key += stride * state_of(states, row[f])
        stride *= len(states)
    return key


def explain(row: tuple[float, ...]) -> Floats:
    """Explain a row: the sum of an entry of each table."""
    tables = [table_of(root) for root in ROOTS]
    return np.sum([table.entries[key_of(table, row)] for table in tables], axis=0)


def expected(row: tuple[float, ...], known: tuple[int, ...], node: Any = TREE) -> float:
    """Play the game: the mean prediction if some features are known; splits of others send rows by cover."""
    if isinstance(node, Leaf):
        return node.value
    if node.feature in known:
        return expected(row, known, node.children[row[node.feature] >= node.threshold])
    return sum(child.cover / node.cover * expected(row, known, child) for child in node.children)


def coalitions() -> list[tuple[int, ...]]:
    """List all sets of features, small ones first."""
    return [known for n in range(len(FEATURES) + 1) for known in itertools.combinations(range(len(FEATURES)), n)]


# The page.


def named(number: float, places: int = 1) -> str:
    """Write a number; one place is all that the example's values have."""
    return f"{number:.{places}f}".replace("-", "−")


def blocks() -> dict[str, str]:
    """Write the parts of the page that are computed, by name."""
    phi = explain(ROW)
    game = ["| known | mean prediction |", "|---|---:|"]
    for known in coalitions():
        game.append(f"| {', '.join(FEATURES[f] for f in known) or 'nothing'} | {named(expected(ROW, known))} |")
    values = [f"| {' | '.join(FEATURES)} | sum | prediction − mean |", "|---:|---:|---:|---:|---:|"]
    difference = expected(ROW, (0, 1, 2)) - expected(ROW, ())
    values.append(f"| {' | '.join(map(named, phi))} | {named(phi.sum())} | {named(difference)} |")
    return {"game": "\n".join(game), "values": "\n".join(values), "edge": edge_of_the_row()}


def edge_of_the_row() -> str:
    """Write A, κ / H², T and X of the row at the split of distance in the shown subtree, at the first point."""
    split = SHOWN.children[0]
    path = beyond(path_to(SHOWN) or {}, SHOWN, 0)
    t, _ = points(2)
    z = path[DISTANCE].z
    edges = [split_edge(z, child.cover / split.cover, 1, side, t[:1]) for side, child in enumerate(split.children)]
    a, slope = ([f"{float(edge[i][0]):.5f}".replace("-", "−") for edge in edges] for i in (0, 1))
    left, right = split.children
    sums, states = sums_of(split, path, t)
    X, T = next(
        found
        for cell, found in sums.items()
        if state_of(states[DISTANCE], ROW[DISTANCE]) == states[DISTANCE].index(cell[0])
    )
    lines = [
        f"t = {t[0]:.5f}, z_p = {z:g}, H = {z + (1 - z) * t[0]:.5f}",
        f"left:  z_c = {z * left.cover / split.cover:g}, o_c = 1, A = {a[0]}, κ / H² = {slope[0]}",
        f"right: z_c = {z * right.cover / split.cover:g}, o_c = 0, A = {a[1]}, κ / H² = {slope[1]}",
        f"T = {a[0]} × {left.value:g} + {a[1]} × {right.value:g} = {named(T[0], 2)}",
        f"X = {slope[0]} × {left.value:g} − {slope[1].strip('−')} × {right.value:g} = {named(X[DISTANCE][0], 2)}",
    ]
    return "\n".join(f"    {line}" for line in lines)


def filled(text: str) -> str:
    """Fill in the computed parts of the page."""
    for name, block in blocks().items():
        pattern = rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)"
        text, n = re.subn(pattern, lambda found, block=block: f"{found[1]}\n{block}\n\n{found[2]}", text, flags=re.S)
        assert n == 1, f"{PAGE.name} has no place for {name}"
    return text


# The pictures: 390 points wide, so that their texts can be read on phones.

WIDTH = 390
COLOURS = ("#f6e3c5", "#cfe3f5", "#d9ecd2")
"""Of the three subtrees."""
LINE, INK, RED, PALE = "#555555", "#111111", "#b3203a", "#f2f2f2"


class Canvas:
    """A picture of `height` points, whose origin is at the top left."""

    def __init__(self, height: float) -> None:
        from matplotlib import pyplot

        self.figure = pyplot.figure(figsize=(WIDTH / 72, height / 72))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        self.axes.axis("off")

    def text(self, x: float, y: float, text: str, ha: str = "center", **style: Any) -> None:
        """Write a text about (x, y)."""
        self.axes.text(x, y, text, **{"ha": ha, "va": "center", "fontsize": 10, "color": INK} | style)

    def box(self, x: float, y: float, width: float, height: float, colour: str, edge: str = LINE) -> None:
        """Draw a rectangle from its left upper corner."""
        from matplotlib.patches import Rectangle

        self.axes.add_patch(Rectangle((x, y), width, height, fc=colour, ec=edge, lw=0.8, zorder=2))

    def line(self, *places: tuple[float, float], **style: Any) -> None:
        """Draw a line through places."""
        self.axes.plot(*zip(*places, strict=True), **{"color": LINE, "lw": 1, "zorder": 1} | style)

    def table(self, x: float, y: float, lines: list[list[str]], widths: list[float], colour: str, **marks: Any) -> None:
        """Draw lines of cells, an empty one as nothing, the first as a heading."""
        for i, cells in enumerate(lines):
            at, is_marked = x, marks.get("marked") == i
            for cell, width in zip(cells, widths, strict=False):
                self.box(at, y + 15 * i, width, 15, PALE if i == 0 else colour)
                style = {"color": RED if is_marked else INK, "fontweight": "bold" if is_marked else "normal"}
                self.text(at + width / 2, y + 15 * i + 7.8, cell, fontsize=9.5, zorder=3, **style)
                at += width

    def save(self, name: str) -> None:
        """Write docs/images/<name>.svg."""
        from matplotlib import pyplot

        self.figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
        pyplot.close(self.figure)


def name_of(split: Split) -> str:
    """Write a split."""
    return f"{FEATURES[split.feature]} < {split.threshold:g}"


def interval(passed: Passed | None) -> str:
    """Write a state."""
    if passed is None:
        return "outside"
    if math.isinf(passed.low):
        return f"< {passed.high:g}"
    return f"≥ {passed.low:g}" if math.isinf(passed.high) else f"{passed.low:g} to {passed.high:g}"


def draw_tree() -> None:
    """Draw the tree, its three subtrees, and the states of one of them."""
    picture = Canvas(382)
    low, right = TREE.children
    places = [(TREE, 200, 34, None), (low, 105, 88, None), (right, 320, 88, 2), (low.children[0], 40, 142, 0)]
    places += [(SHOWN, 165, 142, 1), (right.children[0], 285, 142, 2), (right.children[1], 355, 142, 2)]
    near, far = SHOWN.children
    places += [(near, 115, 196, 1), (far, 215, 196, 1), (near.children[0], 75, 250, 1), (near.children[1], 155, 250, 1)]
    at = {id(node): (x, y) for node, x, y, _ in places}
    for node, x, y, which in places:
        colour = PALE if which is None else COLOURS[which]
        if isinstance(node, Split):
            for child in node.children:
                u, v = at[id(child)]
                picture.line((x, y), (u, v))
                picture.text((x + u) / 2, (y + v) / 2, f"{child.cover:g}", fontsize=8.5, backgroundcolor="white")
            picture.box(x - 37, y - 10, 74, 20, colour)
            picture.text(x, y + 0.5, name_of(node), zorder=3)
        else:
            picture.box(x - 19, y - 10, 38, 20, colour)
            picture.text(x, y + 0.5, f"{node.value:g}", zorder=3)
    picture.text(8, 12, "Colours: subtrees.", ha="left", fontsize=9.5)
    picture.text(8, 25, "Numbers: training rows.", ha="left", fontsize=9.5)
    states = table_of(SHOWN).states
    picture.text(8, 284, "States of the blue subtree's features:", ha="left", fontsize=9.5)
    where = {AREA: "path alone", DISTANCE: "path and below", AGE: "below alone"}
    for i, f in enumerate((AREA, DISTANCE, AGE)):
        y, n = 296 + 23 * i, len(states[f])
        picture.text(8, y + 10, FEATURES[f], ha="left")
        picture.text(66, y + 10, where[f], ha="left", fontsize=8.5)
        for s, state in enumerate(states[f]):
            width = 240 / n
            picture.box(142 + s * width, y, width, 18, COLOURS[1] if state else "white")
            picture.text(142 + (s + 0.5) * width, y + 9.5, interval(state), fontsize=9, zorder=3)
    sizes = " × ".join(str(len(states[f])) for f in (AREA, DISTANCE, AGE))
    picture.text(
        8, 373, f"{sizes} = {len(table_of(SHOWN).entries)} states: the key is a state's number", ha="left", fontsize=9.5
    )
    picture.save("values-tree")


def lines_of(node: Any, path: Known, t: Floats) -> list[list[str]]:
    """Write X and T of the cells of a split at the first point, as lines."""
    sums, states = sums_of(node, path, t)
    lines = [[*(FEATURES[f] for f in states), "T", *(f"X {FEATURES[f]}" for f in states)]]
    for cell in cells_of(states):
        X, T = sums[cell]
        lines.append([*map(interval, cell), named(T[0], 2), *(named(X[f][0], 2) for f in states)])
    return lines


def draw_tables() -> None:
    """Draw how the table of the shown subtree is filled: cells of its splits, then its entries."""
    path = path_to(SHOWN) or {}
    t, _ = points(2)
    table = table_of(SHOWN)
    picture = Canvas(460)
    picture.text(8, 11, f"1. Cells of distance < 12, at t = {t[0]:.3f} of two points", ha="left", fontsize=9.5)
    low = lines_of(SHOWN.children[0], beyond(path, SHOWN, 0), t)
    picture.table(8, 20, low, [80, 80, 80], COLOURS[1])
    picture.text(8, 100, "2. Cells of age < 20, from those of 1 and the leaf 360", ha="left", fontsize=9.5)
    picture.table(8, 109, lines_of(SHOWN, path, t), [76, 60, 70, 84, 84], COLOURS[1])
    picture.text(8, 234, "3. The table: × factors of area and distance, Σ over points", ha="left", fontsize=9.5)
    lines = [["key", *(FEATURES[f] for f in table.states), *(f"φ {name}" for name in FEATURES)]]
    for key, (cell, entry) in enumerate(zip(cells_of(table.states), table.entries, strict=True)):
        lines.append([str(key), *map(interval, cell), *map(named, entry)])
    marked = 1 + key_of(table, ROW)
    picture.table(8, 243, lines, [28, 56, 46, 54, 60, 70, 60], COLOURS[1], marked=marked)
    picture.text(8, 449, "Red: the row of the next picture.", ha="left", fontsize=9.5, color=RED)
    picture.save("values-tables")


def steps_of(table: Table) -> str:
    """Write a key as a sum over codes, as `add_key` of explain/tables/layout.h."""
    base, stride, terms = 0, 1, []
    for f, states in table.states.items():
        thresholds = sorted({split.threshold for split in splits_of(TREE) if split.feature == f})
        numbers = [state_of(states, low) for low in (-math.inf, *thresholds)]
        base += stride * numbers[0]
        for code, (last, now) in enumerate(itertools.pairwise(numbers)):
            if now != last:
                weight = stride * (now - last)
                terms.append(f"{'+' if weight > 0 else '−'}{abs(weight)} [{FEATURES[f]} > {code}]")
        stride *= len(states)
    return " ".join([str(base), *terms])


def draw_row() -> None:
    """Draw how a row passes: codes, keys, entries, sums."""
    picture = Canvas(330)
    codes = [sum(s <= x for s in {t.threshold for t in splits_of(TREE) if t.feature == f}) for f, x in enumerate(ROW)]
    picture.text(8, 11, "1. A row, and its codes: how many thresholds are not above", ha="left", fontsize=9.5)
    lines = [["", *FEATURES], ["value", *(f"{x:g}" for x in ROW)], ["code", *map(str, codes)]]
    picture.table(8, 20, lines, [60, 70, 70, 70], "white")
    picture.text(8, 85, "2. A key a subtree: a sum of steps (1 if true) over codes", ha="left", fontsize=9.5)
    tables = [table_of(root) for root in ROOTS]
    for i, table in enumerate(tables):
        y = 95 + 26 * i
        picture.box(8, y, 374, 22, COLOURS[i])
        picture.text(13, y + 11.5, steps_of(table), ha="left", fontsize=8.5, zorder=3)
        picture.text(376, y + 11.5, f"= {key_of(table, ROW)}", ha="right", fontsize=9.5, color=RED, zorder=3)
    picture.text(8, 188, "3. The entries at these keys, added up", ha="left", fontsize=9.5)
    widths = [110.0, 24.0, 80.0, 80.0, 80.0]
    picture.table(8, 197, [["subtree", "key", *(f"φ {name}" for name in FEATURES)]], widths, PALE)
    for i, (name, table) in enumerate(zip(("leaf 900", "blue", "area ≥ 80"), tables, strict=True)):
        key = key_of(table, ROW)
        picture.table(8, 197 + 15 * i, [[], [name, str(key), *map(named, table.entries[key])]], [*widths], COLOURS[i])
    picture.table(8, 242, [[], ["φ", "", *map(named, explain(ROW))]], widths, "white", marked=1)
    mean, prediction = expected(ROW, ()), expected(ROW, (0, 1, 2))
    phi = explain(ROW)
    total = " ".join(f"{'+' if v > 0 else '−'} {abs(v):.1f}" for v in phi)
    picture.text(8, 290, f"mean {named(mean)} {total}", ha="left", fontsize=9.5)
    picture.text(8, 306, f"= {named(prediction)}: the leaf that the row reaches", ha="left", fontsize=9.5)
    picture.save("values-row")


def main() -> None:
    """Write the page's numbers and its pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "glasswood", "svg.fonttype": "none"})
    draw_tree()
    draw_tables()
    draw_row()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
