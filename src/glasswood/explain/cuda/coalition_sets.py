"""What jobs of exact responses on a GPU sum over pairs of rows: players or sets of them, and their weights."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from glasswood.base.typing import Array, Doubles, Int32s

NARROW, MOST_ORDER, WEIGHTS = 32, 4, 34
"""Players that have bits of their own, at most (of more: differing.cuh), on as many of which pairs differ; players of a
set; numbers of a row of the tables of weights, as in explain_pairs.cu."""

NO_PLAYER = 2**16 - 1
"""In a wide set, as in differing.cuh."""


class Wanted(NamedTuple):
    """What a job sums over pairs of rows, and where these numbers go in a row's result.

    Attributes
    ----------
    sets : uint32 or uint64, (n,), or None
        The players of each set (`wanted_sets`); None: values of the players that have bits.
    n : int
        Numbers of a response.
    number : int32, (entries,)
        -1 where no leaf asks for a player.
    weights : (33, 34, 2), of sets (33, 5, 34)
        By the players on which the rows differ: `weights_of_sizes`, of sets `weights_of_sets`.
    """

    sets: Any
    n: int
    number: Int32s
    weights: Doubles


def wanted_sets(bit: Int32s, sets: Int32s, weights: Doubles) -> Wanted:
    """Give each set of players (n, up to 4), padded with -1, a number; a player named twice counts once."""
    is_used = ((sets < 0) | (bit[sets] >= 0)).all(axis=1)
    keys = (wide_sets if bit.max(initial=-1) >= NARROW else narrow_sets)(bit, sets[is_used])
    distinct, place = np.unique(keys, return_inverse=True)
    number = np.full(len(sets), -1, np.int32)
    number[is_used] = place.reshape(-1)
    return Wanted(distinct, len(distinct), number, weights)


def narrow_sets(bit: Int32s, sets: Int32s) -> Array:
    """Bits of the players of each set, uint32."""
    bits = np.where(sets < 0, 0, np.left_shift(np.uint32(1), np.maximum(bit[sets], 0).astype(np.uint32)))
    return np.asarray(np.bitwise_or.reduce(bits.astype(np.uint32), axis=1))


def wide_sets(bit: Int32s, sets: Int32s) -> Array:
    """Numbers of the players of each set, four of 16 bits in a uint64, `NO_PLAYER` for none."""
    numbers = np.full((len(sets), MOST_ORDER), NO_PLAYER, np.uint16)
    numbers[:, : sets.shape[1]] = np.where(sets < 0, NO_PLAYER, bit[sets])
    numbers.sort(axis=1)
    numbers[:, 1:][numbers[:, 1:] == numbers[:, :-1]] = NO_PLAYER
    numbers.sort(axis=1)
    return numbers.view(np.uint64).reshape(-1)


def weights_of_sizes() -> Doubles:
    """Shapley's weights (w(s - 1) + w(s), w(s)) of coalitions of s among d players: [d][s][2]."""
    result = np.zeros((NARROW + 1, WEIGHTS, 2))
    for d in range(1, NARROW + 1):
        w = np.array([1 / (d * math.comb(d - 1, s)) for s in range(d)])
        result[d, :d, 1] = w
        result[d, : d + 1, 0] = np.append(w, 0) + np.append(0, w)
    return result


def weights_of_sets(is_banzhaf: bool = False, of_pair: float = 1.0) -> Doubles:
    """Weights of coalitions of s players beside a set of r, among d: [d][r][s]; those of pairs times a factor."""
    result = np.zeros((NARROW + 1, MOST_ORDER + 1, WEIGHTS))
    for d in range(1, NARROW + 1):
        for r in range(1, min(d, MOST_ORDER) + 1):
            n = d - r
            w = [0.5**n if is_banzhaf else 1 / ((n + 1) * math.comb(n, s)) for s in range(n + 1)]
            result[d, r, : n + 1] = np.array(w) * (of_pair if r == 2 else 1)
    return result
