"""Exact explanations of forests: SHAP values and interaction values."""

from silva.explain.explainer import Explainer
from silva.explain.explanation import Explanation
from silva.explain.summary import Summary
from silva.explain.tree_explainer import TreeExplainer, patch_shap

__all__ = ["Explainer", "Explanation", "Summary", "TreeExplainer", "patch_shap"]
