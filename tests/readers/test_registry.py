"""What a source library needs besides its line in `base/sources.py`: what is forgotten fails here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tests.fuzz.formats import MUTATORS, find_seeds

import glasswood
from glasswood.base.sources import FILES, FORMATS, MODEL_SUFFIXES, SOURCES
from glasswood.base.typing import MODEL_FORMATS
from glasswood.readers import EXPECTED, READERS

GUIDES = Path(glasswood.__file__).parents[2] / "docs" / "guide"
READ = "".join((GUIDES / name).read_text().lower() for name in ("models.md", "predict.md"))


@pytest.mark.parametrize("library", SOURCES)
def test_guides_and_errors_name_every_library_and_its_reader_takes_live_models(library):
    title = SOURCES[library].title
    assert title.lower() in READ
    assert title.lower() in EXPECTED.lower()
    assert callable(importlib.import_module(READERS[library]).read)


def test_type_checkers_know_the_formats():
    assert set(MODEL_FORMATS) == set(FORMATS)


@pytest.mark.parametrize("suffix", MODEL_SUFFIXES)
def test_every_suffix_is_read_named_and_fuzzed(suffix):
    assert callable(importlib.import_module(FILES[suffix]).read_file)
    assert suffix in glasswood.load.__doc__
    assert suffix in MUTATORS
    assert find_seeds()[suffix]
