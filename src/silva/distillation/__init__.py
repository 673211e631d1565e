"""Readable trees in place of other models."""

from silva.distillation.distillation import Distillation, distill

__all__ = ["Distillation", "distill"]
