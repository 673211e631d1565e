"""One browser for all tests of pages, one PostgreSQL server for all tests of SQL."""

import pytest

from tests.display.browser import browser
from tests.display.postgresql import serve

__all__ = ["browser"]


@pytest.fixture(scope="session")
def server():
    """Yield a running PostgreSQL server; skip where none is installed."""
    with serve() as running:
        yield running
