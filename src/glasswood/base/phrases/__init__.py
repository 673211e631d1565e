"""Texts in several languages: those of a language are one file, ``phrases/<language>.py``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import get_args

from glasswood.base.escapes import quoted
from glasswood.base.phrases.en import TEXTS
from glasswood.base.typing import Language

LANGUAGES: tuple[str, ...] = get_args(Language)

MARKS = ("decimal point", "thousands separator")
"""Texts of the marks in numbers."""

OF_ROWS = (
    *("above", "below", "equal", "odds", "average", "average log-odds", "average logarithm", "background"),
    *("raises", "lowers", "raises odds", "lowers odds", "other", "others raise", "others lower"),
    *("others raise odds", "others lower odds", "points", "percent"),
)
"""Texts that sentences of rows have in `explain.results.sentences` and in reports."""

UNITS = {"M": "million", "B": "billion", "T": "trillion"}
"""Texts of the signs that large numbers end with."""


class Phrases:
    """Texts of a language, and its way to write numbers.

    Parameters
    ----------
    language : {"en", "de", "fr", "es"}

    Attributes
    ----------
    language : str
    page : dict
        Texts that the scripts of a report write.

    Raises
    ------
    ValueError
        If there are no texts of the language.
    """

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise ValueError(f"language is {quoted(language)}, expected one of {', '.join(LANGUAGES)}")
        self.language = language
        module = import_module(f"{__name__}.{language}")
        self._texts: Mapping[str, str] = module.TEXTS
        self.page: Mapping[str, str] = module.PAGE | {name: self._texts[name] for name in (*MARKS, *OF_ROWS)}

    def text(self, key: str, /, **parts: str) -> str:
        """Fill in a text."""
        return self._texts[key].format(**parts)

    def number(self, text: str) -> str:
        """Write a number that has an English decimal point and thousands separators as the language does."""
        marks = {".": self._texts[MARKS[0]], ",": self._texts[MARKS[1]], "-": "−"}
        return "".join(marks.get(letter, letter) for letter in text)

    def amount(self, text: str) -> str:
        """Write a number that may end with the sign of a unit: 25M."""
        unit = UNITS.get(text[-1:])
        return f"{self.number(text[:-1])}{self.page[unit]}" if unit else self.number(text)

    def count(self, n: int) -> str:
        """Write a number of things, large ones with separators."""
        return self.number(f"{n:,}")

    def counted(self, n: int, what: str) -> str:
        """Write a number of things with their name: the text has one form for 1 and one for others, beside a bar."""
        one, _, many = self._texts[what].partition("|")
        return (one if n == 1 else many).format(n=self.count(n))

    def translated(self, text: str, keys: Iterable[str]) -> str:
        """Translate a text that a model brings, if it is one of some English ones, in which names may stand."""
        if self.language == "en":
            return text
        for key in keys:
            before, part, after = re.split(r"(\{\w+\}|$)", TEXTS[key], maxsplit=1)
            if not part and text == TEXTS[key]:
                return self.text(key)
            found = re.fullmatch(f"{re.escape(before)}(.*){re.escape(after)}", text, re.DOTALL) if part else None
            if found:
                return self.text(key, **{part[1:-1]: found[1].replace(" and ", self.text("and"))})
        return text
