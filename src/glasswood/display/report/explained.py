"""SHAP values that a report shows: of a classifier's probabilities where these are quick, else of the margin."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.explain.additivity import tolerance
from glasswood.explain.background import placed_background
from glasswood.explain.checks import check_range, refuse_negative_covers
from glasswood.explain.cpu import CpuExplainer
from glasswood.explain.game import Game, Settings
from glasswood.explain.players import by_column, make_players
from glasswood.explain.responses.coalitions import CoalitionExplainer
from glasswood.explain.responses.permutations import EstimateWarning
from glasswood.explain.responses.response import is_margin
from glasswood.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows
    from glasswood.explain.players import Players

PAIR_NUMBERS, PAIR_ROWS, SHOWN_PAIRS = 20_000_000, 500, 20
"""Interaction values computed at most, rows that they are of, and pairs that are listed."""

BACKGROUND_ROWS, FEWEST_ROWS, OPERATIONS = 100, 20, 1e9
"""Rows that values of probabilities are computed against, at least that many, and what these may cost: some seconds."""

LINEAR = 5
"""Operations of a coalition where leaves have equations."""


@dataclass(frozen=True, eq=False)
class Explained:
    """Values of the rows.

    Attributes
    ----------
    n_background : int
        Rows that probabilities are explained against; 0: the margin is explained, by path-dependent values.
    is_probability : bool
        Whether values are parts of a probability: some forests have no other margin.
    expected : float64, (k,)
    ends : float64, (chosen rows, k)
        What is explained: the expected value and a row's values add up to it.
    importance : float64, (F, k)
        Mean magnitude of the values.
    n_rows : int
        Rows that `importance` and `error` are of.
    values : float64, (chosen rows, F, k)
    error : float
        Largest difference between a row's sum and what is explained, and in parts of what is allowed.
    pairs : list of dict
        The strongest pairs: places of the features, mean magnitude of the interaction.
    partners : int64, (F,)
        The feature that each interacts most with, -1 where none is known.
    errors : float64, (chosen rows, F, k), or None
        Standard errors of `values` by another background of `n_background` rows.
    """

    n_background: int
    is_probability: bool
    expected: Doubles
    ends: Doubles
    importance: Doubles
    n_rows: int
    values: Array
    error: tuple[float, float]
    pairs: list[dict[str, Any]]
    pair_rows: int
    partners: Int64s
    errors: Array | None = None


def explained(rows: ReportRows, at: Int64s, seed: int) -> Explained:
    """Explain rows, and the interactions of some of the chosen ones.

    Raises
    ------
    ValueError
        If the forest cannot be explained (negative covers).
    """
    against = _background(rows, at, seed)
    if len(against):
        with warnings.catch_warnings():
            warnings.simplefilter("error", EstimateWarning)  # beyond some features values are no longer exact
            try:
                return _of_probabilities(rows, at, against)
            except EstimateWarning:
                pass
    return _of_margins(rows, at)


def _background(rows: ReportRows, at: Int64s, seed: int) -> Int64s:
    """Pick the rows that probabilities are explained against; none where that is not asked for, or takes too long."""
    forest, nobody = rows.forest, np.empty(0, np.int64)
    if len(forest.classes) != 1 or not rows.classes or is_margin("probability", forest):
        return nobody
    order = np.random.default_rng(seed).permutation(len(rows))[:BACKGROUND_ROWS]
    used = np.union1d(forest.feature[forest.feature >= 0], forest.linear_feature)
    some, others = rows.settled[at[:: -(-len(at) // 50)]][:, used], rows.settled[order[:50]][:, used]
    n_differ = (some[:, None] != others).sum(axis=2)
    of_coalition = rows.responses.shape[1] * (LINEAR if forest.has_linear_leaves else 1)
    of_path = forest.depth + len(forest.linear_feature) / len(forest.leaf_value)
    cost = float(np.mean(2.0**n_differ)) * of_coalition + forest.n_trees * of_path
    most = int(OPERATIONS / (len(at) * cost))
    return np.sort(order[:most]) if most >= FEWEST_ROWS else nobody


def _of_probabilities(rows: ReportRows, at: Int64s, against: Int64s) -> Explained:
    """Explain the chosen rows against others."""
    forest, (players, divide) = rows.forest, _players(rows, "float64")
    background = placed_background(rows.settled[against], np.ones(len(against), np.int64), forest, None)
    game = Game(forest, players, background)
    explainer = CoalitionExplainer(game, Settings(output="probability", dtype="float64"))
    expected = np.reshape(explainer.expected_value, -1)
    ends = rows.responses[at][:, -len(expected) :]
    some, errors = PlacedRows(rows.settled[at]), None
    if divide is None and explainer.layout.n_used <= explainer.most:
        found, of_players = explainer.values_and_errors(some, None, of_background=True)
        errors = _by_column(of_players, players, None)
    else:
        found = explainer.values(some)  # which warns of estimates
    values = _by_column(found, players, divide)
    difference = float(np.abs(expected + values.sum(axis=1) - ends).max())
    error = difference, difference / (1e-6 if forest.result_dtype == "float32" else 1e-9)
    importance = np.abs(values).mean(axis=0)
    about = len(at), values, error, *_pairs(rows, explainer, at, divide)
    return Explained(len(against), True, expected, ends, importance, *about, errors)


def _of_margins(rows: ReportRows, at: Int64s) -> Explained:
    """Explain all rows."""
    forest = rows.forest
    refuse_negative_covers(forest)
    check_range(forest, "float32")
    dtype = "float64" if forest.has_linear_leaves else "float32"
    players, divide = _players(rows, dtype)
    explainer = CpuExplainer(Game(forest, players), Settings(dtype=dtype))
    expected, k = explainer.expected_value, forest.n_outputs
    total, error, share = np.zeros((len(rows.names), k)), 0.0, 0.0
    allowed = np.maximum(tolerance(forest, dtype), np.finfo(np.float64).tiny)  # without trees it is 0
    for part in rows.chunks():
        values = _by_column(explainer.values(PlacedRows(rows.settled[part])), players, divide)
        total += np.abs(values).sum(axis=0, dtype=np.float64)
        differences = np.abs(expected + values.sum(axis=1, dtype=np.float64) - rows.margins[part]).max(axis=0)
        error, share = max(error, differences.max()), max(share, float((differences / allowed).max()))
    values = _by_column(explainer.values(PlacedRows(rows.settled[at])), players, divide)
    importance, errors = total / len(rows), (error, share)
    pairs = _pairs(rows, explainer, at, divide)
    is_probability = bool(rows.classes) and is_margin("probability", forest)
    return Explained(0, is_probability, expected, rows.margins[at], importance, len(rows), values, errors, *pairs)


def _players(rows: ReportRows, dtype: str) -> tuple[Players, Array | None]:
    """Find the players, and how values of combined columns are divided among these columns."""
    players = make_players("source" if rows.source else None, rows.forest)
    return players, by_column(np.eye(players.n, dtype=dtype), players)[0] if rows.source else None


def _by_column(values: Array, players: Players, divide: Array | None) -> Array:
    """Values by the columns that the page shows: (n, C, k)."""
    values = values.reshape(len(values), players.n, -1)
    return values if divide is None else np.einsum("npk,pc->nck", values, divide)


def _pairs(
    rows: ReportRows, explainer: CpuExplainer | CoalitionExplainer, at: Int64s, divide: Array | None
) -> tuple[list[dict[str, Any]], int, Int64s]:
    """Interactions of some of the chosen rows; none where they are not computed or too many."""
    n_players, n_columns = explainer.game.players.n, len(rows.names)
    size, nobody = n_players**2 * explainer.n_outputs, np.full(n_columns, -1)
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
