"""SHAP values of all rows, of which a report holds means, and those of the chosen rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.explain.additivity import tolerance
from silva.explain.checks import check_range, refuse_negative_covers
from silva.explain.cpu import CpuExplainer
from silva.explain.game import Game, Settings
from silva.explain.players import by_column, make_players
from silva.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from silva.display.report.rows import ReportRows
    from silva.typing import Array, Doubles, Int64s

PAIR_NUMBERS, PAIR_ROWS, SHOWN_PAIRS = 20_000_000, 500, 20
"""Interaction values computed at most, rows that they are of, and pairs that are listed."""


@dataclass(frozen=True, eq=False)
class Explained:
    """Values of the rows.

    Attributes
    ----------
    expected : float64, (k,)
    importance : float64, (F, k)
        Mean magnitude of the values over all rows.
    values : float64, (chosen rows, F, k)
    error : float
        Largest difference between a row's sum and its margin, and in parts of what is allowed.
    pairs : list of dict
        The strongest pairs: places of the features, mean magnitude of the interaction.
    partners : int64, (F,)
        The feature that each interacts most with, -1 where none is known.
    """

    expected: Doubles
    importance: Doubles
    values: Array
    error: tuple[float, float]
    pairs: list[dict[str, Any]]
    pair_rows: int
    partners: Int64s


def explained(rows: ReportRows, at: Int64s) -> Explained:
    """Explain all rows, and the interactions of some of the chosen ones.

    Raises
    ------
    ValueError
        If the forest cannot be explained (negative covers).
    """
    forest = rows.forest
    refuse_negative_covers(forest)
    check_range(forest, "float32")
    dtype = "float64" if forest.has_linear_leaves else "float32"
    players = make_players("source" if rows.source else None, forest)
    divide = by_column(np.eye(players.n, dtype=dtype), players)[0] if rows.source else None
    explainer = CpuExplainer(Game(forest, players), Settings(dtype=dtype, n_jobs=rows.n_jobs))
    expected, k = explainer.expected_value, forest.n_outputs
    total, error, share = np.zeros((len(rows.names), k)), 0.0, 0.0

    def values_of(some: Array) -> Array:
        values = explainer.values(PlacedRows(some)).reshape(-1, players.n, k)
        return values if divide is None else np.einsum("npk,pc->nck", values, divide)

    allowed = tolerance(forest, dtype)
    for part in rows.chunks():
        values = values_of(rows.settled[part])
        total += np.abs(values).sum(axis=0, dtype=np.float64)
        differences = np.abs(expected + values.sum(axis=1, dtype=np.float64) - rows.margins[part]).max(axis=0)
        error, share = max(error, differences.max()), max(share, float((differences / allowed).max()))
    values = values_of(rows.settled[at])
    pairs, n_rows, partners = _pairs(rows, explainer, at, divide)
    return Explained(expected, total / len(rows), values, (error, share), pairs, n_rows, partners)


def _pairs(
    rows: ReportRows, explainer: CpuExplainer, at: Int64s, divide: Array | None
) -> tuple[list[dict[str, Any]], int, Int64s]:
    """Interactions of some of the chosen rows; none where they are not computed or too many."""
    forest, n_players, n_columns = rows.forest, explainer.game.players.n, len(rows.names)
    size, nobody = n_players**2 * forest.n_outputs, np.full(n_columns, -1)
    n_rows = min(PAIR_ROWS, len(at), PAIR_NUMBERS // max(size, 1))
    if n_rows < 1 or n_columns < 2:
        return [], 0, nobody
    some = at[np.linspace(0, len(at) - 1, n_rows).astype(int)]
    places = np.arange(n_players, dtype=np.int32)
    found = explainer.interactions(PlacedRows(rows.settled[some])).reshape(n_rows, *places.shape * 2, -1)
    if divide is not None:
        found = np.einsum("npqk,pc,qd->ncdk", found, divide, divide, optimize=True)
    strength = 2 * np.abs(found).mean(axis=(0, 3))
    np.fill_diagonal(strength, 0)
    partners = np.where(strength.max(axis=1) > 0, strength.argmax(axis=1), nobody)
    first, second = np.triu_indices(n_columns, 1)
    order = np.argsort(-strength[first, second], kind="stable")[:SHOWN_PAIRS]
    listed = [
        {"first": int(i), "second": int(j), "strength": float(strength[i, j])}
        for i, j in zip(first[order], second[order], strict=True)
        if strength[i, j] > 0
    ]
    return listed, n_rows, partners
