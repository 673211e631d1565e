"""What the columns of a frame are to a model, read from each partition alike."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Choice, Doubles, Int64s
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.grow.data.repeats import LARGEST_WHOLE, MOST_ORDERED
from glasswood.inputs import as_rows
from glasswood.inputs.targets import rates_of
from glasswood.model.ensemble import TreeEnsemble


@dataclass(frozen=True, eq=False)
class Columns:
    """Names of a frame's columns, and how their numbers become targets and weights.

    Attributes
    ----------
    target : str
    weight, exposure : str or None
    classes : array, (n_classes,), or None
        Labels of the target, which become their places.
    factors : float64, (n_classes,), or None
        Of the weights of rows by their class.
    power, unit : float
        Weights of rates are exposures, in this unit, to this power.
    scale : float
        What weights are divided by.
    """

    target: str
    weight: str | None = None
    exposure: str | None = None
    classes: Array | None = None
    factors: Doubles | None = None
    power: float = 0.0
    unit: float = 1.0
    scale: float = 1.0

    def features(self, frame: Any) -> Any:
        """Leave out what is no feature."""
        return frame.drop(columns=[name for name in (self.target, self.weight, self.exposure) if name is not None])

    def numbers(self, frame: Any, name: str | None) -> Doubles | None:
        """Numbers of a column; None without a name."""
        return None if name is None else frame[name].to_numpy(np.float64, na_value=np.nan)

    def labels(self, frame: Any) -> Array:
        """Values of the target as `fit` takes them."""
        column = frame[self.target]
        return np.asarray(column.astype(column.cat.categories.dtype) if hasattr(column, "cat") else column)

    def outcomes(self, frame: Any, number: int) -> tuple[Doubles, Doubles]:
        """Targets, or places of classes, and weights of rows: float64, (n_rows,).

        Raises
        ------
        ValueError
            If one is out of range; the message names the partition.
        """
        given = self.numbers(frame, self.weight)
        weight = np.ones(len(frame)) if given is None else given
        if self.classes is None:
            y = self.numbers(frame, self.target)
            assert y is not None
        else:
            place = {label: k for k, label in enumerate(self.classes.tolist())}
            y = np.array([place[label] for label in self.labels(frame).tolist()], np.float64)
        if not np.isfinite(y).all() or not (np.isfinite(weight) & (weight >= 0)).all():
            raise ValueError(
                f"partition {number} has targets that are not finite, or weights that are negative or not finite; drop "
                "these rows"
            )
        if self.factors is not None:
            weight = weight * self.factors[y.astype(np.intp)]
        if (exposed := self.numbers(frame, self.exposure)) is not None:
            if not (np.isfinite(exposed) & (exposed > 0)).all():
                raise ValueError(f"partition {number} has exposures that are not above 0 and finite; drop these rows")
            y, weight = rates_of(y, exposed), weight * (exposed / self.unit) ** self.power
        return y, weight / self.scale

    def relative(self, weights: list[tuple[float, int, int]]) -> Columns:
        """Divide weights by what they have in common, as `fit` does: counts by their divisor, others by their mean."""
        total, n_rows = sum(one[0] for one in weights), sum(one[1] for one in weights)
        divisor = math.gcd(*(one[2] for one in weights)) if all(one[2] >= 0 for one in weights) else 0
        scale = float(divisor) if divisor and total / divisor <= MOST_ORDERED else total / max(n_rows, 1)
        return dataclasses.replace(self, scale=scale or 1.0)


def weights_of(part: Any, number: int, columns: Columns) -> tuple[float, int, int]:
    """Sum of the weights of a partition, how many are above 0, and their divisor; -1 if they are no whole numbers."""
    _, weight = columns.outcomes(part, number)
    used = weight[weight > 0]
    whole = (used == np.floor(used)).all() and used.max(initial=0.0) < LARGEST_WHOLE
    return float(used.sum()), len(used), int(np.gcd.reduce(used.astype(np.int64))) if whole else -1


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows of a partition beside a forest: targets, weights, leaves (n_rows, n_trees) and unlimited margins."""

    rows: Any
    y: Doubles
    weight: Doubles
    leaves: Any
    margins: Doubles

    @classmethod
    def of(cls, part: Any, number: int, columns: Columns, forest: TreeEnsemble) -> PlacedRows:
        """Read a partition.

        Raises
        ------
        ValueError
            If a number is out of range.
        """
        X, (y, weight) = columns.features(part), columns.outcomes(part, number)
        rows, evaluator = as_rows(X, forest), CpuEvaluator(forest)
        if np.isinf(rows).any():
            raise ValueError(f"partition {number} has infinite features; mark missing ones by NaN")
        once = Choice(len(rows), "cpu", "by_sample")  # every step has its own forest: nothing to measure, or to lay out
        return cls(rows, y, weight, evaluator.leaves(rows, once, 1), evaluator.margins(rows, once, 1))

    def members(self, leaf: int, tree: int = 0) -> Int64s:
        """Rows of positive weight that reach a leaf."""
        return np.flatnonzero((self.leaves[:, tree] == leaf) & (self.weight > 0))


def labels_of(part: Any, number: int, columns: Columns) -> dict[Any, int]:
    """Count the rows of each label of a partition.

    Raises
    ------
    ValueError
        If a row has none.
    """
    series = part[columns.target]
    if series.isna().any():
        raise ValueError(
            f"partition {number} has rows without a class in column {quoted(columns.target)}; drop these rows"
        )
    values, counts = np.unique(columns.labels(part), return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
