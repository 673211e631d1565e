"""The frequency with which splits and terms come back if a tree is grown on other samples of the rows.

A split that other samples do not have tells of this sample. So trees are grown on bootstrap samples (Efron 1979), and
each split and term of the tree is looked for in them, as stability selection does for the terms of one equation
(Meinshausen and Bühlmann 2010, https://doi.org/10.1111/j.1467-9868.2010.00740.x).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.parallel import n_threads, side_by_side
from glasswood.base.typing import Array, Bools, Doubles, Int32s, Int64s
from glasswood.forest import Forest
from glasswood.grow.search.fitting import fit_tree
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name
from glasswood.words.rules import goes_left

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.engine import Circumstances

BRIEF = {"population_size": 16, "generations": 20}
"""Settings of the search on a sample, where the local search does most of the work."""

AGREES = 0.1
"""Part of the smaller side's rows that another split of the same feature may send elsewhere and be the same one."""

APART = 0x73746162
"""Added to the seed of the search for the samples."""


def stability(model: Any, tree: TreeEnsemble, data: TrainingData, given: Circumstances) -> dict[str, Array]:
    """Grow trees on bootstrap samples, and count in how many each split and term of `tree` is.

    Parameters
    ----------
    model : ModelTreeRegressor
        Its parameters, checked; `stability` is the number of samples.
    tree : TreeEnsemble
        One tree, whose splits and terms are looked for.
    data : TrainingData
    given : Circumstances
        Circumstances of the search.

    Returns
    -------
    dict of arrays
        As `ModelTreeRegressor.stability_`.
    """
    data, _, _ = data.in_order()
    random, n_rows = np.random.default_rng([given.seed, APART]), len(data.target)
    samples = [np.sort(random.integers(0, n_rows, n_rows)) for _ in range(model.stability)]
    limit = None if model.time_limit is None else model.time_limit / len(samples)
    apart = {"algorithm": "gram", "device": "cpu", "n_jobs": 1, "time_limit": limit, "stability": 0}
    member = type(model)(**{**model.get_params(deep=False), **BRIEF, **apart})

    def grown(number: int) -> TreeEnsemble | None:
        if given.interrupts.have_come:
            return None
        seen = data.taken(samples[number].astype(np.int32)).by_target()
        growth = fit_tree(member, seen, given.beside(given.seed + number))
        return None if growth.result.interrupted else growth.tree(member).forest

    others = side_by_side(grown, len(samples), n_threads(model.n_jobs))
    # A search that an interrupt has cut short says nothing of chance; at most one of each thread is left out for it.
    finished = [other for other in others if other is not None]
    return _table(tree, finished, data.columns.as_rows())


def _table(tree: TreeEnsemble, others: list[TreeEnsemble], rows: Doubles) -> dict[str, Array]:
    """One entry a split, then one a feature of a leaf's equation."""
    table: dict[str, list[Any]] = {"kind": [], "at": [], "feature": [], "frequency": []}
    leaves = _leaves(tree, rows)
    for node, at in _rows_by_split(tree, rows):
        frequency = np.mean([_has_split(other, tree, node, rows[at]) for other in others] or np.nan)
        _add(table, "split", node, feature_name(tree, int(tree.feature[node])), frequency)
    terms = [_terms(other)[_leaves(other, rows)] for other in others]
    for leaf, features in enumerate(_terms(tree)):
        at = leaves == leaf
        for feature in np.flatnonzero(features).tolist():
            shares = [of_rows[at, feature].mean() for of_rows in terms if at.any()]
            _add(table, "term", leaf, feature_name(tree, feature), np.mean(shares or np.nan))
    return {name: np.array(values) for name, values in table.items()}


def _add(table: dict[str, list[Any]], *values: Any) -> None:
    for name, value in zip(table, values, strict=True):
        table[name].append(value)


def _leaves(tree: TreeEnsemble, rows: Doubles) -> Int32s:
    leaves: Int32s = Forest(tree).predict(rows, "leaf", device="cpu", n_jobs=1)[:, 0]
    return leaves


def _terms(tree: TreeEnsemble) -> Bools:
    """Which features each leaf's equation has: (n_leaves, n_features)."""
    has = np.zeros((tree.n_leaves, tree.n_features), bool)
    if tree.has_linear_leaves:
        has[np.repeat(np.arange(tree.n_leaves), np.diff(tree.linear_offsets)), tree.linear_feature] = True
    return has


def _rows_by_split(tree: TreeEnsemble, rows: Doubles) -> Iterator[tuple[int, Int64s]]:
    """Yield the splits in their order, and the rows that come to each."""
    waiting = {0: np.arange(len(rows))}
    for node in range(tree.n_nodes):  # breadth-first: parents come first
        at = waiting.pop(node)
        if tree.feature[node] < 0:
            continue
        yield node, at
        is_left, left = _sides(tree, node, rows[at]), int(tree.left[node])
        waiting[left], waiting[left + 1] = at[is_left], at[~is_left]


def _sides(tree: TreeEnsemble, node: int, rows: Doubles) -> Bools:
    """Which rows go left."""
    x = rows[:, tree.feature[node]]
    missing = np.isnan(x)
    sides: Bools = np.where(missing, bool(tree.default_left[node]), goes_left(tree, node, np.where(missing, 0.0, x)))
    return sides


def _has_split(other: TreeEnsemble, tree: TreeEnsemble, node: int, rows: Doubles) -> bool:
    """Whether another tree has a split of the same feature that divides these rows in nearly the same way."""
    sides = _sides(tree, node, rows)
    most = AGREES * min(sides.sum(), (~sides).sum())
    for split in np.flatnonzero(other.feature == tree.feature[node]).tolist():
        n_elsewhere = int((_sides(other, split, rows) != sides).sum())
        if min(n_elsewhere, len(rows) - n_elsewhere) <= most:
            return True
    return False
