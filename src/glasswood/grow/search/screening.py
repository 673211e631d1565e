"""Columns of wide tables that equations may use, and greedy trees that a search begins with.

A leaf's matrix has the square of the columns: with thousands of them the first trees alone take minutes. So equations
of such tables choose among the columns that a greedy regression takes (orthogonal matching pursuit, Pati, Rezaiifar
and Krishnaprasad 1993), of all rows and on either side of the best split, and those that go with the target or with
what the regression leaves. Splits may test all columns. A term is priced as a choice among all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from glasswood.base.typing import Bools, Doubles

ALWAYS = 200
"""Columns that equations may always choose among."""

LARGEST = 25_000_000.0
"""Values, rows times squared columns and matrices of the first trees, up to which there may be more."""

MATRICES = 100
"""Rows that the matrix of a leaf costs as much as."""

MOST_ROWS = 5_000
"""Rows that choose; an even sample of more."""

STEPS = 40
"""Most columns that a greedy regression takes."""


@dataclass(frozen=True, eq=False)
class Screened:
    """Columns that equations may choose among, bool, (n_columns,), and trees by value."""

    linear: Bools
    trees: list[dict[str, Any]]


def screened(X: Doubles, y: Doubles, weight: Doubles, linear: Bools, testable: Bools, rows_a_term: float) -> Screened:
    """Choose columns where there are too many for a search; all, and no trees, where there are not.

    Parameters
    ----------
    X : float64, (n_rows, n_columns)
        NaN marks missing values.
    y, weight : float64, (n_rows,)
    linear, testable : bool, (n_columns,)
        What equations may use and splits may test.
    rows_a_term : float
        Rows that a term of an equation requires.

    Notes
    -----
    O(n_rows n_columns (`STEPS` + log n_rows)), of at most `MOST_ROWS` rows.
    """
    most = max(ALWAYS, int((LARGEST / (len(y) + MATRICES)) ** 0.5))
    if linear.sum() <= most:
        return Screened(linear, [])
    rows = slice(None, None, -(-len(y) // MOST_ROWS))
    X, y, weight = X[rows], y[rows], weight[rows] / weight[rows].sum()
    y = (y - weight @ y) / (float(np.abs(y - weight @ y).max()) or 1.0)
    Z = _standardised(X, weight)
    Z[:, ~linear] = 0.0
    n_terms = min(STEPS, max(1, int(len(y) / rows_a_term) - 1))
    chosen, rest = _greedy(Z, y, weight, n_terms)
    found, trees = [chosen], [_tree(Z.shape[1], [chosen])]
    if (split := _best_split(X, y, weight, testable)) is not None:
        feature, value = split
        left = ~(X[:, feature] >= value)
        sides = [_greedy(Z[at], y[at], weight[at] / weight[at].sum(), n_terms // 2 or 1) for at in (left, ~left)]
        found += [own for own, _ in sides]
        choices: list[list[list[int]]] = [[own for own, _ in sides], [chosen, chosen], [[], []]]
        trees += [_tree(Z.shape[1], terms, feature, value) for terms in choices]
    ranks = [np.argsort(-np.abs((weight * part) @ Z), kind="stable") for part in (y, rest)]
    taken = dict.fromkeys(int(k) for own in found for k in own)
    for pair in zip(*ranks, strict=True):
        if len(taken) >= most:
            break
        taken.update(dict.fromkeys(int(k) for k in pair if linear[k]))
    keep = np.zeros(len(linear), bool)
    keep[list(taken)] = True
    return Screened(keep & linear, trees)


def _standardised(X: Doubles, weight: Doubles) -> Doubles:
    """Columns about their means in standard deviations; 0 where they are missing or constant."""
    present = ~np.isnan(X)
    means = weight @ np.where(present, X, 0.0) / np.maximum(weight @ present, 1e-300)
    Z: Doubles = np.where(present, X - means, 0.0)
    largest = np.abs(Z).max(axis=0)
    Z /= np.where(largest > 1e-13 * np.abs(means), largest, np.inf)
    spread = np.sqrt(weight @ Z**2)
    Z /= np.where(spread > 0, spread, 1.0)
    return Z


def _greedy(Z: Doubles, y: Doubles, weight: Doubles, n_terms: int) -> tuple[list[int], Doubles]:
    """Columns one after the other, each the one that goes best with what those before leave of y; and what is left.

    It ends where the next column explains no more than the best of so many columns of noise does.
    """
    root = np.sqrt(weight)
    W = Z * root[:, None]
    centre = root[:, None]
    W -= centre * (centre.T @ W)
    rest = (y - weight @ y) * root
    lengths = np.maximum((W**2).sum(axis=0), 1e-12)
    basis: list[Doubles] = []
    chosen: list[int] = []
    for _ in range(n_terms):
        scores = (rest @ W) ** 2 / lengths
        scores[chosen] = 0.0
        best, left = int(np.argmax(scores)), float(rest @ rest)
        if scores[best] <= 2 * np.log(Z.shape[1]) / len(y) * left or left == 0:
            break
        direction = W[:, best].copy()
        for other in basis:
            direction -= other * (other @ direction)
        length = float(np.linalg.norm(direction))
        if length < 1e-6:
            break
        direction /= length
        basis.append(direction)
        chosen.append(best)
        rest = rest - direction * (direction @ rest)
    return chosen, rest / np.maximum(root, 1e-300)


def _best_split(X: Doubles, y: Doubles, weight: Doubles, testable: Bools) -> tuple[int, float] | None:
    """Threshold of the two means that leave least of y; rows without a value go left."""
    most, best = 1e-12, None
    for feature in np.flatnonzero(testable).tolist():
        x = X[:, feature]
        order = np.argsort(np.where(np.isnan(x), -np.inf, x), kind="stable")
        ordered, before = x[order], np.cumsum(weight[order])[:-1]
        total = np.cumsum((weight * y)[order])[:-1]
        cuts = ordered[1:] > np.where(np.isnan(ordered[:-1]), -np.inf, ordered[:-1])
        gains = np.where(cuts, total**2 / np.maximum(before * (1 - before), 1e-12), 0.0)
        place = int(np.argmax(gains))
        if gains[place] > most:
            most, best = float(gains[place]), (feature, float(ordered[place + 1]))
    return best


def _tree(n_columns: int, terms: list[list[int]], feature: int = -1, value: float = 0.0) -> dict[str, Any]:
    """Arrays by node of a leaf, or of a split and two leaves, with these terms."""
    model: NDArray[np.uint8] = np.zeros((len(terms), n_columns), np.uint8)
    for own, row in zip(terms, model, strict=True):
        row[own] = 1
    if feature < 0:
        feature_of, left, right, values = [-1], [-1], [-1], [0.0]
    else:
        feature_of, left, right, values = [feature, -1, -1], [1, -1, -1], [2, -1, -1], [value, 0.0, 0.0]
        model = np.vstack([np.zeros((1, n_columns), np.uint8), model])
    return {
        "feature": np.array(feature_of, np.int32),
        "missing_left": np.ones(len(feature_of), np.uint8),
        "left": np.array(left, np.int32),
        "right": np.array(right, np.int32),
        "model": model.ravel(),
        "value": np.array(values),
    }
