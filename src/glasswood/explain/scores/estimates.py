"""Estimates of a score's Shapley values where the forest tests too many features for all coalitions.

Features join in random orders, each order also backwards (antithetic pairs). A row's loss is that of its *mean* output,
so all background rows see the same orders. The control variate is the margin's linear part: slopes of the loss by the
mean margin, fitted to the first order alone, times the margin's values, which are exact. `Estimate` has the rest, with
errors for steep losses (responses/permutations.py).

Orders depend on the row and its target: not on what is explained together.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from glasswood.base.typing import Array, Doubles, Int32s
from glasswood.explain.responses.permutations import UNSEEN, Estimate

SEED = 20261128

FIRST, MOST = 32, 512
"""Initial and maximum number of orders of a row; each is also used in reverse."""

TOLERANCE = 0.05
"""Largest standard error of a row's value, relative to the range of its losses; means over rows are far below."""

NUMBERS = 2**22
"""Margins of orders that are computed together."""

NO_VALUES = np.zeros((0, 0, 0))


class Chains(NamedTuple):
    """Mean margins and outputs of a row while players join.

    Attributes
    ----------
    layout
        The compiled forest.
    respond : callable
        Maps margins (N, k) to outputs (N, k).
    n_players, n_outputs, n_threads : int
    background : masks, or None
        None: path-dependent margins.
    share : float64, (m,)
    """

    layout: Any
    respond: Callable[[Doubles], Doubles]
    n_players: int
    n_outputs: int
    n_threads: int
    background: Any
    share: Doubles

    @property
    def players(self) -> Int32s:
        """Players that the forest asks for, (d,)."""
        found: Int32s = self.layout.bit_players()
        return found

    def __call__(self, masks: Any, orders: Array) -> tuple[Doubles, Doubles]:
        """Compute mean margins and mean outputs (chains, d + 1, k); orders (chains, d) are numbers of `players`."""
        joining = self.players[orders]
        if self.background is None:
            margins = self._path_dependent(masks, joining)
            return margins, self.respond(margins.reshape(-1, self.n_outputs)).reshape(margins.shape)
        margins = self._of_pairs(masks, joining)
        outputs = self.respond(margins.reshape(-1, self.n_outputs)).reshape(margins.shape)
        return np.tensordot(self.share, margins, axes=1), np.tensordot(self.share, outputs, axes=1)

    def _path_dependent(self, masks: Any, joining: Int32s) -> Doubles:
        ranks = np.full((len(joining), self.n_players), -1, np.int32)
        np.put_along_axis(ranks, joining, np.arange(joining.shape[1], dtype=np.int32)[None], axis=1)
        margins = np.empty((len(joining), joining.shape[1] + 1, self.n_outputs))
        self.layout.path_chains(masks, ranks, len(joining), margins, self.n_threads)
        return margins

    def _of_pairs(self, masks: Any, joining: Int32s) -> Doubles:
        """Margins (m, chains, d + 1, k): of a pair, only players on which its rows differ change them."""
        m, n_chains, k = len(self.share), len(joining), self.n_outputs
        pairs = np.stack([np.zeros(m, np.int64), np.arange(m)], axis=1).reshape(-1)
        n_differ = self.layout.differing(masks, self.background, self.n_threads)
        starts = np.concatenate([[0], np.cumsum(n_differ, dtype=np.int64)])
        found = self.layout.players(masks, self.background, pairs, starts[:-1], int(starts[-1]), self.n_threads)
        differs = np.zeros((m, self.n_players), np.bool_)
        differs[np.repeat(np.arange(m), n_differ), found] = True
        joins = differs[:, joining]
        joined = np.cumsum(joins, axis=2, dtype=np.int32)
        ranks = np.full((m, n_chains, self.n_players), -1, np.int32)
        np.put_along_axis(ranks, np.broadcast_to(joining, joins.shape), np.where(joins, joined - 1, -1), axis=2)
        first = np.concatenate([[0], np.cumsum(n_chains * (n_differ.astype(np.int64) + 1))])
        margins = np.empty((int(first[-1]), k))
        self.layout.chains(
            masks, self.background, pairs, first[:-1], ranks, n_chains, margins, NO_VALUES, self.n_threads
        )
        place = np.concatenate([np.zeros((m, n_chains, 1), np.int64), joined], axis=2)
        place += first[:-1, None, None] + np.arange(n_chains)[:, None] * (n_differ[:, None, None] + 1)
        by_coalition: Doubles = margins[place]
        return by_coalition


def estimated(
    chains: Chains, row: Array, target: Any, lose: Callable[[Doubles], Doubles], known: Doubles
) -> tuple[Doubles, Doubles, float]:
    """Estimate what players change of a row's loss.

    Parameters
    ----------
    chains : Chains
    row : (F,)
    target : scalar
    lose : callable
        Maps outputs (N, k) to losses (N,).
    known : float64, (P, k)
        Exact values of the row's margin.

    Returns
    -------
    values, variance : (P,)
        Of the loss's reduction, and of its estimate.
    without : float
        Loss without any feature.
    """
    players = chains.players
    d = len(players)
    generator = np.random.default_rng(
        [SEED, zlib.crc32(np.ascontiguousarray(row).tobytes()), zlib.crc32(bytes(target))]
    )
    masks = chains.layout.rows(row[None], chains.n_threads)

    def computed(n: int) -> tuple[Array, Doubles, Doubles]:
        forth = generator.permuted(np.tile(np.arange(d), (n, 1)), axis=1)
        orders = np.stack([forth, forth[:, ::-1]], axis=1).reshape(2 * n, d)
        margins, outputs = chains(masks, orders)
        losses = lose(outputs.reshape(-1, chains.n_outputs)).reshape(margins.shape[:2])
        return orders, margins, -losses

    _, margins, gains = computed(1)
    design = np.column_stack([np.ones(gains.size), margins.reshape(gains.size, -1)])
    slopes = np.asarray(np.linalg.lstsq(design, gains.reshape(-1, 1), rcond=1e-10)[0][1:], np.float64)
    zeros, none = np.zeros((d, 1)), np.zeros(1)
    one = Estimate(players, slopes, known[players] @ slopes, 0, zeros, zeros.copy(), np.zeros(d), none, none)
    tolerance = TOLERANCE * float(np.ptp(gains))
    together = max(1, NUMBERS // (2 * len(chains.share) * (d + 1) * chains.n_outputs))
    variance = np.full((d, 1), np.inf)
    while np.sqrt(variance).max(initial=0) > tolerance and one.n < MOST:
        wanted = max(FIRST, one.n)
        for first in range(0, wanted, together):
            _add(one, *computed(min(together, wanted - first)))
        unseen = np.minimum(one.farthest, one.moved[:, None] * one.steepest) / (2 * one.n)
        variance = one.variance + UNSEEN * unseen**2
    result = np.zeros((2, chains.n_players))
    result[0, players], result[1, players] = one.values[:, 0], variance[:, 0]
    return result[0], result[1], -float(gains[0, 0])


def _add(one: Estimate, orders: Array, margins: Doubles, gains: Doubles) -> None:
    changes = np.diff(gains - (margins @ one.slopes)[:, :, 0], axis=1)[:, :, None]
    moved, place = np.abs(np.diff(margins, axis=1)).sum(axis=2), np.argsort(orders, axis=1)
    one.note(moved, changes)
    one.moved = np.maximum(one.moved, np.take_along_axis(moved, place, axis=1).max(axis=0))
    by_player = np.take_along_axis(changes, place[:, :, None], axis=1)
    one.add((by_player[0::2] + by_player[1::2]) / 2)
