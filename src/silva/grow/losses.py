"""Losses that sequences of trees reduce: where they begin, what each tree is grown on, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from silva.evaluate.links import expit, softmax, softplus

if TYPE_CHECKING:
    from silva.typing import Doubles

FURTHEST = 4.0
"""Largest working response of a row: one that is surely in the wrong class would outweigh all others (Friedman,
Hastie and Tibshirani 2000, https://doi.org/10.1214/aos/1016218223, section 4.2)."""

LEAST_VARIANCE = 1e-6
"""Of the class of a row."""

LEAST_SHARE = 1e-6
"""Of a class, at which a sequence begins."""


class SequenceLoss(Protocol):
    """A loss of margins, float64, (n_rows, n_outputs).

    Attributes
    ----------
    n_outputs : int
        Trees that each step adds, one after another.
    """

    @property
    def n_outputs(self) -> int:
        """Trees of a step."""

    def start(self, target: Doubles, weight: Doubles) -> Doubles:
        """Choose the margins at which a sequence begins, (n_outputs,)."""

    def step(self, target: Doubles, margins: Doubles, weight: Doubles, output: int) -> tuple[Doubles, Doubles]:
        """Return what the tree of an output is to predict, and the weights of its rows."""

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up the loss over rows, up to a factor."""


@dataclass(frozen=True)
class SquaredLoss:
    """Squares of residuals, in units in which none overflows."""

    unit: float
    n_outputs: int = 1

    @classmethod
    def of(cls, target: Doubles) -> SquaredLoss:
        """Choose the unit."""
        return cls(float(np.abs(target).max()) or 1.0)

    def start(self, target: Doubles, weight: Doubles) -> Doubles:
        """Begin at the mean."""
        return np.array([self.unit * float(np.average(target / self.unit, weights=weight))])

    def step(self, target: Doubles, margins: Doubles, weight: Doubles, output: int) -> tuple[Doubles, Doubles]:
        """Return the residuals."""
        return target - margins[:, output], weight

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted squares."""
        return float(weight @ ((target - margins[:, 0]) / self.unit) ** 2)


@dataclass(frozen=True)
class LogLoss:
    """Deviance of classes: two have one output, the log-odds of the second; more have one each, by a softmax.

    Steps are those of LogitBoost: a tree fits the working responses (y - p) / (p (1 - p)), weighted by p (1 - p), so
    that the equations of its leaves are Newton's steps.
    """

    n_classes: int

    @property
    def n_outputs(self) -> int:
        """One for two classes."""
        return 1 if self.n_classes == 2 else self.n_classes

    def start(self, target: Doubles, weight: Doubles) -> Doubles:
        """Begin at the shares of the classes."""
        shares = np.bincount(target.astype(np.intp), weight, self.n_classes) / weight.sum()
        logs = np.log(np.maximum(shares, LEAST_SHARE))
        start: Doubles = logs[1:] - logs[:1] if self.n_classes == 2 else logs
        return start

    def step(self, target: Doubles, margins: Doubles, weight: Doubles, output: int) -> tuple[Doubles, Doubles]:
        """Return working responses and their weights."""
        own = target == (1 if self.n_classes == 2 else output)
        p = expit(margins[:, 0]) if self.n_classes == 2 else softmax(margins)[:, output]
        variance = np.maximum(p * (1 - p), LEAST_VARIANCE)
        return np.clip((own - p) / variance, -FURTHEST, FURTHEST), weight * variance

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted log-losses."""
        if self.n_classes == 2:
            return float(weight @ (softplus(margins[:, 0]) - target * margins[:, 0]))
        own = margins[np.arange(len(target)), target.astype(np.intp)]
        most = margins.max(axis=1)
        return float(weight @ (most + np.log(np.exp(margins - most[:, None]).sum(axis=1)) - own))
