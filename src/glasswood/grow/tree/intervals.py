"""Intervals of predictions: residuals of rows that were left out, in errors of the leaves that they reach.

Residuals are measured in the error of their leaf, because noise differs between leaves; as many of those errors about
a prediction as a part of the left-out rows needs make an interval (conformal prediction, Vovk, Gammerman, Shafer 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Bools, Doubles

if TYPE_CHECKING:
    from glasswood.grow.tree.refit import LeafModel

LEAST_ERROR = 0.05
"""Part of the mean error of leaves that the error of a leaf counts for at least."""

MOST_LEFT_OUT = 20_000
"""Rows of a tree that are left out in turn, an even sample of them."""


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Trees on parts of the rows.

    Attributes
    ----------
    within, outside : float64, rising
        Scores of rows left out of a leaf's regression, and of rows that a tree has not seen.
    mean : float64, (n_rows,)
        Predictions of all trees, of the rows as they were given.
    off : float64, (n_rows,)
        What each row, as they were given, is off from the prediction of the tree that has not seen it.
    error : float
        Root mean square of these.
    trust : float
        Part of `off` in the mean of both kinds of scores.
    """

    within: Doubles
    outside: Doubles
    mean: Doubles
    off: Doubles
    error: float
    trust: float = 0.5

    def widened(self, scores: Doubles, unseen: Doubles) -> Doubles:
        """Scores of left-out rows as they would be if no split had been chosen by these rows; rising.

        Scores times what a choice costs trees on parts are too small where these were chosen less thoroughly than the
        whole tree; `unseen` is too large, as these are worse. So the geometric mean of both counts where it is more;
        of few rows for the columns, `unseen` alone.

        Parameters
        ----------
        scores : float64, rising
        unseen : float64, (n_rows,)
            `off` in errors of the leaves of the whole tree.
        """
        level = np.arange(1, len(scores) + 1) / (len(scores) + 1)
        left_out, outside, alone = (_at_levels(part, level) for part in (self.within, self.outside, unseen))
        factor = np.maximum(np.divide(outside, left_out, out=np.ones(len(level)), where=left_out > 0), 1.0)
        # Rising from above: factors of scores next to 0 are of any size, and must widen no others.
        wider: Doubles = np.minimum.accumulate((scores * factor)[::-1])[::-1]
        return np.maximum(wider, wider ** (1 - self.trust) * alone**self.trust)


def _at_levels(scores: Doubles, level: Doubles) -> Doubles:
    """Quantiles at k / (n + 1): of n scores the k-th, that of a conformal interval."""
    quantiles: Doubles = np.quantile(scores, level, method="weibull")
    return quantiles


def usable_errors(rmse: Doubles) -> Doubles:
    """Errors of leaves, none next to 0."""
    errors: Doubles = np.maximum(rmse, LEAST_ERROR * float(quadratic_mean(rmse)) or 1.0)
    return errors


def quadratic_mean(values: Doubles, weights: Any = None) -> Doubles:
    """Root of the mean square along the last axis; squares of numbers of any size do not overflow."""
    unit = float(values.max(initial=0.0)) or 1.0
    return unit * np.sqrt(np.average((values / unit) ** 2, axis=-1, weights=weights))


def left_out_residuals(
    models: list[LeafModel], rows: list[tuple[Doubles, Doubles, Doubles]], limits: list[tuple[float, float]]
) -> list[Doubles]:
    """Residuals of each leaf's rows, each by the leaf's regression without it.

    Parameters
    ----------
    models : list of LeafModel
    rows : list of X, y and weight
        Rows of each leaf, all or an even sample of them.
    limits : list of pairs
        What predictions are confined to.
    """
    return [
        y - np.clip(without_own_row(model, X, y, weight, len(y) / model.n_rows), *limit)
        for model, (X, y, weight), limit in zip(models, rows, limits, strict=True)
    ]


def left_out_scores(models: list[LeafModel], residuals: list[Doubles]) -> Doubles:
    """Residuals of left-out rows in errors of their leaf; rising."""
    errors = usable_errors(np.array([model.rmse for model in models]))
    return np.sort(np.concatenate([np.abs(of_leaf) / error for of_leaf, error in zip(residuals, errors, strict=True)]))


def without_own_row(model: LeafModel, X: Doubles, y: Doubles, weight: Doubles, share: float = 1.0) -> Doubles:
    """Predict each row by the model without it: by its leverage (Allen 1974); `share` of the leaf's rows are given."""
    deviations = model.deviations(X)
    spreads = np.abs(deviations).max(axis=0, initial=0)
    design = np.column_stack([np.ones(len(y)), deviations / np.where(spreads > 0, spreads, 1)])
    design *= np.sqrt(weight)[:, None]
    left, size, _ = np.linalg.svd(design, full_matrices=False)
    left = left[:, size > 1e-10 * size[0]]
    leverage = np.minimum(share * np.sum(left**2, axis=1), 1 - 1e-6)
    predicted = model.predict(X)
    without: Doubles = predicted - leverage / (1 - leverage) * (y - predicted)
    return without


def of_all_trees(scores: Doubles, apart: Doubles, chosen: Bools) -> Doubles:
    """Scores of means over some of the trees as they would be of the mean over all, which varies less.

    With s the mean square of the scores of a mean over very many trees, and v the variance of what one tree predicts
    beside the others, the mean over k trees is off by s + v / k.

    Parameters
    ----------
    scores : float64, (n_rows,)
        Scores of the mean over the trees that have not seen the row.
    apart : float64, (n_rows, n_trees)
        Predictions minus that mean, in the same unit.
    chosen : bool, (n_rows, n_trees)
        Which trees have not seen a row: one at least.
    """
    count = chosen.sum(axis=1)
    several = count > 1
    if not several.any():
        return scores
    v = float(np.mean((apart**2 * chosen).sum(axis=1)[several] / (count[several] - 1)))
    s = max(float(np.mean(scores**2 - v / count)), 0.0)
    return scores * np.sqrt((s + v / chosen.shape[1]) / (s + v / count)) if s + v > 0 else scores


def around(middle: Doubles, errors: Doubles, scores: Doubles, coverage: float) -> Doubles:
    """Intervals about predictions: float64, (n_rows, 2).

    Parameters
    ----------
    middle, errors : float64, (n_rows,)
        Predictions, and the errors of the leaves that the rows reach.
    scores : float64, (n_left_out,)
        Scores of left-out rows, in rising order.
    coverage : float
        Part of the rows whose y the intervals are to hold.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}, expected a probability above 0 and below 1")
    n = len(scores)
    width = scores[min(int(np.ceil(coverage * (n + 1))), n) - 1] * errors
    return np.column_stack([middle - width, middle + width])
