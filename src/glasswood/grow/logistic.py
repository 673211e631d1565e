"""Ridge logistic regressions of leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.evaluate.links import expit, softplus
from glasswood.grow.tree.refit import LeafModel, shared_out
from glasswood.model.ensemble import NUMBER

STEPS = 50
"""Most steps of Newton's method, which usually needs five to ten."""

CLOSE = 1e-10
"""Relative gain of the likelihood at which it ends."""


@dataclass(frozen=True, eq=False)
class LogisticRows:
    """Rows of a leaf.

    Attributes
    ----------
    X : float64, (n_rows, n_columns)
    y : float64, (n_rows,)
        0 or 1.
    weight : float64, (n_rows,)
    offset : float64, (n_rows,)
        Log-odds that are added to those of the leaf.
    prior : float
        Log-odds of one more row at the means of the features, which keeps those of pure leaves finite.
    signs : int, (n_columns,), optional
        1 or -1 where the coefficient of a column must have this sign.
    """

    X: Doubles
    y: Doubles
    weight: Doubles
    offset: Doubles
    prior: float
    signs: Int64s | None = None

    def taken(self, rows: Int32s) -> LogisticRows:
        """Take these rows."""
        return LogisticRows(self.X[rows], self.y[rows], self.weight[rows], self.offset[rows], self.prior, self.signs)


class LogisticFit(NamedTuple):
    """A leaf's model, the log-odds of its rows, and their deviances by models without them."""

    model: LeafModel
    margin: Doubles
    left_out: Doubles


def fit_logistic_leaf(
    rows: LogisticRows, features: NDArray[np.intp], ridges: Sequence[float], near: LeafModel | None = None
) -> list[LogisticFit]:
    """Maximise the likelihood minus ridge / 2 times the squares of the coefficients, in standard deviations.

    Parameters
    ----------
    rows : LogisticRows
    features : int, (n_terms,)
    ridges : sequence of float
    near : LeafModel, optional
        Model of the same rows and features, beside other log-odds, to start from.

    Returns
    -------
    list of LogisticFit
        For each ridge. Models are of log-odds, the offset left out; `sse` is the sum of the rows' deviances and `rmse`
        their mean log-loss, both of training rows. Deviances of left-out rows are to first order (Rad and Maleki 2020).

    Notes
    -----
    Newton's method with halved steps, O(n_rows n_terms²) each; each ridge starts from the one before.
    """
    if rows.signs is not None and rows.signs[features].any():
        return [_with_signs(rows, features, ridge) for ridge in ridges]
    values = rows.X[:, features]
    present = ~np.isnan(values)
    values[~present] = 0.0
    means = rows.weight @ values / np.maximum(rows.weight @ present, 1e-300)
    values -= means
    values[~present] = 0.0
    scales = np.sqrt(rows.weight @ values**2 / rows.weight.sum())
    kept = np.flatnonzero(scales > 1e-12 * np.abs(means))
    design = _Design(rows, features[kept], means[kept], scales[kept], np.empty((len(values), 1 + len(kept))))
    design.columns[:, 0] = 1.0
    np.divide(values[:, kept], scales[kept], out=design.columns[:, 1:])
    solution = np.zeros(1 + len(kept))
    solution[0] = rows.prior - float(np.average(rows.offset, weights=rows.weight))
    if near is not None:
        solution = np.append(near.value, near.coefficients * scales[kept])
    fits = []
    for ridge in ridges:
        solution, inverse = _newton(design.columns, rows, np.append(0.0, np.full(len(kept), ridge)), solution)
        fits.append(design.fit(solution, inverse))
    return fits


def _with_signs(rows: LogisticRows, features: NDArray[np.intp], ridge: float) -> LogisticFit:
    """Leave terms of the wrong sign out, the one that is surest of it first."""
    assert rows.signs is not None
    while True:
        fit = fit_logistic_leaf(dataclasses.replace(rows, signs=None), features, [ridge])[0]
        own = rows.signs[fit.model.features] * fit.model.coefficients / fit.model.errors
        if not (own < 0).any():
            return fit
        features = np.delete(fit.model.features, np.argmin(own)).astype(np.intp)


@dataclass(frozen=True, eq=False)
class _Design:
    """Rows of a leaf, and its columns that vary: 1, features in standard deviations about their means."""

    rows: LogisticRows
    features: NDArray[np.intp]
    means: Doubles
    scales: Doubles
    columns: Doubles

    def fit(self, solution: Doubles, inverse: Doubles) -> LogisticFit:
        rows, slopes, means, unit = self.rows, solution[1:], self.means, 1 / self.scales
        margin = self.columns @ solution
        deviance = float(rows.weight @ _deviances(margin + rows.offset, rows.y))
        empty = float(rows.weight @ _deviances(solution[0] + rows.offset, rows.y))
        origin = np.append(1.0, -means * unit)
        model = LeafModel(
            features=self.features.astype(np.int32),
            categories=np.full(len(slopes), NUMBER, np.int32),
            coefficients=slopes * unit,
            errors=np.sqrt(np.diag(inverse)[1:]) * unit,
            means=means,
            explained=shared_out(empty - deviance, slopes, np.ones(len(slopes))),
            value=float(solution[0]),
            intercept=float(solution[0] - slopes * unit @ means),
            intercept_error=float(np.sqrt(origin @ inverse @ origin)),
            low=float(rows.y.min()),
            high=float(rows.y.max()),
            sse=deviance,
            rmse=deviance / 2 / float(rows.weight.sum()),
            n_rows=len(rows.y),
            share=float(np.average(rows.y, weights=rows.weight)),
        )
        left_out = rows.weight * _left_out(self.columns, rows, margin + rows.offset, inverse)
        return LogisticFit(model, margin, left_out)


def _deviances(margin: Doubles, y: Doubles) -> Doubles:
    deviances: Doubles = 2 * (softplus(margin) - y * margin)
    return deviances


def _newton(columns: Doubles, rows: LogisticRows, ridge: Doubles, solution: Doubles) -> tuple[Doubles, Doubles]:
    """Coefficients, the first of the intercept, and the inverse of the Hessian."""
    prior_y = float(expit(np.array(rows.prior)))
    prior_offset = float(np.average(rows.offset, weights=rows.weight))

    def loss(at: Doubles, margin: Doubles) -> float:
        own = _deviances(np.array(at[0] + prior_offset), np.array(prior_y))
        return float(rows.weight @ _deviances(margin, rows.y) + own + ridge @ at**2) / 2

    margin = rows.offset + columns @ solution
    best = loss(solution, margin)
    for _ in range(STEPS):
        p, own_p = expit(margin), float(expit(np.array(solution[0] + prior_offset)))
        gradient = columns.T @ (rows.weight * (p - rows.y)) + ridge * solution
        gradient[0] += own_p - prior_y
        hessian = (columns * (rows.weight * p * (1 - p))[:, None]).T @ columns + np.diag(ridge + 1e-10)
        hessian[0, 0] += own_p * (1 - own_p)
        step = np.linalg.solve(hessian, gradient)
        change, length = columns @ step, 1.0
        while (new := loss(solution - length * step, margin - length * change)) > best and length > 1e-6:
            length /= 2
        gained = best - new
        if gained > 0:
            solution, margin, best = solution - length * step, margin - length * change, new
        if gained <= CLOSE * (1 + best):
            break
    return solution, np.linalg.inv(hessian)


def _left_out(columns: Doubles, rows: LogisticRows, margin: Doubles, inverse: Doubles) -> Doubles:
    """Deviances of the rows, a row's by the model without it."""
    p = expit(margin)
    spread = np.maximum(rows.weight * p * (1 - p), 1e-12)
    leverage = np.minimum(np.sum((columns @ inverse) * columns, axis=1) * spread, 0.99)
    without = margin - leverage / (1 - leverage) * rows.weight * (rows.y - p) / spread
    return _deviances(without, rows.y)
