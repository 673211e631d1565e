"""Average effects of features on a model's predictions: effects, partial dependence and permutation importance."""

from glasswood.inspection.dependence import partial_dependence
from glasswood.inspection.effects import effects
from glasswood.inspection.importance import permutation_importance

__all__ = ["effects", "partial_dependence", "permutation_importance"]
