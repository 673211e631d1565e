"""Curves over time that survival forests predict: what is asked of a reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles

METHODS = {"survival": "predict_survival_function", "hazard": "predict_cumulative_hazard_function"}
"""How scikit-survival calls what predicts a curve."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve at some times, one output of the forest each.

    Attributes
    ----------
    kind : {"survival", "hazard"}
        Probability to survive, or cumulative hazard.
    times : (n_times,)
        Increasing.
    """

    kind: str
    times: Doubles

    @property
    def names(self) -> tuple[str, ...]:
        """The times as text."""
        return tuple(np.format_float_positional(time, trim="-") for time in self.times)

    def places(self, steps: Array) -> Array:
        """Find the step of a step function that each time lies on; times before the first count as the first.

        Raises
        ------
        ValueError
            If a time is beyond the last step.
        """
        if self.times[-1] > steps[-1]:
            raise ValueError(
                f"time {self.times[-1]:g} is beyond {steps[-1]:g}, the last that the model was trained on; pass "
                "earlier times"
            )
        return np.maximum(np.searchsorted(steps, self.times, side="right") - 1, 0)

    def of_source(self, model: Any, X: Any) -> Doubles:
        """Curves that the live model predicts: (n, n_times)."""
        return np.array([step(self.times) for step in getattr(model, METHODS[self.kind])(X)]).reshape(len(X), -1)


def make_curve(survival_at: ArrayLike | None, hazard_at: ArrayLike | None) -> Curve | None:
    """Check the times that a caller asks for; None if there are none.

    Raises
    ------
    ValueError
        If both curves are asked for, or the times are not increasing numbers from 0.
    """
    if survival_at is None and hazard_at is None:
        return None
    if survival_at is not None and hazard_at is not None:
        raise ValueError("survival_at and hazard_at ask for two forests; load the model once with each")
    kind, given = ("hazard", hazard_at) if survival_at is None else ("survival", survival_at)
    times = np.asarray(given)
    is_number = times.dtype.kind in "iuf" and times.ndim == 1 and len(times) > 0
    if not is_number or not (np.isfinite(times).all() and times[0] >= 0 and (np.diff(times) > 0).all()):
        raise ValueError(f"{kind}_at is {quoted(given)}, expected times from 0 in increasing order")
    return Curve(kind, times.astype(np.float64))
