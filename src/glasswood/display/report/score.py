"""What the score of a model rests on: Shapley values of the loss of some rows, for a section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.evaluate.links import has_probabilities
from glasswood.explain.background import placed_background
from glasswood.explain.game import Game
from glasswood.explain.players import make_players
from glasswood.explain.scores.score import score_of_rows

if TYPE_CHECKING:
    from glasswood.base.typing import Array
    from glasswood.display.report.rows import ReportRows

ROWS, BACKGROUND, FEWEST = 500, 50, 20
"""Rows that are scored, rows that stand for unknown features, and at least so many of both."""

PLAYERS, OPERATIONS = 14, 4e9
"""Features that the forest may test, and nodes visited by all pairs of rows: some seconds."""


def score_section(rows: ReportRows, last: ReportRows, seed: int) -> dict[str, Any] | None:
    """Values of the loss of the last rows against some of the first; None where there are none, or they take long."""
    forest, y = rows.forest, _targets(last)
    used = np.union1d(forest.feature[forest.feature >= 0], forest.linear_feature)
    if y is None or rows.source is not None or not 0 < len(used) <= PLAYERS:
        return None
    rng = np.random.default_rng(seed)
    against, at = (np.sort(rng.permutation(len(of))[:n]) for of, n in ((rows, BACKGROUND), (last, ROWS)))
    at = at[: int(OPERATIONS / (len(against) * forest.n_nodes * forest.n_outputs))]
    if min(len(against), len(at)) < FEWEST:
        return None
    background = placed_background(rows.settled[against], np.ones(len(against), np.int64), forest, None)
    try:
        game = Game(forest, make_players(None, forest), background)
        weight = np.ones(len(at)) if last.exposure is None else last.exposure[at]
        found = score_of_rows(game, rows.names, last.settled[at], y[at], weight)
    except NotImplementedError:  # several outputs, or a link without means
        return None
    order = np.argsort(-found.values, kind="stable")
    columns = {"value": found.values, "error": found.standard_error, "share": found.shares}
    entries = [{"name": rows.names[i]} | {name: float(one[i]) for name, one in columns.items()} for i in order]
    about = {"loss": found.loss, "baseline": found.baseline, "share": found.total / found.baseline}
    return {"features": entries, "rows": len(at), "background": len(against)} | about


def _targets(rows: ReportRows) -> Array | None:
    """Numbers, or places of classes; None where the score has no single target."""
    forest, y = rows.forest, rows.y
    if y is None or len(forest.classes) > 1 or not np.ptp(y) or (forest.classes and not has_probabilities(forest)):
        return None
    if has_probabilities(forest):  # of a Booster y holds numbers, which may be those of classes
        places = np.asarray(y, np.int32)
        return places if (places == y).all() and places.min() >= 0 and places.max() < max(2, forest.n_outputs) else None
    return np.asarray(y, np.float64) if forest.n_outputs == 1 else None
