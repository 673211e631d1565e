"""Populations beside each other: what changed."""

from silva.populations.comparison import Comparison, compare
from silva.populations.difference import difference

__all__ = ["Comparison", "compare", "difference"]
