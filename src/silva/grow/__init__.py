"""Evolutionary model trees: one small, readable tree with linear models in its leaves."""

from silva.grow.estimator import ModelTreeRegressor

__all__ = ["ModelTreeRegressor"]
