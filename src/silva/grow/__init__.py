"""Evolutionary model trees: one small, readable tree with linear models in its leaves."""

from silva.grow.estimator import ModelTreeRegressor
from silva.grow.search import Progress

__all__ = ["ModelTreeRegressor", "Progress"]
