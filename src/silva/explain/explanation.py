"""The result of `explainer(X)`: shap's own class where shap is installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.facts import as_html, feature_names, output_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silva.ensemble import TreeEnsemble
    from silva.typing import Array, Doubles


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """SHAP values with what plots need: the fields of shap.Explanation, for machines without shap.

    ``explanation[rows]`` takes rows by a number (without the axis of rows), a slice, a mask or an array of numbers.

    Attributes
    ----------
    values : (n, P) or (n, P, k); interactions (n, P, P) or (n, P, P, k)
    base_values : float64, (n,) or (n, k)
    data : (n, P)
        The rows as they were given, categories by value; NaN for groups.
    feature_names : list of str
    output_names : list of str, or None
        Names of k > 1 outputs: classes where the model has them.
    """

    values: Array
    base_values: Doubles
    data: Array
    feature_names: list[str]
    output_names: list[str] | None = None

    def __getitem__(self, rows: Any) -> Explanation:
        if isinstance(rows, tuple):
            raise TypeError(f"explanation[{rows!r}] is not taken, expected rows alone; index explanation.values")
        taken = {"values": self.values[rows], "base_values": self.base_values[rows], "data": self.data[rows]}
        return replace(self, **taken)

    def __repr__(self) -> str:
        outputs = f", outputs {', '.join(self.output_names)}" if self.output_names else ""
        rows = "1 row" if self.data.ndim == 1 else f"{len(self.values)} rows"
        return f"Explanation({rows}, {len(self.feature_names)} features{outputs})"

    def _repr_html_(self) -> str:
        """Features by their mean magnitude, for notebooks."""
        values = self.values[None] if self.data.ndim == 1 else self.values
        magnitude = np.abs(values).reshape(*values.shape[:2], -1).sum(axis=(0, 2)) / max(len(values), 1)
        strongest = np.argsort(-magnitude, kind="stable")[:20]
        return as_html(repr(self), {self.feature_names[i]: f"{magnitude[i]:.4g}" for i in strongest})


def make_explanation(
    values: Array, base_values: Doubles, data: Array, names: Sequence[str], forest: TreeEnsemble
) -> Any:
    """Wrap values into shap.Explanation, or into the dataclass above where shap is not installed."""
    outputs = output_names(forest, forest.n_outputs) if forest.n_outputs > 1 else None
    if importlib.util.find_spec("shap") is None:
        return Explanation(values, base_values, data, list(names), outputs)
    import shap

    return shap.Explanation(
        values=values, base_values=base_values, data=data, feature_names=list(names), output_names=outputs
    )


def names_of(X: object, forest: TreeEnsemble) -> list[str]:
    """Take the forest's names, else those of the frame, else x0, x1, ..."""
    columns = None if forest.feature_names else getattr(X, "columns", None)
    if columns is not None and not callable(columns) and len(columns) == forest.n_features:
        return [str(getattr(column, "_name", column)) for column in columns]
    return list(feature_names(forest))
