"""Populations between two fits: tests by value outside the engine, by rank inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from silva.grow.data.rows import TrainingRows

Trees = list[dict[str, Any]]


def to_values(population: Trees, rows: TrainingRows) -> Trees:
    """Trees whose cuts are the values at which they cut; +inf where every value goes left."""
    return [{**_structure(tree), "value": _values(tree, rows)} for tree in population]


def to_ranks(population: Trees, rows: TrainingRows) -> Trees:
    """Put the trees over other training rows; those that test what is no longer there are dropped."""
    n_features = len(rows.column)
    fitting = [tree for tree in population if len(tree["model"]) == n_features * len(tree["feature"])]
    return [{**_structure(tree), "threshold": _ranks(tree, rows)} for tree in fitting]


def _structure(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: tree[name] for name in ("feature", "missing_left", "left", "right", "model")}


def _values(tree: dict[str, Any], rows: TrainingRows) -> Any:
    values = np.zeros(len(tree["threshold"]))
    for node in np.flatnonzero(tree["feature"] >= 0):
        distinct, cut = rows.distinct(tree["feature"][node]), tree["threshold"][node]
        values[node] = distinct[cut] if cut < len(distinct) else np.inf
    return values


def _ranks(tree: dict[str, Any], rows: TrainingRows) -> Any:
    cuts = np.zeros(len(tree["value"]), np.int32)
    for node in np.flatnonzero(tree["feature"] >= 0):
        cuts[node] = np.searchsorted(rows.distinct(tree["feature"][node]), tree["value"][node])
    return cuts
