"""A test of explanations runs under each algorithm of the CPU."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="session", params=["tables", "quadrature"])
def algorithm(request: pytest.FixtureRequest) -> str:
    """How values and interactions are computed."""
    return str(request.param)


@pytest.fixture
def without_shap(monkeypatch):
    """No shap to be found, so that calls of explainers return silva's own Explanation."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name == "shap" else find(name, *of))
