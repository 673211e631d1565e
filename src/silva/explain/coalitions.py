"""Exact Shapley values of any response of the margins against a background.

A coalition of features has the response of a hybrid: the explained row's values for its own features, those of a
background row for the others. For one pair of rows, each tree's leaves say for which coalitions they are reached; the
margins of all 2^d coalitions of the d features on which the rows differ follow by one transform, and any response of
them by its formula (native/explain/coalitions/cube.h). The values are the mean over the background rows.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from silva import _core
from silva.explain.background import Background, margins_of, mean
from silva.explain.coalition_responses import make_response
from silva.explain.condensed import merged, settled, stand_ins
from silva.explain.cpu import checked_result
from silva.explain.permutations import EstimateWarning, Pairs, estimate
from silva.explain.response_costs import PROBED, could_be_long, seconds_of, warn_of_cost
from silva.parallel import cached_property, n_threads
from silva.progress import counting_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from silva.ensemble import TreeEnsemble
    from silva.explain.game import Game, Settings
    from silva.inputs.placed import PlacedRows
    from silva.typing import Array, Doubles, Int32s, Int64s

MOST = 20
"""Features on which two rows may differ for their values to be exact: a million coalitions."""

TOLERANCE = 0.01
"""Largest standard error of what is estimated, relative to the mean distance of responses from the background's."""

GPU_PLAYERS = 32
"""Bits of a mask on a GPU."""

TOLD_SECONDS = 0.5
"""Estimated time between two steps of progress."""

MASK_BYTES, CUBE_BYTES = 2**27, 2**31
"""Bytes of the masks of rows that are explained together, and of background rows; of a thread for the margins of all
coalitions of a pair."""

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
    """Explains responses of the margin exactly, on the CPU: what CpuExplainer is for the margin.

    Parameters
    ----------
    game : Game
        Of the margin, against background rows.
    settings : Settings
        The dtype is that of the results; all arithmetic is float64, and that of margins exact.

    Attributes
    ----------
    response : Response
    background : Background
        Rows that the forest's splits cannot tell apart are one.
    most, tolerance : int, float
        Players on which a pair of rows may differ for its values to be exact. Others are estimated: the largest
        standard error, relative to the mean distance of responses from the background's.
    """

    has_tables, n_bytes, whole_tables = False, 0, None

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings, self.tolerance = game, settings, TOLERANCE
        background = cast("Background", game.background)
        self.response = make_response(settings.output, game.forest)
        self.most = most_players(max(game.forest.n_outputs, self.response.n))
        self.background = background if game.forest.has_linear_leaves else merged(background, game.forest)

    def __reduce__(self) -> tuple[Any, ...]:
        return CoalitionExplainer, (self.game, self.settings)

    @property
    def n_outputs(self) -> int:
        """Numbers that are explained of a row."""
        return self.response.n

    @property
    def expected_value(self) -> Doubles:
        """Mean response of the background, (n,); of a loss, for each label."""
        return self._expected

    @cached_property
    def _expected(self) -> Doubles:
        margins = margins_of(self.game.forest, self.background.rows, self.settings.n_jobs)
        labels = range(self.response.n_classes) if self.response.takes_labels else [None]
        n = len(margins)
        found = [self.response(margins, None if one is None else np.full(n, one, np.int32)) for one in labels]
        return np.array([mean(of_output, self.background.weight) for of_output in np.concatenate(found, axis=1).T])

    @property
    def cpu_only(self) -> str:
        """Name what GPUs do not explain, if this is it."""
        if self.response.code is None:
            return f"exact values of output {self.response.name}"
        if self.game.forest.has_linear_leaves:
            return "exact responses of linear leaves"
        return "exact responses of more than 32 features" if self.layout.n_used > GPU_PLAYERS else ""

    def prepare(self) -> None:
        """Lay the forest out, and find the background's masks."""
        _ = self._kept_masks

    def values(self, rows: PlacedRows, out: Array | None = None) -> Array:
        """Values of rows: (n, P) or (n, P, r)."""
        found, errors = self.values_and_errors(rows, out)
        self.warn_of_estimates(errors)
        return found

    def warn_of_estimates(self, errors: Array) -> None:
        """Say which values are estimates, by their standard errors."""
        if largest := errors.max(initial=0):
            n_estimated = int((errors.reshape(len(errors), -1).max(axis=1) > 0).sum())
            warnings.warn(
                f"{n_estimated} of {len(errors)} rows differ from background rows on more than {self.most} features: "
                f"their values are estimates with standard errors of up to {largest:.2g}; ask for them by "
                "standard_errors=True, pass groups of features, or rule='rescale'",
                EstimateWarning,
                stacklevel=3,
            )

    def values_and_errors(self, rows: PlacedRows, out: Array | None = None) -> tuple[Array, Array]:
        """Values, and their standard errors, 0 where they are exact: (n, P) or (n, P, r) both."""
        return self._explain(rows, Asked("values", (self.game.players.n,), NO_NUMBERS), out)

    def interactions(self, rows: PlacedRows, places: Int32s | None = None, out: Array | None = None) -> Array:
        """Interaction values, (n, m, P) or (n, m, P, r); places[p] is player p's place among the m, or -1."""
        n_players = self.game.players.n
        places = np.arange(n_players, dtype=np.int32) if places is None else places
        return self._explain(rows, Asked("pairs", (int(places.max(initial=-1)) + 1, n_players), places), out)[0]

    def indices(self, rows: PlacedRows, sets: Int32s, is_banzhaf: bool, out: Array | None = None) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets) or (n, n_sets, r)."""
        kind = "banzhaf" if is_banzhaf else "shapley"
        return self._explain(rows, Asked(kind, (len(sets),), sets.reshape(-1)), out)[0]

    @cached_property
    def layout(self) -> Any:
        """The compiled forest."""
        return _core.CoalitionForest(self.game.forest, self.game.players.of_feature)

    def _explain(self, rows: PlacedRows, asked: Asked, out: Array | None) -> tuple[Array, Array]:
        shape = (len(rows), *asked.shape, *([self.response.n] if self.response.n > 1 else []))
        result = checked_result(shape, self.settings.dtype, rows.rows, out)
        distinct, labels, place = self._distinct(rows.rows, rows.labels)
        try:
            parts = list(self._by_chunk(distinct, labels, asked))
        except MemoryError as error:
            raise MemoryError(self._beyond_memory(result)) from error
        found, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._refuse_infinite_values(found)
        result[...] = found.reshape(-1, *shape[1:])[place]
        if asked.kind != "values":
            return result, variance
        return result, np.sqrt(variance).astype(self.settings.dtype).reshape(-1, *shape[1:])[place]

    def _beyond_memory(self, result: Array) -> str:
        players = min(self.most, self.layout.n_used)
        n_bytes = cube_bytes(max(self.game.forest.n_outputs, self.response.n), players)
        return (
            f"output {self.response.name} takes {n_bytes / 1e6:,.0f} MB for each thread, the margins of all coalitions "
            f"of {players} features, beside results of {result.nbytes / 1e6:,.0f} MB; pass fewer n_jobs or rows, "
            "groups of features, or rule='rescale'"
        )

    def _distinct(self, rows: Array, labels: Int32s | None) -> tuple[Array, Int32s | None, Any]:
        """Rows that differ for the forest or in their label, and the place of each row among them."""
        if len(rows) < 2 or self.game.forest.has_linear_leaves:
            return rows, labels, slice(None)
        columns = (*stand_in_columns(rows, self.game.forest), *([] if labels is None else [labels]))
        classes = [np.unique(column, return_inverse=True)[1] for column in columns]
        _, first, place = np.unique(np.stack(classes, axis=1), axis=0, return_index=True, return_inverse=True)
        return rows[first], None if labels is None else labels[first], place.reshape(-1)

    def _by_chunk(self, rows: Array, places: Int32s | None, asked: Asked) -> Iterator[tuple[Doubles, Doubles]]:
        """Results of some rows after the other, (n, entries * r), and the variances of values."""
        n_entries = int(np.prod(asked.shape)) * self.response.n
        size = max(1, min(MASK_BYTES // max(1, self.layout.row_bytes), MASK_BYTES // (8 * max(1, n_entries)), 1024))
        seconds = self._seconds(rows, places, asked)
        warn_of_cost(seconds, len(rows), len(self.background.rows))
        quick = contextlib.nullcontext(lambda _: None)
        with counting_rows(len(rows), "explain") if seconds >= 4 * TOLD_SECONDS else quick as tell:
            size = max(1, min(size, int(len(rows) * TOLD_SECONDS / seconds))) if seconds else size
            for first in range(0, max(1, len(rows)), size):
                some = rows[first : first + size]
                labels = None if places is None else places[first : first + size]
                yield self._of_rows(self._masks(some), len(some), labels, asked, self._background_chunks())
                tell(len(some))

    def _of_rows(
        self,
        masked: Any,
        n_rows: int,
        places: Int32s | None,
        asked: Asked,
        background: Iterable[tuple[Any, Doubles, int]],
    ) -> tuple[Doubles, Doubles]:
        """Results of rows against background rows, and variances of values."""
        n_entries = int(np.prod(asked.shape)) * self.response.n
        n_errors = n_entries if asked.kind == "values" else 0
        total, variance = np.zeros((n_rows, n_entries)), np.zeros((n_rows, n_errors))
        for against in background:
            part, n_differ = self._against(masked, n_rows, places, against, asked)
            total += part
            if (n_differ > self.most).any():
                self._add_estimates(masked, places, against, asked, n_differ, total, variance)
        return total, variance

    def _seconds(self, rows: Array, places: Int32s | None, asked: Asked) -> float:
        """Estimate the time of a long call by some of its pairs, spread over both; 0 for others."""
        m, players = len(self.background.rows), min(self.layout.n_used, self.most)
        if not could_be_long(len(rows) * m, players, self.response.n + self.game.forest.n_outputs):
            return 0.0
        some, others = (slice(None, None, -(-n // PROBED)) for n in (len(rows), m))
        few, labels = rows[some], None if places is None else places[some]
        masked, share = self._masks(few), self.background.weight[others] / self.background.weight[others].sum()
        against = self._masks(self.background.rows[others]), share, 0
        threads, first = n_threads(self.settings.n_jobs), None if labels is None else labels[:1]
        self._of_rows(self._masks(few[:1]), 1, first, asked, [against])  # a first call takes memory of the system
        of_masks = seconds_of(lambda: self._masks(few), threads) * len(rows) / len(few)
        of_pairs = seconds_of(lambda: self._of_rows(masked, len(few), labels, asked, [against]), threads)
        return of_masks + of_pairs * len(rows) * m / (len(few) * len(share))

    def _refuse_infinite_values(self, found: Doubles) -> None:
        """Refuse overflows of responses that the core computes."""
        is_finite = np.isfinite(found).all(axis=1)
        if not is_finite.all():
            raise ValueError(
                f"output {self.response.name} is infinite for some hybrid of row {int(is_finite.argmin())} and a "
                "background row; explain the margin"
            )

    def _background_chunks(self) -> Iterator[tuple[Any, Doubles, int]]:
        """Masks of background rows, their shares, and where they begin."""
        if self._kept_masks is not None:
            yield self._kept_masks, self._share, 0
            return
        size = max(1, MASK_BYTES // self.layout.row_bytes)
        for first in range(0, len(self.background.rows), size):
            some = slice(first, first + size)
            yield self._masks(self.background.rows[some]), self._share[some], first

    @cached_property
    def _share(self) -> Doubles:
        return self.background.weight / self.background.total

    @cached_property
    def _kept_masks(self) -> Any:
        """Masks of the background if they are small."""
        is_small = len(self.background.rows) * self.layout.row_bytes <= MASK_BYTES
        return self._masks(self.background.rows) if is_small else None

    def _masks(self, rows: Array) -> Any:
        return self.layout.rows(rows, n_threads(self.settings.n_jobs))

    def _against(
        self, masked: Any, n_rows: int, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> tuple[Doubles, Int32s]:
        """Sum over the pairs that are exact; say on how many players each pair differs."""
        masks, share, _ = background
        if self.response.code is None:
            return self._by_function(masked, n_rows, places, background, asked)
        n_entries = int(np.prod(asked.shape)) * self.response.n
        found, n_differ = np.empty((n_rows, n_entries)), np.empty((n_rows, len(share)), np.int32)
        self.layout.sums(
            *(masked, masks, share, self.response.code, self.response.scale),
            *(NO_NUMBERS if places is None else places, asked.numbers, asked.kind, self.most, self.response.n),
            *(found, n_differ, n_threads(self.settings.n_jobs)),
        )
        return found, n_differ

    def _by_function(
        self, masked: Any, n_rows: int, places: Int32s | None, background: tuple[Any, Doubles, int], asked: Asked
    ) -> tuple[Doubles, Int32s]:
        """Sum over pairs whose responses are computed in Python."""
        masks, share, first_background = background
        n_differ = self.layout.differing(masked, masks, n_threads(self.settings.n_jobs)).reshape(n_rows, len(share))
        pairs = np.stack(np.nonzero(n_differ <= self.most), axis=1)
        sizes = np.left_shift(np.int64(1), n_differ[n_differ <= self.most].astype(np.int64))
        result = np.zeros((n_rows, int(np.prod(asked.shape)) * self.response.n))
        for some in _batches(sizes):
            first = np.concatenate([[0], np.cumsum(sizes[some])])
            margins = np.empty((first[-1], self.game.forest.n_outputs))
            of_pairs = masked, masks, np.ascontiguousarray(pairs[some]).reshape(-1), first[:-1]
            self.layout.margins(*of_pairs, self.most, margins, n_threads(self.settings.n_jobs))
            labels = None if places is None else np.repeat(places[pairs[some, 0]], sizes[some])
            responses = np.ascontiguousarray(self.response(margins, labels))
            self._refuse_infinite(responses, pairs[some], first, first_background)
            found = np.empty((len(first) - 1, result.shape[1]))
            about = asked.numbers, asked.kind, self.most, self.response.n
            self.layout.pair_sums(*of_pairs, responses, *about, found, n_threads(self.settings.n_jobs))
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
        if asked.kind != "values" or self.game.forest.has_linear_leaves:
            what = "linear leaves" if self.game.forest.has_linear_leaves else "interactions"
            raise NotImplementedError(
                f"{what} of output {self.response.name} are exact up to {self.most} features on which two rows differ, "
                f"these differ on {n_differ.max()}; pass groups of features, or rule='rescale'"
            )
        masks, share, first = background
        for row in np.flatnonzero((n_differ > self.most).any(axis=1)).tolist():
            others = np.flatnonzero(n_differ[row] > self.most)
            pairs = np.stack([np.full(len(others), row), others], axis=1)
            labels = None if places is None else np.full(len(others), places[row], np.int32)
            of_rows = self.layout, masked, masks, pairs, share[others], others + first, labels
            of = Pairs(
                *of_rows,
                self.game.players.n,
                self.game.forest.n_outputs,
                n_threads(self.settings.n_jobs),
                n_differ[row, others],
            )
            values, of_values = estimate(of, self.response, self.tolerance)
            total[row] += values.reshape(-1)
            variance[row] += of_values.reshape(-1)

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


def most_players(n_outputs: int) -> int:
    """Players on which rows may differ for their values to be exact: `MOST`, fewer of many outputs."""
    most = MOST
    while cube_bytes(n_outputs, most) > CUBE_BYTES:
        most -= 1
    return most


def cube_bytes(n_outputs: int, n_players: int) -> int:
    """Bytes of a thread for all coalitions of so many players: a cube an output, and two to compute them."""
    return (n_outputs + 2) * 8 << n_players


def stand_in_columns(rows: Array, forest: TreeEnsemble) -> list[Array]:
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
