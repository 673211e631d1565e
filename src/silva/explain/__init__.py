"""Exact explanations of forests: SHAP values and interaction values."""

from silva.explain.explainer import Explainer
from silva.explain.explanation import Explanation

__all__ = ["Explainer", "Explanation"]
