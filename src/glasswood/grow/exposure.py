"""Counts and amounts of rows that were watched for different times, or of other sizes: rates for each unit of these.

A count y of exposure e has the mean e m, with the rate m that trees predict. Its Poisson deviance is e times that of
the observed rate y / e, so rates weighted by their exposures have the same likelihood as counts beside the offset
log e (McCullagh and Nelder 1989, 6.3). A gamma deviance depends on y / (e m) alone: its weights stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles
from glasswood.inputs.targets import in_range, row_numbers

WEIGHTED = {"poisson": True, "gamma": False}
"""Whether exposures are weights of rates, by the losses that have them."""


def as_rates(loss: str, y: Any, sample_weight: Any, exposure: Any) -> tuple[Any, Any]:
    """Divide a target by its exposure, and weigh the rates; both as they are without exposure.

    Parameters
    ----------
    loss : str
    y, sample_weight : array-like or None
    exposure : array-like of shape (n_rows,) or None

    Raises
    ------
    ValueError
        If the loss has no rates, or an exposure is no number above 0.
    """
    if exposure is None:
        return y, sample_weight
    target = column_or_1d(row_numbers(y, "y"))
    exposed = checked_exposure(loss, exposure, len(target))
    with np.errstate(over="ignore"):
        rates = target / exposed
    if (wrong := np.isinf(rates) & np.isfinite(target)).any():
        at = int(wrong.argmax())
        raise ValueError(f"exposure is {exposed[at]:g} in row {at}, too small to divide y by; give it in larger units")
    if not WEIGHTED[loss]:
        return rates, sample_weight
    exposed = in_range(exposed)
    weight = np.ones(len(target)) if sample_weight is None else row_numbers(sample_weight, "sample_weight")
    return rates, weight * (exposed / exposed.mean())  # in the mean 1: whole numbers would count rows


def checked_exposure(loss: str, exposure: Any, n_rows: int) -> Doubles:
    """Read exposures: float64, (n_rows,), above 0."""
    if loss not in WEIGHTED:
        raise ValueError(
            f"exposure is for rates, which loss='poisson' and loss='gamma' predict; loss is {quoted(loss)}"
        )
    exposed = row_numbers(exposure, "exposure")
    if exposed.shape != (n_rows,):
        raise ValueError(f"exposure has shape {exposed.shape}, expected ({n_rows},): one for each row")
    wrong = ~(np.isfinite(exposed) & (exposed > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"exposure is {exposed[at]:g} in row {at}, expected numbers above 0")
    return exposed


def for_exposure(loss: str, rates: Any, exposure: Any) -> Any:
    """Multiply predicted rates by exposures; without these they stay."""
    if exposure is None:
        return rates
    rates = np.asarray(on_host(rates))
    return rates * checked_exposure(loss, exposure, len(rates))
