"""How many of a test's cases `make test` runs; those left out are slow, so that `make test-slow` runs them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

TOGETHER = {"each": 1, "pairs": 2}

FOLDERS = {"tests/cuda": "each"}
"""Choice of tests that name none, by folder, else `OTHERS`: of emulated kernels a case is a type or a size more."""

OTHERS = "pairs"


def rest_slow(n: int, values: Iterable[Any]) -> list[Any]:
    """Leave all but the first values of one parameter to `make test-slow`."""
    return [value if at < n else pytest.param(value, marks=pytest.mark.slow) for at, value in enumerate(values)]


def grade(items: list[pytest.Item]) -> None:
    """Mark as slow what `pytest.mark.sizes(word)` leaves out of the cases of a test with several parameters.

    The quick cases hold ``each`` value of each parameter, or all ``pairs`` of values of two; of equally good ones those
    whose values are rarest so far, so that types and sizes alternate. Further words of the marker name fixtures whose
    parameters count, too.
    """
    functions = defaultdict(list)
    for item in items:
        marker, name = item.get_closest_marker("sizes"), item.nodeid.partition("[")[0]
        word, *drawn = marker.args if marker else (FOLDERS.get(name.rpartition("/")[0], OTHERS),)
        if hasattr(item, "callspec"):
            case, fixtures = parts(item, drawn)
            functions[name, fixtures, word].append((item, case))
    for (_, _, word), cases in functions.items():
        kept = quick([values for _, values in cases], TOGETHER[word])
        for at, (item, _) in enumerate(cases):
            if at not in kept:
                item.add_marker(pytest.mark.slow)


def parts(item: pytest.Function, drawn: list[str]) -> tuple[tuple, tuple]:
    """Values of a case, those of one `parametrize` together; and of its fixtures, each of which has its own choice.

    Fixtures whose names are drawn are parameters like others.
    """
    given = {name: id(value) for name, value in item.callspec.params.items()}
    case = []
    for number, mark in enumerate(item.iter_markers("parametrize")):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        case.append((number, *(given.pop(name, None) for name in names)))
    case += [(name, given.pop(name)) for name in drawn]
    return tuple(case), tuple(sorted(given.items()))


def quick(cases: list[tuple], together: int) -> set[int]:
    """Choose cases that between them have every combination of so many parameters that any case has."""
    combinations = [set(itertools.combinations(case, min(together, len(case)))) for case in cases]
    often = Counter(itertools.chain.from_iterable(combinations))
    if all(any(often[one] == 1 for one in own) for own in combinations):
        return set(range(len(cases)))  # found at once: they are some thousands, of one parameter
    missing, kept, used = set().union(*combinations), set(), defaultdict(int)
    while missing:
        best = max(
            set(range(len(cases))) - kept,
            key=lambda at: (len(combinations[at] & missing), -sum(used[value] for value in cases[at]), -at),
        )
        kept.add(best)
        missing -= combinations[best]
        for value in cases[best]:
            used[value] += 1
    return kept
