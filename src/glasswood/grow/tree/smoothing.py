"""M5's smoothing: the models of a leaf's ancestors, folded into the leaf's own equation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Bools, Doubles, Int32s
from glasswood.grow.tree.intervals import without_own_row
from glasswood.grow.tree.refit import fit_leaf, shared_out
from glasswood.model.ensemble import NUMBER

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.data.rows import TrainingRows
    from glasswood.grow.tree.refit import LeafModel


STRENGTHS = (0.0, 5.0, 15.0)
"""Candidates; the residuals of left-out rows choose one."""

LOSS = 0.01
"""Part of their sum of squares that smoothing may cost: splits were chosen on the same rows, which flatters leaves."""

MOST_LEFT_OUT = 20_000
"""Largest number of rows of a leaf from which rows are left out; larger leaves need no smoothing."""


def smooth(
    tree: dict[str, Any],
    models: dict[int, LeafModel],
    rows: TrainingRows,
    columns: TrainingColumns,
    y: Doubles,
    reached: list[Int32s],
    strength: float | str,
    limits: tuple[float, float],
) -> tuple[dict[int, LeafModel], float]:
    """Mix each leaf's model with those of the splits above it; and return the strength.

    On the way up from a leaf the prediction p of a node with n rows and that of its parent's model, q, become
    (n p + strength q) / (n + strength) (Quinlan 1992, "Learning with continuous classes", there with strength 15). All
    of them are linear, so the mixture is one equation again, and the tree stays what it is: a split and leaves.
    ``"auto"`` takes the largest of `STRENGTHS` that costs rows which are left out of all models little (Allen 1974);
    predictions are confined to `limits`.
    """
    if strength == 0 or len(models) == 1 or (strength == "auto" and len(y) > MOST_LEFT_OUT):
        return models, 0.0
    attributes = _attributes_below(tree, columns)
    scale = rows.target.scale or 1.0
    inner = {
        int(v): fit_leaf(
            columns.X[reached[v]], y[reached[v]], rows.weight[reached[v]], np.flatnonzero(attributes[v]), scale
        )
        for v in np.flatnonzero(tree["feature"] >= 0)
    }
    parent = {int(child): int(v) for v in inner for child in (tree["left"][v], tree["right"][v])}
    if strength == "auto":
        strength = _best_strength({**models, **inner}, set(models), parent, rows, columns, y, reached, limits)
    if strength == 0:
        return models, 0.0
    smoothed = {}
    for leaf, model in models.items():
        shares = _shares(leaf, parent, reached, float(strength))
        mixed = [(share, models[v] if v == leaf else inner[v]) for v, share in shares]
        at = reached[leaf]
        smoothed[leaf] = _with_errors(_mix(model, mixed), columns.X[at], y[at], rows.weight[at], scale)
    return smoothed, float(strength)


def _best_strength(
    models: dict[int, LeafModel],
    leaves: set[int],
    parent: dict[int, int],
    rows: TrainingRows,
    columns: TrainingColumns,
    y: Doubles,
    reached: list[Int32s],
    limits: tuple[float, float],
) -> float:
    """Choose the largest strength that costs left-out rows little."""
    left_out = {v: np.empty(len(y)) for v in models}
    for v, model in models.items():
        at = reached[v]
        left_out[v][at] = without_own_row(model, columns.X[at], y[at], rows.weight[at])
    scale = rows.target.scale or 1.0
    squares = np.zeros(len(STRENGTHS))
    for leaf in leaves:
        at = reached[leaf]
        for k, strength in enumerate(STRENGTHS):
            shares = _shares(leaf, parent, reached, strength)
            predicted = np.clip(sum(share * left_out[v][at] for v, share in shares), *limits)
            squares[k] += rows.weight[at] @ ((y[at] - predicted) / scale) ** 2
    return max(s for s, square in zip(STRENGTHS, squares, strict=True) if square <= (1 + LOSS) * squares[0])


def _attributes_below(tree: dict[str, Any], columns: TrainingColumns) -> Bools:
    """Attributes that a node's subtree has in its models or, where models have any, in its tests on numbers."""
    used: Bools = tree["model"].reshape(len(tree["feature"]), -1).astype(bool)
    used &= (tree["feature"] < 0)[:, None]
    has_terms = bool(used.any())
    for v in range(len(used) - 1, -1, -1):  # children stand behind their parents
        attribute = tree["feature"][v]
        if attribute < 0:
            continue
        used[v] = used[tree["left"][v]] | used[tree["right"][v]]
        used[v, attribute] |= has_terms and not columns.is_categorical[attribute]
    return used


def _shares(leaf: int, parent: dict[int, int], reached: list[Int32s], strength: float) -> list[tuple[int, float]]:
    """Nodes from a leaf to the root and the weight of each one's model; the weights add up to 1."""
    shares, node = [(leaf, 1.0)], leaf
    while node in parent:
        n_rows, node = len(reached[node]), parent[node]
        kept = n_rows / (n_rows + strength)
        shares = [(v, share * kept) for v, share in shares] + [(node, 1 - kept)]
    return shares


def _mix(leaf: LeafModel, mixed: list[tuple[float, LeafModel]]) -> LeafModel:
    """Sum weighted models about the leaf's means; an attribute that the leaf has not keeps its ancestor's mean."""
    means: dict[int, float] = {}
    slopes: dict[int, float] = {}
    for share, model in mixed:
        for feature, coefficient, mean in zip(model.features, model.coefficients, model.means, strict=True):
            means.setdefault(int(feature), float(mean))
            slopes[int(feature)] = slopes.get(int(feature), 0.0) + share * float(coefficient)
    features = sorted(slopes)
    value = sum(
        share
        * (
            model.value
            + sum(
                float(c) * (means[int(f)] - float(m))
                for f, c, m in zip(model.features, model.coefficients, model.means, strict=True)
            )
        )
        for share, model in mixed
    )
    return dataclasses.replace(
        leaf,
        features=np.array(features, np.int32),
        categories=np.full(len(features), NUMBER, np.int32),
        coefficients=np.array([slopes[f] for f in features], np.float64),
        errors=np.full(len(features), np.nan),
        explained=np.zeros(len(features)),
        means=np.array([means[f] for f in features], np.float64),
        value=float(value),
        intercept=float(value - sum(slopes[f] * means[f] for f in features)),
        intercept_error=float("nan"),
    )


def with_equation(
    model: LeafModel, other: LeafModel, X: Doubles, y: Doubles, weight: Doubles, scale: float
) -> LeafModel:
    """Put the equation of another target of the same rows and features in, which has no standard errors."""
    changed = dataclasses.replace(
        model,
        coefficients=other.coefficients,
        errors=np.full(len(model.errors), np.nan),
        value=other.value,
        intercept=other.intercept,
        intercept_error=float("nan"),
    )
    return _with_errors(changed, X, y, weight, scale)


def _with_errors(model: LeafModel, X: Doubles, y: Doubles, weight: Doubles, scale: float) -> LeafModel:
    """Measure the residuals of the mixture on the leaf's rows."""
    residual, mean = (y - model.predict(X)) / scale, np.average(y / scale, weights=weight)
    sse = float(np.sum(weight * residual**2))
    explained = float(np.sum(weight * (y / scale - mean) ** 2)) - sse
    return dataclasses.replace(
        model,
        explained=shared_out(explained, model.coefficients / scale, weight @ model.deviations(X) ** 2),
        sse=sse,
        rmse=float(np.sqrt(sse / weight.sum()) * scale),
    )
