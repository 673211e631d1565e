"""The best tree of a search as a Forest and as a table of leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Bools, Doubles, Int32s, Int64s
from glasswood.grow.data.rows import columns_with, threads_of
from glasswood.grow.tree.intervals import (
    MOST_LEFT_OUT,
    left_out_residuals,
    left_out_scores,
    quadratic_mean,
    usable_errors,
)
from glasswood.grow.tree.monotone import confined, fit_equation, leaf_bounds
from glasswood.grow.tree.refit import LeafModel, default_left, fit_leaf, rows_by_node
from glasswood.grow.tree.smoothing import smooth, with_equation
from glasswood.grow.tree.terms import in_features
from glasswood.grow.tree.thresholds import split_thresholds
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import NodeArrays, assemble, pack_sets

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.data.rows import TrainingRows

MARGIN = 0.05
"""What clip="target" adds to the range of y on either side, in parts of it."""


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A Forest of one tree; in the order of its leaves, their regressions and limits; and how they were smoothed.

    `scores` are what rows left out in turn are off, in errors of their leaves (`glasswood.grow.tree.intervals`), which
    `errors` holds by row; `sse` is the sum of squares, in units of the target's variance, and `left_out` the root mean
    squared error of rows that are left out of their leaf's regression, in units of y.
    """

    forest: TreeEnsemble
    models: tuple[LeafModel, ...]
    limits: Doubles
    smoothing: float = 0.0
    scores: Doubles = field(default_factory=lambda: np.empty(0))
    errors: Doubles = field(default_factory=lambda: np.empty(0))
    sse: float = float("nan")
    left_out: float = float("nan")


def grown_tree(
    tree: dict[str, Any], rows: TrainingRows, columns: TrainingColumns, y: Doubles, **meaning: Any
) -> GrownTree:
    """Refit every leaf on its rows and assemble the Forest.

    Parameters
    ----------
    tree : dict
        Arrays by node, from the engine.
    rows, columns, y
        What the tree was grown on.
    **meaning
        ``clip``, ``limits`` (what ``clip="target"`` confines predictions to, if not the range of y), ``smoothing``,
        ``middle`` (what equations are fitted to in y's place), ``known`` (`glasswood.grow.tree.pruning.Known` of the
        same target), further fields of Forest.
    """
    reached = rows_by_node(tree, rows)
    clip, smoothing, middle = meaning.pop("clip"), meaning.pop("smoothing"), meaning.pop("middle", None)
    widest, known = meaning.pop("limits", None) or target_range(y), meaning.pop("known", None)
    is_leaf = tree["feature"] < 0
    used = tree["model"].reshape(len(is_leaf), -1).astype(bool)

    def fit(v: int) -> LeafModel:
        at = reached[v]
        X, weight, features, unit = columns.X[at], rows.weight[at], np.flatnonzero(used[v]), _unit(rows)
        model = fit_equation(columns, X, y[at], weight, features, unit)
        if middle is None or columns.term_signs is not None:
            return model
        return with_equation(model, fit_leaf(X, middle[at], weight, features, unit), X, y[at], weight, unit)

    def found(v: int) -> LeafModel:
        return fit(v) if known is None else known.of("fitted", reached[v], np.flatnonzero(used[v]), lambda: fit(v))

    models = _by_leaf(found, np.flatnonzero(is_leaf).tolist(), columns)
    models, strength = smooth(tree, models, rows, columns, y, reached, smoothing, widest)
    limits = {v: _limits(model, clip, widest) for v, model in models.items()}
    if columns.is_constrained:
        models, limits, cost = _monotone(tree, models, limits, rows, columns, y, reached)
    else:
        cost = sum(model.sse for model in models.values())
    step = -(-len(y) // MOST_LEFT_OUT)
    parts = [(columns.X[at], y[at], rows.weight[at]) for at in (reached[v][::step] for v in models)]
    residuals = left_out_residuals(list(models.values()), parts, list(limits.values()))
    scores = left_out_scores(list(models.values()), residuals)
    left_out = quadratic_mean(np.abs(np.concatenate(residuals)), np.concatenate([weight for _, _, weight in parts]))
    errors = np.empty(len(y))
    for v, error in zip(models, usable_errors(np.array([model.rmse for model in models.values()])), strict=True):
        errors[reached[v]] = error
    grown = assembled(tree, rows, columns, reached, models, limits, **meaning)
    return dataclasses.replace(
        grown, smoothing=strength, scores=scores, errors=errors, sse=cost, left_out=float(left_out)
    )


def _monotone(
    tree: dict[str, Any],
    models: dict[int, LeafModel],
    limits: dict[int, tuple[float, float]],
    rows: TrainingRows,
    columns: TrainingColumns,
    y: Doubles,
    reached: list[Int32s],
) -> tuple[dict[int, LeafModel], dict[int, tuple[float, float]], float]:
    """Clip the leaves so that constraints hold at splits; and the sum of squares that is left."""
    predictions, unit = np.empty(len(y)), _unit(rows)
    for v, model in models.items():
        predictions[reached[v]] = np.clip(model.predict(columns.X[reached[v]]), *limits[v])
    bounds = leaf_bounds(tree, columns.column_signs, reached, predictions / unit, y / unit, rows.weight)
    bounds = {v: (low * unit, high * unit) for v, (low, high) in bounds.items()}
    limits = {v: tuple(np.clip(limits[v], *bounds[v]).tolist()) for v in limits}
    for v in models:
        predictions[reached[v]] = np.clip(predictions[reached[v]], *bounds[v])
    models = {v: confined(model, bounds[v]) for v, model in models.items()}
    return models, limits, float(rows.weight @ ((y - predictions) / unit) ** 2)


def assembled(
    tree: dict[str, Any],
    rows: TrainingRows,
    columns: TrainingColumns,
    reached: list[Int32s],
    models: dict[int, LeafModel],
    limits: dict[int, tuple[float, float]],
    **meaning: Any,
) -> GrownTree:
    """Make a Forest of a tree whose leaves, by node, have these models and limits.

    Parameters
    ----------
    tree, rows, columns
        As in `grown_tree`.
    reached : list of int32 arrays
        Rows by node.
    models : dict of LeafModel
    limits : dict of pairs
    **meaning
        Further fields of Forest.
    """
    possible = _possible_categories(tree, rows, columns, reached)
    has_limits = any(len(model.features) for model in models.values())  # trees of constants have none

    def finished(v: int) -> LeafModel:
        X, weight = columns.X[reached[v]], rows.weight[reached[v]]
        model = dataclasses.replace(models[v], spreads=models[v].spreads_of(X, weight))
        model = _confined(model, limits[v], X) if has_limits else model
        return in_features(model, columns, X, weight, possible[v])

    models = _by_leaf(finished, list(models), columns)
    nodes, sets = _node_arrays(tree, rows, columns, reached, models)
    order = _leaf_order(tree)
    trees = assemble(
        nodes,
        n_features=columns.n_features,
        **_sets(sets),
        **_linear([models[v] for v in order], [limits[v] for v in order]),
        categories=columns.categories if columns.is_categorical.any() else None,
        missing_seen=columns_with(np.isnan, columns.X[:, : columns.n_features]),
        tree_weight=np.ones(1),
        base_score=np.zeros(1),
        **meaning,
    )
    return GrownTree(trees, tuple(models[v] for v in order), np.array([limits[v] for v in order]))


def _by_leaf(task: Callable[[int], LeafModel], leaves: list[int], columns: TrainingColumns) -> dict[int, LeafModel]:
    """Find what becomes of each leaf, several beside each other."""
    found = side_by_side(lambda k: task(leaves[k]), len(leaves), threads_of(columns.X.size))
    return dict(zip(leaves, found, strict=True))


def _limits(model: LeafModel, clip: str, widest: tuple[float, float]) -> tuple[float, float]:
    """Smallest and largest value that a leaf predicts."""
    if clip == "leaf":
        return model.low, model.high
    if clip == "none":
        return -np.inf, np.inf
    return widest


def sign_of(y: Doubles) -> tuple[float, float]:
    """Range of numbers with a sign that the target has: amounts of at least 0 are predicted to be at least 0."""
    return (0.0 if y.min() >= 0 else -np.inf), (0.0 if y.max() <= 0 else np.inf)


def target_range(y: Doubles, sign: tuple[float, float] | None = None) -> tuple[float, float]:
    """Range of the target, a little wider, but with the target's sign, or within `sign`."""
    low, high = float(y.min()), float(y.max())
    margin, (least, most) = high * MARGIN - low * MARGIN, sign_of(y) if sign is None else sign
    return max(low - margin, least), min(high + margin, most)


def _confined(model: LeafModel, limits: tuple[float, float], X: Doubles) -> LeafModel:
    """Count the leaf's rows whose prediction its limits change."""
    predictions = model.predict(X)
    beyond = (predictions < limits[0]) | (predictions > limits[1])
    return dataclasses.replace(model, n_clipped=int(beyond.sum()))


def _unit(rows: TrainingRows) -> float:
    return rows.target.scale or 1.0


def _node_arrays(
    tree: dict[str, Any],
    rows: TrainingRows,
    columns: TrainingColumns,
    reached: list[Int32s],
    models: dict[int, LeafModel],
) -> tuple[NodeArrays, list[tuple[Bools, bool]]]:
    """Nodes for `assemble`, and of each categorical split the categories that go left and whether others do."""
    n_nodes = len(tree["feature"])
    thresholds, sides = split_thresholds(tree, rows, reached), np.zeros(n_nodes, bool)
    features = tree["feature"].copy()
    category_set = np.full(n_nodes, -1, np.int32)
    sets: list[tuple[Bools, bool]] = []
    splits, threads = np.flatnonzero(tree["feature"] >= 0).tolist(), threads_of(len(rows.y))
    cover = side_by_side(lambda v: float(rows.weight[reached[v]].sum()), n_nodes, threads)
    sides[splits] = side_by_side(lambda k: default_left(tree, rows, splits[k], reached), len(splits), threads)
    for v in splits:
        if (split := _split_of_node(tree, rows, columns, v)) is None:
            if features[v] >= columns.n_features:  # of a logarithm: its numbers are apart from missing ones
                features[v] = columns.sources[features[v]]
                thresholds[v] = np.inf if np.isinf(thresholds[v]) else rows.distinct(int(features[v]))[0]
            continue
        features[v], goes_left = split
        thresholds[v] = 0
        category_set[v] = len(sets)
        sets.append((goes_left, bool(sides[v])))
    nodes = NodeArrays(
        counts=np.array([n_nodes]),
        left=np.where(tree["feature"] < 0, -1, tree["left"]),
        right=np.where(tree["feature"] < 0, -1, tree["right"]),
        feature=features,
        threshold=thresholds,
        default_left=sides,
        cover=np.array(cover),
        value=np.array([models[v].value if v in models else 0.0 for v in range(n_nodes)]),
        leaf_id=_leaf_numbers(tree),
        category_set=category_set if sets else None,
    )
    return nodes, sets


def _split_of_node(
    tree: dict[str, Any], rows: TrainingRows, columns: TrainingColumns, v: int
) -> tuple[int, Bools] | None:
    """Feature of a split by a set, and which of its categories go left; None of another node."""
    return split_of_categories(int(tree["feature"][v]), int(tree["threshold"][v]), rows, columns)


def split_of_categories(
    attribute: int, cut: int, rows: TrainingRows, columns: TrainingColumns
) -> tuple[int, Bools] | None:
    """Feature of a split by a set, and which of its categories go left; None of another split, and of a leaf.

    Parameters
    ----------
    attribute : int
        Column that the split tests; negative at a leaf.
    cut : int
        Rank below which rows go left.
    rows, columns
        As in `grown_tree`.
    """
    if attribute >= columns.n_features:
        column = columns.derived[attribute - columns.n_features]
        if (order := columns.order[column.source]) is None:
            return None
        values = rows.distinct(attribute)
        # Of a category: 1, and 0 of the others; where splits tell missing ones apart only, all are 0.
        own = np.arange(len(order)) == column.category if column.is_testable else np.zeros(len(order))
        return column.source, own < (values[cut] if cut < len(values) else np.inf)
    order = columns.order[attribute] if attribute >= 0 else None
    if order is None:
        return None
    return attribute, _goes_left(order, rows.distinct(attribute), cut)


def _possible_categories(
    tree: dict[str, Any], rows: TrainingRows, columns: TrainingColumns, reached: list[Int32s]
) -> list[dict[int, Bools]]:
    """Find for each node the categories, and, last, whether missing ones may come to it, by features tested above."""
    possible: list[dict[int, Bools]] = [{} for _ in tree["feature"]]
    for v in np.flatnonzero(tree["feature"] >= 0).tolist():  # children stand behind their parents
        above, split = possible[v], _split_of_node(tree, rows, columns, v)
        for child, is_left in ((tree["left"][v], True), (tree["right"][v], False)):
            possible[child] = above
            if split is not None:
                feature, goes_left = split
                here = np.append(goes_left, default_left(tree, rows, v, reached)) == is_left
                possible[child] = {**above, feature: above.get(feature, True) & here}
    return possible


def _goes_left(order: Int64s, values: Doubles, cut: int) -> Bools:
    """Categories whose place in the order of mean targets is below the cut."""
    limit = values[cut] if cut < len(values) else np.inf
    return order < limit


def _sets(sets: list[tuple[Bools, bool]]) -> dict[str, Any]:
    if not sets:
        return {}
    offsets, words = pack_sets([left for left, _ in sets])
    return {
        "set_offsets": offsets,
        "set_words": words,
        "set_others_left": np.array([others for _, others in sets], bool),
    }


def _leaf_order(tree: dict[str, Any]) -> list[int]:
    """Leaves breadth-first, as Forest stores them."""
    level, leaves = [0], []
    while level:
        leaves += [v for v in level if tree["feature"][v] < 0]
        splits = [v for v in level if tree["feature"][v] >= 0]
        level = [int(child) for v in splits for child in (tree["left"][v], tree["right"][v])]
    return leaves


def _leaf_numbers(tree: dict[str, Any]) -> Int32s:
    """Place of each leaf in that order, by node."""
    numbers = np.zeros(len(tree["feature"]), np.int32)
    order = _leaf_order(tree)
    numbers[order] = np.arange(len(order))
    return numbers


def _linear(models: list[LeafModel], limits: list[tuple[float, float]]) -> dict[str, Any]:
    """Fill the fields of Forest that hold linear models; a leaf without terms is a constant with a range."""
    counts = [len(model.features) for model in models]
    return (
        {
            "linear_offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "linear_feature": np.concatenate([model.features for model in models]).astype(np.int32),
            "linear_category": np.concatenate([model.categories for model in models]).astype(np.int32),
            "linear_coefficient": np.concatenate([model.coefficients for model in models]).astype(np.float64),
            "linear_mean": np.concatenate([model.means for model in models]).astype(np.float64),
            "linear_deviation": np.concatenate([model.spreads for model in models]).astype(np.float64),
            "leaf_range": np.array(limits, np.float64),
        }
        if any(counts)
        else {}
    )
