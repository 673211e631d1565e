"""A few cases of the names in `make fuzz`, and that they would find something."""

from __future__ import annotations

import numpy as np
import pytest

from tests.display.spreadsheet import OFFICE
from tests.fuzz.names import Fuzzer, main, make_case
from tests.native import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no compiler")


def test_nothing_is_found_in_the_first_cases(capsys):
    assert main(["--cases=15", "--seed=0"]) == 0, capsys.readouterr().out
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:-1]]
    counts = {target: (int(ran), int(refused)) for target, ran, refused, _ in rows}
    assert {"python", "duckdb", "sqlite", "c", "text", "html", "script", "picture"} <= counts.keys()
    assert all(ran + refused == 15 and ran >= 10 for target, (ran, refused) in counts.items() if target != "picture")


def as_it_is(text, *_):
    return text


def in_quotes(text, quote='"', *_):
    return f"{quote}{text}{quote}"


@pytest.mark.parametrize(
    ("place", "fault", "target"),
    [
        ("glasswood.display.code_comments.comment", as_it_is, "c"),
        ("glasswood.display.code.python_literal", lambda text: f"'{text}'", "python"),
        ("glasswood.display.dialects.sql_name", in_quotes, "sqlite"),
        ("glasswood.display.dialects.sql_literal", lambda text, **_: f"'{text}'", "duckdb"),
        ("glasswood.display.languages.excel_literal", in_quotes, "excel"),
        ("glasswood.display.text.shown", as_it_is, "text"),
        ("glasswood.model.facts.markup", as_it_is, "html"),
        ("glasswood.display.report.page.script", as_it_is, "script"),
    ],
)
def test_faults_are_found(place, fault, target, tmp_path, monkeypatch):
    if target == "excel" and OFFICE is None:
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc-nogui")
    monkeypatch.setattr(place, fault)
    fuzzer = Fuzzer(0, tmp_path, None)
    fuzzer.run(range(1, 20), [target])
    assert fuzzer.counts[target, "findings"]


def test_cases_depend_on_seed_and_number():
    for number in range(5):
        one, other = make_case(3, number), make_case(3, number)
        assert one.names == other.names
        np.testing.assert_array_equal(one.expected, other.expected)
    assert make_case(3, 1).names != make_case(4, 1).names
