"""What a source library needs besides its line in `base/sources.py`: what is forgotten fails here."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from tests.fuzz.formats import MUTATORS, find_seeds

import glasswood
from glasswood.base.sources import FILES, FORMATS, MODEL_SUFFIXES, SOURCES
from glasswood.base.typing import MODEL_FORMATS
from glasswood.readers import EXPECTED, READERS

ROOT = Path(glasswood.__file__).parents[2]
CELL = re.compile(r"^\| ([^|]*) \|", re.MULTILINE)
READ = [cell.lower() for cell in CELL.findall((ROOT / "docs" / "guide" / "predict.md").read_text())]
"""First cells of the tables of models."""


@pytest.mark.parametrize("library", SOURCES)
def test_guides_and_errors_name_every_library_and_its_reader_takes_live_models(library):
    title = SOURCES[library].title.lower()
    assert any(title in cell for cell in READ), "no row of a table in docs/guide/predict.md"
    assert title in (ROOT / "CHANGELOG.md").read_text().lower()
    assert title in EXPECTED.lower()
    reader = importlib.import_module(READERS[library])
    assert callable(reader.read)
    assert SOURCES[library].has_same_predict or callable(reader.predict)


@pytest.mark.parametrize("library", sorted({*SOURCES} - {"glasswood"}))
def test_every_reader_is_tested_where_its_library_is_installed(library):
    source = SOURCES[library]
    tests = ROOT / "tests" / "readers" / f"test_{source.module}.py"
    assert "glasswood.load(" in tests.read_text()
    if source.has_estimators or not source.files:  # others are tested by files that they have written
        groups = (ROOT / "pyproject.toml").read_text().lower()
        assert re.search(rf'^ *.*"({library}|{re.escape(source.title.lower())})[-\w]*[\[>=<]', groups, re.MULTILINE)


def test_type_checkers_know_the_formats():
    assert set(MODEL_FORMATS) == set(FORMATS)


@pytest.mark.parametrize("suffix", MODEL_SUFFIXES)
def test_every_suffix_is_read_named_and_fuzzed(suffix):
    assert callable(importlib.import_module(FILES[suffix]).read_file)
    assert suffix in glasswood.load.__doc__
    assert suffix in MUTATORS
    assert find_seeds()[suffix]
