"""One browser for all tests of pages."""

from tests.display.browser import browser

__all__ = ["browser"]
