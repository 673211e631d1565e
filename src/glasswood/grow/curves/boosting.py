"""Curves and surfaces by histograms: folds of the rows, each left out of curves of its own, stop and judge them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.grow.curves.bins import CATEGORY_RIDGE, Axis
from glasswood.grow.curves.pairs import Pair, grouped_pairs, ranked_pairs, shares_of_groups
from glasswood.grow.losses import RATES

if TYPE_CHECKING:
    from collections.abc import Sequence

LOSSES = ("squared", "logistic", "softmax", "power", "quantile", "huber")
"""Losses in the order of the core's (native/grow/curves/losses.h)."""

FOLDS, REPEATS = 5, 6
"""Parts of the rows, each left out of one set of curves, and how often they are drawn; the mean of the sets is the
result."""

RATE, RIDGE, MOST, MAX_LEAVES, MIN_ROWS = 0.1, 3.0, 4.0, 3, 4
"""Part of a step that is added; rows of mean curvature that shrink a part's step; largest step; parts of a step, and
their fewest rows."""

RANDOM_ROUNDS, ROUNDS, PATIENCE, TOLERANCE = 100, 5_000, 30, 1e-6
"""Most rounds of curves with cuts at random, in every second repeat, and after them of the best; those without gain for
the left-out rows that end them; and what of the loss counts as a gain."""

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Of the first start in a mean of two, from which left-out rows choose."""

PRICES = {"squared": 2.0, "huber": 2.0, "logistic": 0.5, "softmax": 0.5}
"""Price of a coefficient in units of noise, by the loss, 1 for others: losses of squares count twice, and equations of
classes are shrunk by a ridge, so that their coefficients are worth half a parameter."""

OF_SPLIT = 24
"""Coefficients whose price a split of a tree has: it was chosen among all places of all columns."""

OF_CURVES, OF_SURFACES = 0.6, 0.7
"""Gain of a step, in the best one of the round before, below which it is left out, so that pairs of noise do not end
the boosting of others."""

CERTAINTY, OF_PAIRS = 2.25, 1.0
"""Standard errors by which the loss of left-out rows must fall for curves and surfaces beside a tree, and for surfaces
of a glass box and of pairs that other rows have ranked."""


@dataclass(frozen=True, eq=False)
class CurveRows:
    """What curves are fitted to.

    Attributes
    ----------
    loss : str
        One of `LOSSES`, or of those of a power (`glasswood.grow.losses.RATES`).
    level : float
        The quantile, where Huber's loss turns linear, or the power of the mean that the variance is.
    y, weight : float64, (n_rows,)
    starts : float64, (1 to 3, n_outputs, n_rows)
        Margins where they begin; of several starts, the result is a mean of what becomes of the last and of another.
    fold : int32, (n_repeats, n_rows)
    n_terms : sequence of float
        Coefficients of each start, and what the choice of its splits costs in their price.
    has_splits : bool
        Whether the first start has splits.
    """

    loss: str
    level: float
    y: Doubles
    weight: Doubles
    starts: Doubles
    fold: Int32s
    n_terms: Sequence[float] = (0,)
    has_splits: bool = False

    @property
    def n_folds(self) -> int:
        """Number of folds of a repeat."""
        return int(self.fold.max()) + 1

    @property
    def settings(self) -> _core.CurveSettings:
        """Settings of the core."""
        settings = _core.CurveSettings()
        settings.loss = LOSSES.index("power" if self.loss in RATES else self.loss)
        settings.level = self.level
        settings.rate, settings.ridge, settings.category_ridge = RATE, RIDGE, CATEGORY_RIDGE
        settings.most = MOST if self.loss not in {"squared", "quantile", "huber"} else np.inf
        settings.max_leaves, settings.min_rows = MAX_LEAVES, MIN_ROWS
        settings.patience, settings.tolerance = PATIENCE, TOLERANCE
        return settings

    def between(self, first: int) -> CurveRows:
        """Take one of the starts, and the last one."""
        if len(self.starts) < 3:
            return self
        n_terms = self.n_terms[first], self.n_terms[-1]
        return replace(self, starts=self.starts[[first, -1]], n_terms=n_terms, has_splits=self.has_splits and not first)

    def n_parameters(self, share: float) -> float:
        """Count the coefficients of a mean of two starts."""
        return share * self.n_terms[0] + (1 - share) * self.n_terms[-1]

    def price(self, margins: Doubles) -> float:
        """Price a parameter as AIC does (Akaike 1974), in units of the loss."""
        return PRICES.get(self.loss, 1.0) * dispersion(*self.slopes(margins))

    def slopes(self, margins: Doubles) -> tuple[Doubles, Doubles]:
        """Negative gradients and curvatures: float64, (n_outputs, n_rows)."""
        gradient, curvature = np.zeros(margins.shape), np.zeros(margins.shape)
        _core.curve_slopes(self.settings, self.y, self.weight, np.ascontiguousarray(margins), gradient, curvature)
        return gradient, curvature


@dataclass(frozen=True, eq=False)
class Term:
    """A curve or a surface as it was boosted: values by fold.

    Attributes
    ----------
    axes : tuple of one or two Axis
    groups : tuple of int64, (n_bins,)
        Where each bin of an axis stands in the values: itself, for a curve.
    values : float64, (n_sets, n_outputs, n[, m])
        By fold, those of one repeat after the other.
    """

    axes: tuple[Axis, ...]
    groups: tuple[Int64s, ...]
    values: Doubles


@dataclass(frozen=True, eq=False)
class Boosted:
    """Terms, and what they do for rows that they have not seen.

    Attributes
    ----------
    curves, surfaces : list of Term
    n_folds : int
        Of a repeat.
    share : float
        Of the first of two starts; the last one has the rest.
    unseen : float64, (n_outputs, n_rows)
        Margins of each row by the curves of the folds that left it out, their mean.
    before, after : float64, (n_repeats, n_rows)
        Losses of rows that were left out, without and with curves and surfaces.
    first : int
        Which start is the first of the two.
    price : float
        Of the coefficients of the mean of both, in units of the loss.
    """

    n_folds: int
    share: float
    unseen: Doubles
    before: Doubles
    after: Doubles
    curves: list[Term] = field(default_factory=list)
    surfaces: list[Term] = field(default_factory=list)
    first: int = 0
    price: float = 0.0


def is_gain(before: Doubles, after: Doubles, certainty: float, price: float = 0.0) -> bool:
    """Whether losses of left-out rows, (n_repeats, n_rows), fall by more than so many standard errors of a repeat.

    Left-out rows choose the round at which boosting ends, which repeats do not average out. They must also pay the
    price of coefficients that are added.
    """
    fall = before - after
    error = np.std(fall, axis=1).mean() * np.sqrt(fall.shape[1])
    return bool(fall.sum(axis=1).mean() > certainty * error + price)


def dispersion(gradient: Doubles, curvature: Doubles) -> float:
    """Find the noise of a unit of curvature: about the variance of residuals, or 1 of classes and counts.

    A row that is surely in the wrong class has next to no curvature: rows count together.
    """
    return float((gradient**2).sum() / max(float(curvature.sum()), 1e-300))


def folds_of(groups: Int64s, seed: int) -> Int32s:
    """Divide rows some times; those of one group stay together: int32, (n_repeats, n_rows)."""
    n_groups, random = int(groups.max()) + 1, np.random.default_rng(seed)
    parts = [random.permutation(n_groups) % min(FOLDS, n_groups) for _ in range(REPEATS)]
    fold: Int32s = np.array([part[groups] for part in parts], np.int32)
    return fold


def boosted(
    rows: CurveRows,
    axes: list[Axis],
    signs: Int64s,
    pairs: int | Sequence[Pair],
    n_threads: int,
    *,
    must_gain: bool,
) -> Boosted:
    """Fit curves of all axes and then surfaces; of three starts, to each mean with the last, of which one is taken.

    Parameters
    ----------
    rows : CurveRows
    axes : list of Axis
    signs : int, (n_features,)
        1 where a curve must not fall, -1 where it must not rise; such features are in no surfaces.
    pairs : int or sequence of pairs of features
        How many surfaces of the pairs that promise most, or which.
    n_threads : int
        The result does not depend on it.
    must_gain : bool
        Whether the first start stays as it is unless rows that were left out gain from curves.
    """
    nothing, start = _nothing(rows)
    if rows.n_folds < 2 or not axes:
        return nothing
    axes = _by_gain(rows, axes, rows.starts[0])
    each = [_curves(rows, axes, signs, one, n_threads) for one in rows.starts]
    wanted = _Surfaces([axis for axis in axes if signs[axis.feature] == 0], pairs, n_threads, must_gain)
    found = []
    for first in range(max(len(each) - 1, 1)):
        own, both = rows.between(first), each if len(each) < 3 else _copied([each[first], each[-1]])
        bent = _best_mean(own, nothing, both)
        if must_gain and not is_gain(bent.before, bent.after, CERTAINTY, bent.price - nothing.price):
            if first:
                continue
            bent, both = nothing, [([], start)]
        found.append(replace(_with_surfaces(own, wanted, nothing, bent, both), first=first))
    return min(found, key=lambda one: float(one.after.mean(axis=0).sum()) + one.price)


class _Surfaces(NamedTuple):
    """Which surfaces to fit: of which axes and pairs, and whether rows must gain as for curves beside a tree."""

    axes: list[Axis]
    pairs: int | Sequence[Pair]
    n_threads: int
    must_gain: bool


def _copied(each: list[tuple[list[Term], Doubles]]) -> list[tuple[list[Term], Doubles]]:
    return [(list(terms), margins.copy()) for terms, margins in each]


def _with_surfaces(
    rows: CurveRows, wanted: _Surfaces, nothing: Boosted, found: Boosted, each: list[tuple[list[Term], Doubles]]
) -> Boosted:
    """Fit surfaces to what curves leave; without a gain of left-out rows, curves stay alone unless pairs are named."""
    axes, pairs, n_threads, must_gain = wanted
    chosen = _chosen(rows, axes, found.unseen, pairs, n_threads)
    likely = each[0 if found.share >= 0.5 else -1][1]
    if not chosen or (isinstance(pairs, int) and not _promise(rows, axes, found.unseen, pairs, likely, n_threads)):
        return found
    mains = _mains(axes, each[-1][0])
    for terms, margins in each:
        terms += _surfaces(rows, axes, found.unseen, chosen, mains, margins, n_threads)
    bent = _best_mean(rows, nothing, each)
    certainty, price = CERTAINTY if must_gain else OF_PAIRS, bent.price - found.price if rows.has_splits else 0.0
    return bent if not isinstance(pairs, int) or is_gain(found.after, bent.after, certainty, price) else found


def _promise(
    rows: CurveRows, axes: list[Axis], unseen: Doubles, n_pairs: int, margins: Doubles, n_threads: int
) -> bool:
    """Whether left-out rows gain from surfaces of pairs that the other rows have ranked, in the first draw of folds.

    Rows that took part in ranking many pairs gain from those of noise.
    """
    first, moved = replace(rows, fold=rows.fold[:1]), margins[: rows.n_folds].copy()
    before = _losses(first, moved)

    def one_set(k: int) -> None:
        is_own = rows.fold[0] != k
        gradient, curvature = (part * is_own for part in rows.slopes(unseen))
        chosen = ranked_pairs(axes, rows.fold[0], gradient, curvature, n_pairs, 1)
        groups = grouped_pairs(axes, chosen, *_of_one_output(rows, gradient, curvature))
        _run_surfaces(_without(rows, ~is_own), axes, groups, chosen, moved[k : k + 1], 1)

    side_by_side(one_set, rows.n_folds, n_threads)
    return is_gain(before, _losses(first, moved), OF_PAIRS)


def _nothing(rows: CurveRows) -> tuple[Boosted, Doubles]:
    """No terms, and margins by set."""
    margins = np.repeat(rows.starts[:1], rows.n_folds * len(rows.fold), axis=0)
    losses, price = _losses(rows, margins), rows.n_terms[0] * rows.price(rows.starts[0])
    return Boosted(rows.n_folds, 1.0, rows.starts[0], losses, losses, price=price), margins


def _losses(rows: CurveRows, margins: Doubles) -> Doubles:
    """Losses of rows that margins by set have left out: (n_repeats, n_rows)."""
    one = np.zeros((1, len(rows.y)), np.uint16)
    losses: Doubles = _run(rows, one, [(1, 1, 1, 0)], margins, 1, 0.0, (0, 0))[1]
    return losses


def _best_mean(rows: CurveRows, nothing: Boosted, each: list[tuple[list[Term], Doubles]]) -> Boosted:
    """Take the mean of terms and margins from both starts, in one order, that left-out rows choose.

    These rows have helped to choose the splits of a tree, so a mean takes the place of the whole tree unless they are
    sure.
    """
    (terms, first), (others, last) = each[0], each[-1]

    def judged(share: float) -> tuple[Doubles, float]:
        margins = mean_of(share, first, last)
        return _losses(rows, margins), rows.n_parameters(share) * rows.price(_unseen(rows, margins))

    all_judged = {share: judged(share) for share in (SHARES if len(each) > 1 else (1.0,))}
    costs = {share: float(losses.mean(axis=0).sum()) + price for share, (losses, price) in all_judged.items()}
    share = min(costs, key=lambda one: costs[one])
    if share == 1 and rows.has_splits and len(costs) > 1:
        other = min(set(costs) - {share}, key=lambda one: costs[one])
        (before, old), (after, new) = all_judged[other], all_judged[share]
        share = share if is_gain(before, after, CERTAINTY, new - old) else other
    margins = mean_of(share, first, last)
    pairs = zip(terms, others, strict=True)
    mixed = [replace(one, values=mean_of(share, one.values, other.values)) for one, other in pairs]
    curves, surfaces = ([one for one in mixed if len(one.axes) == n] for n in (1, 2))
    losses, price = all_judged[share]
    unseen = _unseen(rows, margins)
    return Boosted(rows.n_folds, share, unseen, nothing.before, losses, curves, surfaces, price=price)


def mean_of(share: float, first: Doubles, last: Doubles) -> Doubles:
    """Mean of both, of which the first has a share; exactly the first where that is 1."""
    return first if share == 1 else share * first + (1 - share) * last


def _curves(
    rows: CurveRows, axes: list[Axis], signs: Int64s, start: Doubles, n_threads: int
) -> tuple[list[Term], Doubles]:
    """Boost curves from a start; those that gain most first."""
    own = _by_gain(rows, axes, start)
    shapes = [(axis.n_bins, 1, axis.n_ordered, int(signs[axis.feature])) for axis in own]
    margins = np.repeat(start[None], rows.n_folds * len(rows.fold), axis=0)
    bins = np.array([axis.codes for axis in own])
    values, _ = _run(rows, bins, shapes, margins, n_threads, OF_CURVES, (RANDOM_ROUNDS, ROUNDS))
    terms = {axis.feature: Term((axis,), (np.arange(axis.n_bins),), v) for axis, v in zip(own, values, strict=True)}
    return [terms[axis.feature] for axis in axes], margins


def _run(
    rows: CurveRows,
    bins: NDArray[np.uint16],
    shapes: list[tuple[int, int, int, int]],
    margins: Doubles,
    n_threads: int,
    least_gain: float,
    rounds: tuple[int, int],
) -> tuple[list[Doubles], Doubles]:
    """Move margins by set; return values by term, (n_sets, n_outputs, n[, m]), and losses after by repeat and row.

    `rounds` are those with random cuts, in every second repeat, and those with the best ones.
    """
    sizes = [n * m for n, m, _, _ in shapes]
    values, n_rounds = np.zeros((*margins.shape[:2], sum(sizes))), np.zeros(rows.n_folds, np.int32)
    settings, losses = rows.settings, np.zeros((len(rows.fold), 2, len(rows.y)))
    settings.least_gain, settings.max_rounds = least_gain, rounds[1]
    for k, fold in enumerate(rows.fold):
        own = slice(k * rows.n_folds, (k + 1) * rows.n_folds)
        settings.seed, settings.random_rounds = own.start, rounds[0] if k % 2 else 0
        _core.boost_curves(
            settings, rows.y, rows.weight, fold, np.ascontiguousarray(bins), np.array(shapes, np.int32),
            values[own], margins[own], losses[k], n_rounds, n_threads,
        )  # fmt: skip
    parts = np.split(values, np.cumsum(sizes)[:-1], axis=2)
    shaped = [
        part if shape[1] == 1 else part.reshape(*part.shape[:2], *shape[:2])
        for part, shape in zip(parts, shapes, strict=True)
    ]
    return shaped, losses[:, 1]


def _unseen(rows: CurveRows, margins: Doubles) -> Doubles:
    """Margins of each row by the folds that left it out, their mean over repeats."""
    at = np.arange(len(rows.y))
    each = [margins[k * rows.n_folds + fold, :, at].T for k, fold in enumerate(rows.fold)]
    unseen: Doubles = np.mean(each, axis=0)
    return np.ascontiguousarray(unseen)


def _by_gain(rows: CurveRows, axes: list[Axis], start: Doubles) -> list[Axis]:
    """Put axes into the order of what a step by bins would gain: results do not depend on that of the columns."""
    gradient, curvature = rows.slopes(start)
    ridge = CATEGORY_RIDGE * curvature.mean()

    def gain(axis: Axis) -> float:
        sums = [(axis.sums(g), axis.sums(h)) for g, h in zip(gradient, curvature, strict=True)]
        return -sum(float((g * g / (h + ridge)).sum()) for g, h in sums)

    return sorted(axes, key=gain)


def _chosen(
    rows: CurveRows, axes: list[Axis], unseen: Doubles, pairs: int | Sequence[Pair], n_threads: int
) -> list[Pair]:
    """Pairs of places among the axes, those that promise most first."""
    place = {axis.feature: k for k, axis in enumerate(axes)}
    if not isinstance(pairs, int):
        return [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    if not pairs or len(axes) < 2:
        return []
    ranked = ranked_pairs(axes, rows.fold[0], *rows.slopes(unseen), pairs, n_threads)
    return [(a, b) if axes[a].feature < axes[b].feature else (b, a) for a, b in ranked]


def _surfaces(
    rows: CurveRows,
    axes: list[Axis],
    unseen: Doubles,
    chosen: list[Pair],
    mains: list[Doubles],
    margins: Doubles,
    n_threads: int,
) -> list[Term]:
    """Boost surfaces of pairs, which moves margins.

    Each set of surfaces orders categories by its own rows: in an order by all rows, those that were left out would have
    placed their own categories, and gain from that. In every second draw the order is that of their curves: effects
    that multiply each other have it, and it is less noisy than one of a pair alone.
    """
    gradient, curvature = _of_one_output(rows, *rows.slopes(unseen))
    shown = grouped_pairs(axes, chosen, gradient, curvature)
    if not any(axes[k].n_categories for pair in chosen for k in pair):
        return _terms(axes, shown, chosen, _run_surfaces(rows, axes, shown, chosen, margins, n_threads))

    def one_set(k: int) -> list[Doubles]:
        draw, number = divmod(k, rows.n_folds)
        is_left_out = rows.fold[draw] == number
        order = [one[k] for one in mains] if draw % 2 else []
        groups = grouped_pairs(axes, chosen, gradient * ~is_left_out, curvature * ~is_left_out, order)
        values = _run_surfaces(_without(rows, is_left_out), axes, groups, chosen, margins[k : k + 1], 1)
        return [
            shares_of_groups(axes[a], own_a, to_a) @ value @ shares_of_groups(axes[b], own_b, to_b).T
            for (a, b), (own_a, own_b), (to_a, to_b), value in zip(chosen, groups, shown, values, strict=True)
        ]

    each = side_by_side(one_set, len(margins), n_threads)
    return _terms(axes, shown, chosen, [np.concatenate(one) for one in zip(*each, strict=True)])


def _mains(axes: list[Axis], curves: list[Term]) -> list[Doubles]:
    """Take what curves add in the bins of each axis by set, (n_sets, n_bins); nothing without curves."""
    values = {term.axes[0].feature: term.values[:, 0] for term in curves}
    return [values[axis.feature] for axis in axes] if values else []


def _of_one_output(rows: CurveRows, gradient: Doubles, curvature: Doubles) -> tuple[Doubles, Doubles]:
    """Slopes that say the order of categories, (n_rows,): those of the first class."""
    return (gradient[0], curvature[0]) if rows.loss == "softmax" else (gradient.sum(axis=0), curvature.sum(axis=0))


def _without(rows: CurveRows, is_left_out: NDArray[np.bool_]) -> CurveRows:
    """Rows with one fold, of those that are left out."""
    return replace(rows, fold=np.where(is_left_out, 0, -1).astype(np.int32)[None])


def _run_surfaces(
    rows: CurveRows,
    axes: list[Axis],
    groups: list[tuple[Int64s, Int64s]],
    chosen: list[Pair],
    margins: Doubles,
    n_threads: int,
) -> list[Doubles]:
    """As `_run`, of pairs of groups."""
    bins, shapes = [], []
    for (a, b), (of_a, of_b) in zip(chosen, groups, strict=True):
        n, m = int(of_a.max()) + 1, int(of_b.max()) + 1
        bins.append(of_a[axes[a].codes] * m + of_b[axes[b].codes])
        shapes.append((n, m, 0, 0))
    values, _ = _run(rows, np.array(bins, np.uint16), shapes, margins, n_threads, OF_SURFACES, (0, ROUNDS))
    return [value.reshape(*value.shape[:2], *shape[:2]) for value, shape in zip(values, shapes, strict=True)]


def _terms(
    axes: list[Axis], groups: list[tuple[Int64s, Int64s]], chosen: list[Pair], values: list[Doubles]
) -> list[Term]:
    return [Term((axes[a], axes[b]), own, value) for (a, b), own, value in zip(chosen, groups, values, strict=True)]
