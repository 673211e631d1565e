"""What a model makes of a feature on average: partial dependence and permutation importance."""

from silva.inspection.dependence import partial_dependence
from silva.inspection.importance import permutation_importance

__all__ = ["partial_dependence", "permutation_importance"]
