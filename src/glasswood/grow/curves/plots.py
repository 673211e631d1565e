"""Curves and surfaces as pictures, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.extras import import_extra
from glasswood.base.pictures import tone
from glasswood.base.wording import cut_texts
from glasswood.model.facts import output_names, units_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from glasswood.base.typing import Array
    from glasswood.model.ensemble import TreeEnsemble

    Table = dict[str, Array]

COLUMNS, SIZE = 3, (4.0, 2.8)
"""Pictures side by side, and inches of each."""

MOST_NAMES, MOST_LETTERS = 12, 14
"""Categories with names at an axis, and their characters."""

CURVE, NOTHING = "#4c78a8", "There is neither a curve nor a surface."
"""Colour of a curve, and the text of a figure without any."""


def draw(curves: Table, surfaces: Table, forest: TreeEnsemble, number: int) -> Figure:
    """Draw the curves and surfaces of a forest's output; curves have one scale, so that they compare."""
    output = output_names(forest, forest.n_outputs)[number]
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    own = [_only(curves, (curves["output"] == output) & (curves["feature"] == name)) for name in _names(curves, output)]
    pairs = sorted({
        (first, other)
        for first, other, one in zip(
            surfaces["feature"].tolist(), surfaces["other_feature"].tolist(), surfaces["output"], strict=True
        )
        if one == output
    })  # fmt: skip
    n = len(own) + len(pairs)
    rows = max(-(-n // COLUMNS), 1)
    size = SIZE[0] * min(max(n, 1), COLUMNS), SIZE[1] * rows
    figure, axes = pyplot.subplots(rows, min(max(n, 1), COLUMNS), figsize=size, squeeze=False, layout="constrained")
    places = iter(axes.ravel())
    _draw_curves(own, places)
    for first, other in pairs:
        is_own = (surfaces["feature"] == first) & (surfaces["other_feature"] == other) & (surfaces["output"] == output)
        _draw_surface(next(places), _only(surfaces, is_own), figure)
    for ax in places:
        ax.set_axis_off()
    if n:
        figure.supylabel(f"adds to the {units_of(forest, 'margin', forest.n_outputs)[number]}", fontsize="medium")
    else:
        axes[0, 0].text(0.5, 0.5, NOTHING, ha="center", va="center", wrap=True)
    picture: Figure = figure
    return picture


def _names(curves: Table, output: str) -> list[str]:
    return list(dict.fromkeys(curves["feature"][curves["output"] == output].tolist()))


def _only(table: Table, chosen: Any) -> Table:
    return {name: values[chosen] for name, values in table.items()}


def _draw_curves(own: list[Table], places: Any) -> None:
    if not own:
        return
    low = min(float((one["adds"] - one["standard_error"]).min()) for one in own)
    high = max(float((one["adds"] + one["standard_error"]).max()) for one in own)
    for one in own:
        ax = next(places)
        (_draw_numbers if (one["category"] == "").any() else _draw_categories)(ax, one)
        ax.axhline(0, color=tone(0.25), linewidth=0.8, zorder=0)
        ax.set_ylim(low - 0.08 * (high - low), high + 0.05 * (high - low))
        ax.set_xlabel(shown(str(one["feature"][0])))


def _draw_numbers(ax: Axes, one: Table) -> None:
    """Draw steps, a band of one standard error on either side, and below them where the rows are."""
    is_number = one["category"] == ""
    steps = _only(one, is_number)
    inner = steps["to"][:-1]
    width = float(np.ptp(inner)) if len(inner) > 1 else max(abs(float(inner[0])), 1.0) if len(inner) else 1.0
    first = (float(inner[0]) if len(inner) else 0.0) - 0.08 * width
    last = (float(inner[-1]) if len(inner) else 0.0) + 0.08 * width
    edges = np.concatenate([[first], inner, [last]])
    adds, error = steps["adds"], steps["standard_error"]
    ax.stairs(adds + error, edges, baseline=adds - error, fill=True, color=CURVE, alpha=0.25, linewidth=0)
    ax.stairs(adds, edges, baseline=None, color=CURVE, linewidth=1.6)
    share = steps["rows"] / max(int(one["rows"].sum()), 1) / np.maximum(np.diff(edges), 1e-300)
    if len(share) > 2:  # the outer steps are as wide as their rows, which is not known here
        share[[0, -1]] = np.minimum(share[[0, -1]], share[[1, -2]])
    height = 0.12 * share / share.max()
    ax.stairs(height, edges, transform=ax.get_xaxis_transform(), fill=True, color=tone(0.3), linewidth=0)
    missing = _only(one, ~is_number)
    if len(missing["adds"]):
        text = f"missing {float(missing['adds'][0]):+.3g}"
        ax.text(0.98, 0.96, text, transform=ax.transAxes, ha="right", va="top", fontsize="small")
    ax.locator_params(axis="x", nbins=5)


def _draw_categories(ax: Axes, one: Table) -> None:
    order = np.argsort(one["adds"], kind="stable")
    adds, error = one["adds"][order], one["standard_error"][order]
    places = np.arange(len(order))
    ax.errorbar(places, adds, yerr=error, fmt="o", color=CURVE, markersize=4, linewidth=1)
    names = cut_texts([shown(name) for name in one["category"][order].tolist()], MOST_LETTERS)
    few = places if len(order) <= MOST_NAMES else np.array([0, len(order) - 1])
    ax.set_xticks(
        few, [names[k] for k in few], rotation=30 if len(few) > 2 else 0, ha="right" if len(few) > 2 else "center"
    )


def _draw_surface(ax: Axes, one: Table, figure: Figure) -> None:
    """Cells in equal sizes: their edges are quantiles more or less."""
    # By their texts: the bounds of categories are NaN, each of which is another one.
    n = len(set(map(repr, zip(one["from"].tolist(), one["to"].tolist(), one["category"].tolist(), strict=True))))
    table = one["adds"].reshape(n, -1).T
    most = float(np.abs(table).max()) or 1.0
    picture = ax.imshow(table, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
    figure.colorbar(picture, ax=ax)
    m = table.shape[0]
    for axis, prefix, at, side in (
        (ax.xaxis, "", np.arange(n) * m, n), (ax.yaxis, "other_", np.arange(m), m),
    ):  # fmt: skip
        few = np.unique(np.linspace(0, side - 1, min(side, 5)).round().astype(int))
        axis.set_ticks(few, cut_texts([_cell_text(one, prefix, int(at[k])) for k in few], MOST_LETTERS))
        if axis is ax.xaxis:
            ax.tick_params("x", rotation=30)
        axis.set_label_text(shown(str(one[f"{prefix}feature"][0])))


def _cell_text(one: Table, prefix: str, k: int) -> str:
    low, high, category = float(one[f"{prefix}from"][k]), float(one[f"{prefix}to"][k]), str(one[f"{prefix}category"][k])
    if low != low:
        return shown(category)
    return f"<{high:.4g}" if low == -np.inf else f"{low:.4g}"
