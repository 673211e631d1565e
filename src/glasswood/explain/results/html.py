"""An explanation as a table with bars, for notebooks: static, readable on light and dark pages, all text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasswood.base.escapes import markup
from glasswood.base.wording import number_text

MOST_FEATURES = 20
UP, DOWN = "#d1495b", "#3f88c5"

BAR = (
    "<span style='display:inline-block;width:9em;height:.7em;border-radius:2px;background:linear-gradient(90deg,"
    "rgba(128,128,128,.2) {start:.1f}%,{color} {start:.1f}%,{color} {stop:.1f}%,rgba(128,128,128,.2) {stop:.1f}%)'>"
    "</span>"
)
CELL = "<td style='text-align:left;padding-right:.6em'>{}</td>"
DIGITS = 4


def explanation_html(title: str, explanation: Any) -> str:
    """Write the features of a row by their effects, those of several rows by their mean magnitudes.

    Parameters
    ----------
    title : str
    explanation : Explanation, of glasswood or shap
        What is taken of it may lack the axis of rows, features or outputs; what shap has made of it may be anything
        else, and is its title alone.
    """
    names, values, data = (
        explanation.feature_names,
        np.asarray(explanation.values),
        np.asarray(explanation.data, object),
    )
    if isinstance(names, str):
        names, values, data = [names], np.expand_dims(values, values.ndim), np.expand_dims(data, data.ndim)
    if data.ndim == 1:
        values, data = values[None], data[None]
    if values.shape[:2] != data.shape or data.shape[1:] != np.shape(names):
        return f"<div><strong>{markup(title)}</strong></div>"
    if values.shape[:1] == (1,) and values.ndim == 2:
        base = float(np.ravel(explanation.base_values)[0])
        note = f"base value {_told(base)}, sum {_told(base + float(values.sum()))}"
        return _table(title, note, ("feature", "value", "effect"), _effects(names, data[0], values[0]))
    magnitude = np.abs(values).reshape(*data.shape, -1).sum(axis=(0, 2)) / max(len(values), 1)
    largest = magnitude.max(initial=0.0) or 1.0
    lines: list[tuple[str, ...]] = [
        (markup(str(names[i])), BAR.format(start=0, stop=100 * magnitude[i] / largest, color=UP), _told(magnitude[i]))
        for i in _strongest(magnitude)
    ]
    return _table(title, "", ("feature", "mean magnitude"), lines)


def _effects(names: Sequence[str], data: Any, values: Any) -> list[tuple[str, ...]]:
    """Lines of one row: each bar begins in the middle, and goes where its feature moves the output."""
    largest = np.abs(values).max(initial=0.0) or 1.0
    lines: list[tuple[str, ...]] = []
    for i in _strongest(np.abs(values)):
        start, stop = sorted((50.0, 50 + 50 * values[i] / largest))
        bar = BAR.format(start=start, stop=stop, color=UP if values[i] > 0 else DOWN)
        sign = "+" if values[i] > 0 else ""
        lines.append((markup(str(names[i])), markup(_told(data[i])), bar, f"{sign}{_told(values[i])}"))
    return lines


def _strongest(magnitude: Any) -> list[int]:
    return np.argsort(-magnitude, kind="stable")[:MOST_FEATURES].tolist()  # type: ignore[no-any-return]


def _told(value: Any) -> str:
    return number_text(value, DIGITS) if isinstance(value, float | int | np.number) else str(value)


def _table(title: str, note: str, heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """Write lines of cells that are markup: texts, then a bar and its number under the last head."""
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in heads) + "<th></th>"
    body = "".join(f"<tr>{''.join(map(CELL.format, line))}</tr>" for line in lines)
    below = f"<div><small style='opacity:.7'>{note}</small></div>" if note else ""
    return f"<div><strong>{markup(title)}</strong>{below}<table><tr>{head}</tr>{body}</table></div>"
