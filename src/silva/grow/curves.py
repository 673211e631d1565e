"""What a sum of trees may begin with: an equation, and curves of single features, as trees that test one feature.

Curves say what features do alone (`silva.grow.additive`), the trees of the sum what they do together. Trees are grown
on what curves leave. Of each row this is what curves of other rows leave, because curves follow the noise of their own
rows, and trees would correct that. A curve is a tree of one feature with a line in each leaf, so whatever handles
forests handles curves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from silva.ensemble import NUMBER
from silva.grow.additive import additive_model
from silva.grow.data.derived import with_derived
from silva.grow.data.repeats import repetitions
from silva.grow.data.rows import gathered, prepare
from silva.grow.search.engine import SearchResult
from silva.grow.search.growing import Growth
from silva.grow.tree.assembly import GrownTree, assembled
from silva.grow.tree.refit import LeafModel, rows_by_node
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.forest import Forest
    from silva.grow.additive import AdditiveModel
    from silva.grow.boosting import SequencePlan
    from silva.grow.data.columns import TrainingColumns, TrainingData
    from silva.grow.data.rows import TrainingRows
    from silva.grow.estimator import ModelTreeRegressor
    from silva.grow.search.engine import Circumstances
    from silva.typing import Doubles, Int32s, Int64s

FOLDS = 5

MOST_ROWS = 20_000
"""Rows that curves are fitted to, an even sample of more."""

LEAST_ROWS = 50
"""Distinct rows from which on there are curves."""

ROUNDING = 1e-12
"""Part of a curve's end by which it may be exceeded, so that rounding clips no row."""

APART = 0x63757276
"""Added to the seed of a sum for the division of the rows."""


@dataclass(frozen=True, eq=False)
class Beginning:
    """Trees of an equation and of curves, and what those of the other rows predict of each row."""

    trees: list[ModelTreeRegressor]
    unseen: Doubles


@dataclass(frozen=True, eq=False)
class _Known(Growth):
    """A tree that no search has found."""

    grown: GrownTree | None = None

    def tree(self, model: Any, **meaning: Any) -> GrownTree:  # noqa: ARG002
        """Return the tree; `meaning` are further fields of the Forest."""
        assert self.grown is not None
        return replace(self.grown, forest=replace(self.grown.forest, **meaning))

    def population(self) -> list[dict[str, Any]]:
        """Return no trees."""
        return []


def beginning(plan: SequencePlan, data: TrainingData, given: Circumstances) -> Beginning | None:
    """Fit curves to rows in order; None where there are none.

    Parameters
    ----------
    plan : SequencePlan
        `member` makes the estimators.
    data : TrainingData
    given : Circumstances
        Its seed divides the rows.
    """
    fold = _folds(data, given.seed)
    if fold is None:
        return None
    step = -(-len(fold) // MOST_ROWS)
    columns = with_derived(data.columns, data.target, data.weight)
    sample = columns.taken(np.arange(0, len(fold), step, dtype=np.int32))
    copies = data.in_order()[2]
    model = additive_model(sample, data.target[::step], data.weight[::step], fold[::step], copies)
    if model is None:
        return None
    grown = _trees(model, columns, data.target, data.weight, n_threads(plan.member.n_jobs))
    trees = [_estimator(plan, growth) for growth in grown]
    rows = data.columns.as_rows()
    unseen = _sum([tree.forest_ for tree in trees], rows)
    unseen[::step] = model.unseen - model.intercept
    return Beginning(trees, unseen)


def _sum(forests: list[Forest], rows: Doubles) -> Doubles:
    total = np.zeros(len(rows))
    for forest in forests:
        total += forest.predict(rows, device="cpu", n_jobs=1)
    return total


def _folds(data: TrainingData, seed: int) -> Int64s | None:
    """Part of each row, copies of a row in the same one; None of few rows."""
    row = repetitions(data.columns.X, data.target)
    if row[-1] + 1 < LEAST_ROWS:
        return None
    fold: Int64s = (np.random.default_rng([seed, APART]).permutation(row[-1] + 1) % FOLDS)[row]
    return fold


def _estimator(plan: SequencePlan, growth: _Known) -> ModelTreeRegressor:
    tree: ModelTreeRegressor = clone(plan.member)
    tree._keep(growth, plan.reader)
    return tree


# --- trees ---


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The rows as trees see them, and what the model leaves of each."""

    model: AdditiveModel
    columns: TrainingColumns
    rows: TrainingRows
    residuals: Doubles

    def leaf(self, at: Int32s, features: Int64s, slopes: Doubles, origin: Doubles, height: float) -> LeafModel:
        """Make an equation of these rows, which predicts `height` where the features are `origin`."""
        X, weight, scale = self.columns.X[at][:, features], self.rows.weight[at], self.rows.target.scale or 1.0
        share = np.where(np.isnan(X), 0.0, weight[:, None])
        means = (share * np.nan_to_num(X)).sum(axis=0) / np.maximum(share.sum(axis=0), 1e-300)
        deviations = np.nan_to_num(X - means)
        middle = float(height + (means - origin) @ slopes)
        y = middle + deviations @ slopes + self.residuals[at]
        squares = weight @ (deviations * (slopes / scale)) ** 2
        sse = float(weight @ (self.residuals[at] / scale) ** 2)
        nan = float("nan")
        return LeafModel(
            features=features.astype(np.int32),
            categories=np.full(len(features), NUMBER, np.int32),
            coefficients=slopes,
            errors=np.full(len(features), nan),
            means=means,
            explained=squares,
            value=middle,
            intercept=float(middle - slopes @ means),
            intercept_error=nan,
            low=float(y.min()),
            high=float(y.max()),
            sse=sse,
            rmse=float(np.sqrt(sse / weight.sum()) * scale),
            n_rows=len(at),
        )

    def grown(
        self, tree: dict[str, Any], models: dict[int, LeafModel], limits: dict[int, tuple[float, float]]
    ) -> _Known:
        """Make a tree of equations by leaf."""
        reached = rows_by_node(tree, self.rows)
        found = assembled(tree, self.rows, self.columns, reached, models, limits)
        errors = np.empty(len(self.residuals))
        for v, model in models.items():
            errors[reached[v]] = model.rmse or 1.0
        found = replace(found, errors=errors, scores=np.sort(np.abs(self.residuals) / errors))
        result = SearchResult({**tree, "fitness": float("nan")}, [])
        order = np.arange(len(self.residuals), dtype=np.int32)
        return _Known(result, self.rows, self.columns, self.residuals, order, grown=found)


def _trees(
    model: AdditiveModel, columns: TrainingColumns, target: Doubles, weight: Doubles, threads: int
) -> list[_Known]:
    """Make a tree of the terms of columns without knots, if there are any, and a tree of each curve."""
    linear = ~columns.is_categorical & columns.is_usable
    rows = prepare(columns.X, target, weight, linear, threads, testable=columns.is_testable)
    if (source := rows.source) is not None:
        columns, target = columns.taken(source), gathered(target, source)
    curved = np.unique(model.terms.column[model.terms.is_hinge])
    lines = np.flatnonzero(~np.isin(model.terms.column, curved))
    residuals = target - model.intercept - (model.terms.values(columns.X) - model.centre) @ model.coefficient
    fitted = _Fitted(model, columns, rows, residuals)
    found = [_curve(fitted, int(column)) for column in curved]
    return [_equation(fitted, lines), *found] if len(lines) else found


def _equation(fitted: _Fitted, lines: Int64s) -> _Known:
    """Make one leaf; it predicts nothing that it has not predicted of a row."""
    model, X = fitted.model, fitted.columns.X
    features, slopes = model.terms.column[lines], model.coefficient[lines]
    value = np.nan_to_num(X[:, features] - model.centre[lines]) @ slopes
    tree = _balanced(0, [], 0)
    leaf = fitted.leaf(np.arange(len(X), dtype=np.int32), features, slopes, model.centre[lines], 0.0)
    return fitted.grown(tree, {0: leaf}, {0: (float(value.min()), float(value.max()))})


def _curve(fitted: _Fitted, column: int) -> _Known:
    """Make a leaf of each piece between neighbouring knots; beyond the rows the curve is level.

    Missing values have a leaf of their own, at the curve's height at the mean, if any row has them.
    """
    model, x = fitted.model, fitted.columns.X[:, column]
    knots, distinct = model.knots_of(column), fitted.rows.distinct(column)
    mean = model.terms.fill[model.terms.column == column][:1]
    ends = np.array([np.nanmin(x), *knots, np.nanmax(x)])
    heights, of_missing = model.of_column(column, ends), float(model.of_column(column, mean)[0])
    cuts, home = np.searchsorted(distinct, knots).tolist(), int(np.searchsorted(knots, mean[0], side="right"))
    tree = _balanced(column, cuts, home, len(distinct) if np.isnan(x).any() else None)
    reached = rows_by_node(tree, fitted.rows)
    models, limits = {}, {}
    leaves = _leaves(tree)
    for piece, v in enumerate(leaves[: len(cuts) + 1]):
        low, high = float(heights[piece]), float(heights[piece + 1])
        slope = np.array([(high - low) / ((ends[piece + 1] - ends[piece]) or 1.0)])
        models[v] = fitted.leaf(reached[v], np.array([column]), slope, ends[piece : piece + 1], low)
        limits[v] = _level(low, high, piece == 0, piece == len(cuts))
    for v in leaves[len(cuts) + 1 :]:
        models[v] = fitted.leaf(reached[v], np.zeros(0, np.int64), np.zeros(0), np.zeros(0), of_missing)
        limits[v] = of_missing, of_missing
    return fitted.grown(tree, models, limits)


def _level(low: float, high: float, is_first: bool, is_last: bool) -> tuple[float, float]:
    """Limits of a piece that runs from `low` to `high`: the first and the last one end where the rows do."""
    lowest, highest = -np.inf, np.inf
    slack = ROUNDING * max(abs(low), abs(high))
    for end, other in ([(low, high)] if is_first else []) + ([(high, low)] if is_last else []):
        if end <= other:
            lowest = end - slack
        if end >= other:
            highest = end + slack
    return lowest, highest


def _balanced(column: int, cuts: list[int], home: int, above: int | None = None) -> dict[str, Any]:
    """Tree of one column, by node, whose leaves are the pieces between the cuts; missing values go to piece `home`.

    With a cut `above` all values, its root parts values and missing ones, whose leaf comes last.
    """
    nodes: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "missing_left")}

    def add(*values: Any) -> int:
        for name, value in zip(nodes, values, strict=True):
            nodes[name].append(value)
        return len(nodes["feature"]) - 1

    def between(first: int, last: int) -> int:
        if first == last:
            return add(-1, 0, 0, 0, False)
        middle = (first + last) // 2
        node = add(column, cuts[middle], 0, 0, home <= middle)
        nodes["left"][node], nodes["right"][node] = between(first, middle), between(middle + 1, last)
        return node

    if above is not None:
        add(column, above, 1, 0, False)
    between(0, len(cuts))
    if above is not None:
        nodes["right"][0] = add(-1, 0, 0, 0, False)
    types = {"missing_left": np.bool_}
    return {name: np.array(values, types.get(name, np.int32)) for name, values in nodes.items()}


def _leaves(tree: dict[str, Any]) -> list[int]:
    """Leaves from the left to the right."""

    def below(node: int) -> list[int]:
        if tree["feature"][node] < 0:
            return [node]
        return below(int(tree["left"][node])) + below(int(tree["right"][node]))

    return below(0)
