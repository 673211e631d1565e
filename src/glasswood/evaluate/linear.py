"""Leaves that hold linear models: what their terms are called, and the means of their terms."""

from __future__ import annotations

import dataclasses

import numpy as np

from glasswood.base.typing import Doubles, Floats, Int32s
from glasswood.model.ensemble import LOGARITHM, MISSING, NUMBER, TreeEnsemble
from glasswood.model.facts import feature_name


def numbered_leaves(forest: TreeEnsemble) -> TreeEnsemble:
    """Give the leaves numbers for ids: their places in `leaf_value`."""
    return dataclasses.replace(forest, leaf_id=np.arange(forest.n_leaves, dtype=np.int32), leaf_shape=())


def with_means(forest: TreeEnsemble, rows: Floats, positions: Int32s) -> TreeEnsemble:
    """Take means and deviations of the leaves' terms from rows and the places of leaves that they reach, (n, n_trees).

    A number's mean is that of the rows where it is finite. A leaf that no row reaches has the means of all rows.
    """
    means, deviations = _overall_means(forest, rows), np.zeros(len(forest.linear_feature))
    for tree in range(forest.n_trees):
        order = np.argsort(positions[:, tree], kind="stable")
        reached, starts = np.unique(positions[order, tree], return_index=True)
        for leaf, members in zip(reached.tolist(), np.split(order, starts[1:]), strict=True):
            terms = slice(*forest.linear_offsets[leaf : leaf + 2])
            values = _term_values(forest, rows[members], terms)
            means[terms] = _means(values, means[terms])
            deviations[terms] = np.sqrt(_means((values - means[terms]) ** 2, deviations[terms]))
    products = np.append(forest.linear_coefficient * (means - forest.linear_mean), 0.0)
    change = np.add.reduceat(products, forest.linear_offsets[:-1])
    value = forest.leaf_value + np.where(np.diff(forest.linear_offsets) > 0, change, 0.0)[:, None]
    return dataclasses.replace(
        forest, linear_mean=means, linear_deviation=deviations, leaf_value=value, means_known=True
    )


def _overall_means(forest: TreeEnsemble, rows: Floats) -> Doubles:
    """Mean of each term over all rows."""
    pairs = np.column_stack([forest.linear_feature, forest.linear_category])
    _, first, same = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    means = np.zeros(len(first))
    for place, term in enumerate(first.tolist()):
        one = slice(place, place + 1)
        means[one] = _means(_term_values(forest, rows, slice(term, term + 1)), means[one])
    return means[same.reshape(-1)]


def _term_values(forest: TreeEnsemble, rows: Floats, terms: slice) -> Doubles:
    """Evaluate the terms on the rows, (n, n_terms); NaN where a row lacks a number."""
    return term_values(rows[:, forest.linear_feature[terms]], forest.linear_category[terms])


def term_values(x: Floats, category: Int32s) -> Doubles:
    """Evaluate terms on the values of their features, (n, n_terms); NaN where a row lacks a number."""
    values = x.astype(np.float64)
    has_it = np.where(category == MISSING, np.isnan(values), values == category)
    result: Doubles = np.where(category == NUMBER, values, has_it)
    if (category == LOGARITHM).any():
        result = np.where(category == LOGARITHM, logarithms(values), result)
    return result


def logarithms(x: Doubles) -> Doubles:
    """Natural logarithms of numbers; NaN of those that are not positive."""
    result = np.full(x.shape, np.nan)
    np.log(x, out=result, where=x > 0)
    return result


def _means(values: Doubles, otherwise: Doubles) -> Doubles:
    """Mean of the finite numbers of each column, `otherwise` where there are none."""
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    result: Doubles = np.where(counts > 0, sums / np.maximum(counts, 1), otherwise)
    return result


def term_name(forest: TreeEnsemble, feature: int, category: int) -> str:
    """Name what a term takes of its feature."""
    name = feature_name(forest, feature)
    if category == NUMBER:
        return name
    if category == LOGARITHM:
        return f"log {name}"
    if category == MISSING:
        return f"{name} missing"
    table = forest.categories[feature] if forest.categories else None
    return f"{name} = {category if table is None else table[category]}"
