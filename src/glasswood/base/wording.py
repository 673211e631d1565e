"""Numbers, shares and steps as people read them: texts, pictures, reports and notebooks write them alike."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

SEPARATED = 10_000
"""Numbers from here on have thousands separators; years have none."""

BAR = 10
"""Characters of a bar of text."""


@dataclass(frozen=True, eq=False)
class Wording:
    """How trees and equations are written.

    Attributes
    ----------
    digits : int
        Significant digits of numbers.
    max_terms : int or None
        Terms of an equation that are shown; None: all.
    units : mapping of str to str
        Units by the name of the feature.
    log_odds : bool
        Whether equations of classifiers are sums of log-odds instead of odds factors.
    """

    digits: int = 4
    max_terms: int | None = 5
    units: Mapping[str, str] = field(default_factory=dict)
    log_odds: bool = False

    def with_unit(self, text: str, name: str) -> str:
        """Write a value of a feature with its unit, if it has one."""
        return f"{text} {self.units[name]}" if name in self.units else text


def check_wording(wording: Wording, names: Collection[str]) -> None:
    """Raise ValueError unless the terms are a number of terms, and the units are those of features.

    Raises
    ------
    ValueError
        If max_terms is negative, or a unit has the name of no feature.
    """
    if wording.max_terms is not None and wording.max_terms < 0:
        raise ValueError(f"max_terms is {wording.max_terms}, expected 0 or more, or None for all terms")
    if unknown := [name for name in wording.units if name not in names]:
        raise ValueError(f"units names {unknown[0]!r}, expected features of the model: {', '.join(list(names)[:12])}")


def number_text(value: Any, digits: int) -> str:
    """Write a number with so many significant digits, large ones with thousands separators."""
    value = float(value)
    size = abs(value)
    if not 1e-4 <= size < 1e15:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:{',' if abs(rounded) >= SEPARATED else ''}.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def threshold_text(value: float, digits: int) -> str:
    """Write the threshold of a split, with two digits more where these are all that it has: 2014.5 is not 2014."""
    exact = float(f"{value:.{digits + 2}g}") == float(value)
    return number_text(value, digits + 2 if exact else digits)


def threshold_texts(values: Iterable[float], digits: int) -> dict[float, str]:
    """Write thresholds of one feature in their order: neighbours that read alike or swapped have more digits."""
    n_digits = dict.fromkeys(sorted(values), digits)
    while True:
        texts = {value: threshold_text(value, n) for value, n in n_digits.items()}
        read = {value: float(text.replace(",", "")) for value, text in texts.items()}
        near = {value for pair in pairwise(texts) if read[pair[0]] >= read[pair[1]] for value in pair}
        if not near:
            return texts
        n_digits |= {value: n_digits[value] + 1 for value in near}


def signed_text(value: float, digits: int) -> str:
    """Write a number with its sign."""
    text = number_text(value, digits)
    return text if text.startswith("-") else f"+{text}"


def fixed_text(value: float, decimals: int) -> str:
    """Write a number with so many decimals, large ones with thousands separators; never -0."""
    text = f"{value:{',' if abs(value) >= SEPARATED else ''}.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def decimals_of(largest: float, digits: int = 3) -> int:
    """Decimals with which the largest of several numbers has so many significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(largest))) if 0 < largest < math.inf else 0


def quoted_name(name: str) -> str:
    """Write the name of a feature in a text, one that reads like a number in quotes."""
    try:
        float(name)
    except ValueError:
        return name if name.strip() == name and name else f'"{name}"'
    return f'"{name}"'


def count_text(count: float) -> str:
    """Write how many rows there are."""
    return f"{count:,.0f}" if count >= SEPARATED else number_text(count, 10)


def counted(n: int, one: str) -> str:
    """Write a number of things: 1 tree, 2 trees."""
    return f"{n:,} {one}{'s' * (n != 1)}"


def leaves_text(n_leaves: int) -> str:
    """Write how many leaves a tree has."""
    return "1 leaf" if n_leaves == 1 else f"{count_text(n_leaves)} leaves"


def tick_texts(values: Sequence[float]) -> list[str]:
    """Write numbers at an axis: 25M, 1.702B; with more digits where these do not tell them apart."""
    texts = [_compact(value, 4) for value in values]
    return texts if len(set(texts)) == len(texts) else [_compact(value, 9) for value in values]


def _compact(value: float, digits: int) -> str:
    for letter, unit in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if unit <= abs(value) < 1e15:
            return number_text(value / unit, digits) + letter
    return number_text(value, digits)


def percent_text(share: float) -> str:
    """Write a share in percent: whole numbers, with decimals near 0 and 100, neither of which rounding makes up."""
    if not 0 <= share <= 1:
        return "unknown"
    percent = 100 * share
    distance = min(percent, 100 - percent)
    if distance == 0 or distance >= 9.5:
        return f"{percent:.0f} %"
    if distance < 0.05:
        return "< 0.1 %" if percent < 50 else "> 99.9 %"
    return f"{percent:.1f} %" if distance < 0.95 else f"{percent:.0f} %"


def bar_text(share: float) -> str:
    """Draw a share as a bar of text."""
    filled = round(BAR * share) if share == share else 0
    return "█" * filled + "░" * (BAR - filled)


def step_near(size: float) -> float:
    """Choose 1, 2 or 5 times a power of ten near a positive number."""
    power = 10.0 ** math.floor(math.log10(size))
    return min((power * factor for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / size)))


def nearest_text(given: str, known: Iterable[str]) -> str:
    """Ask whether the most similar of the known names was meant; empty where none is similar."""
    found = difflib.get_close_matches(given, list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""
