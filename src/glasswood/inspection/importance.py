"""Permutation importance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.progress import counting_rows
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.inputs import refuse_transform, with_tables
from glasswood.inputs.targets import as_targets, class_places, refuse_counts, refuse_text
from glasswood.inspection.plots import Importance
from glasswood.inspection.rows import MOST_NUMBERS, ChangingRows, refuse_no_rows, weights_of
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names

if TYPE_CHECKING:
    Score = Callable[[Array, Array, Doubles | None], float]


def permutation_importance(
    model: object,
    X: Rows,
    y: ArrayLike,
    *,
    scoring: str | Callable[..., float] | None = None,
    n_repeats: int = 5,
    random_state: Any = None,
    sample_weight: ArrayLike | None = None,
    max_samples: float = 1.0,
) -> Importance:
    """Compute how much the model's score decreases when the values of a feature are shuffled among the rows.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
    X : array-like or frame of shape (n, n_features)
        Preferably held-out rows, because the score on training rows includes what the model has memorized.
    y : array-like of shape (n,)
        Targets, or class labels; for a model that was fitted with `exposure`, rates.
    scoring : str or callable, optional
        "r2", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error", "accuracy" or
        "neg_log_loss"; or a function of y, predictions and weights (or None) that is larger for better models. Default:
        accuracy if the model predicts labels, otherwise R².
    n_repeats : int
        Number of shuffles per feature.
    random_state : int, RandomState or None
        If all rows are used, the same number gives the same shuffles as in scikit-learn.
    sample_weight : array-like of shape (n,), optional
        Of rates, the exposures.
    max_samples : int or float
        Number of rows to use, or their share, drawn without replacement.

    Returns
    -------
    Bunch
        A dictionary whose keys are also attributes, like scikit-learn's: ``importances``, (n_features, n_repeats), the
        decrease of the score; ``importances_mean`` and ``importances_std``, (n_features,). ``plot(ax=None)`` draws it.

    Raises
    ------
    ValueError
        If y does not fit X or the model's classes, `scoring` is unknown, or a number is out of range; if the model
        predicts rates and there are no weights, as y may be counts.
    NotImplementedError
        For pipelines and target statistics, because the trees' features are not the columns of X. Use scikit-learn's
        function for a pipeline, or pass ``pipeline[-1]`` and the rows that the steps before it return.

    Notes
    -----
    glasswood predicts the rows n_features × n_repeats + 1 times. On the CPU, in trees of at most 255 splits, rows walk
    down a tree again only if a shuffled value changes their path, with the same bits. A feature that the model does not
    use has importance 0 and costs nothing. In a terminal or notebook, tqdm (if installed) shows a progress bar.

    References
    ----------
    Breiman, "Random forests", Machine Learning 45 (2001), https://doi.org/10.1023/A:1010933404324.

    Examples
    --------
    >>> glasswood.permutation_importance(model, X_test, y_test, random_state=0).importances_mean  # doctest: +SKIP
    """
    forest = with_tables(X, load(model).ensemble)
    refuse_transform(forest, "permutation_importance", "sklearn.inspection.permutation_importance")
    refuse_counts(forest, sample_weight, "permutation_importance")
    output, score = _score(forest, scoring)
    rows = ChangingRows(forest, X)
    refuse_no_rows(rows)
    labels = as_targets(y, len(rows))
    if not callable(scoring):
        labels = _checked_targets(labels, forest, scoring)
    if not hasattr(n_repeats, "__index__") or n_repeats < 1:
        raise ValueError(f"n_repeats is {quoted(n_repeats)}, expected a whole number of at least 1")
    weight = weights_of(sample_weight, len(rows))
    seed = _generator(random_state).randint(np.iinfo(np.int32).max + 1)
    baseline = score(labels, rows.responses(output), weight)
    taken, generator = _sample(len(rows), max_samples, seed)
    if taken is not None:
        rows = ChangingRows(forest, _rows_at(X, taken))
        labels, weight = labels[taken], None if weight is None else weight[taken]
    used = np.flatnonzero(_used(forest)).tolist()
    importances = np.zeros((forest.n_features, int(n_repeats)))
    with counting_rows(len(used) * int(n_repeats) * len(rows), "Permutation importance") as count:
        for first, sources in _sources(generator, len(rows), int(n_repeats)):
            for feature, source, response in rows.moved(used, sources, output):
                importances[feature, first + source] = baseline - score(labels, response, weight)
                count(len(rows))
    found = Importance(
        importances_mean=importances.mean(axis=1), importances_std=importances.std(axis=1), importances=importances
    )
    found.names = feature_names(forest)
    return found


def _generator(random_state: Any) -> np.random.RandomState:
    return random_state if isinstance(random_state, np.random.RandomState) else np.random.RandomState(random_state)


def _sample(n_rows: int, max_samples: float, seed: int) -> tuple[Array | None, np.random.RandomState]:
    """Draw rows to use, None for all of them, and make the generator that shuffles start from."""
    count = int(max_samples) if hasattr(max_samples, "__index__") else int(max_samples * n_rows)
    if not 1 <= count <= n_rows:
        raise ValueError(f"max_samples is {max_samples}, expected a share of at most 1 or 1 to {n_rows} rows")
    generator = np.random.RandomState(seed)
    if count == n_rows:
        return None, generator
    return generator.permutation(n_rows)[:count], generator


def _rows_at(X: Any, taken: Array) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[taken]
    if hasattr(X, "take") and not isinstance(X, np.ndarray):
        return X.take(taken)
    return X[taken] if hasattr(X, "__array__") else [X[i] for i in taken]


def _sources(generator: np.random.RandomState, n_rows: int, n_repeats: int) -> Iterator[tuple[int, Array]]:
    """Which row each value comes from, (repeats, n), some repeats at a time; and the number of their first.

    Each order shuffles the last one and permutes what the last one left, as in scikit-learn.
    """
    order = np.arange(n_rows)
    source = order.copy()
    together = max(1, MOST_NUMBERS // n_rows)
    for first in range(0, n_repeats, together):
        sources = np.empty((min(together, n_repeats - first), n_rows), np.int64)
        for each in sources:
            generator.shuffle(order)
            each[:] = source = source[order]
        yield first, sources


def _used(forest: TreeEnsemble) -> Array:
    used = np.zeros(forest.n_features, bool)
    used[forest.feature[forest.feature >= 0]] = True
    used[forest.linear_feature] = True
    return used


def _score(forest: TreeEnsemble, scoring: Any) -> tuple[str, Score]:
    """Output that the score looks at, and the score."""
    if callable(scoring):
        return "prediction", scoring
    if scoring is None:
        scoring = "accuracy" if forest.is_estimator and forest.classes else "r2"
    if scoring == "neg_log_loss":
        return "probability", lambda places, p, w: -_log_loss(places.astype(np.int64), p, w)
    if scoring not in SCORES:
        known = ", ".join([*SCORES, "neg_log_loss"])
        raise ValueError(f"scoring is {quoted(scoring)}, expected one of {known}, or a function")
    return "prediction", _aligned(SCORES[scoring])


def _checked_targets(labels: Array, forest: TreeEnsemble, scoring: str | None) -> Array:
    """Labels as scores need them, the model's classes or their places.

    Labels that are none of the classes are wrong in every shuffle, so that each importance would be 0.
    """
    if len(forest.classes) == 1 and (forest.is_estimator or scoring == "neg_log_loss"):
        places = class_places(labels, forest)
        return places if scoring == "neg_log_loss" else forest.classes[0][places]
    if not (forest.is_estimator and forest.classes):
        refuse_text(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        at = np.argwhere(~np.isfinite(labels))[0]
        raise ValueError(f"y is {labels[tuple(at)]} in row {at[0]}, expected finite numbers; leave such rows out")
    return labels


def _aligned(score: Score) -> Score:
    """Let a score see predictions in the shape of y: CatBoost returns labels of several classes as a column."""

    def aligned(y: Array, predicted: Any, weight: Doubles | None) -> float:
        found = np.asarray(predicted)
        if found.shape != y.shape:
            if found.size != y.size:
                raise ValueError(f"y has shape {y.shape}, the predictions {found.shape}; pass a target for each output")
            found = found.reshape(y.shape)
        return score(y, found, weight)

    return aligned


def _r2(y: Array, predicted: Array, weight: Doubles | None) -> float:
    total = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    left = np.average((y - predicted) ** 2, axis=0, weights=weight)
    return float(np.mean(1 - left / total))


def _squares(y: Array, predicted: Array, weight: Doubles | None) -> float:
    return float(np.mean(np.average((y - predicted) ** 2, axis=0, weights=weight)))


def _log_loss(places: Int64s, predicted: Any, weight: Doubles | None) -> float:
    probabilities = np.asarray(predicted, np.float64)
    if probabilities.ndim == 1:
        probabilities = np.column_stack([1 - probabilities, probabilities])
    smallest = np.finfo(np.float64).eps
    chosen = np.clip(probabilities[np.arange(len(places)), places], smallest, 1 - smallest)
    return float(np.average(-np.log(chosen), weights=weight))


SCORES: dict[str, Score] = {
    "r2": _r2,
    "neg_mean_squared_error": lambda y, p, w: -_squares(y, p, w),
    "neg_root_mean_squared_error": lambda y, p, w: -float(np.sqrt(_squares(y, p, w))),
    "neg_mean_absolute_error": lambda y, p, w: -float(np.mean(np.average(np.abs(y - p), axis=0, weights=w))),
    "accuracy": lambda y, p, w: float(np.average(y == p, weights=w)),
}
