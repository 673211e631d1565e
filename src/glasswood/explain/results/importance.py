"""Global feature importance: the mean magnitude of SHAP values, with its error, and the direction of each feature."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.typing import Array, Doubles
from glasswood.explain.background_errors import spread_of_batches
from glasswood.explain.results.explanation import shown_names, values_of_players
from glasswood.inputs.shown import MISSING

if TYPE_CHECKING:
    from glasswood.explain.game import Game

TOGETHER = 1 << 14
"""Rows that are explained together."""

DIRECTION_ROWS = 5_000
"""Rows, evenly spaced, that directions are computed from, at most."""

CLEAR = 0.5
"""Rank correlation of a feature with its values from which on the feature has a direction."""

FALLING, RISING, MIXED, CATEGORIES = "falling", "rising", "mixed", "categories"


def importance_columns(explainer: Any, X: Any, y: ArrayLike | None, standard_errors: bool = False) -> dict[str, Any]:
    """Columns of `Explainer.importance`, the most important features first; outputs one after the other."""
    n_rows, k = _length(X), explainer.n_outputs
    if n_rows == 0:
        raise ValueError("X has no rows, expected at least 1")
    total: Any = 0.0
    squares: Any = 0.0
    kept: list[tuple[Array, Array]] = []
    step = -(-n_rows // DIRECTION_ROWS)
    for first, rows in _parts(X, n_rows):
        labels = None if y is None else np.asarray(y)[first : first + TOGETHER]
        values = np.asarray(explainer.shap_values(rows, labels), np.float64)
        values = np.abs(signed := values.reshape(*values.shape[:2], k))
        total, squares = total + values.sum(axis=0), squares + (values**2).sum(axis=0)
        at = slice(-first % step, None, step)
        if len(signed[at]):
            kept.append((signed[at], values_of_players(explainer.game, _taken(rows, at))[0]))
    mean = total / n_rows
    spread = np.sqrt(np.maximum(squares / n_rows - mean**2, 0))
    error = spread / math.sqrt(n_rows - 1) if n_rows > 1 else np.full(mean.shape, np.nan)
    errors = {"standard_error": error}
    if standard_errors:
        errors["background_error"] = _background_errors(explainer, X, y) / n_rows
    names = shown_names(explainer.game, explainer.settings, X)
    direction = _directions(explainer.game, kept)
    outputs = explainer.named_outputs
    found: dict[str, list[Any]] = {"output": []} if k > 1 else {}
    found |= {name: [] for name in ("feature", "mean_abs", "share", "direction", *errors)}
    for output in range(k):
        whole = float(mean[:, output].sum()) or 1.0
        for place in np.argsort(-mean[:, output], kind="stable").tolist():
            if k > 1:
                found["output"].append(outputs[output])
            found["feature"].append(names[place])
            found["mean_abs"].append(float(mean[place, output]))
            found["share"].append(float(mean[place, output]) / whole)
            found["direction"].append(direction[place][output])
            for name, of_place in errors.items():
                found[name].append(float(of_place[place, output]))
    return found


def _background_errors(explainer: Any, X: Any, y: ArrayLike | None) -> Doubles:
    """Compute errors of the sums of magnitudes, (P, k), by another background: values move together over rows.

    To first order, a magnitude moves as its value times the sign that the value has.
    """

    def values_of(of: Any, first: int, rows: Any) -> Doubles:
        labels = None if y is None else np.asarray(y)[first : first + TOGETHER]
        found = np.asarray(on_host(of.shap_values(rows, labels)), np.float64)
        return np.asarray(found.reshape(len(found), -1, explainer.n_outputs))

    def explain(game: Game) -> Doubles:
        of = explainer._of_game(game)
        parts = ((values_of(of, *part), values_of(explainer, *part)) for part in _parts(X, _length(X)))
        return np.asarray(np.sum([(found * np.sign(whole)).sum(axis=0) for found, whole in parts], axis=0))

    if not explainer.game.has_background:
        return np.zeros((len(explainer.players), explainer.n_outputs))
    return np.asarray(spread_of_batches(explainer.game, explain, explain(explainer.game)))


def _directions(game: Any, kept: list[tuple[Array, Array]]) -> list[list[str]]:
    """Say of each player and output whether its values rise or fall with the feature."""
    values = np.concatenate([values for values, _ in kept])
    data = np.concatenate([np.asarray(own, object) for _, own in kept])
    return [_direction(game, player, data[:, player], values[:, player]) for player in range(values.shape[1])]


def _direction(game: Any, player: int, own: Array, values: Doubles) -> list[str]:
    forest, k = game.forest, values.shape[1]
    members = np.flatnonzero(game.players.of_feature == player)
    if any(forest.categories is not None and forest.categories[i] is not None for i in members):
        return [CATEGORIES] * k
    try:
        numbers = np.array([math.nan if one is None or one == MISSING else float(one) for one in own])
    except (TypeError, ValueError):
        return [CATEGORIES] * k
    present = np.isfinite(numbers)
    return [_trend(numbers[present], values[present, output]) for output in range(k)]


def _trend(x: Doubles, values: Doubles) -> str:
    """Compare ranks (Spearman); empty where the feature or its values do not vary."""
    if len(x) < 2 or not np.ptp(x) or not np.ptp(values):
        return ""
    correlation = float(np.corrcoef(_ranks(x), _ranks(values))[0, 1])
    return RISING if correlation >= CLEAR else FALLING if correlation <= -CLEAR else MIXED


def _ranks(x: Doubles) -> Doubles:
    """Ranks, of equal numbers their mean."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Doubles = (last - (counts - 1) / 2)[place]
    return ranks


def _parts(X: Any, n_rows: int) -> Iterator[tuple[int, Any]]:
    if isinstance(X, list | tuple) or n_rows <= TOGETHER:
        yield 0, X
        return
    for first in range(0, n_rows, TOGETHER):
        yield first, _taken(X, slice(first, min(first + TOGETHER, n_rows), 1))


def _taken(rows: Any, at: slice) -> Any:
    """Take evenly spaced rows of arrays, frames and tables."""
    if hasattr(rows, "num_rows"):
        return rows.take(list(range(*at.indices(rows.num_rows))))
    if hasattr(rows, "iloc"):
        return rows.iloc[at]
    return rows[at]


def _length(X: Any) -> int:
    if hasattr(X, "num_rows"):
        return int(X.num_rows)
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
