"""Text of pictures, measured before it is placed: cut into lines, or shortened, so that nothing lies on anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from glasswood.base.escapes import shown
from glasswood.base.wording import cut_texts

BREAKS = re.compile(r"[^ _-]*[ _-]+|[^ _-]+")
"""Parts of a text that may stand on lines of their own."""


RESOLUTIONS = (72.0, 90.0, 110.0, 150.0, 288.0)
"""Resolutions at which people save pictures: small letters, fitted to pixels, are wider by up to 7 % at some."""


@cache
def _renderer(dpi: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(dpi=dpi)).get_renderer()  # type: ignore[no-untyped-call]


@cache
def _font(size: float, bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, weight="bold" if bold else "normal")


@dataclass(frozen=True)
class Ruler:
    """Measures texts in inches, as large as they are at a resolution or at those of saved pictures; fonts in points.

    Letters are fitted to pixels, which makes small ones wider than they are in print.
    """

    dpi: float = 100.0

    @lru_cache(maxsize=1 << 14)  # noqa: B019
    def width(self, text: str, size: float, bold: bool = False) -> float:
        """Width of a text."""
        font, text = _font(size, bold), shown(text)
        return max(
            float(_renderer(dpi).get_text_width_height_descent(text, font, False)[0]) / dpi
            for dpi in (self.dpi, *RESOLUTIONS)
        )

    def widest(self, texts: Iterable[str], size: float, bold: bool = False) -> float:
        """Width of the widest text."""
        return max((self.width(text, size, bold) for text in texts), default=0.0)

    def shortened(self, text: str, width: float, size: float, bold: bool = False, n_last: int = 0) -> str:
        """Cut a text to a width, its middle, or what stands before the last letters, replaced by dots."""
        text = shown(text)
        if self.width(text, size, bold) <= width:
            return text
        low, high = 0, len(text) - n_last
        while low < high:
            middle = (low + high + 1) // 2
            if self.width(_cut(text, middle, n_last), size, bold) <= width:
                low = middle
            else:
                high = middle - 1
        return _cut(text, low, n_last)

    def told(self, names: Sequence[str], width: float, size: float) -> list[str]:
        """Cut names to a width in which they still differ, as far as their letters allow."""
        names = [shown(name) for name in names]
        for most in range(max(map(len, names), default=0), 3, -1):
            texts = cut_texts(names, most)
            if self.widest(texts, size) <= width:
                return texts
        return cut_texts(names, 4)

    def wrapped(self, text: str, width: float, size: float, most: int, bold: bool = False) -> list[str]:
        """Divide a text into at most `most` lines of a width; what does not fit is cut out of the last one."""
        lines: list[str] = []
        words = BREAKS.findall(shown(text)) or [""]
        while words:
            if len(lines) == most - 1:
                return [*lines, self.shortened("".join(words).rstrip(), width, size, bold)]
            n = 1
            while n < len(words) and self.width("".join(words[: n + 1]).rstrip(), size, bold) <= width:
                n += 1
            lines.append(self.shortened("".join(words[:n]).rstrip(), width, size, bold))
            words = words[n:]
        return lines


def _cut(text: str, kept: int, n_last: int) -> str:
    """Keep `kept` letters before the last ones; half of them behind the dots if these are not given."""
    first, last = (kept, n_last) if n_last else (kept - kept // 2, kept // 2)
    return text[:first].rstrip(" .,") + "…" + text[len(text) - last :]
