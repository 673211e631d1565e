"""Pictures, by shap and matplotlib."""

from __future__ import annotations

import os
from typing import Any

from glasswood.base.escapes import PICTURE
from glasswood.base.extras import import_extra
from glasswood.base.pictures import save_picture


def import_plotting() -> tuple[Any, Any]:
    """Import shap, which takes seconds, and matplotlib's pyplot."""
    needs = "pictures need shap and matplotlib"
    return import_extra("shap", "plot", needs), import_extra("matplotlib.pyplot", "plot", needs)


def save_beeswarm(explanation: object, path: str | os.PathLike[str], title: str = "", max_display: int = 20) -> None:
    """Write shap's beeswarm of an explanation as a PNG file.

    Parameters
    ----------
    explanation : shap.Explanation
        With one output: values (n_rows, n_features).
    path : path
        Written complete or not at all.
    title : str
        Above the picture.
    max_display : int
        Features shown, the most important first.

    Raises
    ------
    ImportError
        If shap or matplotlib is not installed.
    """
    shap, pyplot = import_plotting()
    with pyplot.rc_context(PICTURE):
        figure = pyplot.figure()
        try:
            shap.plots.beeswarm(explanation, max_display=max_display, show=False)
            pyplot.title(title)
            save_picture(figure, path, "png", dpi=150, bbox_inches="tight")
        finally:
            pyplot.close(figure)
