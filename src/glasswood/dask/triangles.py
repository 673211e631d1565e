"""Sums for a leaf's regression over parts of the rows: triangles, which add up for any division of the rows.

The triangle R of rows A is that of the QR decomposition of A: R'R = A'A holds their sums of squares and products, and
that of two sets of rows is the triangle of both triangles, one above the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glasswood.base.typing import Doubles, Floats, Int32s
from glasswood.evaluate.linear import term_values
from glasswood.model.ensemble import MISSING, TreeEnsemble

BLOCK = 100_000
"""Rows that are decomposed together."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a leaf's equation, and the columns of its regression.

    Attributes
    ----------
    features, categories : int32, (n_terms,)
        As `TreeEnsemble.linear_feature` and `linear_category`.
    factors : float64, (n_terms,)
        Factor of a term in its column: 1, except if all categories of a feature share a column of codes.
    columns : int32, (n_terms,)
    means : float64, (n_terms,)
        Over the rows that the tree was searched on, about which products are taken.
    centre : float
        Mean of the target over these rows.
    absent : int32
        Categorical features that rows of the leaf may lack: they then count as the mean of its terms.
    """

    features: Int32s
    categories: Int32s
    factors: Doubles
    columns: Int32s
    means: Doubles
    centre: float
    absent: Int32s

    @property
    def n_columns(self) -> int:
        """Number of columns of the regression."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def may_lack(self) -> Doubles:
        """1 for a column of a feature's number or categories, which rows may lack."""
        flags = np.zeros(self.n_columns)
        flags[self.columns[self.categories != MISSING]] = 1
        return flags

    def values(self, rows: Floats) -> Doubles:
        """Terms of rows about their means, NaN where a number or a category is missing."""
        x = rows[:, self.features]
        deviations: Doubles = term_values(x, self.categories) - self.means
        return np.where(np.isnan(x) & (self.categories != MISSING), np.nan, deviations)


def leaf_terms(forest: TreeEnsemble) -> list[Terms]:
    """Terms of the leaves of a forest that was grown, in the order of the leaves."""
    offsets = forest.linear_offsets if len(forest.linear_offsets) else np.zeros(forest.n_leaves + 1, np.int64)
    return [_terms(forest, leaf, slice(*offsets[leaf : leaf + 2])) for leaf in range(forest.n_leaves)]


def _terms(forest: TreeEnsemble, leaf: int, at: slice) -> Terms:
    features, categories = forest.linear_feature[at], forest.linear_category[at]
    coefficients, means = forest.linear_coefficient[at], forest.linear_mean[at]
    absent = np.unique(features[categories == MISSING])
    chosen = np.ones(len(features), bool)  # but for terms that only put the mean in place of a missing category
    for term in np.flatnonzero(categories == MISSING):
        own = (features == features[term]) & (categories >= 0)
        if own.any():
            mean = float(coefficients[own] @ means[own]) / (1 - means[term])
            chosen[term] = abs(coefficients[term] - mean) > 1e-9 * np.abs(coefficients[own]).max()
    features, categories = features[chosen], categories[chosen]
    coefficients, means = coefficients[chosen], means[chosen]
    factors, columns, n_columns = np.ones(len(features)), np.zeros(len(features), np.int32), 0
    for feature in np.unique(features):
        own = np.flatnonzero((features == feature) & (categories >= 0))
        others = np.flatnonzero((features == feature) & (categories < 0))
        if len(own) and forest.categories is not None and len(own) == len(forest.categories[feature]):
            factors[own], columns[own], n_columns = coefficients[own], n_columns, n_columns + 1
            own = own[:0]
        for term in (*others, *own):
            columns[term], n_columns = n_columns, n_columns + 1
    return Terms(features, categories, factors, columns, means, float(forest.leaf_value[leaf, 0]), absent)


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Sums over rows of a leaf.

    Attributes
    ----------
    triangle : float64, (at most 2 c + 2, 2 c + 2)
        Triangular factor of the weighted columns: 1; those of the regression about the terms' means, 0 where missing; 1
        where they are present; and the target about its centre, in units of the target.
    totals : float64, (n_terms,)
        Weighted sums of the terms about their means.
    n_rows : int
    low, high : float
        Smallest and largest target; infinite without rows.
    """

    triangle: Doubles
    totals: Doubles
    n_rows: int
    low: float
    high: float

    def merged(self, other: LeafSums) -> LeafSums:
        """Add the sums over other rows, which stand behind these."""
        return LeafSums(
            np.asarray(np.linalg.qr(np.vstack([self.triangle, other.triangle]), mode="r")),
            self.totals + other.totals,
            self.n_rows + other.n_rows,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def sums_of(terms: Terms, rows: Floats, target: Doubles, weight: Doubles, unit: float) -> LeafSums:
    """Take the sums over rows of a leaf; `unit` is that of the target."""
    width = 2 * terms.n_columns + 2
    triangle, totals = np.zeros((0, width)), np.zeros(len(terms.features))
    for start in range(0, len(rows), BLOCK):
        at = slice(start, start + BLOCK)
        values = terms.values(rows[at])
        present = np.ones((len(values), terms.n_columns))
        present[:, terms.columns] = ~np.isnan(values)
        values = np.nan_to_num(values)
        columns = np.zeros((len(values), terms.n_columns))
        np.add.at(columns.T, terms.columns, (values * terms.factors).T)
        y = (target[at] - terms.centre) / unit
        block = np.column_stack([np.ones(len(y)), columns, present, y]) * np.sqrt(weight[at])[:, None]
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, block]), mode="r"))
        totals += weight[at] @ values
    return LeafSums(triangle, totals, len(rows), target.min(initial=np.inf), target.max(initial=-np.inf))


def merge_all(parts: Sequence[list[LeafSums]]) -> list[LeafSums]:
    """Add the sums of all parts, leaf by leaf, in their order."""
    total = list(parts[0])
    for part in parts[1:]:
        total = [one.merged(other) for one, other in zip(total, part, strict=True)]
    return total
