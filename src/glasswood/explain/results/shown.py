"""shap's Explanation as a table in notebooks; imported where shap is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import shap
from slicer import Obj
from slicer.slicer_internal import AtomicSlicer

from glasswood.base.typing import Array
from glasswood.explain.results.html import explanation_html


class _Objects(Obj):  # type: ignore[misc]
    """An array of objects whose axes are its own: slicer looks for more in every object, longer than values take."""

    def __init__(self, o: Any, dim: Any = "auto") -> None:
        AtomicSlicer.__init__(self, o, max_dim=np.ndim(o))
        self._name = None
        self.dim: list[int] = list(range(np.ndim(o))) if dim == "auto" else list(dim)


class Explanation(shap.Explanation):  # type: ignore[misc]
    """A shap.Explanation that notebooks show as a table with bars, and so are its parts."""

    def __init__(self, *, values: Array, data: Array, **fields: Any) -> None:
        has_objects = data.dtype == object
        super().__init__(values=values, data=np.zeros(data.shape, np.bool_) if has_objects else data, **fields)
        if has_objects:
            self.data: Any = _Objects(data)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if type(found) is shap.Explanation:
            found.__class__ = Explanation
        return found

    def _repr_html_(self) -> str:
        return explanation_html(f"Explanation, values of shape {self.shape}", self)
