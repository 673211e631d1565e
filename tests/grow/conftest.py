"""Searches without what a test does not ask about."""

from __future__ import annotations

import pytest


@pytest.fixture
def unjudged(limits):
    """Grow no trees on parts of the rows, five for each: only intervals and `smoothing="auto"` ask them."""
    limits(selection_rows=0)
