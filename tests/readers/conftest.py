"""Rows of scikit-learn's models, made once."""

from __future__ import annotations

import pytest
from tests.readers.sklearn_models import make_rows, make_target, with_holes


@pytest.fixture(scope="session", name="X")
def rows_of_all():
    return make_rows()


@pytest.fixture(scope="session")
def y(X):
    return make_target(X)


@pytest.fixture(scope="session")
def holes(X):
    return with_holes(X)
