"""Trees whose predictions rise, or fall, with some features: for all rows, not only for those seen.

If two rows differ only in one such feature, either both reach the same leaf, whose coefficient has the sign, or their
paths part at a split by this feature. So every such split has a middle that the leaves on one side do not exceed and
the leaves on the other side do not fall below. Leaves are clipped to it, as XGBoost confines constant leaves.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.grow.tree.refit import Design, fit_leaf, independent

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.tree.refit import LeafModel

MIDDLES = 33
"""Places that are tried for the middle of a split."""


def fit_constrained_leaf(
    X: Doubles, y: Doubles, weight: Doubles, features: NDArray[np.intp], scale: float, signs: Int64s
) -> LeafModel:
    """Least squares with signs of coefficients: the regression on the terms that are not 0 at the optimum.

    Parameters
    ----------
    X, y, weight, features, scale
        As in `fit_leaf`.
    signs : int, (n_columns,)
        1 or -1 where the coefficient of a column must have this sign.
    """
    if signs[features].any():
        from scipy.optimize import lsq_linear  # scikit-learn needs SciPy

        design = Design.of(X, y, weight, features, scale)
        triangle = design.triangle()
        kept = independent(triangle[:, :-1], len(y))
        own = signs[features[kept]]
        bounds = np.where(own > 0, 0.0, -np.inf), np.where(own < 0, 0.0, np.inf)
        solution = lsq_linear(triangle[:, kept], triangle[:, -1], bounds, method="bvls").x if len(kept) else np.empty(0)
        features = features[kept][(own == 0) | (own * solution > 0)]
    while True:
        model = fit_leaf(X, y, weight, features, scale)
        wrong = signs[model.features] * model.coefficients < 0  # by rounding, where the optimum is next to 0
        if not wrong.any():
            return model
        features = model.features[~wrong].astype(np.intp)


def fit_equation(
    columns: TrainingColumns, X: Doubles, y: Doubles, weight: Doubles, features: NDArray[np.intp], scale: float
) -> LeafModel:
    """Least squares of a leaf's rows, with the signs of coefficients that the columns ask for."""
    if columns.term_signs is None:
        return fit_leaf(X, y, weight, features, scale)
    return fit_constrained_leaf(X, y, weight, features, scale, columns.coefficient_signs)


def leaf_bounds(
    tree: dict[str, Any],
    signs: Int64s,
    reached: list[Int32s],
    predictions: Doubles,
    y: Doubles,
    weight: Doubles,
) -> dict[int, tuple[float, float]]:
    """Limits of the leaves, by node, that make a tree monotone whose coefficients have the signs."""
    bounds = {0: (-np.inf, np.inf)}
    for node in np.flatnonzero(tree["feature"] >= 0).tolist():
        left, right, sign = int(tree["left"][node]), int(tree["right"][node]), signs[tree["feature"][node]]
        low, high = bounds[node]
        bounds[left] = bounds[right] = low, high
        if sign:
            below, above = (left, right) if sign > 0 else (right, left)
            middle = _middle(reached[below], reached[above], predictions.clip(low, high), y, weight)
            bounds[below], bounds[above] = (low, middle), (middle, high)
    return {node: bounds[node] for node in np.flatnonzero(tree["feature"] < 0).tolist()}


def _middle(below: Int32s, above: Int32s, predictions: Doubles, y: Doubles, weight: Doubles) -> float:
    """Find the value to which clipping the two sides costs the fewest squares."""
    if not len(below) or not len(above):
        return float(predictions[below if len(below) else above].mean())
    most, least = float(predictions[below].max()), float(predictions[above].min())
    if most <= least:
        return most + (least - most) / 2
    tried = np.quantile(np.concatenate([predictions[below], predictions[above]]), np.linspace(0, 1, MIDDLES))
    tried = tried[(tried >= least) & (tried <= most)]
    tried = np.append(tried, [least, most])

    def cost(middle: float) -> float:
        own, other = np.minimum(predictions[below], middle), np.maximum(predictions[above], middle)
        return float(weight[below] @ (y[below] - own) ** 2 + weight[above] @ (y[above] - other) ** 2)

    return float(min(tried.tolist(), key=cost))


def confined(model: LeafModel, bounds: tuple[float, float]) -> LeafModel:
    """Move the value of a leaf without terms into its bounds."""
    if len(model.features):
        return model
    value = float(np.clip(model.value, *bounds))
    return dataclasses.replace(model, value=value, intercept=value)
