"""Sentences of explanations in several languages: the texts of a language are one file, ``phrases/<language>.py``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import get_args

from glasswood.base.typing import Language

LANGUAGES: tuple[str, ...] = get_args(Language)


class Phrases:
    """Texts of a language, and its way to write numbers.

    Parameters
    ----------
    language : {"en", "de", "fr", "es"}

    Raises
    ------
    ValueError
        If there are no texts of the language.
    """

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise ValueError(f"language is {language!r}, expected one of {', '.join(LANGUAGES)}")
        self.language = language
        self._texts: Mapping[str, str] = import_module(f"{__name__}.{language}").TEXTS

    def text(self, key: str, /, **parts: str) -> str:
        """Fill in a text."""
        return self._texts[key].format(**parts)

    def number(self, text: str) -> str:
        """Write a number that has an English decimal point and thousands separators as the language does."""
        marks = {".": self._texts["decimal point"], ",": self._texts["thousands separator"], "-": "−"}
        return "".join(marks.get(letter, letter) for letter in text)
