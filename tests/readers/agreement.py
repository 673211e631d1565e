"""A forest against the library that trained it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.oracles import evaluate

from glasswood.base.sources import SOURCES

if TYPE_CHECKING:
    from glasswood import Forest

UNITS = {"float32": 2.0**-24, "float64": 2.0**-53}


def assert_agrees(
    forest: Forest,
    X: Any,
    leaves: Any = None,
    margins: Any = None,
    predictions: Any = None,
    probabilities: Any = None,
    *,
    given: Any = None,
    sums: str = "float32",
    most_tied: float = 0.5,
) -> None:
    """Compare oracle and `forest.predict` with what the source library says of the same rows.

    Parameters
    ----------
    X : (n, n_features) float64
        The rows as numbers, categories as codes.
    leaves, margins, predictions, probabilities : optional
        The source library's leaf ids, margins, default predictions and probabilities (or responses); in its own shape.
    given : optional
        What `forest.predict` gets instead of `X`: a DataFrame, say.
    sums : {"float32", "float64"}
        Type in which the library adds its trees. Decides the summation bound, the only tolerance.
    most_tied : float
        Share of the rows whose labels may hang on rounding; these are not compared.
    """
    assert_described(forest.ensemble)
    given = X if given is None else given
    bound = evaluate.summation_bound(forest, X, UNITS[sums])
    if leaves is not None:
        _check_leaves(forest, X, given, np.asarray(leaves))
    if margins is not None:
        _check_margins(forest, X, given, np.asarray(margins), bound)
    if probabilities is not None:
        _assert_close(forest.predict(given, output="probability"), probabilities, bound, UNITS[sums])
    if predictions is not None:
        _check_predictions(forest, X, given, np.asarray(predictions), bound, UNITS[sums], most_tied)


def assert_described(trees: Any) -> None:
    """Check what predictions do not show: the name of the source, and covers, which SHAP values weight splits by.

    Covers of children add up to that of their split; where the library keeps none, all are NaN. Libraries round sums
    of Hessians to float32, and leave out what they take for nothing: a thousandth of the root's is not compared.
    """
    assert trees.source.lower().startswith(tuple(source.title.lower() for source in SOURCES.values())), trees.source
    if np.isnan(trees.cover).all():
        return
    splits = np.flatnonzero(trees.feature >= 0)
    tree = np.searchsorted(trees.tree_offsets, splits, side="right") - 1
    left = trees.tree_offsets[tree] + trees.left[splits]
    total = trees.cover[left] + trees.cover[left + 1]
    allowed = 1e-3 * np.abs(trees.cover[trees.tree_offsets[tree]])
    wrong = np.flatnonzero(~(np.abs(total - trees.cover[splits]) <= allowed))
    if len(wrong):
        at = wrong[0]
        raise AssertionError(
            f"{len(wrong)} of {len(splits)} covers of {trees.source} {trees.objective} are not the sums of their "
            f"children's: {trees.cover[splits[at]]}, of {trees.cover[left[at]]} and {trees.cover[left[at] + 1]}"
        )


def _check_leaves(forest: Forest, X: Any, given: Any, leaves: Any) -> None:
    expected = leaves.reshape(len(leaves), -1)
    _assert_same(evaluate.leaf_ids(forest, X), expected, X)
    ids = forest.predict(given, output="leaf")
    assert ids.shape == (len(leaves), *(forest.ensemble.leaf_shape or (forest.n_trees,)))
    _assert_same(ids.reshape(len(leaves), -1), expected, X)


def _assert_same(ids: Any, expected: Any, X: Any) -> None:
    assert ids.shape == expected.shape
    wrong = np.argwhere(ids != expected)
    if len(wrong):
        row, tree = wrong[0]
        raise AssertionError(
            f"{len(wrong)} of {ids.size} leaf ids differ; row {row}, tree {tree}: {ids[row, tree]}, "
            f"expected {expected[row, tree]}, at {[float(x).hex() for x in X[row]]}"
        )


def _check_margins(forest: Forest, X: Any, given: Any, margins: Any, bound: Any) -> None:
    expected = margins.reshape(bound.shape)
    assert np.isfinite(expected).all()
    assert (np.abs(evaluate.margins(forest, X) - expected) <= bound).all()
    found = forest.predict(given, output="margin")
    assert found.dtype == forest.ensemble.result_dtype
    # Both sides round.
    assert (np.abs(found.reshape(bound.shape) - expected) <= 2 * bound).all()


def _check_predictions(
    forest: Forest, X: Any, given: Any, predictions: Any, bound: Any, unit: float, most_tied: float
) -> None:
    found = forest.predict(given)
    assert found.shape == predictions.shape
    if forest.ensemble.prediction in {"response", "margin"}:
        _assert_close(found, predictions, bound, unit)
        return
    differ = (found != predictions).reshape(len(found), -1).any(axis=1)
    # Labels may differ only where the margins are closer to the decision than the library's own rounding.
    tied = _is_tied(evaluate.margins(forest, X), bound)
    assert not (differ & ~tied).any()
    assert tied.mean() <= most_tied


def _is_tied(margins: Any, bound: Any) -> Any:
    if margins.shape[1] == 1:
        return (np.abs(margins) <= bound)[:, 0]
    largest = np.sort(margins, axis=1)
    return largest[:, -1] - largest[:, -2] <= 2 * bound.max(axis=1)


def _assert_close(found: Any, expected: Any, bound: Any, unit: float) -> None:
    """Responses: the links have |g'| <= max(1, |g|), softmax 2; each side may round 16 more times on its way."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    error = (2 * 2 * bound.max(axis=1) + 16 * unit).reshape((-1,) + (1,) * (expected.ndim - 1))
    assert (np.abs(found - expected) <= error * np.maximum(1, np.abs(expected))).all()
