"""What all estimators of model trees have in common."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from glasswood.words.outline import estimator_html


class TreeEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators of model trees, which tells scikit-learn that NaN marks missing values."""

    def _forget(self) -> None:
        """Leave out what an earlier `fit` has set and this one may not set."""
        for name in ("alternatives_", "curves_", "surfaces_", "parts_", "procedure_seconds_"):
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _repr_html_(self) -> Any:
        """scikit-learn's diagram in a notebook, and the tree once it is fitted."""
        diagram = super()._repr_html_
        return (lambda: diagram() + estimator_html(self)) if hasattr(self, "forest_") else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if hasattr(self, "forest_") and "text/html" in bundle:
            bundle["text/html"] += estimator_html(self)
        return bundle
