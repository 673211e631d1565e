"""The picture of docs/internals/evaluate.md: python -m benchmarks.evaluate.pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.data import ROOT

TARGET = ROOT / "docs" / "images" / "path-reduction.svg"
CHILDREN = {0: (1, 2), 1: (3, 4), 2: (5, 6), 4: (7, 8), 8: (9, 10), 9: (11, 12)}
"""Breadth-first tree: node -> left and right child; the others are leaves."""
GOES_RIGHT = {0: False, 1: True, 2: True, 4: True, 8: False, 9: True}
"""What one row answers to every split, also to those that it would never reach."""
SPLIT, LEAF, ROUTE = "#dbe9f6", "#f2f2f2", "#d1495b"


def positions() -> dict[int, tuple[float, float]]:
    """In order from left to right, by depth from top to bottom."""
    places: dict[int, tuple[float, float]] = {}

    def place(node: int, depth: int) -> None:
        left, right = CHILDREN.get(node, (None, None))
        if left is not None:
            place(left, depth + 1)
        places[node] = (len(places), -depth)
        if right is not None:
            place(right, depth + 1)

    place(0, 0)
    return places


def paths() -> list[list[int]]:
    """The path after the comparisons, and after each reduction."""
    n_nodes = 2 * len(CHILDREN) + 1
    path = [CHILDREN[node][GOES_RIGHT[node]] if node in CHILDREN else node for node in range(n_nodes)]
    steps = [path]
    while path[0] in CHILDREN:
        path = [path[successor] for successor in path]
        steps.append(path)
    return steps


def draw_tree(axes: Any) -> None:
    places, route = positions(), {0}
    for node in sorted(CHILDREN):
        if node in route:
            route.add(CHILDREN[node][GOES_RIGHT[node]])
    for node, children in CHILDREN.items():
        for side, child in enumerate(children):
            (x, y), (u, v) = places[node], places[child]
            is_taken = GOES_RIGHT[node] == bool(side)
            color = ROUTE if is_taken and node in route else "black" if is_taken else "#bbbbbb"
            axes.plot([x, u], [y, v], color=color, lw=2.2 if is_taken else 1, ls="-" if is_taken else ":", zorder=1)
    for node, (x, y) in places.items():
        box = {"boxstyle": "circle" if node in CHILDREN else "square", "fc": SPLIT if node in CHILDREN else LEAF}
        axes.text(x, y, str(node), ha="center", va="center", bbox=box | {"ec": ROUTE if node in route else "#555555"})
    axes.set_title(
        "1. All splits compare at once (solid: the child\nthat a split points to, red: the row's way)", fontsize=10
    )
    axes.set(xlim=(-0.7, len(places) - 0.3), ylim=(-5.6, 0.6))
    axes.axis("off")


def draw_path(axes: Any, steps: Sequence[Sequence[int]]) -> None:
    captions = ["after the comparisons", *(f"reduction {i}: steps of {2**i}" for i in range(1, len(steps)))]
    for row, (path, caption) in enumerate(zip(steps, captions, strict=True)):
        for node, successor in enumerate(path):
            is_leaf = successor not in CHILDREN
            axes.text(
                node,
                -row,
                f"{successor:2}",
                family="monospace",
                ha="center",
                va="center",
                fontweight="bold" if node == 0 else "normal",
                color=ROUTE if node == 0 else "black",
                bbox={"boxstyle": "square,pad=0.4", "fc": LEAF if is_leaf else SPLIT, "ec": "#555555"},
            )
        axes.text(-1.0, -row, caption, ha="right", va="center", fontsize=9)
    for node in range(len(steps[0])):
        axes.text(node, 0.75, str(node), ha="center", va="center", fontsize=8, color="#555555")
    axes.text(-1.0, 0.75, "entry of node", ha="right", va="center", fontsize=8, color="#555555")
    axes.set_title(
        "2. The path is permuted by itself: path[i] = path[path[i]],\nuntil entry 0 names a leaf", fontsize=10
    )
    axes.set(xlim=(-6.2, len(steps[0]) - 0.4), ylim=(-len(steps) + 0.2, 1.3))
    axes.axis("off")


def main() -> None:
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "glasswood", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 3.6), width_ratios=[1, 1.55])
    draw_tree(axes[0])
    draw_path(axes[1], paths())
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
