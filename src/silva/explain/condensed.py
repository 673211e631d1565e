"""A background as the forest's splits see it, which is all that a file needs to keep of it.

A value counts as the class of values that it belongs to: the interval of the feature's thresholds, the category, or
missing. Classes are written as some value in them; rows of equal classes are one row with their weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from silva.explain.background import Background

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.typing import Array, Bools, Floats, Int64s


def merged(background: Background, forest: TreeEnsemble) -> Background:
    """Rows that the forest's splits cannot tell apart, as one row with the sum of their weights, as files keep them."""
    rows, weight = expand(condense(background, forest))
    return Background(rows, weight, background.total, background.expected_value)


def condense(background: Background, forest: TreeEnsemble) -> dict[str, Array]:
    """Classes of the rows' values: numbers of classes (m, F), a value of each, weights.

    Leaves with linear models ask for the values themselves: the rows.
    """
    if forest.has_linear_leaves:
        return {"rows": background.rows, "weight": background.weight}
    rows = settled(background.rows, forest)
    classes = [
        np.unique(stand_ins(forest, feature, rows[:, feature]), return_inverse=True)
        for feature in range(forest.n_features)
    ]
    numbers = np.stack([number for _, number in classes], axis=1) if classes else np.zeros((len(rows), 0), np.int64)
    distinct, place = np.unique(numbers, axis=0, return_inverse=True)
    weight = np.zeros(len(distinct), np.int64)
    np.add.at(weight, place.reshape(-1), background.weight)
    most = max((len(values) for values, _ in classes), default=0)
    return {
        "classes": distinct.astype(np.uint16 if most <= 2**16 else np.int32),
        "values": np.concatenate([values for values, _ in classes]) if classes else rows[:0].reshape(-1),
        "offsets": np.cumsum([0, *(len(values) for values, _ in classes)]).astype(np.int64),
        "weight": weight,
    }


def expand(arrays: dict[str, Array]) -> tuple[Array, Int64s]:
    """Rows of a value of each class, or the rows themselves, and their weights."""
    if "rows" in arrays:
        return arrays["rows"], arrays["weight"]
    return arrays["values"][arrays["classes"] + arrays["offsets"][:-1]], arrays["weight"]


def settled(rows: Array, forest: TreeEnsemble) -> Floats:
    """Rows as the splits see them: in the row type, tiny numbers 0, missing values NaN."""
    with np.errstate(over="ignore"):
        values: Floats = rows.astype(forest.threshold.dtype)
    if forest.zero_threshold > 0:
        values[np.abs(values) <= forest.zero_threshold] = 0
    if len(forest.zero_missing):
        values[(values == 0) & forest.zero_missing] = np.nan
    return values


def stand_ins(forest: TreeEnsemble, feature: int, column: Floats) -> Floats:
    """One value for all that go the same ways at every split on the feature; categories stand for themselves."""
    nodes = np.flatnonzero(forest.feature == feature)
    if not len(nodes):
        return np.zeros_like(column)
    if forest.is_categorical and (forest.category_set[nodes] >= 0).any():
        return column
    thresholds = np.unique(forest.threshold[nodes])
    rank = _ranks(thresholds, column)
    start = np.concatenate([np.nextafter(thresholds[:1], -np.inf), thresholds])[rank]
    result = column.copy()
    smallest = np.nextafter(np.asarray(forest.zero_threshold, column.dtype), np.asarray(np.inf, column.dtype))
    for stand_in in (-smallest, smallest, np.zeros_like(smallest), start):
        offered = np.where(np.isnan(column), column, stand_in).astype(column.dtype)
        fits = (_ranks(thresholds, offered) == rank) & _stays(forest, feature, offered)
        result = np.where(fits, offered, result)
    return result


def _ranks(thresholds: Floats, column: Floats) -> Int64s:
    return np.searchsorted(thresholds, column, side="right")


def _stays(forest: TreeEnsemble, feature: int, column: Floats) -> Bools:
    """Whether `settled` leaves the numbers as they are."""
    zero_is_missing = bool(len(forest.zero_missing)) and bool(forest.zero_missing[feature])
    is_zero = column == 0
    stays: Bools = is_zero & (not zero_is_missing) | ~is_zero & ~(np.abs(column) <= forest.zero_threshold)
    return stays
