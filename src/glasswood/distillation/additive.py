"""Any forest as a mean, curves and surfaces: exactly where trees test two features at most, else as near as can be."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.device import on_host
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.forest import Forest
from glasswood.grow.curves.bins import Axis, axes_of
from glasswood.grow.curves.boosting import Boosted, CurveRows, Term, boosted, folds_of
from glasswood.grow.curves.plots import draw
from glasswood.grow.curves.shapes import Shape, shaped, shaped_output
from glasswood.grow.curves.tables import Table, curve_table, surface_table
from glasswood.grow.curves.trees import forest_of
from glasswood.grow.data.columns import TrainingColumns
from glasswood.inputs import refuse_transform, with_tables
from glasswood.inspection.rows import ChangingRows, refuse_no_rows
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.words.curves import Box, Side, boxes_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 1e-9
"""Weight of bins and cells without rows, in rows: predictions of new rows may come there."""

MOST_CELLS = 1 << 22
"""Cells of the surface of a pair."""

FRESH: dict[str, Any] = {
    "transform": None, "checked": None, "metadata": None, "choices": (), "leaf_shape": (), "round_trees": 0,
    "leaf_missing": np.zeros(0), "linear_offsets": np.zeros(0, np.int64), "linear_feature": np.zeros(0, np.int32),
    "linear_category": np.zeros(0, np.int32), "linear_coefficient": np.zeros(0), "linear_mean": np.zeros(0),
    "linear_deviation": np.zeros(0), "leaf_range": np.zeros((0, 2)), "absent_missing": np.zeros(0, np.bool_),
    "means_known": True,
}  # fmt: skip
"""Fields of the other model that its curves do not have."""

OF_TREES = (
    "tree_offsets", "feature", "threshold", "left", "default_left", "cover", "leaf_value", "leaf_id", "tree_output",
    "tree_weight", "base_score", "category_set", "set_offsets", "set_words", "set_others_left",
)  # fmt: skip
"""Fields that the curves' own trees fill."""


@dataclass(frozen=True, eq=False)
class Additive:
    """A forest as a sum (`glasswood.additive`).

    Attributes
    ----------
    mean : float64, (n_outputs,)
        Mean margin of the rows.
    curves_, surfaces_ : dict of arrays
        As for `glasswood.AdditiveRegressor`.
    forest_ : Forest
        The sum as a model of its own, with the outputs of the other.
    is_exact : bool
        Whether it has the margins of the other model for all rows.
    kept : float64, (n_outputs,)
        Share of the variance of the model's margins among the rows that the sum explains; 1 if exact.
    """

    mean: Doubles
    curves_: Table = field(repr=False)
    surfaces_: Table = field(repr=False)
    forest_: Forest
    is_exact: bool
    kept: Doubles

    def plot(self, output: int = 0) -> Figure:
        """Draw curves and surfaces, as `glasswood.AdditiveRegressor.plot`."""
        return draw(self.curves_, self.surfaces_, self.forest_.ensemble, output)


def additive(model: object, X: Rows, *, interactions: int | None = None) -> Additive:
    """Write a forest as a mean, one curve per feature and surfaces of pairs.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
        Its leaves are constants.
    X : array-like or frame of shape (n, n_features)
        Rows over which curves add 0 on average, and surfaces in each of their rows and columns.
    interactions : int, optional
        Largest number of surfaces if the sum is not exact; default three times the number of features.

    Returns
    -------
    Additive

    Raises
    ------
    ValueError
        If X has no rows, or a surface would have too many cells.
    NotImplementedError
        For linear leaves, for pipelines and target statistics, and for categories whose tables the model does not know.

    Notes
    -----
    If no path to a leaf tests more than two features, as in trees of depth 2, the sum equals the model's margin for
    every row; the cost is that of the cells. Otherwise glasswood boosts curves and surfaces on the margins of X, so
    that they approximate the margins in the mean square (`kept`), and leaves out parts that add little.

    Examples
    --------
    >>> glasswood.additive(lightgbm_model, X).plot()  # doctest: +SKIP
    """
    forest = with_tables(X, load(model).ensemble)
    refuse_transform(forest, "additive", "the model's rows")
    if forest.has_linear_leaves:
        raise NotImplementedError("additive expects leaves that are constants, this model has linear ones")
    if forest.is_categorical and forest.categories is None:
        raise NotImplementedError(
            "additive expects a model that knows its categories, this one tests their codes alone"
        )
    rows = ChangingRows(forest, X, "cpu")
    refuse_no_rows(rows)
    with np.errstate(over="ignore"):  # as the model itself rounds rows; numbers beyond its type are infinite
        values = np.asarray(rows.values).astype(forest.threshold.dtype)
    margins = np.asarray(on_host(Forest(forest).predict(X, "margin", device="cpu")))
    margins = margins.reshape(len(values), -1).astype(np.float64)
    boxes = [[boxes_of(forest, tree, k) for tree in _trees_of(forest, k)] for k in range(forest.n_outputs)]
    leaves = [[box for tree in trees for box in tree] for trees in boxes]
    is_exact = all(len(box.missing) <= 2 for own in leaves for box in own)
    if is_exact:
        base, shapes = _exact(forest, values, leaves)
    else:
        count = 3 * forest.n_features if interactions is None else interactions
        base, shapes = _nearest(forest, values, margins, count, n_threads(None))
    shapes = [dataclasses.replace(shape, weight=np.maximum(shape.weight, LEAST)) for shape in shapes]
    made = _as_forest(forest, shapes, base, values)
    own = np.asarray(on_host(made.predict(X, "margin", device="cpu")))
    spread = margins.var(axis=0)
    left = (margins - own.reshape(margins.shape)).var(axis=0)
    kept = np.ones(len(base)) if is_exact else 1 - np.divide(left, spread, out=np.zeros(len(base)), where=spread > 0)
    tables = curve_table(shapes, made.ensemble), surface_table(shapes, made.ensemble)
    return Additive(own.reshape(margins.shape).mean(axis=0), *tables, made, is_exact, kept)


def _as_forest(forest: TreeEnsemble, shapes: list[Shape], base: Doubles, values: Array) -> Forest:
    columns = _columns(forest, values)
    if not shapes:
        empty = dataclasses.replace(shaped_nothing(columns), weight=np.full(2, LEAST))
        shapes = [empty]
    trees = forest_of(shapes, base, columns, threshold_type=forest.threshold.dtype)
    own = {name: getattr(trees, name) for name in OF_TREES}
    return Forest(dataclasses.replace(forest, **own, **FRESH, n_curves=trees.n_trees))


def shaped_nothing(columns: TrainingColumns) -> Shape:
    """Make a curve that adds 0: a model needs a tree."""
    from glasswood.grow.curves.shapes import Steps

    axis = Axis(0, np.zeros(len(columns.X), np.uint16), np.zeros(1), 0, np.array([1.0, 1.0, 0.0]))
    steps = Steps(axis, np.array([0, 1, -1]))
    return Shape(0, (steps,), np.zeros(2), np.zeros(2), np.ones(2))


def _columns(forest: TreeEnsemble, values: Array) -> TrainingColumns:
    tables = forest.categories or (None,) * forest.n_features
    order = tuple(None if table is None else np.arange(len(table)) for table in tables)
    return TrainingColumns(values.astype(np.float64), tables, order)


def _trees_of(forest: TreeEnsemble, output: int) -> list[int]:
    """Numbers of the trees that add to an output."""
    return [t for t in range(forest.n_trees) if forest.leaf_width > 1 or forest.tree_output[t] == output]


def _exact(forest: TreeEnsemble, values: Array, leaves: list[list[Box]]) -> tuple[Doubles, list[Shape]]:
    """Add up the leaves of each feature, and of each pair, over the cells of the thresholds."""
    used = sorted({feature for own in leaves for box in own for feature in box.missing})
    axes = {feature: _axis(forest, values, feature) for feature in used}
    base, shapes, one = forest.base_score.astype(np.float64).copy(), [], np.ones(len(values))
    for output, own in enumerate(leaves):
        groups: dict[tuple[int, ...], list[Box]] = {}
        for box in own:
            groups.setdefault(tuple(sorted(box.missing)), []).append(box)
        base[output] += sum(box.value for box in groups.pop((), []))
        terms = [_term(tuple(axes[feature] for feature in group), boxes) for group, boxes in sorted(groups.items())]
        found = Boosted(1, 1.0, np.zeros((1, 0)), np.zeros((1, 0)), np.zeros((1, 0)), *_by_kind(terms))
        added, parts = shaped_output(found, 0, one, one, 0.0, LEAST)
        base[output] += added
        shapes += [dataclasses.replace(shape, output=output) for shape in parts]
    return base, shapes


def _by_kind(terms: list[Term]) -> tuple[list[Term], list[Term]]:
    return [one for one in terms if len(one.axes) == 1], [one for one in terms if len(one.axes) == 2]


def _axis(forest: TreeEnsemble, values: Array, feature: int) -> Axis:
    """Bins between all thresholds of a feature, or its categories; none is without weight."""
    x = values[:, feature]
    table = None if forest.categories is None else forest.categories[feature]
    tested = forest.feature == feature
    if table is not None:
        edges, n_own, n_categories = np.zeros(0), len(table), len(table)
        place = np.where(np.isnan(x), n_own, np.nan_to_num(x)).astype(np.int64)
    else:
        cuts = np.unique(forest.threshold[tested])
        edges = cuts[np.isfinite(cuts)]
        n_own, n_categories = len(edges) + 1, 0
        place = np.where(np.isnan(x), n_own, np.searchsorted(edges, np.nan_to_num(x), side="right"))
    weight = np.bincount(place, minlength=n_own + 1).astype(np.float64)
    codes = place.astype(np.uint16 if n_own < 1 << 16 else np.int64)
    return Axis(feature, codes, edges.astype(np.float64), n_categories, np.maximum(weight, LEAST))


def _rounded(axis: Axis, dtype: Any) -> Axis:
    """Edges as numbers of the rows' type, rounded up: the same numbers of this type are below them."""
    with np.errstate(over="ignore"):
        near = axis.edges.astype(dtype)
    above = np.where(near < axis.edges, np.nextafter(near, np.array(np.inf, dtype)), near)
    return dataclasses.replace(axis, edges=above.astype(np.float64))


def _term(axes: tuple[Axis, ...], boxes: list[Box]) -> Term:
    """Add up boxes over the cells of axes."""
    sizes = tuple(axis.n_bins for axis in axes)
    if np.prod(sizes) > MOST_CELLS:
        raise ValueError(f"a pair of features has {np.prod(sizes):,} cells, at most {MOST_CELLS:,} are supported")
    total, sides = np.zeros(sizes), [Side(axis.feature, axis.edges, axis.n_categories) for axis in axes]
    for box in boxes:
        total[np.ix_(*(side.holds(box) for side in sides))] += box.value
    return Term(axes, tuple(np.arange(size) for size in sizes), total[None, None])


def _nearest(
    forest: TreeEnsemble, values: Array, margins: Doubles, interactions: int, threads: int
) -> tuple[Doubles, list[Shape]]:
    """Boost curves and surfaces on margins."""
    columns, weight = _columns(forest, values), np.ones(len(values))
    axes = [_rounded(axis, forest.threshold.dtype) for axis in axes_of(columns, weight, 256)]
    fold = folds_of(np.arange(len(values)), 0)
    base, shapes = margins.mean(axis=0), []
    for output in range(margins.shape[1]):
        rest = margins[:, output] - base[output]
        unit = float(rest.std()) or 1.0
        rows = CurveRows("squared", 0.0, rest / unit, weight, np.zeros((1, 1, len(values))), fold)
        signs = np.zeros(forest.n_features, np.int64)
        found = boosted(rows, axes, signs, interactions, threads, must_gain=False)
        added, parts = shaped(found, rows)
        base[output] += added[0] * unit
        scaled = [
            dataclasses.replace(one, output=output, values=one.values * unit, errors=one.errors * unit) for one in parts
        ]
        shapes += scaled
    return base, shapes
