"""Defects that were mended can still be put back, and are found again: the whole table takes minutes."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.fuzz.put_back import DEFECTS, PACKAGE, first_finding, put_back


@pytest.mark.parametrize("name", DEFECTS)
def test_the_source_holds_what_a_defect_takes_away(tmp_path, name):
    for path in {path for path, _, _ in DEFECTS[name]}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / path, tmp_path / path)
    put_back(name, tmp_path)
    for path in {path for path, _, _ in DEFECTS[name]}:
        changed = (tmp_path / path).read_text()
        assert changed != (PACKAGE / path).read_text()
        compile(changed, path, "exec")


def test_texts_that_the_source_has_not_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(DEFECTS, "made up", [("forest.py", "no such text", "")])
    (tmp_path / "forest.py").write_text("text\n")
    with pytest.raises(ValueError, match="holds 'no such text' 0 times"):
        put_back("made up", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of POSIX")
@pytest.mark.parametrize("name", ["summaries believed", "neighbours unchecked", "tables not validated"])
def test_defects_are_found_again(name):
    assert first_finding(name, 20261128, 120) is not None
