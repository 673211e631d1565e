"""What a source library is listed in besides `readers/__init__.py`: a reader that is forgotten somewhere fails here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tests.fuzz.formats import SUFFIXES

import glasswood
from glasswood.base.files import MODEL_SUFFIXES
from glasswood.base.typing import MODEL_FORMATS
from glasswood.readers import EXPECTED, FILES, FORMATS, READERS

GUIDE = (Path(glasswood.__file__).parents[2] / "docs" / "guide" / "models.md").read_text().lower()
IN_THE_GUIDE = {
    "sklearn": "scikit-learn",
    "sksurv": "scikit-survival",
    "pyspark": "pyspark",
    "lineartree": "linear-tree",
}
WITH_A_DOT = [suffix for suffix in FILES if suffix.startswith(".")]


@pytest.mark.parametrize("library", sorted({*READERS} - {"treelite"}))
def test_the_guide_names_every_library(library):
    assert IN_THE_GUIDE.get(library, library.replace("_", "-")) in GUIDE


@pytest.mark.parametrize("library", READERS)
def test_every_reader_reads_live_models(library):
    assert callable(importlib.import_module(READERS[library]).read)


def test_formats_are_those_of_the_types_and_have_readers():
    assert set(MODEL_FORMATS) == set(FORMATS)
    assert set(FORMATS) <= set(READERS)


def test_suffixes_of_other_libraries_are_those_that_are_read():
    assert set(MODEL_SUFFIXES) == set(WITH_A_DOT)


@pytest.mark.parametrize("suffix", WITH_A_DOT)
def test_every_suffix_is_read_named_and_fuzzed(suffix):
    assert callable(importlib.import_module(FILES[suffix]).read_file)
    assert suffix in EXPECTED
    assert suffix in glasswood.load.__doc__
    assert suffix in SUFFIXES
