"""The rows of populations, read whole or batch by batch: of batches, as many are kept as memory is meant for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.device import on_host
from glasswood.base.escapes import retold, shown
from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.explain import Explainer
from glasswood.inputs import arranged, as_rows
from glasswood.inputs.shown import own_values, unknown_labels
from glasswood.inputs.targets import row_weights
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.forest import Forest

KEPT_BYTES = 2**27
"""Memory of the rows that are kept of batches, if `max_rows` does not say how many."""

Labels = dict[tuple[int, Any], int]
"""Categories that a forest's tables lack: numbers of (feature, label), the same in both populations."""


class Population(NamedTuple):
    """Rows of one population.

    Attributes
    ----------
    rows : list of (n, F)
        As each forest takes them.
    told : int32, (n, n_tables)
        Numbers of the categories that the first forest's tables lack, -1 elsewhere.
    keys : (n,)
        Random numbers: rows with small ones are drawn first.
    weight : (n,)
    n_rows : int
        All that were read.
    mean : (k,), or None
        Mean prediction of all rows, where some were not kept.
    """

    rows: list[Array]
    told: Int32s
    keys: Doubles
    weight: Doubles
    n_rows: int
    mean: Doubles | None


class Reading(NamedTuple):
    """How populations are read.

    Attributes
    ----------
    forests : sequence of TreeEnsemble
    coded : Forest, or None
        What predicts the first forest's rows, where means of all rows are asked for.
    settings : dict
        Settings of its explainers.
    labels : Labels
    max_rows : int, "auto" or None
    random_state : int
    """

    forests: Sequence[TreeEnsemble]
    coded: Forest | None
    settings: dict[str, Any]
    labels: Labels
    max_rows: Any
    random_state: int

    def whole(self, X: Any, weight: Any, name: str, side: int) -> Population:
        """Read rows that are in memory."""
        rows = [rows_of(X, forest, name) for forest in self.forests]
        n = len(rows[0])
        if not n:
            raise ValueError(f"{shown(name)} has no rows, expected at least 1")
        told = told_apart(X, self.forests[0], rows[0], self.labels, np.arange(n))
        keys = generator_of(self.random_state, side).random(n)
        return Population(rows, told, keys, _weights_of(weight, n, name), n, None)

    def batches(self, batches: Iterator[Any], weight: Any, name: str, side: int) -> Population:
        """Read batches once, and keep the rows with the smallest keys."""
        if weight is not None:
            raise TypeError(f"sample_weight of {shown(name)} is for rows in memory; {shown(name)} comes in batches")
        rng, kept = generator_of(self.random_state, side), Kept()
        n_rows, sums = 0, np.zeros(1)
        for number, X in enumerate(batches):
            rows = [rows_of(X, forest, f"batch {number} of {name}") for forest in self.forests]
            n, row_bytes = len(rows[0]), rows[0].itemsize * rows[0].shape[1]
            if kept.most is None and self.max_rows is not None:
                kept.most = max(1, KEPT_BYTES // row_bytes) if self.max_rows == "auto" else int(self.max_rows)
            keys = rng.random(n)
            at = kept.wanted(keys)
            told = told_apart(X, self.forests[0], rows[0], self.labels, at)
            kept.add([keys[at], told, *(one[at] for one in rows)])
            if self.coded is not None:
                sums = sums + n * np.atleast_1d(Explainer(self.coded, rows[0], **self.settings).expected_value)
            n_rows += n
        if not n_rows:
            raise ValueError(f"{shown(name)} has no rows, expected at least 1")
        keys, told, *rows = kept.columns()
        mean = sums / n_rows if len(keys) < n_rows and self.coded is not None else None
        return Population(rows, told, keys, np.ones(len(keys)), n_rows, mean)


class Kept:
    """The rows with the smallest keys among those that were added, in their order.

    Attributes
    ----------
    most : int, or None
        How many rows are kept; None for all.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        self._parts: list[list[Array]] = []
        self._n, self._highest = 0, math.inf

    def wanted(self, keys: Doubles) -> Int64s:
        """Places of further rows that may be among them."""
        return np.flatnonzero(keys < self._highest)

    def add(self, columns: list[Array]) -> None:
        """Add rows: their keys, and what belongs to them."""
        self._parts.append(columns)
        self._n += len(columns[0])
        if self.most is not None and self._n > self.most + self.most // 4:
            self._parts = [self.columns()]
            self._n, self._highest = len(self._parts[0][0]), float(self._parts[0][0].max())

    def columns(self) -> list[Array]:
        """Keys and columns of what is kept."""
        found = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        if self.most is None or len(found[0]) <= self.most:
            return found
        at = smallest(found[0], self.most)
        return [one[at] for one in found]


def smallest(keys: Doubles, n: int) -> Int64s:
    """Places of the n smallest keys, rising; of equal ones, the first."""
    return np.sort(np.argsort(keys, kind="stable")[:n])


def rows_of(X: Any, forest: TreeEnsemble, name: str) -> Array:
    """Rows as the forest takes them; errors say whose they are."""
    try:
        return as_rows(arranged(X, forest), forest)
    except (TypeError, ValueError) as error:
        raise retold(error, f"{shown(name)}: {shown(error)}") from error


def told_apart(X: Any, forest: TreeEnsemble, rows: Array, labels: Labels, at: Int64s) -> Int32s:
    """Give numbers to categories that the forest's tables lack, of the rows `at`: (n, n_tables), -1 for the others."""
    tables = [(feature, table) for feature, table in enumerate(forest.categories or ()) if table is not None]
    found = np.full((len(at), len(tables)), -1, np.int32)
    own = None
    for place, (feature, table) in enumerate(tables):
        if (rows[:, feature] < len(table)).all():
            continue
        own = own_values(arranged(on_host(X), forest), forest) if own is None else own
        unknown = np.flatnonzero(unknown_labels(own[:, feature], rows[:, feature], table)[at])
        for row, label in zip(unknown.tolist(), own[at[unknown], feature].tolist(), strict=True):
            found[row, place] = labels.setdefault((feature, label), len(labels))
    return found


def with_unknown(forest: TreeEnsemble, rows: Sequence[Array], told: Sequence[Int32s]) -> tuple[Array, Array]:
    """Give categories that the forest's tables lack codes of their own, the same in both populations."""
    result = [rows[0], rows[1]]
    features = [feature for feature, table in enumerate(forest.categories or ()) if table is not None]
    for place, feature in enumerate(features):
        if not any((one[:, place] >= 0).any() for one in told):
            continue
        first = 1 + max(float(np.nanmax(each[:, feature], initial=-1)) for each in rows)
        for side, one in enumerate(told):
            result[side] = result[side].astype(np.float64) if result[side] is rows[side] else result[side]
            unknown = one[:, place] >= 0
            result[side][unknown, feature] = first + one[unknown, place]
    return result[0], result[1]


def _weights_of(weights: Any, n_rows: int, name: str) -> Doubles:
    return np.ones(n_rows) if weights is None else row_weights(weights, n_rows, f"sample_weight of {shown(name)}")
