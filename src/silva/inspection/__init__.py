"""What a model makes of features on average: effects, partial dependence and permutation importance."""

from silva.inspection.dependence import partial_dependence
from silva.inspection.effects import effects
from silva.inspection.importance import permutation_importance

__all__ = ["effects", "partial_dependence", "permutation_importance"]
