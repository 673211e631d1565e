"""Populations beside each other: what changed."""

from silva.populations.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
