"""Accumulated local effects (ALE): differences of predictions between neighbouring values, added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Bools, Doubles, Int64s
from glasswood.inspection.ranks import settled
from glasswood.inspection.rows import numbers_only

if TYPE_CHECKING:
    from glasswood.inspection.rows import ChangingRows

Bins = int | Literal["thresholds"]


def edges_of(rows: ChangingRows, feature: int, bins: Bins) -> Doubles:
    """Edges of bins: quantiles of the rows' values, or the forest's thresholds between the extremes."""
    values = rows.values[:, feature].astype(np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError(f"feature {feature} is missing in all rows of X; accumulated effects need values")
    if bins == "thresholds":
        thresholds = rows.forest.threshold[rows.forest.feature == feature]
        inner = thresholds[(thresholds > values.min()) & (thresholds <= values.max())]
        return np.unique(np.concatenate([[values.min(), values.max()], inner]))
    if isinstance(bins, bool) or not hasattr(bins, "__index__") or bins < 1:
        raise ValueError(f"bins is {quoted(bins)}, expected a number of at least 1 or 'thresholds'")
    return np.unique(np.quantile(values, np.linspace(0, 1, int(bins) + 1), method="inverted_cdf"))


def accumulated(rows: ChangingRows, feature: int, edges: Doubles, output: str, weights: Doubles | None) -> Doubles:
    """ALE of a number at the edges of its bins, (k, edges); missing rows do not count."""
    place, present = _bins_of(rows, feature, edges)
    if len(edges) == 1:
        return np.zeros((_responses(rows, {}, output).shape[1], 1))
    difference = _responses(rows, {feature: edges[place + 1]}, output) - _responses(
        rows, {feature: edges[place]}, output
    )
    weight = present if weights is None else present * weights
    size = _sums(place, weight, len(edges) - 1)
    result = np.zeros((difference.shape[1], len(edges)))
    for k, each in enumerate(difference.T):
        result[k, 1:] = np.cumsum(_mean(_sums(place, weight * each, len(edges) - 1), size))
    middle = (result[:, 1:] + result[:, :-1]) / 2
    return np.asarray(result - (middle @ size / size.sum())[:, None])


def accumulated_categories(
    rows: ChangingRows, feature: int, values: Array, codes: Array, output: str, weights: Doubles | None
) -> Doubles:
    """ALE of categories in this order, (k, categories): rows move to the category before and after theirs."""
    place = rows.places_of(feature, values)
    weight = (place >= 0) * (1.0 if weights is None else weights)
    place = np.maximum(place, 0)
    own = _responses(rows, {}, output)
    sums, sizes = np.zeros((own.shape[1], len(codes) - 1)), np.zeros(len(codes) - 1)
    for step in (-1, 1):
        moves = (place + step >= 0) & (place + step < len(codes))
        other = _responses(rows, {feature: codes[np.where(moves, place + step, place)]}, output)
        at, moved = np.minimum(place, place + step)[moves], (weight * moves)[moves]
        sizes += _sums(at, moved, len(codes) - 1)
        for k in range(len(sums)):
            sums[k] += _sums(at, moved * step * (other - own)[moves, k], len(codes) - 1)
    result = np.concatenate([np.zeros((len(sums), 1)), np.cumsum(_mean(sums, sizes), axis=1)], axis=1)
    share = _sums(place, weight, len(codes))
    return np.asarray(result - (result @ share / share.sum())[:, None])


def accumulated_pair(
    rows: ChangingRows, features: tuple[int, int], edges: tuple[Doubles, Doubles], output: str, weights: Doubles | None
) -> Doubles:
    """Second-order ALE of two numbers at the corners of their bins, (k, edges, edges): what both do beyond each."""
    (row, has_row), (column, has_column) = (_bins_of(rows, *one) for one in zip(features, edges, strict=True))
    n = [max(len(one) - 1, 1) for one in edges]
    corners = {}
    for i in (0, 1):
        for j in (0, 1):
            at = [
                np.minimum(place + up, len(one) - 1)
                for place, up, one in zip((row, column), (i, j), edges, strict=True)
            ]
            changed = {feature: one[where] for feature, one, where in zip(features, edges, at, strict=True)}
            corners[i, j] = _responses(rows, changed, output)
    difference = corners[1, 1] - corners[0, 1] - corners[1, 0] + corners[0, 0]
    weight = (has_row & has_column) * (1.0 if weights is None else weights)
    cell = row * n[1] + column
    size = _sums(cell, weight, n[0] * n[1]).reshape(n)
    found = []
    for each in difference.T:
        local = _mean(_sums(cell, weight * each, n[0] * n[1]).reshape(n), size)
        found.append(_centred(_filled(local, size), size))
    result = np.array(found)
    return result[:, : len(edges[0]), : len(edges[1])]


def _filled(local: Doubles, size: Doubles) -> Doubles:
    """Cells without rows take the difference of the nearest one that has some, by numbers of bins."""
    if (size > 0).all() or not (size > 0).any():
        return local
    known = np.argwhere(size > 0)
    local = local.copy()
    scale = 1 / np.array(size.shape)
    for cell in np.argwhere(size == 0):
        local[tuple(cell)] = local[tuple(known[np.argmin((((known - cell) * scale) ** 2).sum(axis=1))])]
    return local


def _centred(local: Doubles, size: Doubles) -> Doubles:
    """Add differences up in both directions, and take out what is of one feature alone and the mean."""
    total = np.zeros((size.shape[0] + 1, size.shape[1] + 1))
    total[1:, 1:] = local.cumsum(axis=0).cumsum(axis=1)
    steps = np.diff(total, axis=0)
    first = _mean(((steps[:, 1:] + steps[:, :-1]) / 2 * size).sum(axis=1), size.sum(axis=1))
    steps = np.diff(total, axis=1)
    second = _mean(((steps[1:] + steps[:-1]) / 2 * size).sum(axis=0), size.sum(axis=0))
    total -= np.concatenate([[0], np.cumsum(first)])[:, None] + np.concatenate([[0], np.cumsum(second)])
    middle = (total[1:, 1:] + total[1:, :-1] + total[:-1, 1:] + total[:-1, :-1]) / 4
    return np.asarray(total - (middle * size).sum() / size.sum())


def _sums(place: Int64s, weight: Array, n: int) -> Doubles:
    """Weights by place."""
    return np.bincount(place, weight, n).astype(np.float64)


def _mean(sums: Doubles, sizes: Doubles) -> Doubles:
    return np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)


def _bins_of(rows: ChangingRows, feature: int, edges: Doubles) -> tuple[Int64s, Bools]:
    """Bin of each row, of those above an edge and up to the next, and whether the row has a value."""
    values = settled(rows.forest, feature, rows.values[:, feature].astype(np.float64))
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, max(len(edges) - 2, 0))
    return place, ~np.isnan(values)


def _responses(rows: ChangingRows, columns: dict[int, Array], output: str) -> Doubles:
    """Predictions with other columns, (n, k); of two classes the second one's."""
    found = numbers_only(rows.replaced(columns, output)).reshape(len(rows), -1).astype(np.float64)
    return found[:, 1:] if output == "probability" and found.shape[1] == 2 else found
