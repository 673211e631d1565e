"""Pictures of a search, and of values over time, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import PICTURE, quoted, shown
from glasswood.base.extras import import_extra
from glasswood.base.pictures import tone
from glasswood.base.typing import Doubles

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_history(model: object, ax: Axes | None = None) -> Axes:
    """Draw error and size of the best tree over the generations.

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
        If `model` has no history, such as a forest or a model from a file.
    ImportError
        If matplotlib is not installed.
    """
    if not hasattr(model, "history_"):
        raise TypeError(f"got {type(model).__name__} without history_, expected a fitted glasswood.ModelTreeRegressor")
    history = model.history_
    ax = new_axes((6.4, 3.6)) if ax is None else ax
    ax.plot(history["generation"], history["rmse"], color="tab:blue")
    ax.set_xlabel("generation")
    ax.set_ylabel("training error (RMSE) of the best tree", color="tab:blue")
    right = ax.twinx()
    right.plot(history["generation"], history["n_leaves"], color="tab:orange", label="best tree")
    right.plot(history["generation"], history["mean_leaves"], color="tab:orange", linestyle=":", label="population")
    right.set_ylabel("leaves (dotted: population)", color="tab:orange")
    return ax


MOST_LINES = 6
"""Features of `plot_over_time` with a line of their own."""


def plot_over_time(explanation: Any, row: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw SHAP values of a curve over time: SurvSHAP(t).

    The six features with the largest values over time have a line each; one more line is the sum of the others.

    Parameters
    ----------
    explanation : Explanation
        What ``explainer(X)`` returns for a forest of ``glasswood.load(model, survival_at=times)`` or
        ``hazard_at=times``.
    row : int, optional
        Draw the values of this row. Default: the mean magnitude of the values of all rows.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        If `explanation` is not an explanation.
    ValueError
        If its outputs are not times, or it has no such row.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> forest = glasswood.load(model, survival_at=[30, 90, 365])  # doctest: +SKIP
    >>> glasswood.plot_over_time(glasswood.Explainer(forest)(X), row=0)  # doctest: +SKIP
    """
    times, values = _curves(explanation, row)
    order = np.argsort(-np.abs(values).max(axis=1), kind="stable")
    names = [shown(str(explanation.feature_names[feature])) for feature in order]
    with import_extra("matplotlib", "plot", "pictures need matplotlib").rc_context(PICTURE):
        ax = new_axes((6.4, 3.6)) if ax is None else ax
        for name, feature in zip(names[:MOST_LINES], order, strict=False):
            ax.step(times, values[feature], where="post", label=name)
        if len(others := order[MOST_LINES:]):
            label = f"{len(others)} other feature{'s' * (len(others) > 1)}"
            ax.step(times, values[others].sum(axis=0), where="post", color=tone(0.5), linestyle=":", label=label)
        ax.axhline(0, color=tone(0.2), linewidth=0.8, zorder=0)
        ax.set_xlabel("time")
        ax.set_ylabel("mean |SHAP value|" if row is None else "SHAP value")
        ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _curves(explanation: Any, row: int | None) -> tuple[Doubles, Doubles]:
    """Return the times, and the values of each feature at them, (n_features, n_times)."""
    if not hasattr(explanation, "values") or not hasattr(explanation, "output_names"):
        raise TypeError(f"got {type(explanation).__name__}, expected an explanation, such as explainer(X)")
    values, names = np.asarray(explanation.values, np.float64), explanation.output_names
    try:
        times = np.array([float(name) for name in names if values.ndim == 3], np.float64)
    except (TypeError, ValueError):
        times = np.zeros(0)
    if values.ndim != 3 or len(times) != values.shape[2] or (np.diff(times) <= 0).any():
        raise ValueError(
            f"the outputs of the explanation are {quoted(names)}, expected times; explain the forest of "
            "glasswood.load(model, survival_at=times)"
        )
    if row is None:
        return times, np.abs(values).mean(axis=0)
    if not -len(values) <= row < len(values):
        raise ValueError(f"row is {row}, the explanation has {len(values)} rows")
    return times, values[row]


def new_axes(size: tuple[float, float]) -> Axes:
    """Make a figure with one pair of axes; `size` is in inches."""
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    axes: Axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    return axes
