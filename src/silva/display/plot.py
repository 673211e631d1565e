"""Pictures of a tree and of the search that found it, by matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from silva.display.text import check_tree, facts_of, leaf_text
from silva.loading import load
from silva.rules import common_range, test_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from silva.forest import Forest

LEAF_WIDTH, LEVEL_HEIGHT = 2.6, 1.5
"""Inches that a leaf and a level of tests take."""

LEAF_TEXT, TEST_TEXT = 28, 20
"""Characters in a line of a leaf, and of a test: the tests of two leaves side by side are half a leaf apart."""


def plot_tree(model: object, tree: int = 0, digits: int = 4, ax: Axes | None = None) -> Axes:
    """Draw a tree: tests on the branches; equation, rows and error in the leaves.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` reads
    tree : int, default=0
    digits : int, default=4
        Significant digits of numbers.
    ax : matplotlib Axes, optional
        Default: a new figure of a size that fits the tree.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the forest has no such tree.
    """
    forest = load(model)
    check_tree(forest, tree)
    first, last = int(forest.tree_offsets[tree]), int(forest.tree_offsets[tree + 1])
    places = _places(forest, first)
    n_leaves, depth = (last - first + 1) // 2, max(-y for _, y in places.values())
    if ax is None:
        ax = _new_axes((LEAF_WIDTH * n_leaves, LEVEL_HEIGHT * (depth + 1)))
    for node, (x, y) in places.items():
        if forest.feature[node] < 0:
            text = leaf_text(forest, tree, node, digits, facts_of(model))
            _box(ax, x, y, textwrap.fill(text, LEAF_TEXT))
            continue
        for side, test in enumerate(test_text(forest, node, digits)):
            _branch(ax, (x, y), places[first + int(forest.left[node]) + side], textwrap.fill(test, TEST_TEXT))
    if common := common_range(forest, tree, digits):
        ax.set_title(f"predictions are clipped to {common}", fontsize=8)
    ax.set_xlim(-0.6, n_leaves - 0.4)
    ax.set_ylim(-depth - 0.5, 0.4)
    ax.axis("off")
    return ax


def plot_history(model: object, ax: Axes | None = None) -> Axes:
    """Draw how error and size of the best tree went over the generations.

    Parameters
    ----------
    model : ModelTreeRegressor
        Fitted.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        If `model` has no history, as forests and what was loaded from a file.
    ImportError
        If matplotlib is not installed.
    """
    if not hasattr(model, "history_"):
        raise TypeError(f"got {type(model).__name__} without history_, expected a fitted silva.ModelTreeRegressor")
    history = model.history_
    ax = _new_axes((6.4, 3.6)) if ax is None else ax
    ax.plot(history["generation"], history["rmse"], color="tab:blue")
    ax.set_xlabel("generation")
    ax.set_ylabel("training error (RMSE) of the best tree", color="tab:blue")
    right = ax.twinx()
    right.plot(history["generation"], history["n_leaves"], color="tab:orange", label="best tree")
    right.plot(history["generation"], history["mean_leaves"], color="tab:orange", linestyle=":", label="population")
    right.set_ylabel("leaves (dotted: population)", color="tab:orange")
    return ax


def _new_axes(size: tuple[float, float]) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'silva[plot]'") from error
    axes: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return axes


def _places(forest: Forest, first: int) -> dict[int, tuple[float, float]]:
    """Leaves side by side, tests midway above their children."""
    places: dict[int, tuple[float, float]] = {}
    n_placed = 0

    def place(node: int, depth: int) -> float:
        nonlocal n_placed
        if forest.feature[node] < 0:
            x, n_placed = float(n_placed), n_placed + 1
        else:
            left = first + int(forest.left[node])
            x = (place(left, depth + 1) + place(left + 1, depth + 1)) / 2
        places[node] = (x, -float(depth))
        return x

    place(first, 0)
    return places


def _box(ax: Axes, x: float, y: float, text: str) -> None:
    style = {"boxstyle": "round", "facecolor": "white", "edgecolor": "tab:blue"}
    ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=style)


def _branch(ax: Axes, top: tuple[float, float], bottom: tuple[float, float], test: str) -> None:
    ax.plot([top[0], bottom[0]], [top[1], bottom[1]], color="0.6", zorder=0)
    middle = ((top[0] + bottom[0]) / 2, (top[1] + bottom[1]) / 2)
    ax.text(
        *middle, test, ha="center", va="center", fontsize=8, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1}
    )
