"""Columns that stand for categories, missing values and logarithms in the equations of leaves."""

from __future__ import annotations

import dataclasses

import numpy as np

from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Bools, Doubles, Int64s
from glasswood.evaluate.linear import logarithms
from glasswood.grow.data.columns import Derived, TrainingColumns
from glasswood.grow.data.rows import FEW_VALUES, column_ranges, columns_with, threads_of
from glasswood.model.ensemble import LOGARITHM, MISSING, NUMBER

MOST_LEVELS = 10
"""Categories of a feature that have a column each, except the most frequent one; more share a column of codes."""

MOST_INDICATORS = 40
"""Columns of categories altogether; where there would be more, features of the most levels share columns of codes."""

LEAST_ROWS = 5
"""Rows of a category, or without a value, that a column of its own requires."""

FOLDS = 5
"""Parts of the rows; a row's code is the mean target of its category in the other parts."""


LEAST_LOGARITHMS = 500
"""Rows from which on ``log_terms="auto"`` has logarithms: with fewer, more columns to choose from cost more than they
gain."""

LEAST_SPAN = 4.0
"""Largest value of a feature, in its smallest one, from which on its logarithm is a column."""


def with_derived(
    columns: TrainingColumns, y: Doubles, weight: Doubles, log_terms: bool | str = False
) -> TrainingColumns:
    """Put columns of categories, of missing values and, on request, of logarithms behind the features.

    A feature of two categories has a column that is 1 for the rarer one. Up to `MOST_LEVELS` categories have one each,
    except the most frequent. More categories share a column that holds their means of what the other columns leave of
    the target, shrunk towards the mean of all (as normal means, Efron and Morris 1973). A row's own fifth of the rows
    is left out of these means.
    """
    derived: list[Derived] = []
    values: list[Doubles] = []
    for source in np.flatnonzero(columns_with(np.isnan, columns.X)):
        is_missing = np.isnan(columns.X[:, source])
        if min(is_missing.sum(), (~is_missing).sum()) >= LEAST_ROWS:
            derived.append(Derived(int(source), MISSING))
            values.append(is_missing.astype(np.float64))
    if log_terms is True or (log_terms == "auto" and len(y) >= LEAST_LOGARITHMS):
        found = _logarithms(columns, weight)
        derived += [column for column, _ in found]
        values += [column_values for _, column_values in found]
    own, categorical = _with_own_columns(columns), columns.is_categorical
    for source in np.flatnonzero(own):
        found = _indicators(columns, int(source))
        derived += [column for column, _ in found]
        values += [column_values for _, column_values in found]
    shared = np.flatnonzero(categorical & ~own)
    if len(shared):
        rest = unexplained(np.column_stack([columns.X[:, ~categorical], *values]), y, weight)
        found = [_coded(columns, int(source), rest, weight) for source in shared]
        derived += [column for column, _ in found]
        values += [column_values for _, column_values in found]
    kept = _distinct(values)
    if not kept:
        return columns
    X = np.column_stack([columns.X, *(values[k] for k in kept)])
    return dataclasses.replace(columns, X=X, derived=tuple(derived[k] for k in kept))


def at_the_mean(columns: TrainingColumns) -> TrainingColumns:
    """Mark rows without a category as missing in the columns of its feature: equations put the leaf's mean there."""
    lacking = [k for k, column in enumerate(columns.derived) if column.category >= 0 or column.codes is not None]
    absent = np.isnan(columns.X[:, [columns.derived[k].source for k in lacking]])
    if not absent.any():
        return columns
    X, places = columns.X.copy(), [columns.n_features + k for k in lacking]
    X[:, places] = np.where(absent, np.nan, X[:, places])
    return dataclasses.replace(columns, X=X)


def like(known: TrainingColumns, columns: TrainingColumns) -> TrainingColumns:
    """Put the columns behind other rows of the same features that `known` has; codes stay those of its rows."""
    values = [_values(column, known, columns.X[:, column.source]) for column in known.derived]
    X = np.column_stack([columns.X, *values])
    return at_the_mean(dataclasses.replace(columns, X=X, derived=known.derived))


def _values(column: Derived, known: TrainingColumns, x: Doubles) -> Doubles:
    if column.category == MISSING:
        return np.isnan(x).astype(np.float64)
    if column.category == LOGARITHM:
        return logarithms(x)
    order = known.order[column.source]
    assert order is not None
    if column.codes is None:
        indicator: Doubles = np.equal(x, order[column.category]).astype(np.float64)
        return indicator
    codes = np.append(column.codes[np.argsort(order)], column.codes[-1])
    values: Doubles = codes[np.where(np.isnan(x), len(order), np.nan_to_num(x)).astype(np.intp)]
    return values


def _logarithms(columns: TrainingColumns, weight: Doubles) -> list[tuple[Derived, Doubles]]:
    """Make a column for each feature of positive numbers whose logarithms are less skewed than they are.

    An even sample of many rows says so. Features with which predictions must rise or fall have none: a number that is
    not positive would break this.
    """
    low, high = column_ranges(columns.X)
    wide = (low > 0) & (low <= high / LEAST_SPAN)
    sources = np.flatnonzero(~columns.is_categorical & (columns.column_signs == 0) & wide)
    threads, rows = threads_of(columns.X.size), slice(None, None, -(-len(weight) // FEW_VALUES))

    def is_less_skewed(k: int) -> bool:
        x = columns.X[rows, sources[k]]
        if np.isnan(x).all():
            return False
        return abs(_skewness(logarithms(x), weight[rows])) < _skewness(x, weight[rows])

    chosen = sources[np.array(side_by_side(is_less_skewed, len(sources), threads), bool)]
    values = side_by_side(lambda k: logarithms(columns.X[:, chosen[k]]), len(chosen), threads)
    return [(Derived(int(source), LOGARITHM), found) for source, found in zip(chosen, values, strict=True)]


def _skewness(x: Doubles, weight: Doubles) -> float:
    """Mean cube of the standardised numbers, missing ones left out."""
    present = ~np.isnan(x)
    share = weight[present] / weight[present].sum()
    deviation = x[present] - (share * x[present]).sum()
    deviation /= float(np.abs(deviation).max()) or 1.0
    squares = share * deviation**2
    return float((squares * deviation).sum() / max(squares.sum(), 1e-300) ** 1.5)


def _with_own_columns(columns: TrainingColumns) -> Bools:
    """Categorical features whose categories have columns of their own."""
    n_levels = np.array([0 if table is None else len(table) for table in columns.categories])
    own = (n_levels > 1) & (n_levels <= MOST_LEVELS)
    while (n_levels[own] - 1).sum() > MOST_INDICATORS and n_levels[own].max() > 2:
        own[np.argmax(np.where(own, n_levels, 0))] = False
    return own


def _indicators(columns: TrainingColumns, source: int) -> list[tuple[Derived, Doubles]]:
    """Make a column per category, except the most frequent one and those of few rows."""
    places, order = columns.X[:, source], columns.order[source]
    assert order is not None
    counts = np.array([(places == place).sum() for place in order])
    wanted = np.flatnonzero(counts >= LEAST_ROWS)
    wanted = wanted[wanted != np.argmax(counts)]
    return [(Derived(source, int(c)), (places == order[c]).astype(np.float64)) for c in wanted]


def unexplained(X: Doubles, y: Doubles, weight: Doubles) -> Doubles:
    """Residuals of a linear regression, missing values at the mean."""
    n_present = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    centred = np.nan_to_num(X - np.nan_to_num(X).sum(axis=0) / n_present)
    scales = np.sqrt(weight @ centred**2 / weight.sum())
    usable = scales > 0
    columns = np.column_stack([np.ones(len(y)), centred[:, usable] / scales[usable]])
    root, unit = np.sqrt(weight), float(np.abs(y).max()) or 1.0
    solution = np.linalg.lstsq(columns * root[:, None], y / unit * root, rcond=1e-10)[0]
    residuals: Doubles = y - columns @ solution * unit
    return residuals


def _coded(columns: TrainingColumns, source: int, y: Doubles, weight: Doubles) -> tuple[Derived, Doubles]:
    """Make a column of shrunk means of y, each row's from the other parts of the rows."""
    order = columns.order[source]
    assert order is not None
    n_levels = len(order) + 1
    places = columns.X[:, source]
    levels = np.where(np.isnan(places), n_levels - 1, np.nan_to_num(places)).astype(np.intp)
    fold = np.arange(len(y)) * FOLDS // len(y)
    count = np.zeros((FOLDS, n_levels))
    total = np.zeros((FOLDS, n_levels))
    centre, scale = float(np.average(y, weights=weight)), float(np.abs(y).max()) or 1.0
    np.add.at(count, (fold, levels), weight)
    np.add.at(total, (fold, levels), weight * ((y - centre) / scale))
    strength = _strength(levels, (y - centre) / scale, weight, n_levels)
    others, sums = count.sum(axis=0) - count, total.sum(axis=0) - total
    values = (sums / np.maximum(others + strength, 1e-300))[fold, levels]
    codes = total.sum(axis=0) / np.maximum(count.sum(axis=0) + strength, 1e-300)
    return Derived(source, NUMBER, np.append(codes[order], codes[-1]) * scale), values * scale


def _strength(levels: Int64s, y: Doubles, weight: Doubles, n_levels: int) -> float:
    """Rows that the mean of all counts for: the variance within categories over that between their true means."""
    count = np.bincount(levels, weight, n_levels)
    present = count > 0
    mean = np.bincount(levels, weight * y, n_levels)[present] / count[present]
    means = np.zeros(n_levels)
    means[present] = mean
    freedom = float(weight.sum()) - int(present.sum())
    if freedom <= 0:
        return float(weight.sum())
    within = float(weight @ (y - means[levels]) ** 2) / freedom
    between = float(count[present] @ mean**2) - (present.sum() - 1) * within
    spread = weight.sum() - float(count @ count) / weight.sum()
    return within * spread / between if between > 0 and spread > 0 else float(weight.sum())


def _distinct(values: list[Doubles]) -> list[int]:
    """Columns that are not constant, nor like one before."""
    kept: list[int] = []
    seen: set[bytes] = set()
    for k, column in enumerate(values):
        bits = column.tobytes()
        if np.nanmin(column) < np.nanmax(column) and bits not in seen:
            seen.add(bits)
            kept.append(k)
    return kept
