"""Losses that sequences of trees reduce: where they begin, what each tree is grown on, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles, Link
from glasswood.evaluate.links import expit, softmax, softplus
from glasswood.model.facts import EXPOSED

LINKS: dict[str, Link] = {"poisson": "exp", "gamma": "exp", "tweedie": "exp", "quantile": "identity"}
"""From margins to predictions, by the losses that trees reduce by working responses."""

RATES = ("poisson", "gamma", "tweedie")
"""Losses whose margins are logarithms of means."""

POWERS = {"poisson": 1.0, "gamma": 2.0}
"""The power of the mean that the variance is, by the losses that fix it; a Tweedie loss is given its own."""

LEAST_MEAN = 1e-300
"""Smallest mean of counts, so that its logarithm is finite."""

SHARP, ROUGH = 0.01, 0.2
"""Part of the usual absolute residual next to the quantile, and in searches of the median one, within which the size of
a residual counts as a parabola."""

FARTHEST = 4.0
"""Median absolute residuals beyond which residuals count as this one in a search: sums of squares about the parabolas
are then of the bulk of the rows, whatever the tails are."""

FURTHEST = 4.0
"""Largest working response of a row: one that is surely in the wrong class would outweigh all others (Friedman,
Hastie and Tibshirani 2000, https://doi.org/10.1214/aos/1016218223, section 4.2)."""

LEAST_VARIANCE = 1e-6
"""Smallest variance of the class of a row."""

LEAST_SHARE = 1e-6
"""Smallest share of a class at which a sequence begins."""


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
        rest = own - p
        # A shorter response has a larger weight, so that steps stay those of the likelihood where a class is rare.
        variance = np.maximum.reduce([p * (1 - p), np.full(len(p), LEAST_VARIANCE), np.abs(rest) / FURTHEST])
        return rest / variance, weight * variance

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted log-losses."""
        if self.n_classes == 2:
            return float(weight @ (softplus(margins[:, 0]) - target * margins[:, 0]))
        own = margins[np.arange(len(target)), target.astype(np.intp)]
        most = margins.max(axis=1)
        return float(weight @ (most + np.log(np.exp(margins - most[:, None]).sum(axis=1)) - own))


@dataclass(frozen=True)
class PowerLoss:
    """Half the deviance of targets whose variance is their mean to a power, margins being logarithms of means.

    With power 1 it is that of Poisson counts, with 2 that of a gamma distribution of constant shape, and between them
    that of amounts of which some are 0 (Tweedie's; Jorgensen 1987,
    https://doi.org/10.1111/j.2517-6161.1987.tb01685.x).
    """

    power: float
    n_outputs: int = 1
    furthest: float = np.inf

    def rough(self) -> Self:
        """Keep rows that are far off from outweighing others in a search."""
        return replace(self, furthest=FURTHEST)

    def start(self, target: Doubles, weight: Doubles) -> Doubles:
        """Begin at the logarithm of the mean, which is the most likely constant for any power."""
        return np.log([float(np.average(target, weights=weight)) or LEAST_MEAN])

    def step(self, target: Doubles, margins: Doubles, weight: Doubles, output: int) -> tuple[Doubles, Doubles]:
        """Return (y - m) / m, and the weights m^(2 - p), Fisher's information."""
        margin = margins[:, output]
        mean = np.exp(margin)
        return np.minimum((target - mean) / mean, self.furthest), weight * np.exp((2 - self.power) * margin)

    def change(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Find the constant that is best added to the margins."""
        below = float(np.average(target * np.exp((1 - self.power) * margins[:, 0]), weights=weight))
        above = float(np.average(np.exp((2 - self.power) * margins[:, 0]), weights=weight))
        return float(np.log((below or LEAST_MEAN) / above))

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted deviances, up to a constant."""
        return float(weight @ self._losses(target, margins[:, 0]))

    def _losses(self, target: Doubles, margin: Doubles) -> Doubles:
        losses: Doubles = _integral(2 - self.power, margin) - target * _integral(1 - self.power, margin)
        return losses

    def deviance(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted deviances."""
        own = self._losses(target, np.log(np.maximum(target, LEAST_MEAN)))
        least = np.where(target > 0, own, _integral(2 - self.power, np.full(1, -np.inf)))
        return 2 * float(weight @ (self._losses(target, margins[:, 0]) - least))

    def attainable(self, target: Doubles) -> Doubles:
        """Return margins of the rows' own targets, where they have any."""
        return np.log(target[target > 0])


def _integral(rate: float, margin: Doubles) -> Doubles:
    """Integrate exp(rate m): m where the rate is 0, and up to a constant that keeps it exact near 0."""
    if rate == 0:
        return margin
    found: Doubles = (np.exp if abs(rate) == 1 else np.expm1)(rate * margin) / rate
    return found


@dataclass(frozen=True)
class QuantileLoss:
    """Quantile loss: residuals above count `level` times, those below 1 - `level` times.

    Each step minimises a parabola that lies above the loss and touches it at the margins (Hunter and Lange 2000,
    https://doi.org/10.1080/10618600.2000.10474866).
    """

    level: float
    n_outputs: int = 1
    is_rough: bool = False

    def rough(self) -> Self:
        """Take wider parabolas in a search, so that it makes no leaves of rows next to the last tree's predictions."""
        return replace(self, is_rough=True)

    def start(self, target: Doubles, weight: Doubles) -> Doubles:
        """Begin at the quantile of all rows."""
        return np.array([_quantile(target, weight, self.level)])

    def step(self, target: Doubles, margins: Doubles, weight: Doubles, output: int) -> tuple[Doubles, Doubles]:
        """Return where the parabolas have their minima, and their curvatures."""
        residual = target - margins[:, output]
        size, tail = np.abs(residual), min(self.level, 1 - self.level)
        spread = next((s for level in (0.5, 0.9, 1.0) if (s := _quantile(size, weight, level)) > 0), 0.0)
        if spread == 0:
            return residual, weight
        if not self.is_rough:
            size = size + SHARP * (_quantile(size, weight, tail) or spread)
            return residual + (2 * self.level - 1) * size, weight * (spread / size)
        near = size + ROUGH * spread
        most = np.minimum(near, FARTHEST * spread)  # a shorter response has a larger weight: the score stays
        return (residual + (2 * self.level - 1) * near) * (most / near), weight * (spread / most)

    def change(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Find the constant that is best added to the margins."""
        return _quantile(target - margins[:, 0], weight, self.level)

    def total(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted losses."""
        residual = target - margins[:, 0]
        return float(weight @ np.maximum(self.level * residual, (self.level - 1) * residual))

    def deviance(self, target: Doubles, margins: Doubles, weight: Doubles) -> float:
        """Add up weighted losses; no predictions have none."""
        return self.total(target, margins, weight)

    def attainable(self, target: Doubles) -> Doubles:
        """Return the targets."""
        return target


def _quantile(values: Doubles, weight: Doubles, level: float) -> float:
    """Smallest value at or below which a share of the weight lies."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(total, level * total[-1])), len(values) - 1)]])


def loss_of(model: Any) -> PowerLoss | QuantileLoss:
    """Make the loss that an estimator's trees reduce by working responses."""
    level = level_of(model)
    return QuantileLoss(level) if model.loss == "quantile" else PowerLoss(level)


def level_of(model: Any) -> float:
    """Return the number of an estimator's loss: the quantile, or the power of the mean that the variance is."""
    loss = getattr(model, "loss", "")
    return POWERS.get(loss, float(model.tweedie_power if loss == "tweedie" else getattr(model, "quantile", 0.5)))


def objective_of(model: Any) -> str:
    """Name an estimator's loss as the objective of a forest."""
    if model.loss not in LINKS:
        return "Huber's loss" if model.loss == "huber" else "squared error"
    name = f"{model.loss} {level_of(model):g}" if model.loss in {"quantile", "tweedie"} else str(model.loss)
    return f"{name}; {EXPOSED}" if getattr(model, "_has_exposure", False) else name


def refuse_intervals(name: str) -> None:
    """Raise ValueError unless residuals make intervals."""
    if name in LINKS:
        raise ValueError(
            f"loss={quoted(name)} has no intervals; fit loss='quantile' for two quantiles, or loss='squared'"
        )


def check_range(name: str, target: Doubles) -> None:
    """Raise ValueError if the target is out of the range of the loss."""
    has_zeros = name in {"poisson", "tweedie"}
    wrong = target < 0 if has_zeros else target <= 0 if name == "gamma" else np.zeros(len(target), bool)
    if wrong.any():
        at = int(np.argmax(wrong))
        expected = "numbers of at least 0" if has_zeros else "numbers above 0"
        raise ValueError(f"y is {target[at]} in row {at}, loss={quoted(name)} expects {expected}")
    if has_zeros and not target.any():
        raise ValueError(f"y is 0 in all rows, loss={quoted(name)} expects a number above 0 among them")
