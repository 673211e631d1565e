"""A test of explanations runs under each algorithm of the CPU."""

from __future__ import annotations

import pytest

from tests.explain.tolerance import ALGORITHMS


@pytest.fixture(scope="session", params=ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> str:
    """How values and interactions are computed."""
    return str(request.param)
