"""Results that draw themselves, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import PICTURE, short, shown
from glasswood.base.extras import import_extra
from glasswood.base.pictures import ends_of, tone, write_ticks
from glasswood.base.typing import Array
from glasswood.base.wording import cut_texts
from glasswood.inspection.rows import Bunch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES, MOST_FEATURES, COLUMNS = 50, 20, 4
"""Lines of single rows, features of a picture, and pictures side by side."""

MOST_LETTERS, FEW_POINTS = 16, 25
"""Characters of a category's name at an axis, and values below which a number's effect is points instead of a line."""

SIZE, WIDEST, NAME, TICK, UPRIGHT = (6.4, 4.8), 13.0, 0.13, 0.65, 12
"""Inches of a picture, at most, of a name and of a number at an axis; and names beyond which they stand upright."""


class Dependence(Bunch):
    """Partial dependence of one or two features.

    Attributes
    ----------
    unit : list of str
        What the numbers of each output are: "prediction", "log-odds of rich", "probability of rich".
    """

    unit: Sequence[str] = ("prediction",)
    said = "mean {}"

    def label(self, output: int) -> str:
        """Say what is drawn."""
        return self.said.format(self.unit[min(output, len(self.unit) - 1)])

    def plot(self, ax: Axes | None = None, output: int = 0) -> Axes:
        """Draw the mean prediction, with the middle 80 % of the rows and lines of some where these are known.

        The axis names its unit. Numbers with few values are points. Categories stand in the order of their means; where
        there is no room for the names of all, only the lowest and the highest ones are shown, and the axis says so.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        output : int
            Which output of several.

        Returns
        -------
        matplotlib Axes
        """
        sizes = [len(grid) if is_text(grid) else 0 for grid in self["grid_values"]]
        ax = axes_of(
            ax, *(min(WIDEST, max(least, 0.3 + NAME * n / 0.75)) for n, least in zip(sizes, SIZE, strict=False))
        )
        with plain():
            (_two if len(self["grid_values"]) == 2 else _one)(self, ax, output)
        return ax


class LocalEffect(Dependence):
    """Accumulated local effects of one or two features."""

    said = "accumulated local effect on the {}"


def is_text(grid: Any) -> bool:
    """Whether the points of a grid are categories."""
    return np.asarray(grid).dtype.kind not in "fiub"


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
            ax.set_yticks(range(len(order)), cut_texts([shown(self.names[place]) for place in order], 32))
            ax.set_xlabel("decrease of the score")
            write_ticks(ax.xaxis)
        return ax


def axes_of(ax: Axes | None, width: float = SIZE[0], height: float = SIZE[1]) -> Axes:
    """Given axes, or new ones of `width` times `height` inches."""
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    made: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax
    return made


def plain() -> Any:
    """Set matplotlib up to show names as they are."""
    return import_extra("matplotlib", "plot", "pictures need matplotlib").rc_context(PICTURE)


def _one(result: Dependence, ax: Axes, output: int) -> None:
    [grid], each = result["grid_values"], result.get("individual")
    mean = result["average"][output] if "average" in result else each[output].mean(axis=0)  # type: ignore[index]
    has_names = is_text(grid)
    order = _ordered(ax, "x", mean) if has_names else np.arange(len(grid))
    x, mean = np.arange(len(order)) if has_names else np.asarray(grid), np.asarray(mean)[order]
    is_few = not isinstance(result, LocalEffect) and len(grid) < FEW_POINTS
    if each is not None:
        low, high = np.quantile(each[output][:, order], [0.1, 0.9], axis=0)
        some = np.linspace(0, len(each[output]) - 1, min(MOST_LINES, len(each[output]))).astype(int)
        if has_names or is_few:
            ax.vlines(x, low, high, color="tab:blue", alpha=0.3, linewidth=6)
        else:
            ax.fill_between(x, low, high, color="tab:blue", alpha=0.15, linewidth=0, label="middle 80 % of the rows")
            ax.plot(x, each[output][some].T, color=tone(0.4), alpha=0.3, linewidth=0.7)
    style = "o" if has_names or is_few else "-"
    ax.plot(x, mean, style, color="tab:blue", linewidth=2, label="mean")
    ax.set_xlabel(short(str(result["feature_names"][0])))
    if has_names:
        _write_names(ax, "x", np.asarray(grid), order, ax.get_xlabel())
    else:
        _write_numbers(ax)
    ax.set_ylabel(result.label(output))
    write_ticks(ax.yaxis, _is_share(result, output))


def _is_share(result: Dependence, output: int) -> bool:
    return result.label(output).startswith(("mean probability", "accumulated local effect on the probability"))


def _write_numbers(ax: Axes) -> None:
    """Write as many ticks below a picture as have room."""
    write_ticks(ax.xaxis)
    inches = ax.get_window_extent().width / ax.figure.dpi
    ax.locator_params(axis="x", nbins=max(2, min(9, int(inches / TICK))))


def _ordered(ax: Axes, which: str, means: Array) -> Array:
    """Places of categories by their means: all whose names have room, or the lowest and the highest ones."""
    box = ax.get_window_extent()
    inches = (box.width if which == "x" else box.height) / ax.figure.dpi
    kept = ends_of(len(means), max(4, int(inches / NAME)))
    order: Array = np.argsort(means, kind="stable")[kept]
    return order


def _write_names(ax: Axes, which: str, grid: Array, order: Array, label: str) -> None:
    """Name the categories at an axis, and say how many there are if some are left out."""
    n, left_out = len(order), len(grid) - len(order)
    texts = cut_texts([shown(str(name)) for name in grid[order]], MOST_LETTERS)
    is_upright = which == "x" and n > UPRIGHT
    style: dict[str, Any] = {"fontsize": 7} if n > UPRIGHT else {}
    if which == "x":
        style |= {"rotation": 90, "ha": "center"} if is_upright else {"rotation": 30, "ha": "right"}
    (ax.set_xticks if which == "x" else ax.set_yticks)(range(n), texts, **style)
    if left_out:
        last = max(1, n // 2)
        (ax.set_xlabel if which == "x" else ax.set_ylabel)(f"{label}: {n - last} lowest, {last} highest of {len(grid)}")
        (ax.axvline if which == "x" else ax.axhline)(n - last - 0.5, color=tone(0.5), linestyle=":")


def _two(result: Dependence, ax: Axes, output: int) -> None:
    grids = [np.asarray(grid) for grid in result["grid_values"]]
    mean = result["average"][output] if "average" in result else result["individual"][output].mean(axis=0)
    mean = np.asarray(mean)
    orders = [
        _ordered(ax, which, mean.mean(axis=1 - k)) if is_text(grid) else np.arange(len(grid))
        for k, (which, grid) in enumerate(zip("xy", grids, strict=True))
    ]
    mean = mean[np.ix_(*orders)]
    places = [np.arange(len(order)) if is_text(grid) else grid for grid, order in zip(grids, orders, strict=True)]
    mesh = ax.pcolormesh(*places, mean.T, shading="nearest", cmap="viridis")
    bar = ax.figure.colorbar(mesh, ax=ax, label=result.label(output))
    write_ticks(bar.ax.yaxis, _is_share(result, output))
    names = [short(str(name)) for name in result["feature_names"]]
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    for which, grid, order, name in zip("xy", grids, orders, names, strict=True):
        if is_text(grid):
            _write_names(ax, which, grid, order, name)
        elif which == "x":
            _write_numbers(ax)
        else:
            write_ticks(ax.yaxis)


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
