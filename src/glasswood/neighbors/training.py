"""Training rows of a forest: which of them each tree was given, how much trees count, and whether they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.inputs.targets import in_range, row_numbers
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    Counts = NDArray[np.uint16]

MOST_SHARE = 2**16 - 1
"""Sum of the trees' weights, which are whole numbers: shares are then the same in any order and on any device."""

TOLERATED = 1e-3
"""Share of the training weight that may be counted in another leaf than the source's."""


def bags_of(model: Any, n_rows: int, n_trees: int) -> Counts | None:
    """Count how often each tree of scikit-learn's was given each row, (n, n_trees); None where all had all once.

    Raises
    ------
    ValueError
        If the model was trained on another number of rows.
    """
    draws = getattr(model, "estimators_samples_", None)
    if draws is None or len(draws) != n_trees:
        return None
    trained = getattr(model, "_n_samples", None) or max(int(np.max(draw)) + 1 for draw in draws)
    if trained > n_rows or (trained < n_rows and hasattr(model, "_n_samples")):
        raise _other_rows(n_rows, trained)
    counts = np.zeros((n_rows, n_trees), np.uint16)
    for tree, draw in enumerate(draws):
        counts[:, tree] = np.bincount(draw, minlength=n_rows)
    return None if (counts == 1).all() else counts


def _other_rows(n_rows: int, trained: float) -> ValueError:
    return ValueError(
        f"X has {n_rows:,} rows, the forest was trained on {trained:,.0f}; pass its training rows, or check=False to "
        "take others"
    )


def drew_by_weight(forest: TreeEnsemble, bags: Counts) -> bool:
    """Whether covers count the rows that trees were given: scikit-learn 1.9 draws them by weight, and weighs none."""
    return bool(np.allclose(forest.cover[forest.tree_offsets[:-1]], bags.sum(axis=0, dtype=np.int64)))


def class_weights_of(model: Any, forest: TreeEnsemble, targets: Array | None, bags: Counts | None) -> Doubles | None:
    """Weights that scikit-learn's ``class_weight`` gave the rows of each class in each tree.

    Parameters
    ----------
    model : object
        A live model; those of other libraries have no class weights.
    forest : TreeEnsemble
    targets : int64, (n,), optional
        Places of the rows' classes.
    bags : uint16, (n, n_trees), optional

    Returns
    -------
    float64, (n_classes, n_trees), or None
        None where all count the same, or where trees drew rows by these weights (scikit-learn 1.9).
    """
    chosen = getattr(model, "class_weight", None)
    if chosen is None or targets is None or targets.ndim != 1 or len(forest.classes) != 1:
        return None
    labels = forest.classes[0]
    if isinstance(chosen, str) and chosen == "balanced_subsample" and bags is not None:
        drawn = np.stack([np.bincount(targets, bag, len(labels)) for bag in bags.T], axis=1)
        there = drawn > 0
        balanced: Doubles = np.zeros_like(drawn)
        np.divide(drawn.sum(axis=0), there.sum(axis=0) * drawn, out=balanced, where=there)
        return balanced
    if bags is not None and drew_by_weight(forest, bags):
        return None
    if isinstance(chosen, str):
        number = np.bincount(targets, minlength=len(labels))
        weight = len(targets) / (len(labels) * np.maximum(number, 1))
    elif isinstance(chosen, dict):
        weight = np.array([float(chosen.get(label, 1.0)) for label in labels.tolist()])
    else:
        return None
    return np.repeat(weight[:, None], forest.n_trees, axis=1)


def check_counts(forest: TreeEnsemble, counts: Doubles) -> None:
    """Compare what the leaves hold of the rows with the source's covers, where these count rows.

    Parameters
    ----------
    forest : TreeEnsemble
    counts : (n_leaves,)
        Weight of the rows in each leaf.

    Raises
    ------
    ValueError
        If more than a thousandth lies in other leaves.
    """
    cover = forest.cover[forest.feature < 0]
    found, stored = (np.add.reduceat(each, forest.leaf_offsets[:-1]) for each in (counts, cover))
    same = np.isclose(found, stored, rtol=1e-6)
    if not same.any():
        if _counts_rows(forest) and (stored > found * (1 + TOLERATED)).all():
            raise _other_rows(round(float(found.max())), float(stored.max()))
        return
    compared = np.repeat(same, np.diff(forest.leaf_offsets))
    differ = np.abs(counts - cover)[compared].sum() / 2
    if differ > TOLERATED * counts[compared].sum():
        share = differ / counts[compared].sum()
        raise ValueError(
            f"{share:.1%} of the rows of X reach other leaves than the forest's training rows did by its own counts; "
            "pass the rows that it was trained on, or check=False to accept others"
        )


def _counts_rows(forest: TreeEnsemble) -> bool:
    """Whether covers are numbers of rows: XGBoost's are sums of Hessians, which are 1 for squared error."""
    whole = bool((forest.cover == np.rint(forest.cover)).all())
    return whole and (not forest.source.lower().startswith("xgboost") or forest.objective == "reg:squarederror")


def tree_shares(forest: TreeEnsemble, counts: Doubles, wanted: str | ArrayLike) -> Int64s:
    """Give trees whole weights that add up to at most `MOST_SHARE`: 1 each where all count the same.

    Parameters
    ----------
    forest : TreeEnsemble
    counts : (n_leaves,)
        Weight of the training rows in each leaf.
    wanted : {"auto", "uniform"} or array-like of shape (n_trees,)

    Raises
    ------
    ValueError
        If weights are negative, not finite, all 0, or not one a tree.
    """
    weight = _wanted_weight(forest, counts, wanted)
    if (weight == weight[0]).all() and forest.n_trees <= MOST_SHARE:
        return np.ones(forest.n_trees, np.int64)
    weights: Int64s = np.floor(weight / weight.sum() * MOST_SHARE).astype(np.int64)
    return weights


def _wanted_weight(forest: TreeEnsemble, counts: Doubles, wanted: str | ArrayLike) -> Doubles:
    if isinstance(wanted, str):
        if wanted not in {"auto", "uniform"}:
            raise ValueError(f"tree_weight is {quoted(wanted)}, expected 'auto', 'uniform' or one number for each tree")
        spread = _spread(forest, counts)
        if wanted == "uniform" or is_average(forest) or not spread.any():
            return np.ones(forest.n_trees)
        return spread
    weight = row_numbers(wanted, "tree_weight")
    if weight.shape != (forest.n_trees,):
        raise ValueError(
            f"tree_weight has shape {weight.shape}, expected ({forest.n_trees},), one number for each tree"
        )
    if not np.isfinite(weight).all() or weight.min() < 0 or not weight.any():
        raise ValueError("tree_weight expects numbers of at least 0, and one above 0")
    return in_range(weight)


def is_average(forest: TreeEnsemble) -> bool:
    """Whether the forest averages its trees, as random forests do, or is a single tree."""
    weight = forest.tree_weight
    return forest.n_trees == 1 or (bool(np.isclose(weight.sum(), 1)) and bool((weight == weight[0]).all()))


def _spread(forest: TreeEnsemble, counts: Doubles) -> Doubles:
    """Compute the standard deviation over the rows of what each tree adds to the margin."""
    starts = forest.leaf_offsets[:-1]
    total = np.maximum(np.add.reduceat(counts, starts), 1e-300)
    mean, square = (
        np.add.reduceat(counts[:, None] * values, starts) / total[:, None]
        for values in (forest.leaf_value, forest.leaf_value**2)
    )
    variance = np.maximum(square - mean**2, 0).sum(axis=1)
    result: Doubles = np.abs(forest.tree_weight) * np.sqrt(variance)
    return result


def oob_predictions(values: Doubles, positions: Array, bags: Counts) -> Doubles:
    """Mean of the trees that were not given a row, (n, k); NaN where all were.

    Parameters
    ----------
    values : (n_leaves, k)
    positions : int32, (n, n_trees)
    bags : (n, n_trees)
    """
    total, left_out = np.zeros((len(positions), values.shape[1])), np.zeros(len(positions))
    for tree in range(positions.shape[1]):
        out = bags[:, tree] == 0
        total[out] += values[positions[out, tree]]
        left_out += out
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / left_out[:, None]
