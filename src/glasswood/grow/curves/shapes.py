"""From boosted terms to few steps: surfaces without main effects, curves about zero, alike neighbours joined."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from glasswood import _core
from glasswood.base.typing import Doubles, Int64s
from glasswood.grow.curves.bins import summed
from glasswood.grow.curves.boosting import dispersion

if TYPE_CHECKING:
    from glasswood.grow.curves.bins import Axis
    from glasswood.grow.curves.boosting import Boosted, CurveRows, Term

JOINED = 3e-5
"""Part of the deviance that is left by which joining steps may change a term's predictions."""

WITHOUT_ERRORS = 0.05
"""Part of a term's squared standard errors below which it is left out."""


@dataclass(frozen=True, eq=False)
class Steps:
    """A feature divided into steps.

    Attributes
    ----------
    axis : Axis
    place : int64, (n_bins,)
        Step of each bin; -1 for missing values without rows.
    """

    axis: Axis
    place: Int64s

    @property
    def count(self) -> int:
        """Number of steps."""
        return int(self.place.max()) + 1

    @property
    def missing(self) -> int:
        """Step of missing values, -1 where no row has any."""
        return int(self.place[-1])

    @property
    def rows(self) -> Int64s:
        """Step of each training row."""
        steps: Int64s = self.place[self.axis.codes]
        return steps


@dataclass(frozen=True, eq=False)
class Shape:
    """What one feature, or two beyond their curves, add to an output.

    Attributes
    ----------
    output : int
    steps : tuple of one or two Steps
    values, errors, weight : float64, (n,) or (n, m)
        What is added, its standard error, and the weight of the training rows.
    """

    output: int
    steps: tuple[Steps, ...]
    values: Doubles
    errors: Doubles
    weight: Doubles

    @property
    def features(self) -> tuple[int, ...]:
        """One feature, or two."""
        return tuple(steps.axis.feature for steps in self.steps)

    def of_rows(self) -> Doubles:
        """Return what it adds to the training rows."""
        added: Doubles = self.values[tuple(steps.rows for steps in self.steps)]
        return added


def shaped(found: Boosted, rows: CurveRows) -> tuple[Doubles, list[Shape]]:
    """Return what is added to all rows, (n_outputs,), and the terms."""
    gradient, curvature = rows.slopes(found.unseen)
    base, shapes = np.zeros(len(found.unseen)), []
    for output in range(len(base)):
        g, h = gradient[output], curvature[output]
        added, own = shaped_output(found, output, rows.weight, h, JOINED * len(g) * dispersion(g, h))
        base[output] = added
        shapes += own
    return base, shapes


def shaped_output(
    found: Boosted, output: int, weight: Doubles, curvature: Doubles, budget: float, least: float = 0.0
) -> tuple[float, list[Shape]]:
    """Return what is added to all rows, and the terms, of one output.

    Parameters
    ----------
    found : Boosted
    output : int
    weight, curvature : float64, (n_rows,)
    budget : float
        Weighted squares by which joining steps may change a term.
    least : float
        Curvature that a bin or cell counts for at least: with 0, those without rows join any neighbour.
    """
    by_feature = {term.axes[0].feature: (term.axes[0], term.values[:, output].copy()) for term in found.curves}
    surfaces = []
    for term in found.surfaces:
        for axis in term.axes:
            by_feature.setdefault(axis.feature, (axis, np.zeros((len(term.values), axis.n_bins))))
        surface, mains = _purified(term, output, weight, curvature, budget, least, found.n_folds)
        for axis, places, main in mains:
            by_feature[axis.feature][1][:, :] += np.where(places >= 0, main[:, places], 0.0)
        surfaces += surface
    base, curves = 0.0, []
    for axis, values in by_feature.values():
        middle = values @ (axis.weight / axis.weight.sum())
        base += float(middle.mean())
        mass = np.maximum(axis.sums(curvature), least)
        curves += _curve(axis, output, values - middle[:, None], mass, budget, found.n_folds)
    curves.sort(key=lambda shape: shape.features)
    surfaces.sort(key=lambda shape: shape.features)
    return base, [*curves, *surfaces]


def _error(values: Doubles, n: int) -> Doubles:
    """Find standard errors of the mean over n folds: those of a jackknife by groups (Efron and Stein 1981).

    Squares of several repeats are averaged.
    """
    each = values.reshape(-1, n, *values.shape[1:])
    squares = (n - 1) / n * ((each - each.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    errors: Doubles = np.sqrt(squares.mean(axis=0))
    return errors


def _curve(axis: Axis, output: int, values: Doubles, curvature: Doubles, budget: float, n_folds: int) -> list[Shape]:
    """Join neighbours, of categories those of similar values; nothing where all are next to 0."""
    mean = values.mean(axis=0)
    noise = float(curvature @ _error(values, n_folds) ** 2)
    if float(curvature @ mean**2) <= max(budget, WITHOUT_ERRORS * noise):
        return []
    own = np.flatnonzero(axis.weight[: axis.n_bins - (axis.n_categories == 0)] > 0)
    own = own[np.argsort(mean[own], kind="stable")] if axis.n_categories else own
    group = joined(mean[own, None], curvature[own, None], budget)
    place = np.full(axis.n_bins, -1, np.int64)
    place[own] = group
    if axis.n_categories:
        place[:-1][axis.weight[:-1] == 0] = group[np.argmax(axis.weight[own])]
    elif axis.weight[-1] > 0:
        place[-1] = group.max() + 1
    steps = Steps(axis, place)
    used = place >= 0
    weight = summed(place[used], axis.weight[used], steps.count)
    joint = np.array([summed(place[used], (axis.weight * one)[used], steps.count) / weight for one in values])
    return [Shape(output, (steps,), joint.mean(axis=0), _error(joint, n_folds), weight)]


def joined(values: Doubles, weight: Doubles, budget: float) -> Int64s:
    """Group neighbouring rows of a table: those that hardly differ are joined (Ward 1963), the least first.

    Parameters
    ----------
    values, weight : float64, (n, m)
    budget : float
        Largest sum of weighted squares by which the table may change.
    """
    return _core.join_neighbours(np.ascontiguousarray(values), np.ascontiguousarray(weight), budget)


Main = tuple["Axis", Int64s, Doubles]


def _purified(
    term: Term, output: int, weight: Doubles, curvature: Doubles, budget: float, least: float, n_folds: int
) -> tuple[list[Shape], list[Main]]:
    """Join neighbours, and divide what is left into a surface without main effects and two curves, by fold.

    The surface is a weighted residual of the regression on both features' steps: its means over the training rows of
    each step are 0 (Lengerich, Tan, Chang, Hooker, Caruana 2020).
    """
    places = [group[axis.codes] for axis, group in zip(term.axes, term.groups, strict=True)]
    values = term.values[:, output]
    size = values.shape[1:]
    flat = places[0] * size[1] + places[1]
    h: Doubles = np.maximum(summed(flat, curvature, size[0] * size[1]), least).reshape(size)
    for side in (0, 1):
        mean = values.mean(axis=0)
        table, mass = (mean, h) if side == 0 else (mean.T, h.T)
        group = joined(table, mass, budget / 2)
        places[side] = group[places[side]]
        values, h = _gathered(values, h, group, side + 1)
        term = _regrouped(term, side, group)
    steps = tuple(Steps(axis, _used(axis, group)) for axis, group in zip(term.axes, term.groups, strict=True))
    w = summed(places[0] * h.shape[1] + places[1], weight, h.size).reshape(h.shape)
    pure, first, second = _without_mains(values, w)
    mains = [(axis, group, part) for axis, group, part in zip(term.axes, term.groups, (first, second), strict=True)]
    error = _error(pure, n_folds)
    noise = float((h * error**2).sum())
    if float((h * pure.mean(axis=0) ** 2).sum()) <= max(budget, WITHOUT_ERRORS * noise):
        return [], mains
    return [Shape(output, steps, pure.mean(axis=0), error, w)], mains


def _used(axis: Axis, group: Int64s) -> Int64s:
    place = group.copy()
    if axis.weight[-1] == 0:
        place[-1] = -1
    return place


def _regrouped(term: Term, side: int, group: Int64s) -> Term:
    groups = list(term.groups)
    groups[side] = group[groups[side]]
    return replace(term, groups=tuple(groups))


def _gathered(values: Doubles, h: Doubles, group: Int64s, axis: int) -> tuple[Doubles, Doubles]:
    """Means of values, (n_folds, n, m), and sums of h, over groups along an axis; plain means where h is 0."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    mass = np.maximum(h, 1e-12 * (float(h.max()) or 1.0))
    sums = np.add.reduceat(values * mass, starts, axis=axis)
    return sums / np.add.reduceat(mass, starts, axis=axis - 1), np.add.reduceat(h, starts, axis=axis - 1)


def _without_mains(values: Doubles, weight: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Regress values, (n_folds, n, m), on rows and columns: residuals, (n_folds, n, m), and both parts."""
    n, m = weight.shape
    design = np.zeros((n * m, n + m))
    design[np.arange(n * m), np.repeat(np.arange(n), m)] = 1
    design[np.arange(n * m), n + np.tile(np.arange(m), n)] = 1
    root = np.sqrt(weight.ravel())
    solution = np.linalg.lstsq(design * root[:, None], (values.reshape(len(values), -1) * root).T, rcond=1e-12)[0].T
    first, second = solution[:, :n], solution[:, n:]
    return values - first[:, :, None] - second[:, None], first, second
