"""Trees of curves and surfaces: one tree a term and output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Bools, Doubles, Int64s
from glasswood.grow.data.rows import columns_with
from glasswood.readers.assemble import NodeArrays, assemble, pack_sets

if TYPE_CHECKING:
    from glasswood.grow.curves.shapes import Shape, Steps
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.model.ensemble import TreeEnsemble


@dataclass
class _Nodes:
    """Nodes of trees, a tree after the other, each parent before its children."""

    counts: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    default_left: list[bool] = field(default_factory=list)
    cover: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    category_set: list[int] = field(default_factory=list)
    sets: list[tuple[Bools, bool]] = field(default_factory=list)

    def add_tree(self, shape: Shape) -> None:
        """Divide the shape until a part has one value."""
        first = len(self.left)
        box = tuple((0, size) for size in shape.values.shape)
        self._add(shape, box, first)
        self.counts.append(len(self.left) - first)

    def _add(self, shape: Shape, box: tuple[tuple[int, int], ...], first: int) -> int:
        node = len(self.left)
        inside = tuple(slice(*side) for side in box)
        weight, values = shape.weight[inside], shape.values[inside]
        for column in (self.left, self.right, self.feature, self.category_set):
            column.append(-1)
        self.threshold.append(0.0)
        self.default_left.append(False)
        self.cover.append(float(weight.sum()))
        present = values[weight > 0]
        self.value.append(float(present[0]))
        if (present == present[0]).all():
            return node - first
        side, at = _cut(values, weight)
        at += box[side][0]
        low, high = (tuple(part if k == side else box[k] for k in range(len(box))) for part in _halves(box[side], at))
        self._split(node, shape, side, at, _mass(shape, low) >= _mass(shape, high))
        self.left[node] = self._add(shape, low, first)
        self.right[node] = self._add(shape, high, first)
        return node - first

    def _split(self, node: int, shape: Shape, side: int, at: int, left_is_heavier: bool) -> None:
        steps = shape.steps[side]
        self.feature[node] = steps.axis.feature
        self.default_left[node] = steps.missing < at if steps.missing >= 0 else left_is_heavier
        if steps.axis.n_categories:
            self.category_set[node] = len(self.sets)
            self.sets.append((steps.place[:-1] < at, self.default_left[node]))
        else:
            self.threshold[node] = threshold_of(steps, at)


def _halves(side: tuple[int, int], at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (side[0], at), (at, side[1])


def _mass(shape: Shape, box: tuple[tuple[int, int], ...]) -> float:
    return float(shape.weight[tuple(slice(*side) for side in box)].sum())


def threshold_of(steps: Steps, at: int) -> float:
    """Threshold between numbers before a step and those from it on; infinite before the step of missing values."""
    numbers = steps.place[:-1]
    after = np.flatnonzero(numbers >= at)
    return float(steps.axis.edges[after[0] - 1]) if len(after) else np.inf


def _cut(values: Doubles, weight: Doubles) -> tuple[int, int]:
    """Side and place of a cut: the middle one of a curve, that of the largest variance between both parts otherwise."""
    if values.ndim == 1:
        return 0, len(values) // 2
    best = (-1.0, 0, 0)
    for side in (0, 1):
        mass, sums = weight.sum(axis=1 - side), (weight * values).sum(axis=1 - side)
        left, total = np.cumsum(mass)[:-1], mass.sum()
        ok = (left > 0) & (left < total) & (np.add.accumulate(mass[::-1])[::-1][1:] > 0)
        if not ok.any():
            continue
        ahead = np.cumsum(sums)[:-1]
        both = np.where(ok, left * (total - left), 1.0)
        gain = np.where(ok, (ahead * total - left * sums.sum()) ** 2 / both, -1.0)
        at = int(np.argmax(gain))
        if gain[at] > best[0]:
            best = (float(gain[at]), side, at + 1)
    return best[1], best[2]


def forest_of(
    shapes: Sequence[Shape], base: Doubles, columns: TrainingColumns, threshold_type: Any = np.float64
) -> TreeEnsemble:
    """Make a TreeEnsemble whose trees are the shapes, and which adds `base` to all rows; there is a shape at least."""
    nodes = _Nodes()
    for shape in shapes:
        nodes.add_tree(shape)
    offsets, words = pack_sets([left for left, _ in nodes.sets])
    others = np.array([other for _, other in nodes.sets], bool)
    sets = {"set_offsets": offsets, "set_words": words, "set_others_left": others} if nodes.sets else {}
    arrays = NodeArrays(
        counts=np.array(nodes.counts),
        left=np.array(nodes.left),
        right=np.array(nodes.right),
        feature=np.array(nodes.feature),
        threshold=np.array(nodes.threshold, threshold_type),
        default_left=np.array(nodes.default_left),
        cover=np.array(nodes.cover),
        value=np.array(nodes.value),
        leaf_id=_leaf_numbers(nodes),
        category_set=np.array(nodes.category_set, np.int32) if nodes.sets else None,
    )
    return assemble(
        arrays,
        n_features=columns.n_features,
        tree_output=[shape.output for shape in shapes],
        **sets,
        categories=columns.categories if columns.is_categorical.any() else None,
        missing_seen=columns_with(np.isnan, columns.X[:, : columns.n_features]),
        tree_weight=np.ones(len(shapes)),
        base_score=base,
    )


def _leaf_numbers(nodes: _Nodes) -> Int64s:
    """Place of each leaf within its tree, by node."""
    is_leaf = np.array(nodes.left) < 0
    tree = np.repeat(np.arange(len(nodes.counts)), nodes.counts)
    number = np.cumsum(is_leaf) - 1
    first = np.concatenate([[0], np.cumsum(np.bincount(tree[is_leaf]))])[:-1]
    return np.where(is_leaf, number - first[tree], 0)
