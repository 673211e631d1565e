"""Ridge logistic regressions of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from silva.ensemble import NUMBER
from silva.evaluate.links import expit, softplus
from silva.grow.refit import LeafModel, shared_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.typing import Doubles, Int32s

STEPS = 50
"""Of Newton's method; as a rule it takes five to ten."""

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
    """

    X: Doubles
    y: Doubles
    weight: Doubles
    offset: Doubles
    prior: float

    def taken(self, rows: Int32s) -> LogisticRows:
        """Take these rows."""
        return LogisticRows(self.X[rows], self.y[rows], self.weight[rows], self.offset[rows], self.prior)


def fit_logistic_leaf(rows: LogisticRows, features: NDArray[np.intp], ridge: float) -> tuple[LeafModel, Doubles]:
    """Maximise the likelihood less ridge / 2 times the squares of the coefficients, in standard deviations.

    Returns
    -------
    LeafModel
        Of log-odds; `sse` is the sum of the rows' deviances and `rmse` their mean log-loss, both of training rows.
    float64, (n_rows,)
        Deviances of the rows, each by a model without it, to first order (Rad and Maleki 2020).

    Notes
    -----
    Newton's method with halved steps, O(n_rows n_terms²) each.
    """
    total = rows.weight.sum()
    present = ~np.isnan(rows.X[:, features])
    values = np.nan_to_num(rows.X[:, features])
    means = rows.weight @ values / np.maximum(rows.weight @ present, 1e-300)
    centred = np.where(present, values - means, 0.0)
    scales = np.sqrt(rows.weight @ centred**2 / total)
    kept = np.flatnonzero(scales > 1e-12 * np.abs(means))
    columns = np.column_stack([np.ones(len(rows.y)), centred[:, kept] / scales[kept]])
    solution, inverse = _newton(columns, rows, np.append(0.0, np.full(len(kept), ridge)))
    margin = rows.offset + columns @ solution
    slopes, unit = solution[1:], 1 / scales[kept]
    deviance = float(rows.weight @ _deviances(margin, rows.y))
    empty = float(rows.weight @ _deviances(np.full(len(margin), solution[0]) + rows.offset, rows.y))
    origin = np.append(1.0, -means[kept] * unit)
    model = LeafModel(
        features=features[kept].astype(np.int32),
        categories=np.full(len(kept), NUMBER, np.int32),
        coefficients=slopes * unit,
        errors=np.sqrt(np.diag(inverse)[1:]) * unit,
        means=means[kept],
        explained=shared_out(empty - deviance, slopes, np.ones(len(kept))),
        value=float(solution[0]),
        intercept=float(solution[0] - slopes * unit @ means[kept]),
        intercept_error=float(np.sqrt(origin @ inverse @ origin)),
        low=float(rows.y.min()),
        high=float(rows.y.max()),
        sse=deviance,
        rmse=deviance / 2 / total,
        n_rows=len(rows.y),
    )
    return model, rows.weight * _left_out(columns, rows, margin, inverse)


def _deviances(margin: Doubles, y: Doubles) -> Doubles:
    deviances: Doubles = 2 * (softplus(margin) - y * margin)
    return deviances


def _newton(columns: Doubles, rows: LogisticRows, ridge: Doubles) -> tuple[Doubles, Doubles]:
    """Coefficients, the first of the intercept, and the inverse of the Hessian."""
    solution = np.zeros(columns.shape[1])
    solution[0] = rows.prior - float(np.average(rows.offset, weights=rows.weight))
    prior_y = float(expit(np.array(rows.prior)))
    prior_offset = rows.prior - solution[0]

    def loss(at: Doubles) -> float:
        margin = rows.offset + columns @ at
        own = _deviances(np.array(at[0] + prior_offset), np.array(prior_y))
        return float(rows.weight @ _deviances(margin, rows.y) + own + ridge @ at**2) / 2

    best = loss(solution)
    for _ in range(STEPS):
        p, own_p = expit(rows.offset + columns @ solution), float(expit(np.array(solution[0] + prior_offset)))
        gradient = columns.T @ (rows.weight * (p - rows.y)) + ridge * solution
        gradient[0] += own_p - prior_y
        hessian = (columns * (rows.weight * p * (1 - p))[:, None]).T @ columns + np.diag(ridge + 1e-10)
        hessian[0, 0] += own_p * (1 - own_p)
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while (new := loss(solution - length * step)) > best and length > 1e-6:
            length /= 2
        gained = best - new
        if gained > 0:
            solution, best = solution - length * step, new
        if gained <= CLOSE * (1 + best):
            break
    return solution, np.linalg.inv(hessian)


def _left_out(columns: Doubles, rows: LogisticRows, margin: Doubles, inverse: Doubles) -> Doubles:
    """Deviances of the rows, a row's by the model without it."""
    p = expit(margin)
    spread = np.maximum(rows.weight * p * (1 - p), 1e-12)
    leverage = np.minimum(np.einsum("ij,jk,ik->i", columns, inverse, columns) * spread, 0.99)
    without = margin - leverage / (1 - leverage) * rows.weight * (rows.y - p) / spread
    return _deviances(without, rows.y)
