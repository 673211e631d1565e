"""One equation with shrunk coefficients in place of a tree, where rows are few for the columns.

Least squares on chosen columns takes each of them at its full length, which few rows do not tell from chance. The lasso
(Tibshirani 1996, https://doi.org/10.1111/j.2517-6161.1996.tb02080.x) chooses columns and shortens them; its whole path
costs little more than one regression (Efron and others 2004, https://doi.org/10.1214/009053604000000067). Rows that are
left out say how far to go on it, and whether it is better than the tree.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles, Int64s
from glasswood.grow.data.repeats import repetitions
from glasswood.grow.search.engine import is_pruned
from glasswood.grow.search.selection import APART, FOLDS
from glasswood.grow.tree.assembly import target_range
from glasswood.grow.tree.intervals import LeftOutRows, quadratic_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.search.growing import Growth

ROWS_A_COLUMN = 5
"""Rows for each column from which on there is no such equation: a search has enough of them."""

MOST_CLIPPED = 16
"""Features of an equation up to which it is clipped: steps of exact SHAP values of a clipped one against a background
are 2 to this power."""

STEPS = 200
"""Most steps of a path; each adds a column or takes one off."""

ROWS_A_TERM = 2
"""Rows for each term of an equation: a shrunk coefficient is less than a parameter."""


DECISIVE = 0.95
"""Error on left-out rows, in that of the tree, below which the equation is taken."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Path:
    """Prices of a path, falling, and the coefficients at each, (n_prices, n_columns), in units of y and the columns."""

    prices: Doubles
    coefficients: Doubles
    means: Doubles
    centre: float

    def at(self, prices: Doubles) -> Doubles:
        """Coefficients at prices, between which they are linear."""
        place = np.interp(-prices, -self.prices, np.arange(len(self.prices), dtype=np.float64))
        below = np.minimum(place.astype(np.intp), len(self.prices) - 1)
        above, share = np.minimum(below + 1, len(self.prices) - 1), (place - below)[:, None]
        found: Doubles = (1 - share) * self.coefficients[below] + share * self.coefficients[above]
        return found

    def ending(self, n_columns: int, sources: Int64s, most: int | None) -> _Path:
        """End where there are more columns than this, or more features than `most`."""
        taken = self.coefficients != 0
        n_features = np.array([len(np.unique(sources[own])) for own in taken])
        is_over = (taken.sum(axis=1) > n_columns) | (n_features > (len(sources) if most is None else most))
        ends = int(np.argmax(is_over)) if is_over.any() else len(is_over)
        return dataclasses.replace(self, prices=self.prices[:ends], coefficients=self.coefficients[:ends])

    def predict(self, X: Doubles, prices: Doubles) -> Doubles:
        """Predict rows at each price: (n_rows, n_prices)."""
        used = np.flatnonzero(self.coefficients.any(axis=0))
        deviations = np.nan_to_num(X[:, used] - self.means[used])
        predictions: Doubles = self.centre + deviations @ self.at(prices)[:, used].T
        return predictions


def shrunk(model: Any, growth: Growth, given: Circumstances) -> Growth:
    """Return a leaf with a shrunk equation where it is better on rows that are left out, or the tree as it is.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked.
    growth : Growth
        What the search has found.
    given : Circumstances
    """
    columns, n_rows = growth.columns, len(growth.order)
    linear = np.flatnonzero((growth.rows.column >= 0) | ~columns.is_categorical & columns.is_usable)
    is_plain = model.loss == "squared" and model.leaf_model == "linear" and model.algorithm == "gram"
    if (
        not is_plain
        or not is_pruned(model)
        or columns.term_signs is not None
        or model.honest
        or given.interrupts.have_come
    ):
        return growth
    row = repetitions(columns.X[:, : columns.n_features], growth.target)
    if not 2 * FOLDS <= row[-1] + 1 < ROWS_A_COLUMN * len(linear):
        return growth
    X, y, weight, sources = columns.X[:, linear], growth.target, growth.rows.weight, columns.sources[linear]
    path = _path(X, y, weight).ending(int(row[-1] + 1) // ROWS_A_TERM, sources, model.max_terms_per_leaf)
    fold = (np.random.default_rng([given.seed, APART]).permutation(row[-1] + 1) % FOLDS)[row]
    unseen = np.zeros((n_rows, len(path.prices)))
    for number in range(FOLDS):
        held = fold == number
        own = _path(X[~held], y[~held], weight[~held])
        limits = (-np.inf, np.inf) if model.clip == "none" else target_range(y[~held])
        unseen[held] = np.clip(own.predict(X[held], path.prices), *limits)
    errors = quadratic_mean(np.abs(y[:, None] - unseen).T, weight)
    best = int(np.argmin(errors))
    error = growth.tree(model).left_out if growth.parts is None else growth.parts.error
    used = linear[np.flatnonzero(path.coefficients[best])]
    if errors[best] >= DECISIVE * error or not len(used):
        return growth
    return _with_equation(model, growth, used, path.predict(X, path.prices[[best]])[:, 0], unseen[:, best])


def _with_equation(model: Any, growth: Growth, used: NDArray[np.intp], fitted: Doubles, unseen: Doubles) -> Growth:
    """Put a leaf in place of the tree, whose equation predicts what is fitted; `unseen` are of rows left out."""
    taken: NDArray[np.uint8] = np.zeros(growth.columns.X.shape[1], np.uint8)
    taken[used] = 1
    leaf = {
        **growth.result.best,
        "feature": np.array([-1], np.int32), "threshold": np.zeros(1, growth.result.best["threshold"].dtype),
        "missing_left": np.zeros(1, np.uint8), "left": np.array([-1], np.int32), "right": np.array([-1], np.int32),
        "model": taken,
    }  # fmt: skip
    is_long = model.clip == "target" and len(np.unique(growth.columns.sources[used])) > MOST_CLIPPED
    limits = (-np.inf, np.inf) if is_long else growth.limits
    plain = dataclasses.replace(growth, middle=fitted, parts=None, limits=limits).with_tree(leaf)
    plain = dataclasses.replace(plain, result=dataclasses.replace(plain.result, met=[]))
    off = np.zeros(growth.order.max() + 1)  # by the rows as they were given, of copies by one of them
    off[growth.order] = np.abs(growth.target - unseen)
    scores = np.sort(off[growth.order] / plain.tree(model).errors)
    error = float(quadratic_mean(off[growth.order], growth.rows.weight))
    mean = np.zeros(len(off))
    mean[growth.order] = unseen
    return dataclasses.replace(plain, parts=LeftOutRows(scores, scores, mean, off, error, 1.0))


def _path(X: Doubles, y: Doubles, weight: Doubles) -> _Path:
    """Follow the lasso from the mean on, missing values at the means."""
    from sklearn.linear_model import lars_path

    share, present = weight / weight.sum(), ~np.isnan(X)
    means = share @ np.where(present, X, 0.0) / np.maximum(share @ present, 1e-300)
    Z = np.where(present, X - means, 0.0)
    largest = np.abs(Z).max(axis=0)
    Z /= np.where(largest > 1e-13 * np.abs(means), largest, np.inf)
    spread = np.sqrt(share @ Z**2)
    Z /= np.where(spread > 0, spread, 1.0)
    scale = float(np.abs(y).max()) or 1.0
    centre = scale * float(share @ (y / scale))
    root = np.sqrt(share * len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that others nearly hold, which it leaves out
        prices, _, found = lars_path(Z * root[:, None], (y - centre) / scale * root, method="lasso", max_iter=STEPS)
    units = np.where(spread > 0, largest * spread, np.inf)
    return _Path(prices, found.T * scale / units, means, centre)
