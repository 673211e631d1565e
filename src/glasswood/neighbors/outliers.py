"""Outlier scores and prototypes of classes, after Breiman and Cutler."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Bools, Doubles, Int32s, Int64s
from glasswood.neighbors.imputation import typical_row

if TYPE_CHECKING:
    from glasswood.neighbors.index import LeafIndex

NORMAL_DEVIATION = 1.4826
"""Standard deviations of a normal distribution in its median absolute deviation."""


class Prototypes(NamedTuple):
    """Typical rows of classes.

    Attributes
    ----------
    label : (p,)
        Class of each prototype.
    row : int64, (p,)
        The training row with the most rows of its class among its neighbours.
    n_members : int64, (p,)
        How many these are.
    median, low, high : float64, (p, n_features)
        Medians and quartiles of the features of these rows. A feature of categories has the most frequent one's code in
        `median` and NaN in the others.
    """

    label: Array
    row: Int64s
    n_members: Int64s
    median: Doubles
    low: Doubles
    high: Doubles


def outlier_scores(
    index: LeafIndex, positions: Int32s | None, group: Array, of_rows: Array | None, n_jobs: int | None
) -> Doubles:
    """Score rows against the training rows of their groups; no positions: the training rows themselves.

    Parameters
    ----------
    index : LeafIndex
    positions : int32, (m, n_trees), optional
    group : (n,)
        Groups of the training rows.
    of_rows : (m,), optional
        Groups of the rows; default: all 0, or those of the training rows.
    n_jobs : int, optional
    """
    group = group.astype(np.int32)
    own = len(index) / np.maximum(index.squares(index.positions, group, group, n_jobs), 1e-300)
    if positions is None:
        raw, groups = own, group
    else:
        groups = np.zeros(len(positions), np.int32) if of_rows is None else of_rows.astype(np.int32)
        squares = index.squares(positions, group, groups, n_jobs)
        with np.errstate(divide="ignore"):
            raw = len(index) / squares  # infinite where no row of the group shares a leaf
    result = np.empty(len(raw))
    for one in np.unique(groups):
        of_group = own[group == one]
        if not len(of_group):
            result[groups == one] = np.inf
            continue
        middle = np.median(of_group)
        deviation = NORMAL_DEVIATION * np.median(np.abs(of_group - middle))
        result[groups == one] = (raw[groups == one] - middle) / max(deviation, np.finfo(float).tiny ** 0.5)
    return result


def prototypes_of(
    nearest: Int32s, targets: Array, labels: Array, rows: Array, codes: Bools, n_prototypes: int
) -> Prototypes:
    """Find for each class the rows with the most neighbours of the class, and what these neighbours are like."""
    if not hasattr(n_prototypes, "__index__") or n_prototypes < 1:
        raise ValueError(f"n_prototypes is {quoted(n_prototypes)}, expected a whole number of at least 1")
    found = []
    for place in np.unique(targets):
        members = targets == place
        is_free = members.copy()
        for _ in range(n_prototypes):
            counts = np.where(nearest >= 0, is_free[nearest], False).sum(axis=1)
            counts[~is_free] = -1
            row = int(counts.argmax())
            if counts[row] < 0:
                break
            near = nearest[row][(nearest[row] >= 0) & is_free[nearest[row]]]
            of_it = np.append(near, row)
            found.append((place, row, len(near), of_it))
            is_free[of_it] = False
    low, high = (
        np.array([_quartiles(rows[of_it], codes, q) for *_, of_it in found]).reshape(len(found), rows.shape[1])
        for q in (0.25, 0.75)
    )
    return Prototypes(
        label=labels[np.array([place for place, *_ in found], np.int64)],
        row=np.array([row for _, row, *_ in found], np.int64),
        n_members=np.array([count for _, _, count, _ in found], np.int64),
        median=np.array([typical_row(rows[of_it], codes) for *_, of_it in found]),
        low=low,
        high=high,
    )


def _quartiles(rows: Array, codes: Bools, q: float) -> Doubles:
    result = np.full(rows.shape[1], np.nan)
    for feature in np.flatnonzero(~codes):
        column = rows[:, feature][~np.isnan(rows[:, feature])]
        if len(column):
            result[feature] = np.quantile(column, q)
    return result
