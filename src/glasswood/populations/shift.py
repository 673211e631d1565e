"""The shift of each feature's distribution between two populations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.populations.batches import drawn

QUANTILES = 100
"""Quantiles of both populations at which the bootstrap of standard errors compares distribution functions."""


class Shift(NamedTuple):
    """Distances between two distributions, (n_features,), and their standard errors.

    Attributes
    ----------
    distance
        For numbers, the largest difference of the distribution functions (Kolmogorov and Smirnov's), for categories
        half the sum of the differences of shares. Missing values are a category of their own.
    standard_error
        By a bootstrap over parts, in which numbers are compared at 100 quantiles.
    """

    distance: Doubles
    standard_error: Doubles


def shift_of(
    forest: TreeEnsemble,
    rows: tuple[Array, Array],
    weights: tuple[Doubles, Doubles],
    parts: tuple[Sequence[slice], Sequence[slice]],
    random_state: int,
) -> Shift:
    """Compare each column of two matrices of the forest's own values."""
    draws = [np.array(list(drawn(len(some), random_state, 2 + side))) for side, some in enumerate(parts)]
    found = []
    for feature in range(forest.n_features):
        in_order = forest.categories is None or forest.categories[feature] is None
        places, n_bins = _binned((rows[0][:, feature], rows[1][:, feature]), in_order)
        counts = [_counts(*one, n_bins) for one in zip(places, weights, parts, strict=True)]
        many = [draw @ each for draw, each in zip(draws, counts, strict=True)]
        spread = _distance(many[0], many[1], in_order).std(ddof=1) if min(map(len, counts)) > 1 else np.nan
        if in_order:
            found.append((_largest_gap((rows[0][:, feature], rows[1][:, feature]), weights), spread))
            continue
        total = [each.sum(axis=0, keepdims=True) for each in counts]
        found.append((_distance(total[0], total[1], in_order)[0], spread))
    distance, spread = np.array(found).reshape(-1, 2).T
    return Shift(distance, spread)


def _largest_gap(columns: tuple[Array, Array], weights: tuple[Doubles, Doubles]) -> float:
    """Largest difference of two weighted distribution functions, and of the shares of missing values."""
    values = np.concatenate(columns)
    share = np.concatenate([weights[0] / weights[0].sum(), -weights[1] / weights[1].sum()])
    order = np.argsort(values, kind="stable")  # NaN last
    values, gap = values[order], np.abs(share[order].cumsum())
    n = len(values) - int(np.isnan(values).sum())
    last = np.append(values[1:n] != values[: n - 1], True)[:n]
    missing = abs(share[np.isnan(np.concatenate(columns))].sum())
    return float(max(gap[:n][last].max(initial=0.0), missing))


def _binned(columns: tuple[Array, Array], in_order: bool) -> tuple[list[Array], int]:
    """Bins of both columns' values; the last is that of missing ones."""
    both = np.concatenate(columns)
    both = both[~np.isnan(both)]
    values = np.unique(both)
    if in_order and len(values) > QUANTILES:
        values = np.unique(np.quantile(both, np.linspace(0, 1, QUANTILES + 1), method="inverted_cdf"))
    n = len(values)
    places = [np.minimum(np.searchsorted(values, column), max(n - 1, 0)) for column in columns]
    return [np.where(np.isnan(column), n, place) for column, place in zip(columns, places, strict=True)], n + 1


def _counts(place: Array, weights: Doubles, parts: Sequence[slice], n_bins: int) -> Doubles:
    return np.array([np.bincount(place[part], weights[part], n_bins) for part in parts])


def _distance(a: Doubles, b: Doubles, in_order: bool) -> Doubles:
    """Distances between the distributions of two counts, (draws, bins)."""
    tiny = np.finfo(float).tiny
    difference = a / np.maximum(a.sum(axis=1, keepdims=True), tiny) - b / np.maximum(b.sum(axis=1, keepdims=True), tiny)
    if not in_order:
        return np.asarray(np.abs(difference).sum(axis=1) / 2)
    missing = np.abs(difference[:, -1])
    return np.asarray(np.maximum(np.abs(difference[:, :-1].cumsum(axis=1)).max(axis=1, initial=0), missing))
