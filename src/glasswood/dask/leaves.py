"""Regressions of leaves from sums over all rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.typing import Bools, Doubles, Int32s
from glasswood.grow.tree.assembly import GrownTree, target_range
from glasswood.grow.tree.refit import LeafModel, independent, shared_out
from glasswood.model.ensemble import MISSING, OF_NUMBERS, TreeEnsemble

if TYPE_CHECKING:
    from glasswood.dask.triangles import LeafSums, Terms


class Moments(NamedTuple):
    """Weight of rows, of those with a column; means of columns, columns about them in a triangle, means of terms."""

    total: float
    weights: Doubles
    shifts: Doubles
    centred: Doubles
    means: Doubles


def moments_of(terms: Terms, sums: LeafSums) -> Moments:
    """Centre the columns of a leaf's regression."""
    ones, columns, present, _ = parts_of(sums.triangle, terms.n_columns)
    total = float(ones @ ones)
    weights = np.where(terms.may_lack > 0, np.maximum(ones @ present, 1e-300), total)
    shifts = (ones @ columns) / weights
    centred = columns - np.where(terms.may_lack > 0, present, ones[:, None]) * shifts
    means = terms.means.copy()
    of_number = np.isin(terms.categories, OF_NUMBERS)
    means[of_number] += shifts[terms.columns[of_number]]
    means[~of_number] += (sums.totals / weights[terms.columns])[~of_number]
    return Moments(total, weights, shifts, centred, means)


def solved(terms: Terms, sums: LeafSums, unit: float) -> LeafModel:
    """Weighted least squares of a leaf, columns centred; constant and collinear ones are left out."""
    ones, _, _, target = parts_of(sums.triangle, terms.n_columns)
    total, weights, _, centred, means = moments_of(terms, sums)
    offset = float(ones @ target) / total
    triangle = np.asarray(np.linalg.qr(np.column_stack([centred, target - offset * ones]), mode="r"))
    triangle[:, :-1][:, is_constant(centred, terms, means, total)] = 0
    kept = independent(triangle[:, :-1], sums.n_rows)
    q, r = np.linalg.qr(triangle[:, kept])
    inverse = np.linalg.inv(r)
    solution = inverse @ (q.T @ triangle[:, -1])
    total_square = float(triangle[:, -1] @ triangle[:, -1])
    sse = float(np.sum((triangle[:, -1] - triangle[:, kept] @ solution) ** 2))
    freedom = sums.n_rows - len(kept) - 1
    variance = sse / freedom if freedom > 0 else np.nan
    explained = shared_out(total_square - sse, solution, np.sum(triangle[:, kept] ** 2, axis=0))
    errors = np.sqrt(variance * np.sum(inverse**2, axis=1))
    value = terms.centre + offset * unit
    at, place = terms_of(terms, kept)
    shares = np.bincount(place, minlength=len(kept))[place]
    coefficients = solution[place] * terms.factors[at] * unit
    model = LeafModel(
        features=terms.features[at],
        categories=terms.categories[at],
        coefficients=coefficients,
        errors=np.where(shares == 1, errors[place] * unit, np.nan),
        means=means[at],
        explained=explained[place] / shares,
        value=value,
        intercept=float(value - coefficients @ means[at]),
        intercept_error=_intercept_error(inverse, means, at, place, shares, variance, total) * unit,
        low=sums.low,
        high=sums.high,
        sse=sse,
        rmse=float(np.sqrt(sse / total) * unit),
        n_rows=sums.n_rows,
        spreads=_spreads(centred, means[at], terms.columns[at], np.isin(terms.categories[at], OF_NUMBERS), total),
    )
    lacking = 1 - weights[terms.columns[at]] / total
    return with_absent(model, terms.absent, np.where(lacking > 1e-12, lacking, 0.0))


def with_absent(model: LeafModel, absent: Int32s, lacking: Doubles) -> LeafModel:
    """Let rows without a category be at the mean of its terms, as `glasswood.grow.tree.terms` does.

    Parameters
    ----------
    model : LeafModel
        Its means of categories are those of the rows that have one.
    absent : int32
        Features that rows of the leaf may lack.
    lacking : float64, (n_terms,)
        Share of the rows that lack the feature of a term.
    """
    is_level = model.categories >= 0
    means, coefficients = np.where(is_level, model.means * (1 - lacking), model.means), model.coefficients.copy()
    added = []
    for feature in absent.tolist():
        own = is_level & (model.features == feature)
        chosen = (model.features == feature) & (model.categories == MISSING)
        if not own.any():
            continue
        mean, share = float(coefficients[own] @ model.means[own]), float(lacking[own][0])
        if chosen.any():
            coefficients[chosen] += mean
        elif share < 1:
            added.append((feature, mean, share))
    kinds = [MISSING] * len(added)
    nothing = np.zeros(len(added))
    shares = np.array([share for *_, share in added])
    joined: dict[str, Any] = {
        "features": np.append(model.features, [feature for feature, *_ in added]).astype(np.int32),
        "categories": np.append(model.categories, kinds).astype(np.int32),
        "coefficients": np.append(coefficients, [mean for _, mean, _ in added]),
        "errors": np.append(model.errors, nothing * np.nan),
        "means": np.append(means, shares),
        "explained": np.append(model.explained, nothing),
        "spreads": np.append(model.spreads, np.sqrt(shares * (1 - shares))),
    }
    order = np.lexsort((joined["categories"], joined["features"]))
    joined = {name: values[order] for name, values in joined.items()}
    intercept = float(model.value - joined["coefficients"] @ joined["means"])
    return dataclasses.replace(model, **joined, intercept=intercept)


def _spreads(centred: Doubles, means: Doubles, columns: Int32s, is_number: Bools, total: float) -> Doubles:
    """Take standard deviations of terms: of numbers from their columns, of categories from their shares."""
    shares = np.clip(means, 0, 1)
    numbers = np.linalg.norm(centred[:, columns], axis=0) / np.sqrt(total)
    spreads: Doubles = np.where(is_number, numbers, np.sqrt(shares * (1 - shares)))
    return spreads


def parts_of(triangle: Doubles, n_columns: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Divide a triangle into ones, columns of the regression, where these are present, and the target."""
    first, second = 1 + n_columns, 1 + 2 * n_columns
    return triangle[:, 0], triangle[:, 1:first], triangle[:, first:second], triangle[:, second]


def is_constant(centred: Doubles, terms: Terms, means: Doubles, total: float) -> Bools:
    """Columns whose spread is what rounding makes of a constant."""
    sizes = np.zeros(terms.n_columns)
    np.maximum.at(sizes, terms.columns, np.abs(means * terms.factors))
    constant: Bools = np.linalg.norm(centred, axis=0) <= 1e-13 * sizes * np.sqrt(total)
    return constant


def terms_of(terms: Terms, kept: Any) -> tuple[Any, Any]:
    """Terms whose columns are kept, and the places of these among the kept ones."""
    places = np.full(terms.n_columns, -1)
    places[kept] = np.arange(len(kept))
    at = np.flatnonzero(places[terms.columns] >= 0)
    return at, places[terms.columns[at]]


def _intercept_error(
    inverse: Doubles, means: Doubles, at: Any, place: Any, shares: Any, variance: float, total: float
) -> float:
    if (shares > 1).any():
        return float("nan")
    of_columns = np.zeros(len(inverse))
    of_columns[place] = means[at]
    origin = inverse.T @ of_columns
    return float(np.sqrt(variance * (1 / total + origin @ origin)))


def refitted(
    forest: TreeEnsemble,
    models: Sequence[LeafModel],
    sums: Sequence[LeafSums],
    clip: str,
    widest: tuple[float, float] | None = None,
) -> GrownTree:
    """Put other equations, limits and covers into a forest of one tree; `widest` are limits if not those of y."""
    if widest is None:
        widest = target_range(np.array([min(model.low for model in models), max(model.high for model in models)]))
    limits = {"none": (-np.inf, np.inf), "target": widest}
    ranges = np.array([limits.get(clip, (model.low, model.high)) for model in models])
    counts = [len(model.features) for model in models]
    linear: dict[str, Any] = {
        "linear_offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "linear_feature": np.concatenate([model.features for model in models]).astype(np.int32),
        "linear_category": np.concatenate([model.categories for model in models]).astype(np.int32),
        "linear_coefficient": np.concatenate([model.coefficients for model in models]),
        "linear_mean": np.concatenate([model.means for model in models]),
        "linear_deviation": np.concatenate([model.spreads for model in models]),
        "leaf_range": ranges,
    }
    if len(forest.linear_offsets) == 0:
        linear = {}
    elif not any(counts):
        linear = {name: getattr(forest, name)[:0] for name in linear}
    cover = _covers(forest, np.array([_total(one) for one in sums]))
    values = np.array([[model.value] for model in models])
    made = dataclasses.replace(forest, leaf_value=values, cover=cover.astype(forest.cover.dtype), **linear)
    return GrownTree(made, tuple(models), ranges)


def _total(sums: LeafSums) -> float:
    """Weight of a leaf's rows."""
    return float(sums.triangle[:, 0] @ sums.triangle[:, 0])


def _covers(forest: TreeEnsemble, of_leaves: Doubles) -> Doubles:
    """Weights of the nodes from those of the leaves; children stand behind their parents."""
    cover = np.zeros(forest.n_nodes)
    cover[forest.feature < 0] = of_leaves
    first = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))
    for node in np.flatnonzero(forest.feature >= 0)[::-1]:
        left = int(first[node] + forest.left[node])
        cover[node] = cover[left] + cover[left + 1]
    return cover
