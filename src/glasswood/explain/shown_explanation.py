"""shap's Explanation as a table in notebooks; imported where shap is installed."""

from __future__ import annotations

from typing import Any

import shap

from glasswood.explain.explanation_html import explanation_html


class Explanation(shap.Explanation):  # type: ignore[misc]
    """A shap.Explanation that notebooks show as a table with bars, and so are its parts."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if type(found) is shap.Explanation:
            found.__class__ = Explanation
        return found

    def _repr_html_(self) -> str:
        return explanation_html(f"Explanation, values of shape {self.shape}", self)
