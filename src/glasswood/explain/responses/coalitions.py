"""Exact Shapley values of any response of the margins against a background.

A coalition of features has the response of a hybrid: the explained row's values for its own features, those of a
background row for the others. For one pair of rows, each tree's leaves say for which coalitions they are reached; the
margins of all 2^d coalitions of the d features on which the rows differ follow by one transform, and any response of
them by its formula (native/explain/coalitions/cube.h). The values are the mean over the background rows.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glasswood import _core
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.progress import counting_rows
from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.explain.background import Background, margins_of, mean, merged, settled, stand_ins
from glasswood.explain.cpu import checked_result
from glasswood.explain.responses.pair_sums import NO_NUMBERS, NO_SQUARES, Against, Asked, MaskedRows, PairSums
from glasswood.explain.responses.permutations import EstimateWarning, Pairs, estimate
from glasswood.explain.responses.response import has_rescale_rule, make_response
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings
    from glasswood.explain.responses.response import Response
    from glasswood.inputs.placed import PlacedRows

WARNED_SECONDS = 20.0
"""Estimated time of calls that say before they start what they cost."""

FEW_ROWS = 100
"""Background rows that explanations commonly have."""

PROBED, LONG_PAIRS = 12, 1000
"""If a call has more than LONG_PAIRS pairs, the pairs of PROBED rows and background rows are timed first."""

PAIR_SECONDS, COALITION_SECONDS = 1e-5, 5e-8
"""Upper bound of the seconds per pair, plus seconds per coalition and output."""


class CostWarning(UserWarning):
    """A call will take long."""


def could_be_long(n_pairs: int, n_players: int, n_outputs: int) -> bool:
    """Whether `n_pairs` pairs of rows, which differ on up to `n_players` players, might take `WARNED_SECONDS`."""
    of_pair = PAIR_SECONDS + (n_outputs * COALITION_SECONDS) * 2**n_players
    return n_pairs > LONG_PAIRS and n_pairs * of_pair > WARNED_SECONDS


def seconds_of(probe: Callable[[], object], n_threads: int) -> float:
    """Processor time, since other work of the machine does not count; threads beyond the cores do not help."""
    start = time.process_time()
    probe()
    return (time.process_time() - start) / min(n_threads, int(_core.max_threads()))


def warn_of_cost(seconds: float, n_rows: int, n_background: int, may_rescale: bool) -> None:
    """Say what a call costs and what would cost less, if it is long."""
    if seconds < WARNED_SECONDS:
        return
    m, few = n_background, FEW_ROWS
    fewer = "" if m <= few else f" {few} background rows take about {seconds * few / m:.0f} s;"
    rescaled = "; rule='rescale' takes about what the margin's values take" if may_rescale else ""
    warnings.warn(
        f"exact values of {n_rows:,} rows against {m:,} background rows take about {seconds:.0f} s here, for "
        f"{n_rows * m:,} pairs;{fewer} groups of features help: each feature fewer on which two rows differ halves the "
        f"time{rescaled}",
        CostWarning,
        stacklevel=3,
    )


MOST = 20
"""Features on which two rows may differ for their values to be exact: a million coalitions."""

TOLERANCE = 0.01
"""Largest standard error of what is estimated, relative to the mean distance of responses from the background's."""

ROUNDING, FEW = 1e-13, 4
"""Variances of this share of the mean square are 0; background rows that say too little of a value's variance."""

GPU_PLAYERS = 2**15
"""Features that GPUs tell apart: a block of theirs has a byte for each."""

TOLD_SECONDS = 0.5
"""Estimated time between two steps of progress."""

MASK_BYTES, CUBE_BYTES = 2**27, 2**31
"""Bytes of the masks of rows that are explained together, and of background rows; of a thread for the margins of all
coalitions of a pair."""


class CoalitionExplainer:
    """Explains responses of the margin exactly, on the CPU: what CpuExplainer is for the margin.

    Parameters
    ----------
    game : Game
        Game of the margin, against background rows.
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

    has_tables: bool
    n_bytes: int
    row_parts: tuple[None, None]
    game: Game
    settings: Settings
    tolerance: float

    has_tables, n_bytes, row_parts = False, 0, (None, None)

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings, self.tolerance = game, settings, TOLERANCE
        background = cast("Background", game.background)
        self.response: Response = make_response(settings.output, game.forest)
        self.most: int = most_players(max(game.forest.n_outputs, self.response.n))
        self.background: Background = background if game.forest.has_linear_leaves else merged(background, game.forest)

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
        return f"exact responses of more than {GPU_PLAYERS:,} features" if self.layout.n_used > GPU_PLAYERS else ""

    @property
    def cheaper(self) -> str:
        """What users may pass instead."""
        return "groups of features" + (" or rule='rescale'" if self._may_rescale else "")

    @property
    def _may_rescale(self) -> bool:
        return has_rescale_rule(self.settings.output, self.game.forest)

    def prepare(self) -> None:
        """Lay the forest out, and find the background's masks."""
        _ = self._kept_masks

    def values(self, rows: PlacedRows, out: Array | None = None) -> Array:
        """Values of rows: (n, P) or (n, P, r)."""
        found, errors = self.values_and_errors(rows, out, of_background=False)
        self.warn_of_estimates(errors)
        return found

    def warn_of_estimates(self, errors: Array) -> None:
        """Say which values are estimates, by their standard errors."""
        if largest := errors.max(initial=0):
            n_estimated = int((errors.reshape(len(errors), -1).max(axis=1) > 0).sum())
            warnings.warn(
                f"{n_estimated} of {len(errors)} rows differ from background rows on more than {self.most} features: "
                f"their values are estimates with standard errors of up to {largest:.2g}; ask for them by "
                f"standard_errors=True, or pass {self.cheaper}",
                EstimateWarning,
                stacklevel=3,
            )

    def values_and_errors(self, rows: PlacedRows, out: Array | None, of_background: bool) -> tuple[Array, Array]:
        """Values, and their standard errors: (n, P) or (n, P, r) both.

        The errors are those of estimates, 0 where values are exact, and of another background if that is asked for.
        """
        return self._explain(rows, Asked("values", (self.game.players.n,), NO_NUMBERS, of_background), out)

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
        errors = np.zeros(shape if asked.kind == "values" else 0, self.settings.dtype)
        number, place = self._distinct(rows)
        order, first = np.argsort(place, kind="stable"), 0
        try:
            for found, variance in self._by_chunk(rows, number, asked):
                end = first + len(found)
                some = order[slice(*np.searchsorted(place, (first, end), sorter=order))]
                result[some] = found.reshape(-1, *shape[1:])[place[some] - first]
                if variance.any():
                    errors[some] = np.sqrt(variance).reshape(-1, *shape[1:])[place[some] - first]
                first = end
        except MemoryError as error:
            raise MemoryError(self._beyond_memory(result)) from error
        return result, errors

    def _beyond_memory(self, result: Array) -> str:
        players = min(self.most, self.layout.n_used)
        n_bytes = cube_bytes(max(self.game.forest.n_outputs, self.response.n), players)
        return (
            f"output {self.response.name} takes {n_bytes / 1e6:,.0f} MB for each thread, the margins of all coalitions "
            f"of {players} features, beside results of {result.nbytes / 1e6:,.0f} MB; pass fewer n_jobs or rows, or "
            f"{self.cheaper}"
        )

    def _distinct(self, rows: PlacedRows) -> tuple[Int64s, Int64s]:
        """Numbers of rows that differ for the forest or in their label, and the place of each row among them."""
        if len(rows) < 2 or self.game.forest.has_linear_leaves:
            return np.arange(len(rows)), np.arange(len(rows))
        columns = (*stand_in_columns(rows.rows, self.game.forest), *([] if rows.labels is None else [rows.labels]))
        classes = [np.unique(column, return_inverse=True)[1] for column in columns]
        _, first, place = np.unique(np.stack(classes, axis=1), axis=0, return_index=True, return_inverse=True)
        return first, place.reshape(-1)

    def _by_chunk(self, rows: PlacedRows, number: Int64s, asked: Asked) -> Iterator[tuple[Doubles, Doubles]]:
        """Results of some rows after the other, (n, entries * r), and the variances of values."""
        n_entries, n = asked.n_entries * self.response.n, len(number)
        of_row = 8 * max(1, n_entries) * (len(self.background.rows) if asked.of_background else 1)
        size = max(1, min(MASK_BYTES // max(1, self.layout.row_bytes), MASK_BYTES // of_row, 1024))
        seconds = self._seconds(rows, number, asked)
        warn_of_cost(seconds, n, len(self.background), self._may_rescale)
        quick = contextlib.nullcontext(lambda _: None)
        with counting_rows(n, "explain") if seconds >= 4 * TOLD_SECONDS else quick as tell:
            size = max(1, min(size, int(n * TOLD_SECONDS / seconds))) if seconds else size
            for first in range(0, max(1, n), size):
                some = self._masked(rows, number[first : first + size])
                found, variance = self._of_rows(some, asked, self._background_chunks(asked))
                self._refuse_infinite_values(found, some.number)
                yield found, variance
                tell(len(some))

    def _masked(self, rows: PlacedRows, number: Int64s) -> MaskedRows:
        labels = None if rows.labels is None else rows.labels[number]
        return MaskedRows(self._masks(rows.rows[number]), number, labels)

    def _of_rows(self, rows: MaskedRows, asked: Asked, background: Iterable[Against]) -> tuple[Doubles, Doubles]:
        """Results of rows against background rows, and variances of values."""
        n_entries = asked.n_entries * self.response.n
        n_errors = n_entries if asked.kind == "values" else 0
        total, variance = np.zeros((len(rows), n_entries)), np.zeros((len(rows), n_errors))
        moments, squares = _no_moments(total.shape) if asked.of_background else np.zeros(0), 0.0
        for against in background:
            part, n_differ = self._exact_sums(rows, against, asked, moments)
            total += part
            squares += float(against.squares.sum())
            if (n_differ > self.most).any():
                self._add_estimates(rows, against, asked, n_differ, total, variance, moments)
        if asked.of_background:
            n_given = float(self.background.n_given.sum())
            variance += variance_of_mean(total, moments, squares, n_given, self.response.n)
        return total, variance

    @cached_property
    def _exact_sums(self) -> PairSums:
        return PairSums(self.game, self.response, self.layout, self.most, n_threads(self.settings.n_jobs))

    def _seconds(self, rows: PlacedRows, number: Int64s, asked: Asked) -> float:
        """Estimate the time of a long call by some of its pairs, spread over both; 0 for others."""
        n_pairs, players = len(number) * len(self.background), min(self.layout.n_used, self.most)
        if not could_be_long(n_pairs, players, self.response.n + self.game.forest.n_outputs):
            return 0.0
        some, others = (slice(None, None, -(-n // PROBED)) for n in (len(number), len(self.background)))
        few, share = self._masked(rows, number[some]), self.background.weight[others].astype(np.float64)
        share = share / share.sum()
        against = Against(
            self._masks(self.background.rows[others]), share, 0, share**2 if asked.of_background else NO_SQUARES
        )
        threads = n_threads(self.settings.n_jobs)
        self._of_rows(self._masked(rows, few.number[:1]), asked, [against])  # a first call takes memory of the system
        of_masks = seconds_of(lambda: self._masked(rows, few.number), threads) * len(number) / len(few)
        of_pairs = seconds_of(lambda: self._of_rows(few, asked, [against]), threads)
        return of_masks + of_pairs * n_pairs / (len(few) * len(share))

    def _refuse_infinite_values(self, found: Doubles, number: Int64s) -> None:
        """Refuse overflows of responses that the core computes."""
        is_finite = np.isfinite(found).all(axis=1)
        if not is_finite.all():
            raise ValueError(
                f"output {self.response.name} is infinite for some hybrid of row {number[is_finite.argmin()]} and a "
                "background row; explain the margin"
            )

    def _background_chunks(self, asked: Asked) -> Iterator[Against]:
        squares = self._share**2 / self.background.n_given if asked.of_background else NO_SQUARES
        if self._kept_masks is not None:
            yield Against(self._kept_masks, self._share, 0, squares)
            return
        size = max(1, MASK_BYTES // self.layout.row_bytes)
        for first in range(0, len(self.background), size):
            some = slice(first, first + size)
            yield Against(self._masks(self.background.rows[some]), self._share[some], first, squares[some])

    @cached_property
    def _share(self) -> Doubles:
        return self.background.weight / self.background.total

    @cached_property
    def _kept_masks(self) -> Any:
        """Masks of the background if they are small."""
        is_small = len(self.background) * self.layout.row_bytes <= MASK_BYTES
        return self._masks(self.background.rows) if is_small else None

    def _masks(self, rows: Array) -> Any:
        return self.layout.rows(rows, n_threads(self.settings.n_jobs))

    def _add_estimates(
        self,
        rows: MaskedRows,
        against: Against,
        asked: Asked,
        n_differ: Int32s,
        total: Doubles,
        variance: Doubles,
        moments: Doubles,
    ) -> None:
        """Add what is estimated, row by row, and its variances and moments."""
        if asked.kind != "values" or self.game.forest.has_linear_leaves:
            what = "linear leaves" if self.game.forest.has_linear_leaves else "interactions"
            raise NotImplementedError(
                f"{what} of output {self.response.name} are exact up to {self.most} features on which two rows differ, "
                f"these differ on {n_differ.max()}; pass {self.cheaper}"
            )
        sizes = self.game.players.n, self.game.forest.n_outputs, n_threads(self.settings.n_jobs)
        for row in np.flatnonzero((n_differ > self.most).any(axis=1)).tolist():
            others = np.flatnonzero(n_differ[row] > self.most)
            of = Pairs(self.layout, rows, against, row, others, n_differ[row, others], *sizes)
            values, of_values, of_pairs = estimate(of, self.response, self.tolerance)
            total[row] += values.reshape(-1)
            variance[row] += of_values.reshape(-1)
            if moments.size:
                of_pairs = of_pairs.reshape(4, -1)
                moments[:2, row] += of_pairs[:2]
                moments[2, row] = np.minimum(moments[2, row], of_pairs[2])
                moments[3, row] = np.maximum(moments[3, row], of_pairs[3])


def _no_moments(shape: tuple[int, ...]) -> Doubles:
    """Moments of no pairs, (4, n, entries): sums, and the least and largest value."""
    return np.stack([np.zeros(shape), np.zeros(shape), np.full(shape, np.inf), np.full(shape, -np.inf)])


def variance_of_mean(mean: Doubles, moments: Doubles, squares: float, n_given: float, n_responses: int) -> Doubles:
    """Variance of a mean over `n_given` independent rows, (n, P * r); NaN for one.

    A value that few background rows make has a mean that they may all have missed. So one further row counts, as far
    off as the farthest one, or as that of any player where fewer than `FEW` such rows make the variance.

    Parameters
    ----------
    mean : (n, P * r)
    moments : (4, n, P * r)
        Sums of values and of their squares, times the squared shares of the rows; the least and the largest value.
    squares, n_given : float
        Sum of the squared shares, and number of rows.
    n_responses : int
    """
    if n_given < 1 + ROUNDING:
        return np.full_like(mean, np.nan)
    spread = moments[1] - 2 * mean * moments[0] + mean**2 * squares
    spread[spread < ROUNDING * moments[1]] = 0
    farthest = np.maximum(moments[3] - mean, mean - moments[2]) ** 2 * squares / n_given
    of_any = farthest.reshape(len(mean), -1, n_responses).max(axis=1, keepdims=True)
    of_any = np.broadcast_to(of_any, (len(mean), mean.shape[1] // n_responses, n_responses)).reshape(mean.shape)
    return np.asarray(spread * n_given / (n_given - 1) + np.where(spread < FEW * farthest, of_any, farthest))


def most_players(n_outputs: int) -> int:
    """Players on which rows may differ for their values to be exact: `MOST`, fewer of many outputs."""
    most = MOST
    while cube_bytes(n_outputs, most) > CUBE_BYTES:
        most -= 1
    return most


def cube_bytes(n_outputs: int, n_players: int) -> int:
    """Bytes of a thread for all coalitions of `n_players` players: a cube an output, and two to compute them."""
    return (n_outputs + 2) * 8 << n_players


def stand_in_columns(rows: Array, forest: TreeEnsemble) -> list[Array]:
    """Columns in which rows of equal values go the same ways at every split."""
    values = settled(rows, forest)
    return [stand_ins(forest, feature, values[:, feature]) for feature in range(forest.n_features)]
