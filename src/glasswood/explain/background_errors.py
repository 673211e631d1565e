"""Standard errors of values against a background: how far another background of this size would move them.

Background rows count as independent draws. Where pairs of rows are explained one by one, the spread of a row's values
over the background rows is known (responses/coalitions.py). Tables know only means: they are made of batches of the
background, and the spread of the batches' means says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.explain.background import Background, merged

if TYPE_CHECKING:
    from glasswood.explain.game import Game

BATCHES = 50
"""Batches of a background, at most: errors of their spread have as many degrees of freedom, less one."""

SEED = 20261128


def batches(game: Game) -> Iterator[tuple[float, Game]]:
    """Deal the background rows to batches: the share of each, and the game against it.

    Rows that the forest cannot tell apart are dealt one by one, in an order of their values, so that neither the order
    of the rows nor a file changes errors.
    """
    assert game.background is not None
    whole = game.background if game.forest.has_linear_leaves else merged(game.background, game.forest)
    copies = np.maximum(1, np.rint(whole.n_given)).astype(np.int64)
    of_copy = whole.weight / copies
    dealt = np.random.default_rng(SEED).permutation(np.repeat(np.arange(len(copies)), copies))
    for part in np.array_split(dealt, min(BATCHES, len(dealt))):
        states, n = np.unique(part, return_counts=True)
        weight = np.maximum(1, np.rint(of_copy[states] * n)).astype(np.int64)
        batch = Background(whole.rows[states], weight, int(weight.sum()), whole.expected_value, n.astype(np.float64))
        yield float(weight.sum()) / whole.total, replace(game, background=batch)


def spread_of_batches(game: Game, explain: Callable[[Game], Any], mean: Any) -> Any:
    """Compute standard errors of a mean over the background, of which `explain` returns a batch's; NaN for one batch.

    One further batch counts, as far off as the farthest: spreads of few, skewed numbers are too small in most samples.
    Arrays are those of the rows' library, of which operators alone are used.
    """
    variance, farthest, n = 0 * mean, 0 * mean, 0
    for share, of_batch in batches(game):
        squared = (share * (explain(of_batch) - mean)) ** 2
        variance, n = variance + squared, n + 1
        farthest = farthest + (squared - farthest) * (squared > farthest)
    return (variance * (n / (n - 1)) + farthest) ** 0.5 if n > 1 else mean * np.nan
