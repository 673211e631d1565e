"""What a search tells of its tree: tables of arrays, which pandas and polars turn into frames, and importances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.evaluate.linear import term_name
from glasswood.forest import Forest
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.grow.search.engine import Progress
    from glasswood.grow.tree.assembly import GrownTree

Table = dict[str, "Array"]

INTERCEPT = "(intercept)"
"""Name of the entry of an equation's intercept."""


def leaf_table(trees: Sequence[GrownTree], forest: TreeEnsemble) -> tuple[Table, Table]:
    """One entry a term of a leaf's equation, the intercept first; and one entry a leaf; of trees of one forest."""
    models = [model for grown in trees for model in grown.models]
    limits = np.concatenate([grown.limits for grown in trees])
    terms: dict[str, list[Any]] = {"leaf": [], "feature": [], "coefficient": [], "standard_error": [], "mean": []}
    for leaf, model in enumerate(models):
        rows: list[tuple[object, ...]] = [(INTERCEPT, model.intercept, model.intercept_error, np.nan)]
        rows += [
            (term_name(forest, feature, category), *numbers)
            for feature, category, *numbers in zip(
                model.features, model.categories, model.coefficients, model.errors, model.means, strict=True
            )
        ]
        for row in rows:
            for name, value in zip(terms, (leaf, *row), strict=True):
                terms[name].append(value)
    summary = {
        "n_rows": np.array([model.n_rows for model in models]),
        "rmse": np.array([model.rmse for model in models]),
        "mean": np.array([model.value for model in models]),
        "low": np.array([model.low for model in models]),
        "high": np.array([model.high for model in models]),
        "lowest": limits[:, 0],
        "highest": limits[:, 1],
        "n_clipped": np.array([model.n_clipped for model in models]),
    }
    return {name: np.array(values) for name, values in terms.items()}, summary


def of_outcomes(summary: Table, forest: TreeEnsemble, rows: Doubles, y: Doubles, weight: Doubles) -> Table:
    """Give a summary of leaves of working responses in units of y.

    Parameters
    ----------
    summary : dict of arrays
        As `leaf_table` makes it.
    forest : TreeEnsemble
    rows : float64, (n_rows, n_features)
    y, weight : float64, (n_rows,)
    """
    tree = Forest(forest)
    leaves, off = tree.predict(rows, "leaf", device="cpu")[:, 0], y - tree.predict(rows, device="cpu")
    total, n = np.bincount(leaves, weight, len(summary["mean"])), len(summary["mean"])
    found = {
        "rmse": np.sqrt(np.bincount(leaves, weight * off**2, n) / total),
        "low": np.array([y[leaves == leaf].min() for leaf in range(n)]),
        "high": np.array([y[leaves == leaf].max() for leaf in range(n)]),
    }
    if forest.link == "exp":
        found["mean"] = np.bincount(leaves, weight * y, n) / total
        found |= {name: np.exp(summary[name]) for name in ("lowest", "highest")}
    return {**summary, **found}


def history_table(history: list[Progress]) -> Table:
    """One entry a generation."""
    names = ("generation", "fitness", "rmse", "n_leaves", "mean_leaves", "seconds")
    return {name: np.array([getattr(progress, name) for progress in history]) for name in names}


def feature_importances(grown: GrownTree, unit: float) -> tuple[Doubles, float]:
    """Variance between the sides of each split, and that of each term of a leaf, in shares of their sum, and its root.

    float64, (n_features,). What a leaf's equation explains is divided among its terms by coefficient² times variance of
    the feature; correlations between them are left out of the division. `unit` is that of the leaves' squares. The root
    is in units of y.
    """
    forest = grown.forest
    gains = np.zeros(forest.n_features)
    weight, mean = forest.cover.astype(np.float64), np.zeros(len(forest.cover))
    mean[forest.feature < 0] = [model.value / unit for model in grown.models]
    for node in np.flatnonzero(forest.feature >= 0)[::-1]:
        left = int(forest.left[node])
        sides, means = weight[left : left + 2], mean[left : left + 2]
        mean[node] = sides @ means / sides.sum()
        gains[forest.feature[node]] += sides @ (means - mean[node]) ** 2
    for model in grown.models:
        np.add.at(gains, model.features, model.explained)
    total = gains.sum()
    return (gains / total if total > 0 else gains), float(np.sqrt(total)) * unit
