"""Whether a row's values and the expected value add up to its margin, checked where a call asks for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.device import array_gpu, import_cupy
from glasswood.base.typing import Array, Doubles
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.evaluate.linear import logarithms
from glasswood.model.ensemble import LOGARITHM, NUMBER, TreeEnsemble

if TYPE_CHECKING:
    from glasswood.inputs.placed import PlacedRows

ERRORS, DEEP_ERROR, DEEP = {"float32": 1e-6, "float64": 1e-12}, 1e-5, 32
"""Largest error of a value in units of what the leaves span, by the type of the arithmetic; of float32 beyond the depth
DEEP."""

ROUNDING = 2.0**-52
"""Error of a float64 sum for each of its terms, in units of the largest possible sum."""


@np.errstate(over="ignore", invalid="ignore")
def check_sums(forest: TreeEnsemble, dtype: str, expected: Doubles, rows: PlacedRows, values: Any) -> None:
    """Raise ArithmeticError if a row's values and `expected` do not add up to its margin, in float64.

    Parameters
    ----------
    forest : TreeEnsemble
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tree.
    expected : (n_outputs,)
    rows : PlacedRows
        Their margins are computed where the values were.
    values : (n, F) or (n, F, n_outputs)
        Arrays of one library; those of a GPU stay there.
    """
    sums, margins = _sums(values, len(expected)), _margins(forest, rows)
    allowed: Any = tolerance(forest, dtype)
    if forest.has_linear_leaves:
        allowed = allowed + _error(forest, dtype) * _linear_span(forest, rows.rows)
    if array_gpu(values) is not None:
        cupy = import_cupy()
        expected, allowed, margins = (cupy.asarray(array) for array in (expected, allowed, margins))
    # NaN is not within anything.
    wrong = ~(abs(sums + expected - margins) <= allowed)
    if not bool(wrong.any()):
        return
    rows_wrong = wrong.any(axis=1)
    row = int(rows_wrong.argmax())
    output = int(wrong[row].argmax())
    total, margin = float(sums[row, output] + expected[output]), float(margins[row, output])
    largest = float((allowed if allowed.ndim == 1 else allowed[row])[output])
    raise ArithmeticError(
        f"the values of row {row} and expected_value add up to {total:.17g}"
        f"{f' for output {output}' * (len(expected) > 1)}, its margin is {margin:.17g}: they differ by "
        f"{abs(total - margin):.3g}, expected at most {largest:.3g} ({int(rows_wrong.sum())} of {len(sums)} rows are "
        "wrong); do not use these values, and report the model"
    )


def tolerance(forest: TreeEnsemble, dtype: str) -> Doubles:
    """Largest difference between a row's sum and its margin: (n_outputs,).

    Each value of a tree is within `ERRORS` times what the tree's leaves span (`Explainer`, Notes), and it has one for
    every feature that it tests; less than the smallest normal number counts as nothing. The sums over trees, the
    expected value (a term for each leaf) and the margin are float64 sums.
    """
    weight, n_features = np.abs(forest.tree_weight)[:, None], _features_of_trees(forest)[:, None]
    lowest, highest = _leaf_extremes(forest)
    spans = _by_output(forest, weight * (highest - lowest) * n_features)
    largest = np.abs(forest.base_score) + _by_output(forest, weight * np.maximum(np.abs(lowest), np.abs(highest)))
    n_terms = forest.n_leaves + forest.n_trees + forest.n_features
    smallest = np.finfo(dtype).tiny * n_features.sum()
    allowed: Doubles = _error(forest, dtype) * spans + ROUNDING * n_terms * largest + smallest
    return allowed


def margin_bounds(forest: TreeEnsemble) -> tuple[Doubles, Doubles]:
    """Smallest and largest margin that any row can have: (n_outputs,) both."""
    weight = forest.tree_weight[:, None]
    extremes = _range_extremes(forest) if forest.has_linear_leaves else _leaf_extremes(forest)
    sides = np.sort([weight * extreme for extreme in extremes], axis=0)
    low, high = (forest.base_score + _by_output(forest, side) for side in sides)
    return low, high


def _error(forest: TreeEnsemble, dtype: str) -> float:
    return DEEP_ERROR if dtype == "float32" and forest.depth > DEEP else ERRORS[dtype]


def _features_of_trees(forest: TreeEnsemble) -> Doubles:
    """Count the features that each tree splits on or has in its leaves' models: (n_trees,)."""
    tree_of_node = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))
    splits = forest.feature >= 0
    used = [np.column_stack([tree_of_node[splits], forest.feature[splits]])]
    if forest.has_linear_leaves:
        used.append(np.column_stack([_tree_of_leaves(forest)[_leaf_of_terms(forest)], forest.linear_feature]))
    trees = np.unique(np.concatenate(used), axis=0)[:, 0]
    return np.bincount(trees, minlength=forest.n_trees).astype(np.float64)


def _leaf_extremes(forest: TreeEnsemble) -> tuple[Doubles, Doubles]:
    """Smallest and largest value of each tree's leaves, of models at the means: (n_trees, leaf_width) both."""
    value = forest.leaf_value
    if forest.has_linear_leaves:
        value = np.clip(value, forest.leaf_range[:, :1], forest.leaf_range[:, 1:])
    leaves = [value[first:end] for first, end in itertools.pairwise(forest.leaf_offsets)]
    shape = (forest.n_trees, forest.leaf_width)
    lowest = np.reshape([values.min(axis=0) for values in leaves], shape)
    return lowest, np.reshape([values.max(axis=0) for values in leaves], shape)


def _range_extremes(forest: TreeEnsemble) -> tuple[Doubles, Doubles]:
    """Smallest and largest value that any leaf's model of each tree may return: (n_trees, 1) both."""
    ranges = [forest.leaf_range[first:end] for first, end in itertools.pairwise(forest.leaf_offsets)]
    lowest = np.reshape([pair[:, 0].min() for pair in ranges], (-1, 1))
    return lowest, np.reshape([pair[:, 1].max() for pair in ranges], (-1, 1))


def _by_output(forest: TreeEnsemble, by_tree: Doubles) -> Doubles:
    """Add up the trees of each output: (n_outputs,)."""
    result = np.zeros(forest.n_outputs)
    if forest.leaf_width > 1:
        result += by_tree.sum(axis=0)
        return result
    np.add.at(result, forest.tree_output, by_tree[:, 0])
    return result


def _tree_of_leaves(forest: TreeEnsemble) -> Array:
    return np.repeat(np.arange(forest.n_trees), np.diff(forest.leaf_offsets))


def _leaf_of_terms(forest: TreeEnsemble) -> Array:
    return np.repeat(np.arange(forest.n_leaves), np.diff(forest.linear_offsets))


def _linear_span(forest: TreeEnsemble, rows: Array) -> Doubles:
    """Bound what the terms of each tree's leaf models reach on each row: (n, n_outputs)."""
    slopes = np.zeros((forest.n_trees, forest.n_features))
    means = np.zeros(forest.n_features)
    leaf, tree = _leaf_of_terms(forest), _tree_of_leaves(forest)
    pairs, place = np.unique(leaf * np.int64(forest.n_features) + forest.linear_feature, return_inverse=True)
    sums = np.bincount(place, np.abs(forest.linear_coefficient), len(pairs))  # terms of one feature in one leaf
    np.maximum.at(slopes, (tree[pairs // forest.n_features], pairs % forest.n_features), sums)
    np.maximum.at(means, forest.linear_feature, np.abs(forest.linear_mean) + (forest.linear_category != NUMBER))
    by_output = np.zeros((forest.n_outputs, forest.n_features))
    np.add.at(by_output, forest.tree_output, np.abs(forest.tree_weight)[:, None] * slopes)
    sizes = np.nan_to_num(np.abs(rows), nan=0.0, posinf=0.0)
    if (forest.linear_category == LOGARITHM).any():
        sizes = np.maximum(sizes, np.nan_to_num(np.abs(logarithms(rows)), nan=0.0, posinf=0.0))
    reached: Doubles = (sizes + means) @ by_output.T
    return reached


def _sums(values: Any, n_outputs: int) -> Any:
    """Add up the features in float64: (n, n_outputs)."""
    values = values if array_gpu(values) is None else import_cupy().asarray(values)
    return values.sum(axis=1, dtype="float64").reshape(len(values), n_outputs)


def _margins(forest: TreeEnsemble, rows: PlacedRows) -> Any:
    """Margins in float64, where the values were computed: (n, n_outputs)."""
    evaluator = evaluator_of(forest)
    choice = evaluator.choose("auto", len(rows), "cuda" if rows.gpus else "cpu")
    if not rows.gpus:
        return evaluator.cpu.margins(rows.rows, choice, None)
    return evaluator.cuda.margins(rows.rows, rows.gpus, choice)
