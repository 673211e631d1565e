"""Terms of a leaf's equation as terms of the features: of categories, and of codes that categories share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.typing import Bools, Doubles
from glasswood.grow.data.columns import Derived
from glasswood.model.ensemble import MISSING, NUMBER

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.tree.refit import LeafModel

    Entry = tuple[int, int, float, float, float, float, float]


def in_features(
    model: LeafModel, columns: TrainingColumns, X: Doubles, weight: Doubles, possible: dict[int, Bools]
) -> LeafModel:
    """Write the terms of derived columns as terms of their features; a column of codes becomes a term a category.

    Categories that no row of the leaf can have get no term; the leaf's value takes what theirs would be. Where rows
    without a category may come, a term for them puts the leaf's mean in place of the terms of categories.

    Parameters
    ----------
    model : LeafModel
        Its features are columns of `columns.X`.
    columns : TrainingColumns
    X, weight
        The leaf's rows.
    possible : dict of bool arrays
        By feature, which categories may come to the leaf, and, last, missing ones; of other features all.
    """
    if not (model.features >= columns.n_features).any():
        return model
    absent = _absent(columns, X, weight)
    terms = [term for k in range(len(model.features)) for term in _terms(model, k, columns, X, weight, absent)]
    terms = _with_absent(terms, absent, possible)
    may_be = [category < 0 or feature not in possible or possible[feature][category] for feature, category, *_ in terms]
    value = model.value - sum(term[2] * term[4] for term, stays in zip(terms, may_be, strict=True) if not stays)
    n_chosen = len(model.features) + sum(term[1] == MISSING and np.isnan(term[3]) for term in terms)
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
        intercept_error=model.intercept_error if len(terms) == n_chosen else float("nan"),
    )


def _absent(columns: TrainingColumns, X: Doubles, weight: Doubles) -> dict[int, float]:
    """Share of the leaf's rows without a value, by categorical feature."""
    features = np.flatnonzero(columns.is_categorical)
    return {int(k): float(np.average(np.isnan(X[:, k]), weights=weight)) for k in features}


def _with_absent(terms: list[Entry], absent: dict[int, float], possible: dict[int, Bools]) -> list[Entry]:
    """Let rows without a category be at the mean of its terms, beside what a column of missing values says of them."""
    for feature, share in absent.items():
        own = [term for term in terms if term[0] == feature and term[1] >= 0]
        if not own or share == 1 or (feature in possible and not possible[feature][-1]):
            continue
        mean = sum(term[2] * term[4] for term in own) / (1 - share)
        chosen = next((k for k, term in enumerate(terms) if term[:2] == (feature, MISSING)), None)
        if chosen is None:
            spread = (share * (1 - share)) ** 0.5
            terms.append((feature, MISSING, mean, float("nan"), share, 0.0, spread))
        else:
            known = terms[chosen]
            terms[chosen] = (known[0], known[1], known[2] + mean, known[3], known[4], known[5], known[6])
    return terms


def _terms(
    model: LeafModel, k: int, columns: TrainingColumns, X: Doubles, weight: Doubles, absent: dict[int, float]
) -> Iterator[Entry]:
    """Feature, category, coefficient, standard error, mean, explained square and spread of what a term becomes."""
    feature = int(model.features[k])
    coefficient, error, explained = (float(part[k]) for part in (model.coefficients, model.errors, model.explained))
    column = Derived(feature, NUMBER) if feature < columns.n_features else columns.derived[feature - columns.n_features]
    if column.codes is None:
        mean, spread = float(model.means[k]), float(model.spreads[k])
        if column.category >= 0:
            mean *= 1 - absent[column.source]  # of all rows, not of those with a category
        yield column.source, column.category, coefficient, error, mean, explained, spread
        return
    order = columns.order[column.source]
    assert order is not None
    for category, code in enumerate(column.codes[:-1] - column.codes[-1]):
        share = float(np.average(X[:, column.source] == order[category], weights=weight))
        spread = (share * (1 - share)) ** 0.5
        yield column.source, category, coefficient * code, float("nan"), share, explained / len(order), spread
