"""Populations beside each other: what changed."""

from glasswood.populations.comparing import compare
from glasswood.populations.comparison import Comparison
from glasswood.populations.difference import difference

__all__ = ["Comparison", "compare", "difference"]
