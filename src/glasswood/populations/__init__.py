"""Populations beside each other: what changed."""

from glasswood.populations.comparison import Comparison, compare
from glasswood.populations.difference import difference

__all__ = ["Comparison", "compare", "difference"]
