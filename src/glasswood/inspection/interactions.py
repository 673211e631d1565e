"""Friedman's H: how much of what features do together is more than the sum of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.pictures import write_ticks
from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.base.wording import cut_texts
from glasswood.inspection.plots import axes_of, plain
from glasswood.inspection.ranks import settled
from glasswood.inspection.rows import Bunch, ChangingRows, numbers_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glasswood.inspection.additive import AdditiveParts

MOST_BARS, MOST_LETTERS = 20, 24
"""Pairs of a picture, and characters of a feature's name."""


class Interactions(Bunch):
    """Friedman's H of pairs, and of each feature against all others."""

    unit: Sequence[str] = ("prediction",)

    def plot(self, ax: Axes | None = None, output: int = 0) -> Axes:
        """Draw the strongest pairs, with their H.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        output : int
            Which of several outputs.

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of(ax)
        strength = self["strength"][:, output]
        order = np.argsort(strength, kind="stable")[-MOST_BARS:]
        with plain():
            ax.barh(range(len(order)), strength[order])
            names = cut_texts([shown(name) for pair in self["pairs"] for name in pair], MOST_LETTERS)
            pairs = [f"{first} × {second}" for first, second in zip(names[::2], names[1::2], strict=True)]
            ax.set_yticks(range(len(order)), [pairs[place] for place in order])
            for at, place in enumerate(order):
                ax.annotate(f" H = {self['h'][place, output]:.2f}", (strength[place], at), va="center")
            ax.margins(x=0.2)
            unit = self.unit[min(output, len(self.unit) - 1)]
            ax.set_xlabel(f"joint effect on the {unit}, beyond the sum of both")
            write_ticks(ax.xaxis, unit.startswith("probability"))
        return ax


def rows_among(n_rows: int, n_points: int) -> Int64s:
    """Evenly spaced rows, at most `n_points`."""
    if isinstance(n_points, bool) or not hasattr(n_points, "__index__") or n_points < 1:
        raise ValueError(f"n_points is {quoted(n_points)}, expected a number of at least 1")
    return np.linspace(0, n_rows - 1, min(int(n_points), n_rows)).astype(np.int64)


def interactions_at(
    rows: ChangingRows,
    chosen: Int64s,
    parts: AdditiveParts,
    weights: Doubles,
    row_weights: Doubles | None,
    output: str,
) -> Interactions:
    """Compare parts at chosen rows, which have these weights; `row_weights` are those of all rows."""
    k = len(parts.mean)
    h, strength = np.zeros((len(parts.joint), k)), np.zeros((len(parts.joint), k))
    for at, ((a, b), joint) in enumerate(parts.joint.items()):
        beyond = _variance(joint, weights)
        h[at] = _ratio(beyond, _variance(joint + parts.main[a] + parts.main[b], weights))
        strength[at] = np.sqrt(beyond)
    points = ChangingRows.settled(rows.forest, rows.values[chosen], rows.shown[chosen])
    whole = _responses(numbers_only(points.responses(output)).reshape(len(chosen), -1), output).T
    overall = np.zeros((len(parts.main), k))
    for at, (feature, main) in enumerate(parts.main.items()):
        others = _without(points, rows, feature, row_weights, output)
        overall[at] = _ratio(_variance(whole - main - others, weights), _variance(whole, weights))
    return Interactions(h=h, strength=strength, overall=overall)


def _without(points: ChangingRows, rows: ChangingRows, feature: int, weights: Doubles | None, output: str) -> Doubles:
    """Partial dependence of the points on all other features, (k, points): means over the rows' values of this one."""
    values, share = _cells(rows, feature, weights)
    total: Any = 0
    for some, at, found in points.on_grid([feature], values[:, None], output):
        part = np.zeros((len(points), 1)) + np.zeros(_responses(found, output).shape[2])
        part[some] = np.tensordot(_responses(found, output), share[at], (1, 0))
        total = total + part
    return np.asarray(total.T)


def _cells(rows: ChangingRows, feature: int, weights: Doubles | None) -> tuple[Array, Doubles]:
    """One of the rows' values for each that the forest tells apart, and its share of the rows."""
    forest, column = rows.forest, rows.values[:, feature]
    with np.errstate(over="ignore"):  # beyond float32 there is only infinity
        numbers: Array = settled(forest, feature, column.astype(forest.threshold.dtype))
    nodes = forest.feature == feature
    has_sets = forest.is_categorical and (forest.category_set[nodes] >= 0).any()
    if not has_sets and not (forest.linear_feature == feature).any():
        ranks = np.searchsorted(np.unique(forest.threshold[nodes]), numbers, side="right")
        numbers = np.where(np.isnan(numbers), np.nan, ranks)
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    share = np.bincount(place.ravel(), weights)
    return column[first], share / share.sum()


def _responses(found: Array, output: str) -> Doubles:
    """Keep the second one of two classes on the last axis."""
    return (found[..., 1:] if output == "probability" and found.shape[-1] == 2 else found).astype(np.float64)


def _variance(values: Doubles, weights: Doubles) -> Doubles:
    """Weighted variance over the points of (k, points)."""
    centred = values - np.average(values, axis=-1, weights=weights)[:, None]
    result: Doubles = np.average(centred**2, axis=-1, weights=weights)
    return result


def _ratio(part: Doubles, whole: Doubles) -> Doubles:
    """Root of a ratio of variances, 0 where there is nothing but rounding."""
    result: Doubles = np.sqrt(np.divide(part, whole, out=np.zeros_like(part), where=whole > 1e-28 * (1 + whole.max())))
    return result
