"""The HTML file: styles, scripts and data in one page that loads nothing."""

from __future__ import annotations

import base64
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from glasswood.base.escapes import markup, script
from glasswood.base.files import replacing
from glasswood.base.typing import Array

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("basics.js", "model.js", "charts.js", "rows.js", "tree.js", "curves.js", "performance.js", "main.js")
OF_CURVES = "curves.js"
"""Only in pages of models with curves."""

FRAME = ("skip", "sections", "noscript", "footer")
"""Texts of the page that stand there without scripts."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content security policy: the page may load nothing, from anywhere."""


def packed(values: Array, dtype: str = "<f4") -> dict[str, Any]:
    """Write an array for the page: base64 of little-endian numbers, and the shape."""
    array = np.ascontiguousarray(values, dtype)
    return {"type": dtype[1:], "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def packed_columns(values: Array) -> dict[str, Any]:
    """Write a table for the page, each column in the smallest type that holds its numbers exactly."""
    columns = [packed(column, exact_type(column)) for column in np.asarray(values, np.float64).T]
    return {"columns": columns, "shape": list(np.shape(values))}


def exact_type(column: Array) -> str:
    """Choose the smallest type that holds numbers exactly."""
    return next(kind for kind in EXACT_TYPES if kind == "<f8" or _holds(column, kind))


EXACT_TYPES = ("<i1", "<i2", "<f4", "<f8")
"""Types of columns, the smallest first."""


def _holds(column: Array, kind: str) -> bool:
    if kind.startswith("<i"):
        limits = np.iinfo(kind)
        is_there = np.isfinite(column).all() and (column >= limits.min).all() and (column <= limits.max).all()
        return bool(is_there and (column == np.round(column)).all() and not (np.signbit(column) & (column == 0)).any())
    with np.errstate(over="ignore"):
        return bool(np.array_equal(column.astype(kind).astype(np.float64), column, equal_nan=True))


def write_page(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page complete or not at all."""
    text = page(content)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(content: dict[str, Any]) -> str:
    """Fill the template. Names and values come as JSON that cannot end its script element."""
    scripts = [name for name in SCRIPTS if name != OF_CURVES or content.get("curves")]
    parts = {
        "title": markup(content["title"]),
        "policy": markup(POLICY),
        "style": (ASSETS / "style.css").read_text(encoding="utf-8"),
        "script": "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in scripts),
        "data": as_json(content),
        "language": content["language"],
        **{name: markup(content["texts"][name]) for name in FRAME},
    }
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    before, *pieces = template.split("{{")
    filled = [before]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return "".join(filled)


def as_json(content: Any) -> str:
    """JSON for a script element."""
    return script(json.dumps(plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def plain(value: Any) -> Any:
    """Python's own types of NumPy's; numbers that JSON lacks as their names."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    return value
