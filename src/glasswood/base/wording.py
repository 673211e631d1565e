"""Numbers, shares and steps as people read them: texts, pictures, reports and notebooks write them alike."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from typing import Any

from glasswood.base.escapes import quoted, shown
from glasswood.base.phrases import Phrases

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
    style : {"equation", "centered"}
        Whether an equation begins with its intercept, or with the value at the means of the leaf's rows.
    phrases : Phrases
        Texts of the language.
    """

    digits: int = 4
    max_terms: int | None = 5
    units: Mapping[str, str] = field(default_factory=dict)
    log_odds: bool = False
    style: str = "equation"
    phrases: Phrases = field(default_factory=lambda: Phrases("en"))

    def text(self, key: str, /, **parts: str) -> str:
        """Fill in a text of the language."""
        return self.phrases.text(key, **parts)

    def number(self, text: str) -> str:
        """Write a number as the language does; English ones keep the hyphens of programs."""
        return text if self.phrases.language == "en" else self.phrases.number(text)

    def with_unit(self, text: str, name: str) -> str:
        """Write a value of a feature with its unit, if it has one."""
        return f"{text} {self.units[name]}" if name in self.units else text


def spelled(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Names as a model has them: exactly, with `_` in place of a space (LightGBM), or levels joined by it (XGBoost).

    This is the one rule that says whether a name that people give is a feature of a model. A name that stands for
    several, or for one that is given exactly, stays as it is.
    """
    given = list(names)
    if all(name in known for name in given):
        return given
    joined: dict[str, str | None] = {}
    for name in known:
        if name not in given:
            key = name.replace(" ", "_")
            joined[key] = None if key in joined else name
    return [_spelled(name, known, joined) for name in given]


def _spelled(name: str, known: Collection[str], joined: dict[str, str | None]) -> str:
    if name in known:
        return name
    levels = _levels(name)
    return joined.get(name.replace(" ", "_")) or (levels if levels in known else name)


def _levels(name: str) -> str:
    """Levels of a column of pandas' MultiIndex, whose name is a tuple, as XGBoost joins them: by spaces."""
    if name.startswith("(") and name.endswith(")"):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            levels = ast.literal_eval(name)
            if isinstance(levels, tuple):
                return " ".join(map(str, levels))
    return name


def checked_wording(wording: Wording, names: Collection[str]) -> Wording:
    """Spell the units' features as the model does; refuse other than numbers of terms and units of features.

    Raises
    ------
    TypeError
        If units is no mapping.
    ValueError
        If max_terms is negative, or a unit has the name of no feature.
    """
    if wording.max_terms is not None and wording.max_terms < 0:
        raise ValueError(f"max_terms is {wording.max_terms}, expected 0 or more, or None for all terms")
    if not isinstance(wording.units, Mapping):
        raise TypeError(f"units is {quoted(wording.units)}, expected a mapping of features to units")
    units = dict(zip(spelled(wording.units, names), wording.units.values(), strict=True))
    if unknown := [name for name in units if name not in names]:
        raise ValueError(
            f"units names {quoted(unknown[0])}, expected features of the model: "
            f"{', '.join(map(shown, list(names)[:12]))}"
        )
    return dataclasses.replace(wording, units=units)


def number_text(value: Any, digits: int) -> str:
    """Write a number with `digits` significant digits, large ones with thousands separators."""
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
    """Write a number with `decimals` decimals, large ones with thousands separators; never -0."""
    text = f"{value:{',' if abs(value) >= SEPARATED else ''}.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def decimals_of(largest: float, digits: int = 3) -> int:
    """Decimals with which the largest of several numbers has `digits` significant digits."""
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


FEW, LEAST, MANY = 1e-4, 1e-290, 1e15
"""Numbers beyond which an axis has exponents, and the size below which it writes 0."""

UNIT_DECIMALS = 3
"""Decimals of thousand millions and so on; numbers that need more are written in a smaller unit, or in full."""


def tick_texts(values: Iterable[float], step: float = 0.0, *, is_share: bool = False) -> list[str]:
    """Write numbers that are read beside each other, at an axis or in a list, so that neighbours never look alike.

    All have one unit, and as many decimals as the step between neighbours needs: 1.0 %, 1.2 %; 25M, 30M. The page of
    a report has the same function in JavaScript (``tickTexts``).

    Parameters
    ----------
    values : iterable of float
    step : float
        Distance that the texts must tell apart; 0: the smallest one between two different values.
    is_share : bool
        Whether the numbers are parts of 1: written in percent, or per mille where all are below 1 %.

    Returns
    -------
    list of str
    """
    values = [float(value) for value in values]
    known = [value for value in values if math.isfinite(value) and abs(value) >= LEAST]
    largest = max(map(abs, known), default=0.0)
    step = step or _least_gap([*known, *([0.0] if 0.0 in values else [])], largest)
    scale, unit = _unit(largest, step, is_share)
    scaled = [value * scale for value in known]
    decimals = _decimals(scaled, step * scale, 0 if len(set(values)) == 1 else None)

    def text(value: float) -> str:
        if math.isfinite(value):
            return (
                _fixed(value * scale, decimals) + unit if abs(value) >= LEAST else f"0{unit[-2:]}" if is_share else "0"
            )
        return "unknown" if math.isnan(value) else "∞" if value > 0 else "-∞"

    return [text(value) for value in values]


def _least_gap(values: Iterable[float], largest: float) -> float:
    """Smallest distance between different numbers; a thousandth of their size where there are not two."""
    gaps = [b - a for a, b in pairwise(sorted(set(values))) if b - a > 1e-13 * largest]
    return min(gaps, default=_power(_exponent(largest) - 3) if largest else 1.0)


def _unit(largest: float, step: float, is_share: bool) -> tuple[float, str]:
    """Factor and sign of the unit."""
    scale, sign = ((1000.0, " ‰") if 0 < largest < 0.01 else (100.0, " %")) if is_share else (1.0, "")
    size = largest * scale
    if size and not FEW <= size < MANY:
        return scale * _power(-_exponent(size)), f"e{_exponent(size)}{sign}"
    for letter, power in (("T", 12), ("B", 9), ("M", 6)):
        if not is_share and size >= _power(power) and step >= _power(power - UNIT_DECIMALS) * (1 - 1e-9):
            return _power(-power), letter
    return scale, sign


def _exponent(size: float) -> int:
    """Power of ten of a positive number's first digit."""
    return Decimal(repr(float(size))).adjusted()


def _power(exponent: int) -> float:
    return float(f"1e{exponent}")


def _decimals(values: Sequence[float], step: float, least: int | None = None) -> int:
    """Choose decimals that write numbers a step apart: exactly if two more than necessary suffice, else one more."""
    necessary = max(0, -_exponent(step * (1 + 1e-9)))
    for decimals in range(necessary if least is None else least, necessary + 3):
        if all(abs(float(_fixed(value, decimals).replace(",", "")) - value) <= 1e-3 * step for value in values):
            return decimals
    return necessary + 1


def _fixed(value: float, decimals: int) -> str:
    """Write a number with `decimals` decimals, halves away from 0 as JavaScript does, thousands separated."""
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, Context(prec=400))
    return f"{rounded or abs(rounded):{',' if abs(rounded) >= SEPARATED else ''}f}"


def percent_text(share: float) -> str:
    """Write a share in percent: two digits of its distance to 0 or 100 %, neither of which rounding makes up."""
    if not 0 <= share <= 1:
        return "unknown"
    distance = min(share, 1 - share)
    if 0 < distance < 1e-6:
        return "< 0.0001 %" if share < 0.5 else "> 99.9999 %"
    text = _fixed(100 * share, 0 if distance == 0 or distance >= 0.0995 else -_exponent(distance) - 1)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def percent_texts(shares: Iterable[float], most: int = 2) -> list[str]:
    """Write shares that are compared, with up to `most` decimals where different ones would read alike."""
    shares = [float(share) for share in shares]
    texts = [percent_text(share) for share in shares]
    if len(set(texts)) == len(set(shares)):
        return texts
    inside = [share for share in shares if 0 < share < 1]
    step = max(_least_gap(inside, 1.0), _power(-2 - most))
    longer = [_fixed(100 * share, max(0, -_exponent(100 * step * (1 + 1e-9)))) + " %" for share in inside]
    return [max(text, longer[inside.index(share)], key=len) if 0 < share < 1 else text
            for share, text in zip(shares, texts, strict=True)]  # fmt: skip


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
    return f" (did you mean {shown(found[0])}?)" if found else ""


def cut_texts(names: Sequence[str], most: int) -> list[str]:
    """Write names in at most `most` letters, cut in the middle; those that would look alike show what differs.

    Different names have different texts, in reports too (``told`` of its page).
    """
    texts = [_cut_in_the_middle(name, most) for name in names]
    alike: dict[str, list[str]] = {}
    for name, text in dict(zip(names, texts, strict=True)).items():
        alike.setdefault(text, []).append(name)
    used, shown = {text for text, group in alike.items() if len(group) == 1}, dict(zip(names, texts, strict=True))
    for group in (group for group in alike.values() if len(group) > 1):
        same = next(
            (i for i, letters in enumerate(zip(*group, strict=False)) if len(set(letters)) > 1), min(map(len, group))
        )
        for name in group:
            text = name[same:] if len(name) - same < most else f"{name[same : same + most - 2]}…"
            text, n = f"…{text}", 2
            while text in used:
                text, n = f"{_cut_in_the_middle(name, most - len(f' {n}'))} {n}", n + 1
            used.add(text)
            shown[name] = text
    return [shown[name] for name in names]


def _cut_in_the_middle(name: str, most: int) -> str:
    kept = most - 1
    return (
        name if len(name) <= most else f"{name[: kept - kept // 2].rstrip()}…{name[len(name) - kept // 2 :].lstrip()}"
    )
