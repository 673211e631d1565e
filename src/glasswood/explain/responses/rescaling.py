"""Values of the probability and of the log-loss against a background, at a few times the price of the margin's.

As in shap, a pair of an explained row of margin a and a background row of margin c has the margin's values times
r(a, c) = (g(a) - g(c)) / (a - c), g the response: they add up to g(a) - g(c). The mean over the background rows is no
loop over pairs, since r has a small rank: r(a, c) = Σ_q r(a, t_q) V_q(c), t_q a few Chebyshev nodes among the
background's margins, V by least squares over the margins a that the forest can reach. So the values are Σ_q r(a, t_q)
times those of the margin against the same background rows with the weights V_q.

At a = c the quotient is 0, as in shap, not the slope of g: of the pairs whose margins are equal by other leaves, which
small forests have many of, the values of the margin times the slope are taken away again (`ties`).

Where that misses its bound on the error, the background is halved by its margins, until each part meets it; of few
margins each is a node of its own, which is the sum over pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.evaluate.links import expit
from glasswood.explain.additivity import margin_bounds
from glasswood.explain.background import Background, margins_of, mean, merged
from glasswood.explain.cpu import CpuExplainer, checked_result
from glasswood.explain.responses.response import has_rescale_rule, returns_probabilities, slope_of_link
from glasswood.explain.tables import TABLE_BYTES
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings
    from glasswood.inputs.placed import PlacedRows

    Ratio = Callable[[Doubles, Any], Doubles]
    Explain = Callable[[CpuExplainer, PlacedRows], Array]

RANKS = (4, 6, 8, 12, 16, 24, 32, 48)
GRID, TOGETHER, NEAR = 300, 4096, 20
ENOUGH, MOST = 1e-10, 1e-7
"""Errors of r, relative to its largest value: no node is added below the first, the background is halved where all
exceed the second."""

KEPT = 49
"""Weighted backgrounds whose tables are kept; those of more are filled one after the other in each call."""

SUM_BYTES = 2**26
"""Bytes of the float64 sums of rows that are explained together."""

EQUAL = 1e-12
"""Margins that differ by less, relative to the larger one if that exceeds 1, are equal but for rounding."""

ABOUT_EQUAL = 1e-9
"""The same where margins are sums of values on a GPU; which are equal is found on the CPU then."""

TOTAL, LARGE = 2**58, 8.0
"""Weights V are multiples of 1 / TOTAL: their sum stays below 2^62 though some reach thousands, since their mean is at
most LARGE."""


def slope_of(forest: TreeEnsemble) -> float:
    """Return what the margin is multiplied with in the logistic function.

    Raises
    ------
    NotImplementedError
        If the forest's response is not the probability of a second class.
    """
    if returns_probabilities(forest):
        raise NotImplementedError(
            "output='probability' and 'log_loss' by rule='rescale' need margins before a logistic link; the margins of "
            "this forest are probabilities already: explain output='margin', or pass rule='exact'"
        )
    if not has_rescale_rule("probability", forest):
        raise NotImplementedError(
            "output='probability' and 'log_loss' by rule='rescale' need one output with a logistic link (two classes), "
            f"this forest has {forest.n_outputs} with the link {quoted(forest.link)}; pass rule='exact' or "
            "explain the margin"
        )
    return slope_of_link(forest)


class WeightedParts(NamedTuple):
    """The parts of a response's values: values of the margin against differently weighted background rows.

    Attributes
    ----------
    nodes : (R,)
    slope : float
    is_loss : bool
        Whether the output is the log-loss; if the label is 1, the margin's values times the slope are subtracted.
    plain : Background
        Whose values say a row's margin.
    weighted : list of Background
        One a node, whose values count r(a, t_q) times the slope.
    """

    nodes: Doubles
    slope: float
    is_loss: bool
    plain: Background
    weighted: list[Background]


class ResponseExplainer:
    """Explains the probability or the log-loss on the CPU: what CpuExplainer is for the margin.

    Parameters
    ----------
    game : Game
        Game of the margin, against background rows.
    settings : Settings
        The dtype is that of the results; the parts are float64.

    Attributes
    ----------
    parts : WeightedParts
    weighted : list of Background
        One a node, and for the log-loss the background itself.
    kept : list of CpuExplainer
        Explanations against each, none where tables are filled one after the other.
    """

    game: Game
    settings: Settings
    weighted: list[Background]

    row_parts = None, None

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings = game, settings
        forest, background = game.forest, cast("Background", game.background)
        self._evaluator = evaluator_of(forest)
        self._slope = slope_of(forest)
        self._is_loss = settings.output == "log_loss"
        background = merged(background, forest)
        margins = self._slope * margins_of(forest, background.rows, settings.n_jobs)[:, 0]
        self._ratio = ratio_of_softplus if self._is_loss else ratio_of_logistic
        self._margins = margins
        response = np.logaddexp(0, margins) if self._is_loss else expit(margins)
        self._mean_margin, self._mean = mean(margins, background.weight), mean(response, background.weight)
        bounds = np.sort(self._slope * np.array([bound[0] for bound in margin_bounds(forest)]))
        if not np.isfinite([*bounds, *margins]).all():
            own = "; or grow with clip='target'" * (forest.source == "glasswood")
            raise NotImplementedError(
                f"output={quoted(settings.output)} needs margins with bounds, and linear leaves of this forest "
                f"extrapolate without end; explain output='margin'{own}"
            )
        pieces = factorize(self._ratio, margins, background.weight / background.total, bounds)
        nodes = np.concatenate([piece.nodes for piece in pieces])
        self.weighted = [part for piece in pieces for part in weigh(background, piece)]
        if self._is_loss:
            everything = Piece(np.arange(len(margins)), np.zeros(1), np.ones((1, len(margins))))
            self.weighted += weigh(background, everything)
        self.parts: WeightedParts = WeightedParts(
            nodes, self._slope, self._is_loss, background, self.weighted[: len(nodes)]
        )
        n_kept = len(self.weighted) if len(self.weighted) <= KEPT else 0
        self.kept: list[CpuExplainer] = [self._against(part, n_kept) for part in self.weighted[:n_kept]]

    def __reduce__(self) -> tuple[Any, ...]:
        return ResponseExplainer, (self.game, self.settings)

    def _against(self, background: Background, n_parts: int = 1) -> CpuExplainer:
        """Explanations of the margin against a part, by its share of the tables' bytes."""
        share = self.settings.of_part(n_parts, TABLE_BYTES)
        return CpuExplainer(replace(self.game, background=background), share)

    @property
    def n_outputs(self) -> int:
        """Numbers that are explained of a row."""
        return 1

    @property
    def expected_value(self) -> Doubles:
        """Mean response of the background, (1,); of the log-loss for labels 0 and 1, (2,)."""
        return np.array([self._mean, self._mean - self._mean_margin] if self._is_loss else [self._mean])

    @property
    def has_tables(self) -> bool:
        """Whether any tree has tables."""
        return (self.kept or [self._against(self.weighted[0])])[0].has_tables

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables that are built."""
        return sum(part.n_bytes for part in self.kept)

    def prepare(self) -> None:
        """Build the tables."""
        for part in self.kept:
            part.prepare()

    def values(self, rows: PlacedRows, out: Array | None = None) -> Array:
        """SHAP values: (n, P)."""
        return self._add(rows, (self.game.players.n,), out, lambda part, some: part.values(some))

    def interactions(self, rows: PlacedRows, places: Int32s | None = None, out: Array | None = None) -> Array:
        """Interaction values, (n, m, P); places[p] is player p's place among the m, or -1."""
        n_players = self.game.players.n
        n_places = n_players if places is None else int(places.max(initial=-1)) + 1
        return self._add(rows, (n_places, n_players), out, lambda part, some: part.interactions(some, places))

    def indices(self, rows: PlacedRows, sets: Int32s, is_banzhaf: bool, out: Array | None = None) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets)."""
        return self._add(rows, (len(sets),), out, lambda part, some: part.indices(some, sets, is_banzhaf))

    def _add(self, rows: PlacedRows, shape: tuple[int, ...], out: Array | None, explain: Explain) -> Array:
        """Sum over the parts, of some rows at a time."""
        result = checked_result((len(rows), *shape), self.settings.dtype, rows.rows, out)
        size = max(1, SUM_BYTES // (8 * int(np.prod(shape))))
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            total = np.zeros((len(some), *shape))
            for factor, part in zip(self._factors(some), self._filled_parts(), strict=True):
                total += factor.reshape(-1, *[1] * len(shape)) * explain(part, some)
            for at, factor, part in self.ties(some):
                total[at] -= factor.reshape(-1, *[1] * len(shape)) * explain(part, some[at])
            result[first : first + size] = total
        return result

    def _factors(self, rows: PlacedRows) -> Iterator[Doubles]:
        """Weigh each part, by row."""
        margins = self._slope * margins_of(self.game.forest, rows.rows, self.settings.n_jobs)[:, 0]
        for node in self.parts.nodes:
            yield self._slope * self._ratio(margins, node)
        if self._is_loss:
            yield np.asarray(-self._slope * cast("Int32s", rows.labels), np.float64)

    def may_tie(self, margins: Doubles) -> Int64s:
        """Find rows whose margin, from sums of float64 in any order, some background rows may have."""
        known = np.sort(self._margins)
        margins = self._slope * margins
        near = ABOUT_EQUAL * np.maximum(1, np.abs(margins))
        first, last = np.searchsorted(known, margins - near, "left"), np.searchsorted(known, margins + near, "right")
        return np.flatnonzero(first < last)

    def ties(self, rows: PlacedRows) -> Iterator[tuple[Int64s, Doubles, CpuExplainer]]:
        """Find rows whose margin some background rows have by other leaves, the slopes there, and the explanation."""
        background = self.parts.plain
        order = np.argsort(self._margins, kind="stable")
        known = self._margins[order]
        margins = self._slope * margins_of(self.game.forest, rows.rows, self.settings.n_jobs)[:, 0]
        near = EQUAL * np.maximum(1, np.abs(margins))
        first, last = np.searchsorted(known, margins - near, "left"), np.searchsorted(known, margins + near, "right")
        tied = np.flatnonzero(first < last)
        if not len(tied):
            return
        leaves = self._evaluator.positions(rows.rows[tied], self.settings.n_jobs)
        others = np.unique(np.concatenate([order[a:b] for a, b in zip(first[tied], last[tied], strict=True)]))
        place = np.full(len(self._margins), -1)
        place[others] = np.arange(len(others))
        their_leaves = self._evaluator.positions(background.rows[others], self.settings.n_jobs)
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, own in zip(tied, leaves, strict=True):
            equal = np.sort(order[first[row] : last[row]])
            equal = equal[(their_leaves[place[equal]] != own).any(axis=1)]
            if len(equal):
                groups.setdefault(tuple(equal.tolist()), []).append(int(row))
        for by_others, at in groups.items():
            some = np.array(by_others)
            own = replace(background, placed=background.rows[some], weight=background.weight[some])
            slopes = self._ratio(margins[at], margins[at])
            if self._is_loss:
                slopes = slopes - cast("Int32s", rows.labels)[at]
            yield np.array(at), self._slope * slopes, self._against(own)

    def _filled_parts(self) -> Iterator[CpuExplainer]:
        """Explanations against one weighted background after the other."""
        yield from self.kept
        if self.kept:
            return
        one = self._against(self.weighted[0])
        for background in self.weighted:
            one.refill(replace(self.game, background=background))
            yield one


class Piece(NamedTuple):
    """Background rows of which r(a, c) = Σ_q r(a, t_q) V_q(c)."""

    rows: Int64s
    nodes: Doubles
    shares: Doubles


def weigh(background: Background, piece: Piece) -> Iterator[Background]:
    """Background rows of a piece, for each node with the weights that its V gives them."""
    for shares in piece.shares:
        weight = np.rint(shares * background.weight[piece.rows] / background.total * TOTAL).astype(np.int64)
        used = weight != 0
        is_all = len(piece.rows) == len(background.rows) and used.all()
        rows = background.rows if is_all else background.rows[piece.rows[used]]
        counts = background.n_given[piece.rows[used]]
        yield Background(rows, weight[used], TOTAL, background.expected_value, counts)


def factorize(ratio: Ratio, margins: Doubles, weight: Doubles, bounds: Doubles) -> list[Piece]:
    """Factors of r(a, c) for a within the bounds, c the margins, in pieces by margin; weights have the sum 1."""
    reached = min(bounds[0], margins.min()), max(bounds[1], margins.max())
    pieces, waiting = [], [np.arange(len(margins))]
    while waiting:
        rows = waiting.pop()
        of_piece = margins[rows]
        found = _fit(ratio, of_piece, reached)
        if found is not None and (np.abs(found[1]) @ weight[rows]).max() > LARGE:
            found = None
        if found is None and len(nodes := np.unique(of_piece)) <= RANKS[-1]:
            found = nodes, (of_piece == nodes[:, None]).astype(np.float64)
        if found is not None:
            pieces.append(Piece(rows, *found))
            continue
        is_low = of_piece < (of_piece.min() + of_piece.max()) / 2
        waiting += [rows[~is_low], rows[is_low]]
    return pieces


def _fit(ratio: Ratio, margins: Doubles, reached_bounds: tuple[float, float]) -> tuple[Doubles, Doubles] | None:
    """Nodes t (R,) and V (R, m), None if no number of nodes is exact enough."""
    low, high = margins.min(), margins.max()
    near = max(low - NEAR, reached_bounds[0]), min(high + NEAR, reached_bounds[1])
    reached = np.union1d(_spread(*reached_bounds, GRID), _spread(*near, GRID))
    between, probes = (reached[1:] + reached[:-1]) / 2, _spread(low, high, GRID)
    if not len(between):  # all margins that the forest can reach are one
        return None
    wanted = ratio(reached[:, None], probes)
    best, chosen = np.inf, probes
    for rank in RANKS:
        nodes = _spread(low, high, rank)
        shares = _least_squares(ratio(reached[:, None], nodes), wanted)
        error = _error(ratio, between, nodes, probes, shares)
        if error < best:
            best, chosen = error, nodes
        if error < ENOUGH:
            break
    if best > MOST:
        return None
    # In the order of the margins, so that no bit depends on that of the rows.
    distinct, place = np.unique(margins, return_inverse=True)
    basis = ratio(reached[:, None], chosen)
    parts = [
        _least_squares(basis, ratio(reached[:, None], distinct[first : first + TOGETHER]))
        for first in range(0, len(distinct), TOGETHER)
    ]
    shares = np.concatenate(parts, axis=1)
    checked = np.union1d(between, distinct[:: -(-len(distinct) // GRID)])
    is_exact = _error(ratio, checked, chosen, distinct, shares) < MOST
    return (chosen, shares[:, place.reshape(-1)]) if is_exact else None


def _error(ratio: Ratio, rows: Doubles, nodes: Doubles, margins: Doubles, shares: Doubles) -> float:
    """Largest error of the factors of some margins, relative to the largest of r."""
    some = slice(None, None, -(-len(margins) // GRID))
    exact = ratio(rows[:, None], margins[some])
    return float(np.abs(ratio(rows[:, None], nodes) @ shares[:, some] - exact).max() / np.abs(exact).max())


def _spread(low: float, high: float, n: int) -> Doubles:
    """Chebyshev nodes."""
    angles = (np.arange(n, dtype=np.float64) + 0.5) * np.pi / n
    return np.asarray(low + (high - low) / 2 * (1 + np.cos(angles)), np.float64)


def _least_squares(basis: Doubles, wanted: Doubles) -> Doubles:
    return np.asarray(np.linalg.lstsq(basis, wanted, rcond=1e-13)[0], np.float64)


def ratio_of_logistic(a: Doubles, c: Doubles) -> Doubles:
    """(g(a) - g(c)) / (a - c) of the logistic function: sinh(d / 2) / (2 d cosh(a / 2) cosh(c / 2)), d = a - c."""
    half = np.abs(a - c) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(half > 1e-4, -np.expm1(-2 * half) / (4 * half), 0.5 - half * (0.5 - half / 3))
    # exp(half) / (cosh cosh), whose exponents cancel: |a - c| <= |a| + |c|.
    scale = np.exp(half - np.abs(a) / 2 - np.abs(c) / 2)
    result: Doubles = 2 * slope * scale / ((1 + np.exp(-np.abs(a))) * (1 + np.exp(-np.abs(c))))
    return result


def ratio_of_softplus(a: Doubles, c: Doubles) -> Doubles:
    """Mean of the logistic function between a and c: the same of log(1 + exp)."""
    d = a - c
    middle = expit((a + c) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (np.logaddexp(0, a) - np.logaddexp(0, c)) / d
    curvature = middle * (1 - middle) * (1 - 2 * middle) / 24
    result: Doubles = np.where(np.abs(d) > 1e-3, ratio, middle + curvature * d * d)
    return result
