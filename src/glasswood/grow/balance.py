"""The constant of a sum of trees or curves that makes its mean prediction that of the targets.

Trees of a sequence are grown on parts of the rows, and shortened; means of logarithms are geometric. What is missing
then is the same for all rows, as far as the rows can tell: a constant in the margins of the whole forest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.evaluate.links import softmax
from glasswood.grow.losses import LEAST_SHARE

if TYPE_CHECKING:
    from glasswood.model.ensemble import TreeEnsemble

STEPS, HALVINGS = 50, 30
"""Most steps of Newton's method for the constants of classes, and of times that one is halved."""

CLOSE = 1e-12
"""Distance of mean probabilities from the shares at which they end."""

ROUNDING = 1e-13
"""Part of the largest number of the targets below which a mean of what is left of them is rounding."""


def balance(link: str, target: Doubles, margins: Doubles, weight: Doubles) -> Doubles:
    """Find what to add to margins so that the mean prediction is that of the target.

    Parameters
    ----------
    link : {"identity", "exp", "logistic", "softmax"}
    target : float64, (n_rows,)
        For classes their places.
    margins : float64, (n_rows, n_outputs)
    weight : float64, (n_rows,)

    Returns
    -------
    float64, (n_outputs,)
    """
    if link == "identity":
        unit = float(np.abs(target).max()) or 1.0
        rest = float(np.average(target / unit - margins[:, 0] / unit, weights=weight))
        return np.array([unit * rest if abs(rest) > ROUNDING else 0.0])
    if link == "exp":
        most = float(margins.max())
        predicted = np.average(np.exp(margins[:, 0] - most), weights=weight)
        change = float(np.log(np.average(target, weights=weight) / predicted)) - most
        return np.array([change if abs(change) > ROUNDING else 0.0])
    if margins.shape[1] == 1:
        both = _of_classes(target, np.column_stack([np.zeros(len(target)), margins[:, 0]]), weight)
        odds: Doubles = both[1:] - both[0]
        return odds
    return _of_classes(target, margins, weight)


def within_sign(change: Doubles, forest: TreeEnsemble, target: Doubles) -> Doubles:
    """Shorten a constant that would let a mean of trees predict below 0 where no target is, or above."""
    limits, starts = np.repeat(forest.leaf_value, 2, axis=1), forest.leaf_offsets[:-1]
    if forest.has_linear_leaves:
        limits = np.where(np.diff(forest.linear_offsets)[:, None] > 0, forest.leaf_range, limits)
    low = float(forest.tree_weight @ np.minimum.reduceat(limits[:, 0], starts))
    high = float(forest.tree_weight @ np.maximum.reduceat(limits[:, 1], starts))
    if target.min() >= 0 <= low:
        return np.maximum(change, -low)
    return np.minimum(change, -high) if target.max() <= 0 >= high else change


def _of_classes(target: Doubles, margins: Doubles, weight: Doubles) -> Doubles:
    """Maximise the likelihood of constants beside margins, by Newton's method with steps that are halved."""
    n_classes, weight = margins.shape[1], weight / weight.sum()
    counts = np.bincount(target.astype(np.intp), weight, n_classes)
    shares: Doubles = np.where(counts > 0, counts, LEAST_SHARE)
    shares = shares / shares.sum()

    def loss(change: Doubles) -> float:
        moved = margins + change
        most = moved.max(axis=1)
        return float(weight @ (most + np.log(np.exp(moved - most[:, None]).sum(axis=1))) - shares @ change)

    change = np.zeros(n_classes)
    left = loss(change)
    for _ in range(STEPS):
        p = softmax(margins + change)
        mean = weight @ p
        if np.abs(mean - shares).max() <= CLOSE:
            break
        curvature = np.diag(mean) - p.T @ (weight[:, None] * p)
        step, halvings = np.linalg.lstsq(curvature, shares - mean, rcond=1e-12)[0], 0
        while (further := loss(change + step)) > left and halvings < HALVINGS:
            step, halvings = step / 2, halvings + 1
        if further > left:
            break
        change, left = change + step, further
    centred: Doubles = change - change.mean()
    return centred
