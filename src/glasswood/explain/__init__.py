"""Exact explanations of forests: SHAP values and interaction values."""

from glasswood.explain.explainer import Explainer
from glasswood.explain.results.explanation import Explanation
from glasswood.explain.results.summary import Summary
from glasswood.explain.scores.result import ScoreValues
from glasswood.explain.scores.score import score_values
from glasswood.explain.tree_explainer import TreeExplainer, patch_shap

__all__ = ["Explainer", "Explanation", "ScoreValues", "Summary", "TreeExplainer", "patch_shap", "score_values"]
