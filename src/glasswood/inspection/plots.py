"""Results that draw themselves, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import PICTURE, short
from glasswood.base.extras import import_extra
from glasswood.inspection.rows import Bunch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES, MOST_NAMES, MOST_FEATURES, COLUMNS = 50, 12, 20, 4
"""Lines of single rows, names of categories side by side, features of a picture, and pictures side by side."""

MOST_LETTERS = 16
"""Characters of a category's name at an axis."""


class Dependence(Bunch):
    """Partial dependence of one or two features."""

    label = "mean prediction"

    def plot(self, ax: Axes | None = None, output: int = 0) -> Axes:
        """Draw the mean prediction, with the middle 80 % of the rows and lines of some where these are known.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        output : int
            Which output of several.

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of(ax)
        with plain():
            (_two if len(self["grid_values"]) == 2 else _one)(self, ax, output)
        return ax


class LocalEffect(Dependence):
    """Accumulated local effects of one or two features."""

    label = "accumulated local effect"


class Importance(Bunch):
    """Permutation importance of the features, whose names are `names`."""

    names: Sequence[str] = ()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the decrease of the score by feature, the largest at the top, with standard deviations.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of(ax)
        order = np.argsort(self["importances_mean"], kind="stable")[-MOST_FEATURES:]
        with plain():
            ax.barh(range(len(order)), self["importances_mean"][order], xerr=self["importances_std"][order])
            ax.set_yticks(range(len(order)), [short(self.names[place]) for place in order])
            ax.set_xlabel("decrease of the score")
        return ax


def axes_of(ax: Axes | None) -> Axes:
    """Given axes, or new ones."""
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    made: Axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    return made


def plain() -> Any:
    """Set matplotlib up to show names as they are."""
    return import_extra("matplotlib", "plot", "pictures need matplotlib").rc_context(PICTURE)


def _one(result: Dependence, ax: Axes, output: int) -> None:
    [grid], each = result["grid_values"], result.get("individual")
    mean = result["average"][output] if "average" in result else each[output].mean(axis=0)  # type: ignore[index]
    is_text = np.asarray(grid).dtype.kind not in "fiub"
    x = np.arange(len(grid)) if is_text else grid
    if each is not None:
        low, high = np.quantile(each[output], [0.1, 0.9], axis=0)
        some = np.linspace(0, len(each[output]) - 1, min(MOST_LINES, len(each[output]))).astype(int)
        if is_text:
            ax.vlines(x, low, high, color="tab:blue", alpha=0.3, linewidth=6)
        else:
            ax.fill_between(x, low, high, color="tab:blue", alpha=0.15, linewidth=0, label="middle 80 % of the rows")
            ax.plot(x, each[output][some].T, color="0.6", alpha=0.3, linewidth=0.7)
    ax.plot(x, mean, "o" if is_text or len(grid) == 1 else "-", color="tab:blue", linewidth=2, label="mean")
    if is_text:
        step = max(1, len(grid) // MOST_NAMES)
        ax.set_xticks(x[::step], [short(str(name), MOST_LETTERS) for name in grid[::step]], rotation=30, ha="right")
    ax.set_xlabel(short(str(result["feature_names"][0])))
    ax.set_ylabel(result.label)


def _two(result: Dependence, ax: Axes, output: int) -> None:
    first, second = result["grid_values"]
    mean = result["average"][output] if "average" in result else result["individual"][output].mean(axis=0)
    places = [np.arange(len(grid)) if np.asarray(grid).dtype.kind not in "fiub" else grid for grid in (first, second)]
    mesh = ax.pcolormesh(*places, np.asarray(mean).T, shading="nearest", cmap="viridis")
    ax.figure.colorbar(mesh, ax=ax, label=result.label)
    for grid, place, set_ticks in ((first, places[0], ax.set_xticks), (second, places[1], ax.set_yticks)):
        if place is not grid:
            set_ticks(place, [short(str(name), MOST_LETTERS) for name in grid])
    ax.set_xlabel(short(str(result["feature_names"][0])))
    ax.set_ylabel(short(str(result["feature_names"][1])))


def plot_effects(curves: Sequence[Dependence], surfaces: Sequence[Dependence], output: int) -> Figure:
    """Draw curves with one scale, then surfaces."""
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    curves = curves[:MOST_FEATURES]
    lines = [-(-len(some) // COLUMNS) for some in (curves, surfaces)]
    with plain():
        size = (4 * COLUMNS, 3 * sum(lines))
        figure, axes = pyplot.subplots(sum(lines), COLUMNS, figsize=size, layout="constrained", squeeze=False)
        of_curves, of_surfaces = axes[: lines[0]].ravel(), axes[lines[0] :].ravel()
        for some, places in ((curves, of_curves), (surfaces, of_surfaces)):
            for one, ax in zip(some, places, strict=False):
                one.plot(ax, output)
            for ax in places[len(some) :]:
                ax.set_visible(False)
        limits = [ax.get_ylim() for ax in of_curves[: len(curves)]]
        for ax in of_curves:
            ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    drawn: Figure = figure
    return drawn
