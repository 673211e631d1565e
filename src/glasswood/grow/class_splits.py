"""Splits of leaves proposed by the likelihood of a class, rather than by squares about working responses.

A leaf's equation is stationary: the scores of its rows, w (y - p) times its columns, sum to nothing. On one side of a
place where the equation should change they do not, and g' H⁻¹ g, with the sum g of scores and the Hessian H of that
side, is what a Newton step there gains of the deviance: the score test of model-based partitioning (Zeileis, Hothorn
and Hornik 2008, https://doi.org/10.1198/106186008X319331), with the prior of the ridge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.typing import Doubles, Int32s, Int64s
from glasswood.evaluate.links import expit

if TYPE_CHECKING:
    from glasswood.grow.data.rows import TrainingRows
    from glasswood.grow.search.growing import Growth
    from glasswood.grow.tree.refit import LeafModel

PLACES = 16
"""Thresholds of a column that are tried."""

MOST_WORK = 2e8
"""Products of a node: rows times squared columns times splits; beyond it, a sample of the rows is looked at."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A tree of log-odds of one class.

    Attributes
    ----------
    growth : Growth
    models : dict of LeafModel, by node
    reached : list of int32 arrays
        Rows of the growth by node.
    ridge, cost : float
        The penalty of the coefficients, and the deviance of left-out rows plus the price of splits and terms.
    margin : float64, (n_rows,)
        Log-odds of the rows as they were given.
    left_out : float
        The deviance of left-out rows.
    """

    growth: Growth
    models: dict[int, LeafModel]
    reached: list[Int32s]
    ridge: float
    cost: float
    margin: Doubles
    left_out: float


class Split(NamedTuple):
    """A split of a leaf, and how much less the deviance would be, minus its price."""

    gain: float
    leaf: int
    attribute: int
    threshold: int
    missing_left: bool


def proposed_splits(fitted: Candidate, y: Doubles, weight: Doubles, model: Any, n_best: int) -> list[Split]:
    """Return the best splits of a tree's leaves, at most one a leaf and column.

    Parameters
    ----------
    fitted : Candidate
    y, weight : float64, (n_rows,)
        0 or 1, and weights, of the rows as they were given.
    model : ModelTreeRegressor
        Its limits: `min_samples_leaf`, `max_depth`, and those of its `search_settings`.
    n_best : int
    """
    tree, p = fitted.growth.result.best, expit(fitted.margin)
    scores, information = ((weight * part)[fitted.growth.order] for part in (y - p, p * (1 - p)))
    depths, found = depths_of(tree), []
    for leaf in np.flatnonzero(tree["feature"] < 0).tolist():
        if depths[leaf] < model.max_depth:
            found += _of_leaf(fitted, leaf, scores, information, model)
    return sorted(found, reverse=True)[:n_best]


def split_price(rows: TrainingRows, attribute: int, n_levels: int, at: Int32s) -> float:
    """Price the choice of a split of a node among all by a column, before a factor of two; at least BIC's parameter.

    There are as many as places between its values, or as sets of its categories, of which `n_levels` come to the node.
    """
    least = 0.5 * math.log(len(rows.y))
    if n_levels:
        return max(least, (n_levels - 1) * math.log(2))
    ranks = rows.ranks[attribute, at]
    return max(least, math.log(max(len(np.unique(ranks[ranks >= 0])) - 1, 1)))


def with_split(tree: dict[str, Any], split: Split) -> dict[str, Any]:
    """Split a leaf, whose terms both sides have."""
    n_nodes = len(tree["feature"])
    used = tree["model"].reshape(n_nodes, -1)
    feature, left, right = (np.append(tree[name], [-1, -1]) for name in ("feature", "left", "right"))
    threshold, missing = np.append(tree["threshold"], [0, 0]), np.append(tree["missing_left"], [0, 0])
    feature[split.leaf], threshold[split.leaf], missing[split.leaf] = (
        split.attribute,
        split.threshold,
        split.missing_left,
    )
    left[split.leaf], right[split.leaf] = n_nodes, n_nodes + 1
    return {
        **tree,
        "feature": feature.astype(np.int32),
        "threshold": threshold.astype(np.int32),
        "missing_left": missing.astype(np.uint8),
        "left": left.astype(np.int32),
        "right": right.astype(np.int32),
        "model": np.vstack([used, used[[split.leaf, split.leaf]]]).astype(np.uint8).ravel(),
    }


def depths_of(tree: dict[str, Any]) -> Int64s:
    """Depth of each node; children stand behind their parents."""
    depths = np.zeros(len(tree["feature"]), np.int64)
    for node in np.flatnonzero(tree["feature"] >= 0):
        depths[[tree["left"][node], tree["right"][node]]] = depths[node] + 1
    return depths


def _of_leaf(fitted: Candidate, leaf: int, scores: Doubles, information: Doubles, model: Any) -> list[Split]:
    """Best split of a leaf by each column."""
    growth = fitted.growth
    tree, rows, columns = growth.result.best, growth.rows, growth.columns
    used = np.flatnonzero(tree["model"].reshape(len(tree["feature"]), -1)[leaf])
    at = fitted.reached[leaf]
    least = max(model.min_samples_leaf, math.ceil(model.search_settings.rows_per_parameter * (1 + len(used))))
    if len(at) < 2 * least:
        return []
    testable = np.flatnonzero(columns.is_testable)
    step = math.ceil(len(at) * (1 + len(used)) ** 2 * len(testable) / MOST_WORK)
    at, share = at[::step], 1 / step
    design = _columns_of(columns.X[at][:, used])
    prior = np.diag(np.append(1e-6, np.full(len(used), fitted.ridge)))
    values = design * scores[at, None]
    splits = []
    for attribute in testable.tolist():
        ranks = rows.ranks[attribute, at]
        sides = _places(ranks)
        if not len(sides):
            continue
        levels = len(np.unique(ranks)) if columns.is_categorical[attribute] else 0
        price = 2 * model.penalty * split_price(rows, attribute, levels, fitted.reached[leaf])
        missing_left = bool(2 * np.sum(ranks[ranks >= 0] < np.median(sides)) >= np.sum(ranks >= 0))
        best = max(
            (_gain(design, values, information[at], prior, _left(ranks, cut, missing_left), least * share), cut)
            for cut in sides.tolist()
        )
        splits.append(Split(best[0] * step - price, leaf, attribute, int(best[1]), missing_left))
    return [split for split in splits if np.isfinite(split.gain)]


def _left(ranks: Int32s, cut: int, missing_left: bool) -> Any:
    return np.where(ranks < 0, missing_left, ranks < cut)


def _places(ranks: Int32s) -> Any:
    """Thresholds between the values of a column, some of them if there are many."""
    present = ranks[ranks >= 0]
    cuts = np.unique(present)[1:]
    if len(cuts) > PLACES:
        cuts = np.unique(np.quantile(present, np.arange(1, PLACES + 1) / (PLACES + 1), method="higher"))
        cuts = cuts[cuts > present.min()]
    return cuts


def _columns_of(X: Doubles) -> Doubles:
    """1, and the columns about their means in standard deviations; 0 where they are missing."""
    present = ~np.isnan(X)
    means = np.sum(np.where(present, X, 0.0), axis=0) / np.maximum(present.sum(axis=0), 1)
    centred = np.where(present, X - means, 0.0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    return np.column_stack([np.ones(len(X)), centred / np.where(spread > 0, spread, 1.0)])


def _gain(design: Doubles, values: Doubles, information: Doubles, prior: Doubles, left: Any, least: float) -> float:
    """Add up what a Newton step on either side gains of the deviance."""
    if min(left.sum(), (~left).sum()) < least:
        return -np.inf
    gain = 0.0
    for side in (left, ~left):
        own, score = design[side], values[side].sum(axis=0)
        hessian = (own * information[side, None]).T @ own + prior
        gain += float(score @ np.linalg.solve(hessian, score))
    return gain
