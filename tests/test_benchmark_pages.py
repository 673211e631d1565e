"""What docs/benchmarks say of results is what benchmarks/results hold."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / "benchmarks.md", *sorted((ROOT / "docs" / "benchmarks").glob("*.md"))]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
NUMBER = r"(?<![\w.])[\d,]*\d(?:\.\d+)?(?:e[+-]?\d+)?"


def numbers(text):
    return set(re.findall(NUMBER, text))


def rows_of(text):
    """The rows of tables that have numbers, without their first cell, which is a name."""
    rows = [line.split("|", 2)[2] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if numbers(row)]


@functools.cache
def results():
    """Of each page of results: of each row the numbers, with those of the table's heading and of the text above it."""
    pages = []
    for path in RESULTS:
        rows, above, is_table = [], set(), False
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                above = set()
            if line.startswith("|") and is_table:
                rows.append(numbers(line) | above)
            else:
                above |= numbers(line)
            is_table = line.startswith("|")
        pages.append(rows)
    return pages


def stands_in_results(row):
    """Whether one row of results has all numbers of a row, or two of the same page."""
    wanted = numbers(row)
    for page in results():
        for one in page:
            if one & wanted and (wanted <= one or any(wanted - one <= other for other in page)):
                return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_row_of_a_table_stands_in_the_results(page):
    rows = rows_of(page.read_text(encoding="utf-8"))
    assert rows
    wrong = [row for row in rows if not stands_in_results(row)]
    assert not wrong, "update these rows from benchmarks/results: " + "\n".join(wrong)


def test_a_wrong_number_is_found():
    row = rows_of(PAGES[0].read_text(encoding="utf-8"))[0]
    assert stands_in_results(row)
    assert not stands_in_results(row.replace("13.6 ms", "13.7 ms"))
