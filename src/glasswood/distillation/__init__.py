"""Readable trees, curves and surfaces in place of other models."""

from glasswood.distillation.additive import Additive, additive
from glasswood.distillation.distillation import Distillation, distill

__all__ = ["Additive", "Distillation", "additive", "distill"]
