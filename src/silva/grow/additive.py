"""Sums of curves: regressions on numbers, categories and hinges under a ridge that left-out rows choose.

A curve is a line and hinges max(0, x - knot) at quantiles of a feature (Eilers and Marx 1996,
https://doi.org/10.1214/ss/1038425655, with a ridge in the place of differences). One ridge holds for all hinges. Knots
at which a curve hardly bends, and terms that hardly matter, are left out, and the others are fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from silva.grow.data.columns import TrainingColumns
    from silva.typing import Bools, Doubles, Int64s

KNOTS = 9
"""Of a feature, at as many quantiles."""

FEWEST_VALUES = 5
"""Distinct values of a feature from which on it may have a curve."""

MOST_TERMS = 500
"""Columns of the regression: with more features, each has fewer knots; with more columns than these there is none."""

PENALTIES = 10.0 ** np.arange(-1, 5.5, 0.5)
"""Ridges of hinges that are tried, in rows, of standardised columns."""

OF_NUMBERS, OF_INDICATORS = 1e-3, 1.0
"""Ridge of numbers, as of hinges; and that of indicators, in rows of a category."""

NEGLIGIBLE = 0.01
"""Effect that is left out, in standard deviations of the target: that of a bend at its furthest, that of a term in the
root mean square."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a regression.

    Attributes
    ----------
    column : int, (n_terms,)
        Column of X.
    knot : float64, (n_terms,)
        Where a hinge begins; -inf: the term is the column itself.
    fill : float64, (n_terms,)
        What missing values of the column count as: its mean.
    """

    column: Int64s
    knot: Doubles
    fill: Doubles

    @property
    def is_hinge(self) -> Bools:
        """Which terms are hinges."""
        return np.isfinite(self.knot)

    def values(self, X: Doubles) -> Doubles:
        """Evaluate the terms on rows: float64, (n_rows, n_terms)."""
        x = X[:, self.column]
        x = np.where(np.isnan(x), self.fill, x)
        return np.where(self.is_hinge, np.maximum(x - np.where(self.is_hinge, self.knot, 0.0), 0.0), x)

    def taken(self, kept: Bools) -> Terms:
        """Keep some terms."""
        return Terms(self.column[kept], self.knot[kept], self.fill[kept])


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A regression on terms: ``intercept + (values - centre) @ coefficient``.

    Attributes
    ----------
    terms : Terms
    centre, coefficient : float64, (n_terms,)
    intercept : float
    unseen : float64, (n_rows,)
        What regressions of the other rows predict of each row.
    """

    terms: Terms
    centre: Doubles
    coefficient: Doubles
    intercept: float
    unseen: Doubles

    def of_column(self, column: int, x: Doubles) -> Doubles:
        """Find what a column adds, at some of its values: float64, (n_values,)."""
        own = self.terms.column == column
        values = replace(self.terms.taken(own), column=np.zeros(int(own.sum()), np.int64)).values(x[:, None])
        added: Doubles = (values - self.centre[own]) @ self.coefficient[own]
        return added

    def knots_of(self, column: int) -> Doubles:
        """Rising knots of a column."""
        return np.sort(self.terms.knot[(self.terms.column == column) & self.terms.is_hinge])


def additive_model(
    columns: TrainingColumns, target: Doubles, weight: Doubles, fold: Int64s, copies: float = 1.0
) -> AdditiveModel | None:
    """Fit curves of all numbers and levels of all categories together; None where no term stays.

    Parameters
    ----------
    columns : TrainingColumns
        With derived columns.
    target, weight : float64, (n_rows,)
    fold : int, (n_rows,)
        Part of the rows that each belongs to.
    copies : float
        Of each row.
    """
    terms = _terms(columns, weight)
    if not 0 < len(terms.column) <= MOST_TERMS:
        return None
    unit = float(np.abs(target - target.mean()).max()) or 1.0
    centred = (target - target.mean()) / unit
    spread = float(np.sqrt(np.average((centred - np.average(centred, weights=weight)) ** 2, weights=weight)))
    if spread == 0:
        return None
    has_levels = np.array([False] * columns.n_features + [column.codes is None for column in columns.derived], bool)
    ridge = _Ridge.of(terms.values(columns.X), centred / spread, weight, fold, has_levels[terms.column], copies)
    kept = _needed(terms, columns.X, ridge.best(terms.is_hinge)[0][1:], ridge.scale)
    if not kept.any():
        return None
    terms, ridge = terms.taken(kept), ridge.taken(kept)
    coefficient, unseen = ridge.best(terms.is_hinge)
    back = spread * unit
    return AdditiveModel(
        terms,
        ridge.centre,
        coefficient[1:] / ridge.scale * back,
        float(coefficient[0] * back + target.mean()),
        unseen * back + target.mean(),
    )


def _terms(columns: TrainingColumns, weight: Doubles) -> Terms:
    """Numbers, derived columns and hinges, features that are constant left out."""
    usable = np.flatnonzero(~columns.is_categorical & columns.is_usable)
    distinct = {int(k): _distinct(columns.X[:, k]) for k in usable}
    lines = [k for k, values in distinct.items() if len(values) > 1]
    curved = [k for k in lines if k < columns.n_features and len(distinct[k]) >= FEWEST_VALUES]
    n_knots = min(KNOTS, (MOST_TERMS - len(lines)) // max(len(curved), 1))
    hinges = [(k, knot) for k in curved for knot in _knots(columns.X[:, k], distinct[k], n_knots)]
    column = np.array([*lines, *(k for k, _ in hinges)], np.int64)
    knot = np.array([*(-np.inf for _ in lines), *(knot for _, knot in hinges)])
    means = {k: _mean(columns.X[:, k], weight) for k in lines}
    return Terms(column, knot, np.array([means[int(k)] for k in column]))


def _distinct(x: Doubles) -> Doubles:
    return np.unique(x[~np.isnan(x)])


def _mean(x: Doubles, weight: Doubles) -> float:
    present = ~np.isnan(x)
    return float(np.average(x[present], weights=weight[present]))


def _knots(x: Doubles, distinct: Doubles, n_knots: int) -> list[float]:
    """Midway between neighbouring values, the upper one a quantile, as thresholds of trees lie."""
    if n_knots < 1:
        return []
    quantiles = np.quantile(x[~np.isnan(x)], np.arange(1, n_knots + 1) / (n_knots + 1), method="nearest")
    places = np.unique(np.searchsorted(distinct, quantiles))
    low, high = distinct[places[places > 0] - 1], distinct[places[places > 0]]
    middle = low + (high - low) / 2
    return [float(knot) for knot in np.where(low < middle, middle, high)]


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Sums over all rows and over each part of them, of columns about their means and in their spreads, 1 in front."""

    A: Doubles
    y: Doubles
    weight: Doubles
    fold: Int64s
    penalty: Doubles
    centre: Doubles
    scale: Doubles
    gram: Doubles
    parts: Doubles

    @classmethod
    def of(
        cls, values: Doubles, y: Doubles, weight: Doubles, fold: Int64s, is_indicator: Bools, copies: float
    ) -> _Ridge:
        """Sum over the rows; `copies` of a row count once."""
        weight = weight / weight.mean() / copies
        centre = np.average(values, axis=0, weights=weight)
        furthest = np.abs(values - centre).max(axis=0)
        unit: Doubles = np.where(furthest > 0, furthest, 1.0)  # squares of large numbers overflow
        spread: Doubles = unit * np.sqrt(np.average(((values - centre) / unit) ** 2, axis=0, weights=weight))
        scale: Doubles = np.where(spread > 0, spread, 1.0)
        A = np.column_stack([np.ones(len(y)), (values - centre) / scale])
        both = np.column_stack([A, y])
        parts = [both[fold == k] for k in range(int(fold.max()) + 1)]
        sums = np.array([part.T @ (part * weight[fold == k][:, None]) for k, part in enumerate(parts)])
        penalty = np.where(is_indicator, OF_INDICATORS / np.where(is_indicator, scale, 1.0) ** 2, OF_NUMBERS)
        return cls(A, y, weight, fold, penalty, centre, scale, sums.sum(axis=0), sums)

    def taken(self, kept: Bools) -> _Ridge:
        """Keep some columns."""
        at = np.concatenate([[0], 1 + np.flatnonzero(kept)])
        both = np.append(at, len(kept) + 1)
        return replace(
            self,
            A=self.A[:, at],
            penalty=self.penalty[kept],
            centre=self.centre[kept],
            scale=self.scale[kept],
            gram=self.gram[np.ix_(both, both)],
            parts=self.parts[:, both][:, :, both],
        )

    def solution(self, gram: Doubles, is_hinge: Bools, ridge: float) -> Doubles:
        """Solve for the coefficients, that of 1 in front."""
        penalty = np.append(0.0, np.where(is_hinge, ridge, self.penalty))
        own = gram[:-1, :-1] + np.diag(penalty + 1e-9 * np.diag(gram)[:-1])
        return np.asarray(np.linalg.solve(own, gram[:-1, -1]), np.float64)

    def unseen(self, is_hinge: Bools, ridge: float) -> Doubles:
        """Predict each part of the rows by a regression on the others."""
        predictions = np.empty(len(self.y))
        for k, part in enumerate(self.parts):
            held = self.fold == k
            predictions[held] = self.A[held] @ self.solution(self.gram - part, is_hinge, ridge)
        return predictions

    def best(self, is_hinge: Bools) -> tuple[Doubles, Doubles]:
        """Choose the ridge of hinges by left-out rows: coefficients of all rows, and predictions of left-out ones."""
        tried = [self.unseen(is_hinge, ridge) for ridge in PENALTIES]
        errors = [float(self.weight @ (self.y - predictions) ** 2) for predictions in tried]
        at = int(np.argmin(errors))
        return self.solution(self.gram, is_hinge, float(PENALTIES[at])), tried[at]


def _needed(terms: Terms, X: Doubles, coefficient: Doubles, scale: Doubles) -> Bools:
    """Terms whose effect is not negligible; a curve that is not keeps its line and the knots at which it bends."""
    is_hinge = terms.is_hinge
    kept = ~is_hinge & (np.abs(coefficient) >= NEGLIGIBLE)
    for column in np.unique(terms.column[is_hinge]):
        own = terms.column == column
        hinges = np.flatnonzero(own & is_hinge)
        x = np.array([np.nanmin(X[:, column]), *terms.knot[hinges], np.nanmax(X[:, column])])
        bends = np.maximum(x[:, None] - terms.knot[hinges], 0.0) @ (coefficient / scale)[hinges]
        corners = _corners(np.column_stack([x, bends]), 0, len(x) - 1)
        if corners:
            kept[hinges[np.array(corners) - 1]] = True
            kept |= own & ~is_hinge
    return kept


def _corners(points: Doubles, first: int, last: int) -> list[int]:
    """Points between two others at which a line between these is too far off (Douglas and Peucker 1973)."""
    if last - first < 2:
        return []
    (x0, y0), (x1, y1) = points[first], points[last]
    between = points[first + 1 : last]
    off = np.abs(between[:, 1] - y0 - (y1 - y0) * ((between[:, 0] - x0) / (x1 - x0)))
    furthest = first + 1 + int(np.argmax(off))
    if off.max() < NEGLIGIBLE:
        return []
    return [*_corners(points, first, furthest), furthest, *_corners(points, furthest, last)]
