"""The result of `glasswood.score_values`: sums over rows that add up over batches and machines."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasswood.base.escapes import escaped_errors, quoted, shown
from glasswood.base.extras import import_extra
from glasswood.base.files import check_output, replacing
from glasswood.base.typing import Doubles
from glasswood.model.storage import UNREADABLE

MOST_BARS = 20
"""Features of a picture."""


@dataclass(frozen=True, eq=False)
class ScoreValues:
    """What each feature is worth to a score (`glasswood.score_values`). ``a + b`` has the values of the rows of both.

    Attributes
    ----------
    names : tuple of str
        Features, or groups and the other features.
    values : float64, (F,)
        Mean reduction of the loss by each feature; they add up to `total`.
    standard_error : float64, (F,)
        Of `values`, over the rows. It does not include that the background is a sample.
    baseline : float
        Mean loss without any feature.
    total : float
        `baseline` minus the model's mean loss.
    loss : str
    n_rows : int
    rows, row_errors : float64, (n, F), or None
        Reductions of each row's loss, with ``per_row=True``; standard errors of those that are estimates, else None.
    estimate_error : float64, (F,)
        Standard errors of `values` as estimates of those of these rows, part of `standard_error`; 0 if all are exact.
    """

    names: tuple[str, ...]
    loss: str
    n_rows: int
    baseline: float
    rows: Doubles | None
    moments: Doubles
    """Σw, Σw² of the rows, of their values φ: Σwφ, Σw²φ, Σw²φ², and of their variances v: Σw²v; (6, F)."""
    row_errors: Doubles | None = None

    @property
    def values(self) -> Doubles:
        """Mean reduction of the loss by each feature, (F,)."""
        return np.asarray(self.moments[2] / self.moments[0])

    @property
    def standard_error(self) -> Doubles:
        """Standard errors of the values over the rows, (F,); NaN for one row."""
        total, squares, _, first, second, _ = self.moments
        mean = self.values
        spread = np.maximum(second - 2 * mean * first + mean**2 * squares, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(spread * self.n_rows / (self.n_rows - 1)) / total)

    @property
    def estimate_error(self) -> Doubles:
        """Standard errors of the values as estimates of those of these rows, (F,); 0 where all are exact."""
        return np.asarray(np.sqrt(self.moments[5]) / self.moments[0])

    @property
    def is_estimated(self) -> bool:
        """Whether values are estimates from random orders of the features."""
        return bool(self.moments[5].any())

    @property
    def total(self) -> float:
        """Reduction of the mean loss by all features together."""
        return float(self.values.sum())

    @property
    def shares(self) -> Doubles:
        """Values as shares of the loss without features, (F,): of squared errors, what each adds to R²."""
        return np.asarray(self.values / self.baseline)

    def __repr__(self) -> str:
        share = self.total / self.baseline if self.baseline else np.nan
        said = ", estimated" if self.is_estimated else ""
        return (
            f"ScoreValues({len(self.names)} features, {self.n_rows:,} rows, {self.loss}, {share:.1%} of the loss{said})"
        )

    def __add__(self, other: ScoreValues) -> ScoreValues:
        if not isinstance(other, ScoreValues):
            return NotImplemented
        if (self.names, self.loss) != (other.names, other.loss):
            raise ValueError("the values are of other features or losses; add those of batches of one model")
        weights = self.moments[0][0], other.moments[0][0]
        return dataclasses.replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            baseline=float(np.average([self.baseline, other.baseline], weights=weights)),
            rows=_joined(self.rows, other.rows),
            row_errors=_joined(self.row_errors, other.row_errors),
            moments=self.moments + other.moments,
        )

    def __radd__(self, other: Any) -> ScoreValues:
        """Let ``sum(scores)`` start from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.json`` file, without the values of single rows.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file name has another suffix.
        OSError
            If the file cannot be written.
        """
        target = check_output(path)
        if target.suffix != ".json":
            raise ValueError(f"{shown(target)} has the suffix {quoted(target.suffix)}, expected .json")
        state = {"names": self.names, "loss": self.loss, "n_rows": self.n_rows, "baseline": self.baseline}
        with replacing(target) as temporary:
            temporary.write_text(json.dumps(state | {"moments": self.moments.tolist()}) + "\n", encoding="utf-8")

    @classmethod
    @escaped_errors()
    def load(cls, path: str | os.PathLike[str]) -> ScoreValues:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        ValueError
            If the file holds no values of a score.
        """
        try:
            return cls(**_checked_state(json.loads(Path(path).read_bytes())))
        except (*UNREADABLE, MemoryError) as error:
            raise ValueError(f"{shown(path)} holds no values that ScoreValues.save wrote: {shown(error)}") from error

    def as_frame(self) -> Any:
        """Features by value, largest first.

        Returns
        -------
        pandas.DataFrame
            With the columns feature, value, standard_error and share.
        """
        import pandas

        columns = {"value": self.values, "standard_error": self.standard_error, "share": self.shares}
        frame = pandas.DataFrame({"feature": list(self.names), **columns})
        return frame.sort_values("value", ascending=False, ignore_index=True, kind="stable")

    def plot(self, ax: Any = None) -> Any:
        """Draw the 20 largest values as bars, with two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
            ax = pyplot.subplots(figsize=(7, 1 + 0.3 * min(len(self.names), MOST_BARS)), layout="constrained")[1]
        order = np.argsort(-np.abs(self.values), kind="stable")[:MOST_BARS][::-1]
        at = np.arange(len(order))
        ax.barh(at, self.values[order], xerr=2 * np.nan_to_num(self.standard_error[order]), height=0.7)
        ax.set_yticks(at, [self.names[place] for place in order])
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_xlabel(f"reduction of the mean loss ({self.loss})")
        return ax


def _joined(one: Doubles | None, other: Doubles | None) -> Doubles | None:
    return None if one is None or other is None else np.concatenate([one, other])


def _checked_state(state: Any) -> dict[str, Any]:
    """Fields of a file."""
    if not isinstance(state, dict) or state.keys() != {"names", "loss", "n_rows", "baseline", "moments"}:
        raise ValueError("its entries are others")
    names, moments = state["names"], np.asarray(state["moments"], np.float64)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in [*names, state["loss"]]):
        raise ValueError("names and loss are not texts")
    if type(state["n_rows"]) is not int or not 0 < state["n_rows"] < 2**63:
        raise ValueError("n_rows is not a number of rows")
    if type(state["baseline"]) is not float or not math.isfinite(state["baseline"]):
        raise ValueError("baseline is not a finite number")
    if moments.shape != (6, len(names)) or not np.isfinite(moments).all() or (moments[[0, 1, 4, 5]] < 0).any():
        raise ValueError(f"moments has the shape {moments.shape}, expected (6, {len(names)}) finite sums")
    if names and (moments[:2].min() <= 0 or (moments[:2] != moments[:2, :1]).any()):
        raise ValueError("the weights of the rows are not above 0, or not the same for all features")
    return state | {"names": tuple(names), "moments": moments, "rows": None}
