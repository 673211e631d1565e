"""Pictures of a search, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silva.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax = new_axes((6.4, 3.6)) if ax is None else ax
    ax.plot(history["generation"], history["rmse"], color="tab:blue")
    ax.set_xlabel("generation")
    ax.set_ylabel("training error (RMSE) of the best tree", color="tab:blue")
    right = ax.twinx()
    right.plot(history["generation"], history["n_leaves"], color="tab:orange", label="best tree")
    right.plot(history["generation"], history["mean_leaves"], color="tab:orange", linestyle=":", label="population")
    right.set_ylabel("leaves (dotted: population)", color="tab:orange")
    return ax


def new_axes(size: tuple[float, float]) -> Axes:
    """Make a figure of so many inches with one pair of axes."""
    pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
    axes: Axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    return axes
