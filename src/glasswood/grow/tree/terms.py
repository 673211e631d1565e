"""Terms of a leaf's equation as terms of the features: of categories, and of codes that categories share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Bools, Doubles
from glasswood.grow.data.columns import Derived
from glasswood.model.ensemble import NUMBER

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.tree.refit import LeafModel


def in_features(
    model: LeafModel, columns: TrainingColumns, X: Doubles, weight: Doubles, possible: dict[int, Bools]
) -> LeafModel:
    """Write the terms of derived columns as terms of their features; a column of codes becomes a term a category.

    Categories that no row of the leaf can have get no term; the leaf's value takes what theirs would be.

    Parameters
    ----------
    model : LeafModel
        Its features are columns of `columns.X`.
    columns : TrainingColumns
    X, weight
        The leaf's rows.
    possible : dict of bool arrays
        By feature, which categories may come to the leaf; of other features all.
    """
    if not (model.features >= columns.n_features).any():
        return model
    terms = [term for k in range(len(model.features)) for term in _terms(model, k, columns, X, weight)]
    may_be = [category < 0 or feature not in possible or possible[feature][category] for feature, category, *_ in terms]
    value = model.value - sum(term[2] * term[4] for term, stays in zip(terms, may_be, strict=True) if not stays)
    terms = [term for term, stays in zip(terms, may_be, strict=True) if stays]
    table = np.array(sorted(terms, key=lambda term: term[:2])).reshape(-1, 7)
    features, categories = table[:, :2].T.astype(np.int32)
    coefficients, errors, means, explained, spreads = np.ascontiguousarray(table[:, 2:].T)
    return dataclasses.replace(
        model,
        features=features,
        categories=categories,
        coefficients=coefficients,
        errors=errors,
        means=means,
        explained=explained,
        spreads=spreads,
        value=float(value),
        intercept=float(value - coefficients @ means),
        intercept_error=model.intercept_error if len(terms) == len(model.features) else float("nan"),
    )


def _terms(
    model: LeafModel, k: int, columns: TrainingColumns, X: Doubles, weight: Doubles
) -> Iterator[tuple[int, int, float, float, float, float, float]]:
    """Feature, category, coefficient, standard error, mean, explained square and spread of what a term becomes."""
    feature = int(model.features[k])
    coefficient, error, explained = (float(part[k]) for part in (model.coefficients, model.errors, model.explained))
    column = Derived(feature, NUMBER) if feature < columns.n_features else columns.derived[feature - columns.n_features]
    if column.codes is None:
        mean, spread = float(model.means[k]), float(model.spreads[k])
        yield column.source, column.category, coefficient, error, mean, explained, spread
        return
    order = columns.order[column.source]
    assert order is not None
    for category, code in enumerate(column.codes[:-1] - column.codes[-1]):
        share = float(np.average(X[:, column.source] == order[category], weights=weight))
        spread = (share * (1 - share)) ** 0.5
        yield column.source, category, coefficient * code, float("nan"), share, explained / len(order), spread
