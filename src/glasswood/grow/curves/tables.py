"""Curves, surfaces and the shares of all parts, as tables that pandas and polars turn into frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.facts import feature_name, output_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glasswood.grow.curves.shapes import Shape, Steps
    from glasswood.model.ensemble import TreeEnsemble

Table = dict[str, "Array"]

MISSING_TEXT = "missing"
"""Category of rows without a value."""


def _columns(names: list[str], rows: list[tuple[Any, ...]]) -> Table:
    parts = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: np.array(part) for name, part in zip(names, parts, strict=True)}


def curve_table(shapes: list[Shape], forest: TreeEnsemble) -> Table:
    """One entry a step of a curve, of categories one a category."""
    names, rows = output_names(forest, forest.n_outputs), []
    for shape in shapes:
        if len(shape.steps) == 1:
            counts = np.bincount(shape.steps[0].axis.codes, minlength=shape.steps[0].axis.n_bins)
            for low, high, category, step, bins in _places(shape.steps[0], forest):
                numbers = float(shape.values[step]), int(counts[bins].sum()), float(shape.errors[step])
                name = feature_name(forest, shape.features[0])
                rows.append((name, low, high, category, *numbers, names[shape.output]))
    return _columns(["feature", "from", "to", "category", "adds", "rows", "standard_error", "output"], rows)


def surface_table(shapes: list[Shape], forest: TreeEnsemble) -> Table:
    """One entry a cell of a surface."""
    names, rows = output_names(forest, forest.n_outputs), []
    for shape in shapes:
        if len(shape.steps) == 2:
            first, second = ([_joined(place) for place in _by_step(steps, forest)] for steps in shape.steps)
            counts = np.zeros(shape.values.shape, np.int64)
            np.add.at(counts, tuple(steps.rows for steps in shape.steps), 1)
            pair = [feature_name(forest, feature) for feature in shape.features]
            for i, a in enumerate(first):
                for j, b in enumerate(second):
                    numbers = float(shape.values[i, j]), int(counts[i, j]), float(shape.errors[i, j])
                    rows.append((pair[0], *a, pair[1], *b, *numbers, names[shape.output]))
    own = [f"{side}{key}" for side in ("", "other_") for key in ("feature", "from", "to", "category")]
    return _columns([*own, "adds", "rows", "standard_error", "output"], rows)


def _places(steps: Steps, forest: TreeEnsemble) -> Iterator[tuple[float, float, str, int, Array]]:
    """Where each step is, and its bins; each category by itself."""
    axis = steps.axis
    if axis.n_categories:
        table = None if forest.categories is None else forest.categories[axis.feature]
        for code in range(axis.n_categories):
            label = str(code) if table is None else str(table[code])
            yield np.nan, np.nan, label, int(steps.place[code]), np.array([code])
    else:
        numbers = steps.place[:-1]
        ends = np.flatnonzero(np.diff(numbers, append=-2))
        low = -np.inf
        for k, end in enumerate(ends.tolist()):
            high = float(axis.edges[end]) if end < len(axis.edges) else np.inf
            bins = np.arange(0 if k == 0 else ends[k - 1] + 1, end + 1)
            yield low, high, "", int(numbers[end]), bins
            low = high
    if steps.missing >= 0:
        yield np.nan, np.nan, MISSING_TEXT, steps.missing, np.array([axis.n_bins - 1])


def _by_step(steps: Steps, forest: TreeEnsemble) -> list[list[tuple[float, float, str]]]:
    found: list[list[tuple[float, float, str]]] = [[] for _ in range(steps.count)]
    for low, high, category, step, _ in _places(steps, forest):
        found[step].append((low, high, category))
    return found


def _joined(places: list[tuple[float, float, str]]) -> tuple[float, float, str]:
    """One place of a step that numbers and missing values, or several categories, share."""
    numbers = [(low, high) for low, high, _ in places if low == low]
    low, high = numbers[0] if numbers else (np.nan, np.nan)
    return low, high, ", ".join(category for _, _, category in places if category)


def part_table(shapes: list[Shape], before: Doubles, weight: Doubles, forest: TreeEnsemble, name: str) -> Table:
    """One entry a part of the margin, with its share of the margin's variance among the training rows.

    A share is the covariance of the part with the margin, in the margin's variance: shares add up to 1. Surfaces have
    no covariance with curves but with what correlates with them.

    Parameters
    ----------
    shapes : list of Shape
    before : float64, (n_rows, n_outputs)
        Margins without curves.
    weight : float64, (n_rows,)
    forest : TreeEnsemble
        With its curves.
    name : str
        What stands before curves.
    """
    names, rows = output_names(forest, forest.n_outputs), []
    for output in range(forest.n_outputs):
        own = [shape for shape in shapes if shape.output == output]
        parts = [before[:, output], *(shape.of_rows() for shape in own)]
        whole = _centred(np.sum(parts, axis=0), weight)
        total = float(weight @ whole**2)
        for k, part in enumerate(parts):
            share = float(weight @ (_centred(part, weight) * whole)) / total if total > 0 else 0.0
            shape = own[k - 1] if k else None
            rows.append((_part_name(shape, forest, name), share, shape.values.size if shape else 0, names[output]))
    return _columns(["part", "share", "steps", "output"], rows)


def _part_name(shape: Shape | None, forest: TreeEnsemble, name: str) -> str:
    return name if shape is None else " × ".join(feature_name(forest, feature) for feature in shape.features)


def _centred(values: Doubles, weight: Doubles) -> Doubles:
    centred: Doubles = values - np.average(values, weights=weight)
    return centred


def squares(shapes: list[Shape], n_features: int) -> Doubles:
    """Weighted squares that curves add, by feature; those of a surface are halved among both."""
    found = np.zeros(n_features)
    for shape in shapes:
        for feature in shape.features:
            found[feature] += float((shape.weight * shape.values**2).sum()) / len(shape.features)
    return found
