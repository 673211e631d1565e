"""Pairs of features: which promise most, and how their bins are grouped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from glasswood import _core
from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.grow.curves.bins import CATEGORY_RIDGE, Axis, coarse

RANK_BINS, FEWEST_BINS, SURFACE_BINS = 16, 8, 64
"""Bins of a feature in surfaces that rank pairs; fewest and most of numbers in those that are fitted, as many as have a
row a cell on average, and most of categories."""

Pair = tuple[int, int]


def ranked_pairs(
    axes: list[Axis], fold: Int32s, gradient: Doubles, curvature: Doubles, n_pairs: int, n_threads: int
) -> list[Pair]:
    """Rank pairs of places among the axes by the gain of coarse surfaces.

    Parameters
    ----------
    axes : list of Axis
    fold : int32, (n_rows,)
        Rows of a fold do not say the order of their own categories.
    gradient, curvature : float64, (n_outputs, n_rows)
    n_pairs : int
        How many are returned.
    n_threads : int
    """
    bins = np.array([_rank_bins(axis, fold, gradient[0], curvature[0]) for axis in axes], np.uint16)
    sizes = bins.max(axis=1).astype(np.int32) + 1
    gains = np.zeros((len(axes), len(axes)))
    _core.rank_pairs(bins, sizes, gradient, curvature, gains, n_threads)
    return sorted(combinations(range(len(axes)), 2), key=lambda pair: -gains[pair])[:n_pairs]


def _rank_bins(axis: Axis, fold: Int32s, gradient: Doubles, curvature: Doubles) -> Int64s:
    """Bins of rows, few; categories in an order to which a row's own fold adds nothing."""
    if not axis.n_categories:
        whole: Int64s = coarse(axis, np.arange(axis.n_bins), RANK_BINS)[axis.codes]
        return whole
    bins = np.zeros(len(fold), np.int64)
    for number in range(int(fold.max()) + 1):
        others = fold != number
        h = curvature * others
        steps = axis.sums(gradient * others) / (axis.sums(h) + CATEGORY_RIDGE * h.mean())
        bins[~others] = coarse(axis, _places(steps), RANK_BINS)[axis.codes[~others]]
    return bins


def _places(scores: Doubles) -> Int64s:
    """Place of each bin in the order of scores."""
    places: Int64s = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    return places


def grouped_pairs(
    axes: list[Axis], pairs: list[Pair], gradient: Doubles, curvature: Doubles, order: Sequence[Doubles] = ()
) -> list[tuple[Int64s, Int64s]]:
    """Group the bins of pairs.

    Parameters
    ----------
    axes : list of Axis
    pairs : list of Pair
    gradient, curvature : float64, (n_rows,)
    order : sequence of float64, (n_bins,), optional
        By axis, in what order categories stand; by default, in the one in which they differ most over the other
        feature of the pair.
    """
    most = int(np.clip(np.sqrt(len(gradient)), FEWEST_BINS, SURFACE_BINS))
    groups = []
    for a, b in pairs:
        pair = axes[a], axes[b]
        scores: Sequence[Doubles] = ()
        if any(axis.n_categories for axis in pair):
            scores = (order[a], order[b]) if order else _differences(*pair, gradient, curvature)
        groups.append((_grouped(pair[0], scores[:1], most), _grouped(pair[1], scores[1:], most)))
    return groups


def _grouped(axis: Axis, scores: Sequence[Doubles], most: int) -> Int64s:
    if axis.n_categories:
        return coarse(axis, _places(scores[0]), SURFACE_BINS)
    return coarse(axis, np.arange(axis.n_bins), most)


def _differences(first: Axis, second: Axis, gradient: Doubles, curvature: Doubles) -> tuple[Doubles, Doubles]:
    """Find scores in whose order categories differ most over the other axis.

    After curves, the mean step of a category says nothing: scores are the first singular vectors of the pair's steps.
    """
    small = [
        np.arange(axis.n_bins) if axis.n_categories else coarse(axis, np.arange(axis.n_bins), FEWEST_BINS)
        for axis in (first, second)
    ]
    n, m = (int(one.max()) + 1 for one in small)
    cell = small[0][first.codes] * m + small[1][second.codes]
    g, h = (np.bincount(cell, part, n * m).reshape(n, m) for part in (gradient, curvature))
    scale = np.sqrt(h.sum(axis=1))[:, None], np.sqrt(h.sum(axis=0))[None]
    steps = scale[0] * g / (h + CATEGORY_RIDGE * curvature.mean()) * scale[1]
    left, _, right = np.linalg.svd(steps, full_matrices=False)
    return _signed(left[:, 0], scale[0][:, 0]), _signed(right[0], scale[1][0])


def _signed(vector: Doubles, root: Doubles) -> Doubles:
    """Scores of bins, the largest of them above 0."""
    scores = np.divide(vector, root, out=np.zeros(len(vector)), where=root > 0)
    signed: Doubles = scores * (np.sign(scores[np.argmax(np.abs(scores))]) or 1.0)
    return signed


def shares_of_groups(axis: Axis, groups: Int64s, shown: Int64s) -> Doubles:
    """Share of each group in those that are shown: float64, (n_shown, n_groups)."""
    shares = np.zeros((int(shown.max()) + 1, int(groups.max()) + 1))
    np.add.at(shares, (shown, groups), axis.weight)
    total = shares.sum(axis=1, keepdims=True)
    return shares / np.where(total > 0, total, 1)
