"""Counts and amounts of rows that were watched for different times, or of other sizes: rates for a unit of these.

A target y of exposure e has the mean e m, with the rate m that trees predict. The deviances of Poisson, Tweedie and
gamma losses are homogeneous, d(y, e m) = e^(2 - p) d(y / e, m), with the power p of the mean that the variance is: 1,
between 1 and 2, 2. So rates y / e weighted by e^(2 - p) have the same likelihood as targets beside the offset log e
(McCullagh and Nelder 1989, 6.3): Poisson's weights are the exposures, a gamma deviance keeps its weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles, Rows
from glasswood.grow.losses import RATES, level_of
from glasswood.inputs.targets import exposures_of, in_range, rates_of, row_numbers


def as_rates(model: Any, y: Any, sample_weight: Any, exposure: Any) -> tuple[Any, Any]:
    """Divide a target by its exposure, and weigh the rates; both as they are without exposure.

    Parameters
    ----------
    model : estimator
        Its loss decides.
    y, sample_weight : array-like or None
    exposure : array-like of shape (n_rows,) or None

    Raises
    ------
    ValueError
        If the loss has no rates, or an exposure is no number above 0, too small or large for y, or far from others.
    """
    if exposure is None:
        return y, sample_weight
    target = column_or_1d(row_numbers(y, "y"))
    exposed = checked_exposure(model.loss, exposure, len(target))
    rates = rates_of(target, exposed)
    if not (power := 2 - level_of(model)):
        return rates, sample_weight
    relative = in_range(exposed) ** power
    weight = np.ones(len(target)) if sample_weight is None else row_numbers(sample_weight, "sample_weight")
    return rates, weight * (relative / relative.mean())  # in the mean 1: whole numbers would count rows


def checked_exposure(loss: str, exposure: Any, n_rows: int) -> Doubles:
    """Read exposures: float64, (n_rows,), above 0."""
    if loss not in RATES:
        raise ValueError(
            "exposure is for rates, which loss='poisson', loss='gamma' and loss='tweedie' predict; "
            f"loss is {quoted(loss)}"
        )
    return exposures_of(exposure, n_rows)


def for_exposure(model: Any, rates: Any, exposure: Any) -> Any:
    """Multiply predicted rates by exposures; without these they stay."""
    if exposure is None:
        return rates
    rates = np.asarray(on_host(rates))
    exposed = checked_exposure(model.loss, exposure, len(rates))
    with np.errstate(over="ignore"):
        predicted = rates * exposed
    if np.isinf(predicted).any():
        at = int(np.isinf(predicted).argmax())
        raise ValueError(
            f"exposure is {exposed[at]:g} in row {at}, too large to multiply the rate of {rates[at]:g} by; give it in "
            "smaller units"
        )
    return predicted


class RateRegressorMixin(RegressorMixin):  # type: ignore[misc]
    """scikit-learn's mixin of regressors, for those that may predict rates."""

    _has_exposure = False

    def score(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> float:
        """R² of the predictions.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Counts or amounts, if the model was fitted with exposures.
        sample_weight : array-like of shape (n_rows,), optional
        exposure : array-like of shape (n_rows,), optional
            What y was counted over, above 0. A model that was fitted with exposures needs it.

        Returns
        -------
        float
            At most 1.

        Raises
        ------
        ValueError
            If the model was fitted with exposures and is given none: y would be compared with rates.
        """
        if exposure is None and self._has_exposure:
            raise ValueError(
                f"{type(self).__name__} was fitted with exposure and predicts rates; pass "
                "score(X, y, exposure=exposure), or ones if y are rates"
            )
        predicted = self.predict(X, exposure=exposure) if exposure is not None else self.predict(X)
        return float(r2_score(y, predicted, sample_weight=sample_weight))
