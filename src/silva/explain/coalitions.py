"""Exact Shapley values of any response of the margins against a background.

A coalition of features has the response of a hybrid: the explained row's values for its own features, those of a
background row for the others. For one pair of rows, each tree's leaves say for which coalitions they are reached; the
margins of all 2^d coalitions of the d features on which the rows differ follow by one transform, and any response of
them by its formula (native/explain/coalitions/cube.h). The values are the mean over the background rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.explain.background import Background, margins_of
from silva.explain.coalition_responses import make_response, places_of_labels
from silva.explain.cpu import checked_result
from silva.explain.permutations import EstimateWarning, Pairs, estimate
from silva.explain.stored import condense, expand, settled, stand_ins
from silva.parallel import cached_property, n_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from silva.explain.players import Players
    from silva.forest import Forest
    from silva.typing import Array, Doubles, Int32s, Int64s

MOST = 20
"""Features on which two rows may differ for their values to be exact: a million coalitions."""

TOLERANCE = 0.01

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
    most : int
        Players on which a pair of rows may differ for its values to be exact; beyond, they are estimated.
    tolerance : float
        Largest standard error of estimated values, relative to the mean distance of responses from the background's.
    """

    has_tables, table_bytes, whole_tables = False, 0, None

    def __init__(
        self,
        forest: Forest,
        output: Any,
        dtype: str,
        n_jobs: int | None,
        background: Background,
        players: Players,
        most: int = MOST,
        tolerance: float = TOLERANCE,
    ) -> None:
        self.most, self.tolerance = most, tolerance
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
        found, errors = self.values_and_errors(rows, out, y)
        if largest := errors.max(initial=0):
            rows_estimated = int((errors.reshape(len(rows), -1).max(axis=1) > 0).sum())
            warnings.warn(
                f"{rows_estimated} of {len(rows)} rows differ from background rows on more than {self.most} features: "
                f"their values are estimates with standard errors of up to {largest:.2g}; ask for them by "
                "standard_errors=True, pass groups of features, or rule='rescale'",
                EstimateWarning,
                stacklevel=2,
            )
        return found

    def values_and_errors(
        self, rows: Array, out: Array | None = None, y: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Values, and their standard errors, 0 where they are exact: (n, P) or (n, P, r) both."""
        return self._explain(rows, Asked("values", (self.players.n,), NO_NUMBERS), out, y)

    def interactions(self, rows: Array, places: Int32s, out: Array | None = None, y: ArrayLike | None = None) -> Array:
        """Interaction values, (n, m, P) or (n, m, P, r); places[p] is player p's place among the m, or -1."""
        shape = int(places.max(initial=-1)) + 1, self.players.n
        return self._explain(rows, Asked("pairs", shape, places), out, y)[0]

    def indices(
        self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array | None = None, y: ArrayLike | None = None
    ) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets) or (n, n_sets, r)."""
        kind = "banzhaf" if is_banzhaf else "shapley"
        return self._explain(rows, Asked(kind, (len(sets),), sets.reshape(-1)), out, y)[0]

    @cached_property
    def _game(self) -> Any:
        return _core.CoalitionForest(self.forest, self.players.of_feature)

    def _explain(self, rows: Array, asked: Asked, out: Array | None, y: ArrayLike | None) -> tuple[Array, Array]:
        places = None
        if self.response.takes_labels:
            places = places_of_labels(y, len(rows), self.response, self.forest)
        shape = (len(rows), *asked.shape, *([self.response.n] if self.response.n > 1 else []))
        result = checked_result(shape, self.dtype, rows, out)
        distinct, some_places, place = self._distinct(rows, places)
        parts = list(self._by_chunk(distinct, some_places, asked))
        found, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        result[...] = found.reshape(-1, *shape[1:])[place]
        errors = np.sqrt(variance).astype(self.dtype) if asked.kind == "values" else variance
        return result, errors.reshape(-1, *shape[1:])[place] if asked.kind == "values" else errors

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

    def _by_chunk(self, rows: Array, places: Int32s | None, asked: Asked) -> Iterator[tuple[Doubles, Doubles]]:
        """Results of some rows after the other, (n, entries * r), and the variances of values."""
        n_entries = int(np.prod(asked.shape)) * self.response.n
        n_errors = n_entries if asked.kind == "values" else 0
        size = max(1, min(MASK_BYTES // max(1, self._game.row_bytes), MASK_BYTES // (8 * max(1, n_entries)), 1024))
        for first in range(0, max(1, len(rows)), size):
            some = rows[first : first + size]
            of_some = None if places is None else places[first : first + size]
            total, variance = np.zeros((len(some), n_entries)), np.zeros((len(some), n_errors))
            masked = self._masks(some)
            for against in self._background_chunks():
                part, n_differ = self._against(masked, len(some), of_some, against, asked)
                total += part
                if (n_differ > self.most).any():
                    self._add_estimates(masked, of_some, against, asked, n_differ, total, variance)
            yield total, variance

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
        self, masked: Any, n_rows: int, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> tuple[Doubles, Int32s]:
        """Sum over the pairs that are exact; say on how many players each pair differs."""
        masks, share, _ = background
        if self.response.code is None:
            return self._by_function(masked, n_rows, places, background, asked)
        n_entries = int(np.prod(asked.shape)) * self.response.n
        found, n_differ = np.empty((n_rows, n_entries)), np.empty((n_rows, len(share)), np.int32)
        self._game.sums(
            *(masked, masks, share, self.response.code, self.response.scale),
            *(NO_NUMBERS if places is None else places, asked.numbers, asked.kind, self.most, self.response.n),
            *(found, n_differ, n_threads(self.n_jobs)),
        )
        return found, n_differ

    def _by_function(
        self, masked: Any, n_rows: int, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> tuple[Doubles, Int32s]:
        """Sum over pairs whose responses are computed in Python."""
        masks, share, first_background = background
        n_differ = self._game.differing(masked, masks, n_threads(self.n_jobs)).reshape(n_rows, len(share))
        pairs = np.stack(np.nonzero(n_differ <= self.most), axis=1)
        sizes = np.left_shift(np.int64(1), n_differ[n_differ <= self.most].astype(np.int64))
        result = np.zeros((n_rows, int(np.prod(asked.shape)) * self.response.n))
        for some in _batches(sizes):
            first = np.concatenate([[0], np.cumsum(sizes[some])])
            margins = np.empty((first[-1], self.forest.n_outputs))
            of_pairs = masked, masks, np.ascontiguousarray(pairs[some]).reshape(-1), first[:-1]
            self._game.margins(*of_pairs, self.most, margins, n_threads(self.n_jobs))
            labels = None if places is None else np.repeat(places[pairs[some, 0]], sizes[some])
            responses = np.ascontiguousarray(self.response(margins, labels))
            self._refuse_infinite(responses, pairs[some], first, first_background)
            found = np.empty((len(first) - 1, result.shape[1]))
            about = asked.numbers, asked.kind, self.most, self.response.n
            self._game.pair_sums(*of_pairs, responses, *about, found, n_threads(self.n_jobs))
            np.add.at(result, pairs[some, 0], found * share[pairs[some, 1], None])
        return result, n_differ

    def _add_estimates(
        self,
        masked: Any,
        places: Int32s | None,
        background: tuple[Any, Doubles, int],
        asked: Asked,
        n_differ: Int32s,
        total: Doubles,
        variance: Doubles,
    ) -> None:
        """Add what is estimated, row by row, and its variances."""
        if asked.kind != "values" or self.forest.has_linear_leaves:
            what = "linear leaves" if self.forest.has_linear_leaves else "interactions"
            raise NotImplementedError(
                f"{what} of output {self.response.name} are exact up to {self.most} features on which two rows differ, "
                f"these differ on {n_differ.max()}; pass groups of features, or rule='rescale'"
            )
        masks, share, first = background
        for row in np.flatnonzero((n_differ > self.most).any(axis=1)).tolist():
            others = np.flatnonzero(n_differ[row] > self.most)
            pairs = np.stack([np.full(len(others), row), others], axis=1)
            labels = None if places is None else np.full(len(others), places[row], np.int32)
            of_rows = self._game, masked, masks, pairs, share[others], others + first, labels
            of = Pairs(*of_rows, self.players.n, self.forest.n_outputs, n_threads(self.n_jobs), n_differ[row, others])
            values, of_values = estimate(of, self.response, self.tolerance)
            total[row] += values.reshape(-1)
            variance[row] += of_values.reshape(-1)

    def _refuse_infinite(self, responses: Doubles, pairs: Int64s, first: Int64s, first_background: int) -> None:
        """Name the first coalition whose response is no finite number."""
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


def merged(background: Background, forest: Forest) -> Background:
    """Background rows that the forest's splits cannot tell apart, as one row with the sum of their weights."""
    found = expand(condense(background, forest), background.expected_value)
    return Background(found.rows, found.weight, background.total, background.expected_value)


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
