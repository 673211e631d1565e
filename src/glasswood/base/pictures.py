"""Colours and ticks of pictures by matplotlib, in light styles and dark ones."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from typing import Any

from glasswood.base.extras import import_extra
from glasswood.base.files import replacing
from glasswood.base.wording import tick_texts

CLASS_COLOURS = ("#4c78a8", "#e45756", "#72b7b2", "#eeca3b", "#b279a2", "#54a24b", "#ff9da6", "#9d755d", "#bab0ac")
"""Colours of up to nine classes."""

MOST_COLOURS = 20
"""Colours that can be told apart; the least frequent of more classes share a grey."""


def save_picture(figure: Any, path: str | os.PathLike[str], form: str, **settings: Any) -> None:
    """Write a figure of matplotlib to a file, which appears complete or not at all.

    It is drawn in memory, because matplotlib's PDF raises errors of its own from files on a full disk.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path
    form : str
        'png', 'svg' or 'pdf'.
    **settings
        For ``figure.savefig``.

    Raises
    ------
    OSError
        Naming `path` if it cannot be written; as `replacing`, before anything is drawn.
    """
    with replacing(path) as temporary:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=form, **settings)
        temporary.write_bytes(drawn.getbuffer())


def tone(share: float) -> tuple[float, float, float]:
    """Colour between those of the background (0) and of the text (1) in the current style of matplotlib."""
    colors = import_extra("matplotlib.colors", "plot", "pictures need matplotlib")
    settings = import_extra("matplotlib", "plot", "pictures need matplotlib").rcParams
    paper = settings["axes.facecolor"]
    ends = colors.to_rgb("white" if paper == "none" else paper), colors.to_rgb(settings["text.color"])
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(*ends, strict=True))
    return red, green, blue


def class_colours(sizes: Sequence[float]) -> list[Any]:
    """Choose a colour for each class: different ones, but grey for the smallest of more than can be told apart."""
    if len(sizes) <= len(CLASS_COLOURS):
        return list(CLASS_COLOURS[: len(sizes)])
    pyplot = import_extra("matplotlib", "plot", "pictures need matplotlib")
    palette = list(pyplot.colormaps["tab20"].colors)
    colours = [palette[k] for k in (*range(0, MOST_COLOURS, 2), *range(1, MOST_COLOURS, 2)) if k not in {14, 15}]
    kept = sorted(range(len(sizes)), key=lambda k: -sizes[k])[: len(colours)]
    shades = dict(zip(sorted(kept), colours, strict=False))
    return [shades.get(k, tone(0.5)) for k in range(len(sizes))]


def write_ticks(axis: Any, is_share: bool = False) -> None:
    """Write the ticks of an axis with digits that follow from their step, whenever they change."""
    ticker = import_extra("matplotlib.ticker", "plot", "pictures need matplotlib")

    class Ticks(ticker.Formatter):  # type: ignore[misc, name-defined]
        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return [self.fix_minus(text) for text in tick_texts(values, is_share=is_share)]

        def __call__(self, value: float, position: int | None = None) -> str:  # noqa: ARG002
            return tick_texts([value], is_share=is_share)[0] if math.isfinite(value) else ""

    axis.set_major_formatter(Ticks())


def ends_of(n: int, most: int) -> list[int]:
    """Choose places that are shown: all, or the first and the last ones where there is no room for all."""
    if n <= most:
        return list(range(n))
    last = max(1, most // 2)
    return [*range(most - last), *range(n - last, n)]
