"""Which parts of a tree pay if the noise differs from place to place; a search's BIC knows one variance for all rows.

A parameter's price, ln n in likelihood, is ln n times the variance of the noise in sums of squares. In a regression of
leverages h and left-out residuals r = e / (1 - h), the noise that its parameters take up is the sum of h r² over rows
(the sandwich: Takeuchi 1976, White 1980; with left-out residuals MacKinnon and White 1985,
https://doi.org/10.1016/0304-4076(85)90158-7): the variance times their number where it is the same for all rows. So a
leaf costs its sum of squares and ln n times the sum of h r², a split ln n times the mean square of its rows for every
parameter that it counts for. A term stays where its Wald statistic by the sandwich is above ln n, or a multiple of this
where the other terms nearly hold its column: of nearly collinear columns one stays.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Bools, Doubles, Int32s, Int64s
from glasswood.grow.tree.refit import Design, independent, rows_by_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.data.rows import TrainingRows

T = TypeVar("T")

DECIDED = 1 - 1e-6
"""Leverage from which on nothing else tells what a row's prediction would be without it."""


INFLATED = 30.0
"""Variance inflation, 1 / (1 - R²) of a column by the others of its leaf, from which on a term costs more."""

COLLINEAR = 2.0
"""What each further e-fold of it adds to a term's price, in prices of a term."""

MOST_ROWS = 1 << 20
"""Nodes of more rows are not pruned: a search is sure of them, and the test takes as long as some generations."""


def choice_factor(n_rows: float, n_features: int) -> float:
    """Return what a parameter costs beside BIC's ln n, where it is chosen among many features.

    The best of p columns of noise gains 2 ln p of the likelihood: a term must gain more than that (the risk inflation
    of Foster and George 1994, https://doi.org/10.1214/aos/1176325766). From p² rows on, ln n is more.
    """
    return max(1.0, 2 * math.log(max(n_features, 1)) / math.log(max(n_rows, 3.0)))


@dataclass(frozen=True)
class Prices:
    """Prices of parameters.

    Attributes
    ----------
    penalty, test_weight : float
        As for `ModelTreeRegressor`.
    n_rows : float
        Copies left out.
    copies : float
        Mean number of copies of each row: they share their noise, and leave together.
    max_terms : int, optional
        Most terms of a leaf.
    collinear : float
        What each further e-fold of a column's variance inflation adds to a term's price, in prices of a term.
    """

    penalty: float
    test_weight: float
    n_rows: float
    copies: float = 1.0
    max_terms: int | None = None
    collinear: float = COLLINEAR

    @property
    def parameter(self) -> float:
        """Price of a parameter, in variances of the noise."""
        return self.penalty * self.copies * math.log(self.n_rows)

    def split(self, n_levels: int) -> float:
        """Price of a split by a threshold (0 levels), or by a set of `n_levels` categories."""
        choices = max(math.log(self.n_rows), (n_levels - 1) * math.log(2))
        return self.penalty * self.copies * self.test_weight * choices


class Known:
    """Regressions of trees on the same rows, targets and weights: many trees share some of their leaves."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bytes, bytes], Any] = {}

    def of(self, what: str, rows: Int32s, features: NDArray[np.intp], make: Callable[[], T]) -> T:
        """Return what was made of the same rows and features, or make it."""
        key = what, hashlib.blake2b(rows.tobytes()).digest(), features.tobytes()
        if key not in self._found:
            self._found[key] = make()
        found: T = self._found[key]
        return found


@dataclass(frozen=True, eq=False)
class _Leaf:
    """Cost, sum of squares and features of a node's regression, and whether a term cost more for being collinear."""

    cost: float
    sse: float
    features: NDArray[np.intp]
    is_dear: bool


class Pruned(NamedTuple):
    """A tree, its cost, and whether a term cost more because others nearly hold its column."""

    tree: dict[str, Any]
    cost: float
    is_dear: bool


def pruned(
    tree: dict[str, Any],
    rows: TrainingRows,
    columns: TrainingColumns,
    y: Doubles,
    prices: Prices,
    limits: tuple[float, float] = (-np.inf, np.inf),
    known: Known | None = None,
) -> Pruned:
    """Cut the splits and terms off that do not pay, from the leaves upwards.

    Parameters
    ----------
    tree, rows, columns, y
        As in `glasswood.grow.tree.assembly`.
    prices : Prices
    limits : pair
        What predictions are confined to.
    known : Known, optional
        Regressions of the same rows and columns that other trees had.

    Notes
    -----
    O(n_rows n_terms²) a level of the tree, and n_terms⁴ a node. Nodes of more than `MOST_ROWS` rows stay.
    """
    reached = rows_by_node(tree, rows)
    levels = levels_of_splits(tree, rows, columns, reached)
    feature, used = tree["feature"].copy(), tree["model"].reshape(len(tree["feature"]), -1).astype(bool)
    used &= (feature < 0)[:, None]
    has_terms, cost, sse, is_dear = bool(used.any()), np.zeros(len(feature)), np.zeros(len(feature)), False
    for v in range(len(feature) - 1, -1, -1):  # children stand behind their parents
        at, attribute, below = reached[v], int(feature[v]), (tree["left"][v], tree["right"][v])
        if len(at) > MOST_ROWS:
            continue
        candidates = used[v].copy()
        if attribute >= 0:
            candidates |= used[below[0]] | used[below[1]]
            candidates[attribute] |= has_terms and rows.column[attribute] >= 0
            sse[v] = sse[below[0]] + sse[below[1]]
            cost[v] = cost[below[0]] + cost[below[1]] + prices.split(levels[v]) * sse[v] / rows.weight[at].sum()
        chosen = np.flatnonzero(candidates)

        def regression(at: Int32s = at, chosen: NDArray[np.intp] = chosen) -> _Leaf:
            design = Design.of(columns.X[at], y[at], rows.weight[at], chosen, rows.target.scale or 1.0)
            return _leaf(design, columns.sources, prices, limits)

        leaf = regression() if known is None else known.of("pruned", at, chosen, regression)
        used[v], is_dear = candidates, is_dear or leaf.is_dear
        if attribute < 0 or leaf.cost <= cost[v]:
            feature[v], cost[v], sse[v] = -1, leaf.cost, leaf.sse
            used[v] = False
            used[v, leaf.features] = True
    model = (used & (feature < 0)[:, None]).astype(np.uint8).ravel()
    return Pruned(_reached({**tree, "feature": feature, "model": model}, 0), float(cost[0]), is_dear)


def levels_of_splits(
    tree: dict[str, Any], rows: TrainingRows, columns: TrainingColumns, reached: list[Int32s]
) -> dict[int, int]:
    """Categories that come to each split by a set; 0 where a split is by a threshold."""
    levels = {}
    for v in np.flatnonzero(tree["feature"] >= 0).tolist():
        attribute = tree["feature"][v]
        levels[v] = len(np.unique(rows.ranks[attribute, reached[v]])) if columns.is_categorical[attribute] else 0
    return levels


def without_small_leaves(tree: dict[str, Any], rows: TrainingRows, least: int) -> dict[str, Any]:
    """Put the other child in the place of a split one of whose sides few of these rows reach."""
    counts = np.array([len(reached) for reached in rows_by_node(tree, rows)])
    tree = {**tree, "left": tree["left"].copy(), "right": tree["right"].copy()}
    place = np.arange(len(counts))  # what stands for a node; -1: nothing
    for v in range(len(counts) - 1, -1, -1):
        if tree["feature"][v] < 0:
            place[v] = v if counts[v] >= least else -1
            continue
        left, right = tree["left"][v], tree["right"][v] = place[tree["left"][v]], place[tree["right"][v]]
        if min(left, right) < 0:
            place[v] = max(left, right)
    fullest = int(np.argmax(np.where(tree["feature"] < 0, counts, -1)))
    return _reached(tree, int(place[0]) if place[0] >= 0 else fullest)


def _leaf(design: Design, sources: Int64s, prices: Prices, limits: tuple[float, float]) -> _Leaf:
    """Backward elimination of the terms whose absence lowers the cost, and of the least ones beyond the limit."""
    low, high = ((limit - design.centre) / design.scale for limit in limits)
    is_dear = False
    while True:
        kept, inverse, solution, squares = _solved(design)
        bread = inverse @ inverse.T
        sse, level, meat = _noise(design, kept, inverse, solution, prices.copies, (low, high))
        is_dear |= bool((np.diag(bread) * squares > INFLATED).any())
        stays = _worth(bread, solution, meat, squares, prices)
        if stays.all():
            stays = _within(sources[design.features[kept]], bread, solution, prices.max_terms)
        if stays.all():
            cost = sse + prices.parameter * (level + float(np.sum(bread * meat)))
            return _Leaf(cost, sse, design.features[kept], is_dear)
        design = design.with_columns(kept[stays])


def _noise(
    design: Design,
    kept: NDArray[np.intp],
    inverse: Doubles,
    solution: Doubles,
    copies: float,
    limits: tuple[float, float],
) -> tuple[float, float, Doubles]:
    """Sum of squares; sums of the squares of left-out residuals: over all weight, and times products of columns."""
    total, sse, level, meat = design.weight.sum(), 0.0, 0.0, np.zeros((len(kept), len(kept)))
    for columns, target, weight in design.blocks():
        columns = columns[:, kept]
        residual = target - columns @ solution
        leverage = copies * weight * (1 / total + np.sum((columns @ inverse) ** 2, axis=1))
        without = target - np.where(leverage < DECIDED, residual / np.maximum(1 - leverage, 1 - DECIDED), target)
        square = weight * (target - np.clip(without, *limits)) ** 2
        sse += float(weight @ residual**2)
        level += float(weight @ square) / total
        meat += (columns * (weight * square)[:, None]).T @ columns
    return sse, level, meat


def _worth(bread: Doubles, solution: Doubles, meat: Doubles, squares: Doubles, prices: Prices) -> Bools:
    """Which terms stay; without the k-th the cost changes by what its Wald statistic lacks of the price.

    `squares` are the columns' sums of squares.
    """
    stays = np.ones(len(solution), bool)
    while stays.any():
        variance = np.sum((bread @ meat) * bread, axis=1)
        gain = np.full(len(stays), -np.inf)
        inflation = np.maximum(np.diag(bread) * squares / INFLATED, 1.0)[stays]
        price = prices.parameter * (1 + prices.collinear * np.log(inflation))
        gain[stays] = (price * variance[stays] - solution[stays] ** 2) / np.diag(bread)[stays]
        worst = int(np.argmax(gain))
        if gain[worst] <= 0:
            break
        stays[worst] = False
        share = bread[:, worst] / bread[worst, worst]
        solution, bread = solution - share * solution[worst], bread - np.outer(share, bread[worst])
    return stays


def strongest(design: Design, sources: Int64s, max_terms: int) -> NDArray[np.intp]:
    """Columns of as many terms: backward elimination from a regression of all, by their squares alone."""
    while True:
        kept, inverse, solution, _ = _solved(design)
        stays = _within(sources[design.features[kept]], inverse @ inverse.T, solution, max_terms)
        if stays.all():
            return design.features[kept]
        design = design.with_columns(kept[stays])


def _solved(design: Design) -> tuple[NDArray[np.intp], Doubles, Doubles, Doubles]:
    """Independent columns of a regression, the inverse of their triangle, their coefficients and sums of squares."""
    triangle = design.triangle()
    kept = independent(triangle[:, :-1], len(design.y))
    q, r = np.linalg.qr(triangle[:, kept])
    inverse = np.linalg.inv(r)
    return kept, inverse, inverse @ (q.T @ triangle[:, -1]), np.sum(r**2, axis=0)


def _within(sources: Int64s, bread: Doubles, solution: Doubles, max_terms: int | None) -> Bools:
    """Which columns stay if one term leaves a regression of too many: the one whose absence costs least.

    Parameters
    ----------
    sources : int64, (n_columns,)
        Term of each column.
    bread : float64, (n_columns, n_columns)
        Inverse of the columns' sums of products.
    solution : float64, (n_columns,)
    max_terms : int or None
    """
    terms = np.unique(sources)
    if max_terms is None or len(terms) <= max_terms:
        return np.ones(len(sources), bool)
    members = [np.flatnonzero(sources == term) for term in terms]
    rises = [solution[of] @ np.linalg.solve(bread[np.ix_(of, of)], solution[of]) for of in members]
    stays: Bools = sources != terms[np.argmin(rises)]
    return stays


def _reached(tree: dict[str, Any], root: int) -> dict[str, Any]:
    """Keep the nodes that are reached from the root; leaves have no children."""
    kept: list[int] = []
    waiting = [root]
    while waiting:
        v = waiting.pop()
        kept.append(v)
        if tree["feature"][v] >= 0:
            waiting += [int(tree["right"][v]), int(tree["left"][v])]
    n_nodes = len(tree["feature"])
    place = np.full(n_nodes, -1, np.int32)
    place[kept] = np.arange(len(kept))
    is_split = tree["feature"][kept] >= 0
    return {
        **tree,
        **{side: np.where(is_split, place[tree[side][kept]], -1) for side in ("left", "right")},
        **{name: tree[name][kept] for name in ("feature", "threshold", "missing_left")},
        "model": tree["model"].reshape(n_nodes, -1)[kept].ravel(),
    }
