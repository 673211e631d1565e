"""Average effects of features on a model's predictions: effects, partial dependence and permutation importance."""

from silva.inspection.dependence import partial_dependence
from silva.inspection.effects import effects
from silva.inspection.importance import permutation_importance

__all__ = ["effects", "partial_dependence", "permutation_importance"]
