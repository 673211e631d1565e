"""Sums over pairs of an explained row and a background row, of all whose values are exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.inputs.matching import listed
from glasswood.model.facts import feature_names

if TYPE_CHECKING:
    from glasswood.explain.game import Game
    from glasswood.explain.responses.response import Response

COALITIONS_TOGETHER = 2**21
"""Margins of coalitions that are handed to a response in Python together."""

NO_NUMBERS, NO_SQUARES = np.zeros(0, np.int32), np.zeros(0)


@dataclass(frozen=True)
class Asked:
    """What is computed of a response: its values, pairs of players, or indices of sets.

    Attributes
    ----------
    kind : {"values", "pairs", "shapley", "banzhaf"}
        The last two: of sets.
    shape : tuple of int
        Shape of a row's result, without responses.
    numbers : int32
        For pairs, each player's place or -1; for sets, four players each, padded with -1.
    of_background : bool
        Whether errors of the values say how far another background would move them.
    """

    kind: str
    shape: tuple[int, ...]
    numbers: Int32s
    of_background: bool = False

    @property
    def n_entries(self) -> int:
        """Numbers of a row, of one response."""
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Explained rows.

    Attributes
    ----------
    masks
        The conditions that they do not meet.
    number : int64, (n,)
        Number of each row in the call.
    labels : int32, (n,), or None
    """

    masks: Any
    number: Int64s
    labels: Int32s | None

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Against:
    """Background rows.

    Attributes
    ----------
    masks
        The conditions that they do not meet.
    share : (m,)
    first : int
        Place of the first among all.
    squares : (m,), or (0,)
        Sums of the squared shares of the user's rows, if errors of the background are asked for.
    """

    masks: Any
    share: Doubles
    first: int
    squares: Doubles


class PairSums:
    """Sums over pairs of rows that differ on at most some players.

    Parameters
    ----------
    game : Game
    response : Response
    layout
        The compiled forest.
    most, n_threads : int
        Players on which exact pairs differ, at most.
    """

    def __init__(self, game: Game, response: Response, layout: Any, most: int, n_threads: int) -> None:
        self._game, self._response, self._layout = game, response, layout
        self._most, self._n_threads = most, n_threads

    def __call__(self, rows: MaskedRows, against: Against, asked: Asked, moments: Doubles) -> tuple[Doubles, Int32s]:
        """Sum over the pairs that are exact, (n, entries * r); say on how many players each pair differs, (n, m).

        To moments (4, n, entries * r), or (0,), are added the sums of the pairs' values and of their squares, times
        `squares`; the last two take the least and the largest value.
        """
        if self._response.code is None:
            return self._by_function(rows, against, asked, moments)
        response, share = self._response, against.share
        found = np.empty((len(rows), asked.n_entries * response.n))
        n_differ = np.empty((len(rows), len(share)), np.int32)
        self._layout.sums(
            *(rows.masks, against.masks, share, response.code, response.scale),
            *(NO_NUMBERS if rows.labels is None else rows.labels, asked.numbers, asked.kind, self._most, response.n),
            *(found, n_differ, against.squares, moments, self._n_threads),
        )
        return found, n_differ

    def _by_function(
        self, rows: MaskedRows, against: Against, asked: Asked, moments: Doubles
    ) -> tuple[Doubles, Int32s]:
        """Sum over pairs whose responses are computed in Python."""
        layout, threads, share = self._layout, self._n_threads, against.share
        n_differ = layout.differing(rows.masks, against.masks, threads).reshape(len(rows), len(share))
        is_exact = n_differ <= self._most
        pairs = np.stack(np.nonzero(is_exact), axis=1)
        sizes = np.left_shift(np.int64(1), n_differ[is_exact].astype(np.int64))
        result = np.zeros((len(rows), asked.n_entries * self._response.n))
        for some in _batches(sizes):
            first = np.concatenate([[0], np.cumsum(sizes[some])])
            margins = np.empty((first[-1], self._game.forest.n_outputs))
            of_pairs = rows.masks, against.masks, np.ascontiguousarray(pairs[some]).reshape(-1), first[:-1]
            layout.margins(*of_pairs, self._most, margins, threads)
            labels = None if rows.labels is None else np.repeat(rows.labels[pairs[some, 0]], sizes[some])
            responses = np.ascontiguousarray(self._response(margins, labels))
            self._refuse_infinite(responses, rows, against, pairs[some], first)
            found = np.empty((len(first) - 1, result.shape[1]))
            about = asked.numbers, asked.kind, self._most, self._response.n
            layout.pair_sums(*of_pairs, responses, *about, found, threads)
            np.add.at(result, pairs[some, 0], found * share[pairs[some, 1], None])
            if moments.size:
                squares = against.squares[pairs[some, 1], None]
                np.add.at(moments[0], pairs[some, 0], squares * found)
                np.add.at(moments[1], pairs[some, 0], squares * found**2)
                np.minimum.at(moments[2], pairs[some, 0], found)
                np.maximum.at(moments[3], pairs[some, 0], found)
        return result, n_differ

    def _refuse_infinite(
        self, responses: Doubles, rows: MaskedRows, against: Against, pairs: Int64s, first: Int64s
    ) -> None:
        """Name the first coalition whose response is not a finite number."""
        is_wrong = ~np.isfinite(responses).all(axis=1)
        if not is_wrong.any():
            return
        at = int(is_wrong.argmax())
        pair = int(np.searchsorted(first, at, side="right")) - 1
        d = int(first[pair + 1] - first[pair]).bit_length() - 1
        start = np.zeros(1, np.int64)
        players = self._layout.players(rows.masks, against.masks, pairs[pair], start, d, self._n_threads)
        names = self._game.players.names or feature_names(self._game.forest)
        known = [names[player] for i, player in enumerate(players.tolist()) if (at - int(first[pair])) >> i & 1]
        raise ValueError(
            f"output {self._response.name} is {responses[at].tolist()} where row {rows.number[pairs[pair, 0]]} has its "
            f"own {listed(known) if known else 'values of no feature'} and the other values of a background row; "
            "expected finite numbers"
        )


def _batches(sizes: Int64s) -> Iterator[slice]:
    """Split pairs into runs whose coalitions fit into memory together."""
    first, total = 0, 0
    for at, size in enumerate(sizes.tolist()):
        if total and total + size > COALITIONS_TOGETHER:
            yield slice(first, at)
            first, total = at, 0
        total += size
    if total:
        yield slice(first, len(sizes))
