"""Readable trees in place of other models."""

from glasswood.distillation.distillation import Distillation, distill

__all__ = ["Distillation", "distill"]
