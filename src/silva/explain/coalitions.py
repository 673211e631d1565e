"""Exact Shapley values of any response of the margins against a background.

A coalition of features has the response of a hybrid: the explained row's values for its own features, those of a
background row for the others. For one pair of rows, each tree's leaves say for which coalitions they are reached; the
margins of all 2^d coalitions of the d features on which the rows differ follow by one transform, and any response of
them by its formula (native/explain/coalitions/cube.h). The values are the mean over the background rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.explain.background import Background, margins_of
from silva.explain.coalition_responses import make_response, places_of_labels
from silva.explain.condensed import merged, settled, stand_ins
from silva.explain.cpu import checked_result
from silva.parallel import cached_property, n_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from silva.explain.players import Players
    from silva.forest import Forest
    from silva.typing import Array, Doubles, Int32s, Int64s

MOST = 20
"""Features on which two rows may differ for their values to be exact: a million coalitions."""

MASK_BYTES = 2**27
"""Bytes of the masks of rows that are explained together, and of background rows."""

COALITIONS_TOGETHER = 2**21
"""Margins of coalitions that are handed to a response in Python together."""

NO_NUMBERS = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Asked:
    """What is computed of a response: its values, pairs of players, or indices of sets.

    Attributes
    ----------
    kind : {"values", "pairs", "shapley", "banzhaf"}
        The last two: of sets.
    shape : tuple of int
        Of a row's result, without responses.
    numbers : int32
        Of pairs, each player's place or -1; of sets, four players each, padded with -1.
    """

    kind: str
    shape: tuple[int, ...]
    numbers: Int32s


class CoalitionExplainer:
    """What CpuExplainer is for the margin.

    Parameters
    ----------
    forest : Forest
    output : str or callable
        "probability", "log_loss", "response", "decision", or a function of margins (N, k) that returns (N,) or (N, r).
    dtype : {"float32", "float64"}
        Of the results; all arithmetic is float64, and that of margins exact.
    n_jobs : int or None
    background : Background
    players : Players
    """

    has_tables, table_bytes, whole_tables = False, 0, None

    def __init__(
        self, forest: Forest, output: Any, dtype: str, n_jobs: int | None, background: Background, players: Players
    ) -> None:
        self.forest, self.dtype, self.n_jobs, self.players = forest, dtype, n_jobs, players
        self.response = make_response(output, forest)
        self.background = background if forest.has_linear_leaves else merged(background, forest)

    @property
    def expected_value(self) -> Doubles:
        """Mean response of the background, (n,); of a loss, for each label."""
        return self._expected

    @cached_property
    def _expected(self) -> Doubles:
        background = self.background
        margins = margins_of(self.forest, background.rows, self.n_jobs)
        labels = range(self.response.n_classes) if self.response.takes_labels else [None]
        n = len(margins)
        found = [self.response(margins, None if one is None else np.full(n, one, np.int32)) for one in labels]
        return np.average(np.concatenate(found, axis=1), axis=0, weights=background.weight.astype(np.float64))

    def prepare(self) -> None:
        """Lay the forest out."""
        _ = self._game

    def values(self, rows: Array, out: Array | None = None, y: ArrayLike | None = None) -> Array:
        """Values of rows that `as_rows` made: (n, P) or (n, P, r)."""
        return self._explain(rows, Asked("values", (self.players.n,), NO_NUMBERS), out, y)

    def interactions(self, rows: Array, places: Int32s, out: Array | None = None, y: ArrayLike | None = None) -> Array:
        """Interaction values, (n, m, P) or (n, m, P, r); places[p] is player p's place among the m, or -1."""
        shape = int(places.max(initial=-1)) + 1, self.players.n
        return self._explain(rows, Asked("pairs", shape, places), out, y)

    def indices(
        self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array | None = None, y: ArrayLike | None = None
    ) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets) or (n, n_sets, r)."""
        kind = "banzhaf" if is_banzhaf else "shapley"
        return self._explain(rows, Asked(kind, (len(sets),), sets.reshape(-1)), out, y)

    @cached_property
    def _game(self) -> Any:
        return _core.CoalitionForest(self.forest, self.players.of_feature)

    def _explain(self, rows: Array, asked: Asked, out: Array | None, y: ArrayLike | None) -> Array:
        places = None
        if self.response.takes_labels:
            places = places_of_labels(y, len(rows), self.response, self.forest)
        shape = (len(rows), *asked.shape, *([self.response.n] if self.response.n > 1 else []))
        result = checked_result(shape, self.dtype, rows, out)
        distinct, some_places, place = self._distinct(rows, places)
        found = np.concatenate([*self._by_chunk(distinct, some_places, asked)])
        result[...] = found.reshape(-1, *shape[1:])[place]
        return result

    def _distinct(self, rows: Array, places: Int32s | None) -> tuple[Array, Int32s | None, Any]:
        """Rows that differ for the forest or in their label, and the place of each row among them."""
        if len(rows) < 2 or self.forest.has_linear_leaves:
            return rows, places, slice(None)
        classes = [
            np.unique(column, return_inverse=True)[1]
            for column in (*stand_in_columns(rows, self.forest), *([] if places is None else [places]))
        ]
        _, first, place = np.unique(np.stack(classes, axis=1), axis=0, return_index=True, return_inverse=True)
        return rows[first], None if places is None else places[first], place.reshape(-1)

    def _by_chunk(self, rows: Array, places: Int32s | None, asked: Asked) -> Iterator[Doubles]:
        """Results of some rows after the other: (n, entries * r)."""
        n_entries = int(np.prod(asked.shape)) * self.response.n
        size = max(1, min(MASK_BYTES // max(1, self._game.row_bytes), MASK_BYTES // (8 * max(1, n_entries)), 1024))
        if not len(rows):
            yield np.zeros((0, n_entries))
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            of_some = None if places is None else places[first : first + size]
            total = np.zeros((len(some), n_entries))
            for background in self._background_chunks():
                total += self._against(some, of_some, background, asked)
            yield total

    def _background_chunks(self) -> Iterator[tuple[Any, Doubles, int]]:
        """Masks of background rows, their shares, and where they begin."""
        if self._kept_masks is not None:
            yield self._kept_masks, self._share, 0
            return
        size = max(1, MASK_BYTES // self._game.row_bytes)
        for first in range(0, len(self.background.rows), size):
            some = slice(first, first + size)
            yield self._masks(self.background.rows[some]), self._share[some], first

    @cached_property
    def _share(self) -> Doubles:
        return self.background.weight / self.background.total

    @cached_property
    def _kept_masks(self) -> Any:
        """Masks of the background if they are small."""
        is_small = len(self.background.rows) * self._game.row_bytes <= MASK_BYTES
        return self._masks(self.background.rows) if is_small else None

    def _masks(self, rows: Array) -> Any:
        return self._game.rows(rows, n_threads(self.n_jobs))

    def _against(
        self, rows: Array, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> Doubles:
        masks, share, _ = background
        masked = self._masks(rows)
        if self.response.code is None:
            return self._by_function(masked, len(rows), places, background, asked)
        n_entries = int(np.prod(asked.shape)) * self.response.n
        found, n_differ = np.empty((len(rows), n_entries)), np.empty((len(rows), len(share)), np.int32)
        self._game.sums(
            *(masked, masks, share, self.response.code, self.response.scale),
            *(NO_NUMBERS if places is None else places, asked.numbers, asked.kind, MOST, self.response.n),
            *(found, n_differ, n_threads(self.n_jobs)),
        )
        self._refuse_many(n_differ)
        return found

    def _by_function(
        self, masked: Any, n_rows: int, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> Doubles:
        """Sum over pairs whose responses are computed in Python."""
        masks, share, first_background = background
        n_differ = self._game.differing(masked, masks, n_threads(self.n_jobs)).reshape(n_rows, len(share))
        self._refuse_many(n_differ)
        pairs = np.stack(np.divmod(np.arange(n_differ.size), len(share)), axis=1)
        sizes = np.left_shift(np.int64(1), n_differ.reshape(-1).astype(np.int64))
        result = np.zeros((n_rows, int(np.prod(asked.shape)) * self.response.n))
        for some in _batches(sizes):
            first = np.concatenate([[0], np.cumsum(sizes[some])])
            margins = np.empty((first[-1], self.forest.n_outputs))
            of_pairs = masked, masks, np.ascontiguousarray(pairs[some]).reshape(-1), first[:-1]
            self._game.margins(*of_pairs, MOST, margins, n_threads(self.n_jobs))
            labels = None if places is None else np.repeat(places[pairs[some, 0]], sizes[some])
            responses = np.ascontiguousarray(self.response(margins, labels))
            self._refuse_infinite(responses, pairs[some], first, first_background)
            found = np.empty((len(first) - 1, result.shape[1]))
            about = asked.numbers, asked.kind, MOST, self.response.n
            self._game.pair_sums(*of_pairs, responses, *about, found, n_threads(self.n_jobs))
            np.add.at(result, pairs[some, 0], found * share[pairs[some, 1], None])
        return result

    def _refuse_many(self, n_differ: Array) -> None:
        if n_differ.max(initial=0) > MOST:
            raise NotImplementedError(f"rows differ on {n_differ.max()} features, at most {MOST} are exact")

    def _refuse_infinite(self, responses: Doubles, pairs: Int64s, first: Int64s, first_background: int) -> None:
        """Name the first coalition whose response is not a finite number."""
        is_wrong = ~np.isfinite(responses).all(axis=1)
        if not is_wrong.any():
            return
        at = int(is_wrong.argmax())
        pair = int(np.searchsorted(first, at, side="right")) - 1
        row, other = pairs[pair].tolist()
        size = int(at - first[pair]).bit_count()
        raise ValueError(
            f"output {self.response.name} is {responses[at].tolist()} for a coalition of {size} features of row {row} "
            f"against background row {other + first_background}; expected finite numbers"
        )


def stand_in_columns(rows: Array, forest: Forest) -> list[Array]:
    """Columns in which rows of equal values go the same ways at every split."""
    values = settled(rows, forest)
    return [stand_ins(forest, feature, values[:, feature]) for feature in range(forest.n_features)]


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
