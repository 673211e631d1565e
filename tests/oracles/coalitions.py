"""Games of any response of the margins, by predicting the hybrid of every coalition, in float64.

A coalition S of players has the mean, over the background rows by weight, of the response of rows that have the values
of the explained row for the features of S and those of the background row for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles import interventional, shapley
from tests.oracles.players import members

if TYPE_CHECKING:
    Floats = NDArray[np.float64]


def game(respond: Callable[..., Any], X: Any, background: Any, player_of: Any, weight: Any = None) -> Floats:
    """Value of each coalition, (n_rows, 2^P, r); respond(rows, place of the explained row) returns (N,) or (N, r)."""
    weight = np.ones(len(background)) if weight is None else np.asarray(weight, np.float64)
    knows = members(player_of)[:, player_of]
    games = []
    for place, row in enumerate(np.asarray(X)):
        hybrids = np.where(knows[None], row, np.asarray(background)[:, None])
        found = np.asarray(respond(hybrids.reshape(-1, len(row)), place), np.float64)
        of_rows = found.reshape(len(background), len(knows), -1)
        games.append(np.einsum("bsr,b->sr", of_rows, weight / weight.sum()))
    return np.stack(games)


def values(played: Floats) -> Floats:
    """Shapley values, (n_rows, P, r)."""
    return np.stack(list(interventional.index(played, 1).values()), axis=1)


def interactions(played: Floats) -> Floats:
    """Half of each pair's index, (n_rows, P, P, r), main effects on the diagonal."""
    phi = values(played)
    result = np.zeros((*phi.shape[:2], *phi.shape[1:]))
    for (i, j), one in interventional.index(played, 2).items():
        result[:, i, j] = result[:, j, i] = one / 2
    return shapley._with_diagonal(result, phi)
