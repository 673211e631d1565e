"""The result of `explainer(X)`: shap's own class where shap is installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.explain.players import Players
    from silva.typing import Array, Doubles


@dataclass(frozen=True, eq=False)
class Explanation:
    """SHAP values with what plots need: the fields of shap.Explanation, for machines without shap.

    Attributes
    ----------
    values : (n, P) or (n, P, k)
    base_values : float64, (n,) or (n, k)
    data : (n, P)
        The rows, categories as codes, NaN for groups.
    feature_names : list of str
    """

    values: Array
    base_values: Doubles
    data: Array
    feature_names: list[str]


def make_explanation(
    values: Array, expected: Doubles, rows: Array, X: object, forest: TreeEnsemble, players: Players
) -> Any:
    """Wrap values into shap.Explanation, or into the dataclass above where shap is not installed."""
    base = np.tile(expected, (len(rows), 1)) if len(expected) > 1 else np.full(len(rows), expected[0])
    names = list(players.names or ()) if players.groups else feature_names(X, forest)
    rows = players.data(rows)
    if importlib.util.find_spec("shap") is None:
        return Explanation(values, base, rows, names)
    import shap

    return shap.Explanation(values=values, base_values=base, data=rows, feature_names=names)


def feature_names(X: object, forest: TreeEnsemble) -> list[str]:
    """Take the forest's names, else those of the frame, else what shap's plots call columns."""
    if forest.feature_names is not None:
        return list(forest.feature_names)
    columns = getattr(X, "columns", None)
    if columns is not None and not callable(columns) and len(columns) == forest.n_features:
        return [str(getattr(column, "_name", column)) for column in columns]
    return [f"Feature {i}" for i in range(forest.n_features)]
