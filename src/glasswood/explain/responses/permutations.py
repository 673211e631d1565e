"""Estimates of a response's values for pairs of rows that differ on too many features for all coalitions.

Features join in random orders, each order also backwards (antithetic pairs); a feature's value is the mean of what it
changes. What it changes of the margin, times slopes of the response, is the control variate: its mean, the margin's
value, is known exactly. The slopes are fitted to the first order alone, which the means leave out, so that estimates
have no bias and standard errors are those of a mean of independent numbers.

A response with steep places (the log-loss of confident margins, a decision) changes by much in few of the orders, and
samples may show nothing of what makes their mean. Variances therefore count `UNSEEN` further samples, as far off as a
feature could move the response: its largest change of the margin, times the steepest slope that any feature of the row
has shown, but not beyond the largest change that any has made. More orders are drawn where that is too much.

Orders depend on the seed, the background row and the number of features: not on what is explained together.

References
----------
Mitchell et al., "Sampling permutations for Shapley value estimation", JMLR 23 (2022); Castro, Gomez, Tejada,
"Polynomial calculation of the Shapley value based on sampling", Computers and Operations Research 36 (2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles, Int32s, Int64s

if TYPE_CHECKING:
    from glasswood.explain.responses.pair_sums import Against, MaskedRows
    from glasswood.explain.responses.response import Response

SEED = 20261123

FIRST, LEAST, MOST = 8, 128, 2048
"""Initial number of orders per pair, and of all pairs of a row; maximum per pair. Each is also used in reverse."""

UNSEEN = 4
"""Samples that variances count beyond those drawn: as Agresti and Coull do for shares."""

NUMBERS = 2**24
"""Ranks and margins of orders that are computed together."""


class EstimateWarning(UserWarning):
    """Some values are estimates, with standard errors."""


@dataclass(eq=False)
class Pairs:
    """Pairs of one explained row and background rows, and how the forest answers for them.

    Attributes
    ----------
    layout
        The compiled forest.
    rows : MaskedRows
    against : Against
    row : int
        The explained one of the rows.
    others : int64, (p,)
        Background rows.
    n_differ : (p,)
        Players on which each pair differs.
    n_players, n_outputs, n_threads : int
    """

    layout: Any
    rows: MaskedRows
    against: Against
    row: int
    others: Int64s
    n_differ: Int32s
    n_players: int
    n_outputs: int
    n_threads: int

    @property
    def share(self) -> Doubles:
        """Shares of the background rows, (p,)."""
        return self.against.share[self.others]

    @property
    def arguments(self) -> tuple[Any, Any, Int64s]:
        """What the core takes: masks of both, and pairs, one after the other."""
        pairs = np.stack([np.full(len(self.others), self.row), self.others], axis=1)
        return self.rows.masks, self.against.masks, pairs.reshape(-1)


@dataclass(eq=False)
class Estimate:
    """Running sums of one pair's orders.

    Attributes
    ----------
    players : int32, (d,)
    slopes : (k, r)
        Slopes of the response, by margin.
    known : (d, r)
        Means of the control variates.
    n : int
        Antithetic pairs of orders.
    total, squares : (d, r)
    moved : (d,)
        Largest change of the margin by each player.
    farthest, steepest : (r,)
        Largest change of the response minus the control variate by any player, and per change of the margin.
    """

    players: Int32s
    slopes: Doubles
    known: Doubles
    n: int
    total: Doubles
    squares: Doubles
    moved: Doubles
    farthest: Doubles
    steepest: Doubles

    def note(self, moved: Doubles, changes: Doubles) -> None:
        """Note how far players moved the margin (chains, d), by their order, and the response (chains, d, r)."""
        size = np.abs(changes)
        self.farthest = np.maximum(self.farthest, size.max(axis=(0, 1)))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(moved[:, :, None] > 0, size / moved[:, :, None], 0)
        self.steepest = np.maximum(self.steepest, slopes.max(axis=(0, 1)))

    def add(self, samples: Doubles) -> None:
        """Add independent samples (s, d, r) of the values minus the control variates."""
        self.n += len(samples)
        self.total += samples.sum(axis=0)
        self.squares += (samples * samples).sum(axis=0)

    @property
    def values(self) -> Doubles:
        """Means, (d, r)."""
        return self.known + self.total / self.n

    @property
    def variance(self) -> Doubles:
        """Variances of the means, (d, r)."""
        mean = self.total / self.n
        return np.maximum(self.squares / self.n - mean * mean, 0) / max(1, self.n - 1)


def estimate(of: Pairs, response: Response, tolerance: float) -> tuple[Doubles, Doubles, Doubles]:
    """Sum the values of pairs by their shares, until no standard error exceeds the tolerance.

    Parameters
    ----------
    of : Pairs
        Pairs of one explained row.
    response : Response
    tolerance : float
        Relative to the mean magnitude by which the response of the row differs from those of the background rows.

    Returns
    -------
    values, variance : (P, r)
    moments : (4, P, r)
        Sums over the pairs of their values and of the squares of these, times `squares` of the background; the least
        and the largest.
    """
    players = _players(of)
    places = of.others + of.against.first
    generators = [np.random.default_rng([SEED, place, len(some)]) for place, some in zip(places, players, strict=True)]
    estimates, reach = _begun(of, response, players, generators)
    n = max(FIRST, -(-LEAST // len(estimates)))
    while True:
        _add(of, response, estimates, generators, n)
        values, variance = _summed(of, estimates, response.n)
        n = estimates[0].n
        if np.sqrt(variance).max(initial=0) <= tolerance * reach or n >= MOST:
            return values, variance, _moments(of, estimates, response.n)


def _players(of: Pairs) -> list[Int32s]:
    first = np.concatenate([[0], np.cumsum(of.n_differ.astype(np.int64))])
    found = of.layout.players(*of.arguments, first[:-1], int(first[-1]), of.n_threads)
    return np.split(found, first[1:-1])


def _begun(
    of: Pairs, response: Response, players: list[Int32s], generators: list[np.random.Generator]
) -> tuple[list[Estimate], float]:
    """Slopes by one order of each pair, forth and back, and how far responses are apart."""
    chains, values = _chains(of, players, _orders(players, generators, 1), with_values=True)
    estimates, reach = [], 0.0
    for pair, (some, margins) in enumerate(zip(players, chains, strict=True)):
        flat = margins.reshape(-1, of.n_outputs)
        found = _respond(of, response, flat)
        design = np.column_stack([np.ones(len(flat)), flat])
        slopes = np.asarray(np.linalg.lstsq(design, found, rcond=1e-10)[0][1:], np.float64)
        known = values[pair, some] @ slopes
        zeros, of_response = np.zeros((len(some), response.n)), np.zeros(response.n)
        estimates.append(
            Estimate(some, slopes, known, 0, zeros, zeros.copy(), np.zeros(len(some)), of_response, of_response)
        )
        reach += of.share[pair] * np.abs(found[len(some)] - found[0]).max()
    return estimates, reach


def _add(
    of: Pairs, response: Response, estimates: list[Estimate], generators: list[np.random.Generator], n: int
) -> None:
    """Add n antithetic pairs of orders to each estimate, some at a time."""
    players = [one.players for one in estimates]
    most = max(len(some) for some in players) + 1
    together = max(1, NUMBERS // (2 * len(players) * max(of.n_players, most * of.n_outputs)))
    for first in range(0, n, together):
        orders = _orders(players, generators, min(together, n - first))
        for pair, margins in enumerate(_chains(of, players, orders)[0]):
            one = estimates[pair]
            found = _respond(of, response, margins.reshape(-1, of.n_outputs))
            found = found.reshape(*margins.shape[:2], response.n) - margins @ one.slopes
            changes, moved = np.diff(found, axis=1), np.abs(np.diff(margins, axis=1)).sum(axis=2)
            one.note(moved, changes)
            by_player = np.take_along_axis(changes, orders[pair][:, :, None], axis=1)
            one.moved = np.maximum(one.moved, np.take_along_axis(moved, orders[pair], axis=1).max(axis=0))
            one.add((by_player[0::2] + by_player[1::2]) / 2)


def _orders(players: list[Int32s], generators: list[np.random.Generator], n: int) -> list[Array]:
    """When each player joins, (2 n, d) a pair: orders and, behind each, the same backwards."""
    result = []
    for some, generator in zip(players, generators, strict=True):
        forth = generator.permuted(np.tile(np.arange(len(some)), (n, 1)), axis=1)
        result.append(np.stack([forth, len(some) - 1 - forth], axis=1).reshape(2 * n, len(some)))
    return result


def _chains(
    of: Pairs, players: list[Int32s], orders: list[Array], with_values: bool = False
) -> tuple[list[Doubles], Doubles]:
    """Margins while players join, (chains, d + 1, k) a pair, and the margin's values, (p, P, k)."""
    n_chains = len(orders[0])
    ranks = np.full((len(players), n_chains, of.n_players), -1, np.int32)
    for pair, (some, order) in enumerate(zip(players, orders, strict=True)):
        ranks[pair][:, some] = order
    sizes = np.array([n_chains * (len(some) + 1) for some in players], np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    margins = np.empty((int(first[-1]), of.n_outputs))
    values = np.empty((len(players), of.n_players, of.n_outputs) if with_values else (0, 0, 0))
    of.layout.chains(*of.arguments, first[:-1], ranks, n_chains, margins, values, of.n_threads)
    return [part.reshape(n_chains, -1, of.n_outputs) for part in np.split(margins, first[1:-1])], values


def _respond(of: Pairs, response: Response, margins: Doubles) -> Doubles:
    labels = None if of.rows.labels is None else np.full(len(margins), of.rows.labels[of.row], np.int32)
    found = response(margins, labels)
    if not np.isfinite(found).all():
        raise ValueError(
            f"output {response.name} is not finite for some hybrid of row {of.rows.number[of.row]} and a background "
            "row; expected finite numbers"
        )
    return found


def _summed(of: Pairs, estimates: list[Estimate], n_responses: int) -> tuple[Doubles, Doubles]:
    values, variance, unseen = np.zeros((3, of.n_players, n_responses))
    farthest = np.max([one.farthest for one in estimates], axis=0)
    steepest = np.max([one.steepest for one in estimates], axis=0)
    for one, share in zip(estimates, of.share, strict=True):
        values[one.players] += share * one.values
        variance[one.players] += share * share * one.variance
        could = share / (2 * one.n) * np.minimum(farthest, one.moved[:, None] * steepest)
        unseen[one.players] = np.maximum(unseen[one.players], could)
    return values, variance + UNSEEN * unseen**2


def _moments(of: Pairs, estimates: list[Estimate], n_responses: int) -> Doubles:
    found = np.zeros((len(estimates), of.n_players, n_responses))
    for values, one in zip(found, estimates, strict=True):
        values[one.players] = one.values
    squares = of.against.squares[of.others] if len(of.against.squares) else np.zeros(len(estimates))
    sums = (np.tensordot(squares, values, axes=1) for values in (found, found**2))
    return np.stack([*sums, found.min(axis=0), found.max(axis=0)])
