"""Arguments that users pass to an estimator, checked as scikit-learn does: rows to grow on, and rows to predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import (
    _check_feature_names,
    _check_monotonic_cst,
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from glasswood.base.config import device_of
from glasswood.base.device import array_gpu, on_host
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Doubles, Int64s, Output, Rows
from glasswood.base.wording import nearest_text
from glasswood.grow.data import columns as grow_columns
from glasswood.grow.data.groups import constraints_text, groups_of
from glasswood.inputs.arrays import records_message
from glasswood.inputs.matching import listed
from glasswood.inputs.targets import as_vector, row_numbers

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingColumns, TrainingData


def training_data(estimator: Any, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None) -> TrainingData:
    """Read the rows that count."""
    check_labels(y)
    as_vector(y, "y")
    if sample_weight is not None and not isinstance(sample_weight, Number):
        sample_weight = row_numbers(sample_weight, "sample_weight")
    _refuse_text(X, estimator.categorical_features)
    if grow_columns.has_categories(X, estimator.categorical_features):
        _check_feature_names(estimator, X, reset=True)
        target = check_target(column_or_1d(y, warn=True), X)
        weight = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
        columns = grow_columns.categorical_columns(X, target, weight, estimator.categorical_features)
        estimator.n_features_in_ = columns.X.shape[1]
    else:
        data, target = validate_data(
            estimator, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True, order="C"
        )
        target = check_target(target, data)
        weight = _check_sample_weight(sample_weight, data, dtype=np.float64, ensure_non_negative=True)
        columns = grow_columns.numeric_columns(data)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    names = names or [f"x{place}" for place in range(columns.n_features)]
    signs, wanted = (_signs(estimator, name, columns) for name in ("monotonic_cst", "coefficient_signs"))
    _check_agreement(signs, wanted, names)
    groups = groups_of(estimator.interaction_cst, names)
    term_signs = signs if wanted is None else wanted if signs is None else np.where(signs == 0, wanted, signs)
    columns = dataclasses.replace(columns, signs=signs, term_signs=term_signs, groups=groups)
    estimator._constraints = constraints_text(signs, wanted, estimator.interaction_cst, groups, names)
    return grow_columns.weighted_rows(columns, target, weight)


def _signs(estimator: Any, name: str, columns: TrainingColumns) -> Int64s | None:
    """Directions of a parameter, such as `monotonic_cst`, by feature; None without any."""
    given = getattr(estimator, name)
    if given is None:
        return None
    _refuse_unknown(name, given, getattr(estimator, "feature_names_in_", None))
    try:
        signs = np.asarray(_check_monotonic_cst(estimator, given), np.int64)
    except ValueError as error:
        raise ValueError(shown(error).replace("monotonic_cst", name)) from None
    both = np.flatnonzero(columns.is_categorical[: columns.n_features] & (signs != 0))
    if len(both):
        names = getattr(estimator, "feature_names_in_", range(len(signs)))
        raise ValueError(f"{name} names column {quoted(names[both[0]])}, which is categorical, expected numbers")
    return signs if signs.any() else None


def _refuse_unknown(name: str, given: Any, known: Any) -> None:
    """Raise ValueError if a parameter's mapping has names of no columns."""
    if not isinstance(given, dict) or known is None:
        return
    names = [str(one) for one in known]
    if unknown := sorted({str(one) for one in given} - set(names)):
        meant = nearest_text(unknown[0], names)
        raise ValueError(f"{name} names {listed(unknown)}{meant}, expected columns of X: {listed(names)}")


def _check_agreement(signs: Int64s | None, wanted: Int64s | None, names: list[str]) -> None:
    """Raise ValueError if predictions must rise with a feature whose coefficients must be negative."""
    if signs is None or wanted is None or not (signs * wanted < 0).any():
        return
    at = int(np.argmin(signs * wanted))
    raise ValueError(
        f"monotonic_cst is {signs[at]} and coefficient_signs is {wanted[at]} for {quoted(names[at])}, "
        "expected the same sign or one of them alone"
    )


def routed(estimator: Any, X: Rows, output: Output) -> Any:
    """Predictions or leaf ids of rows, checked as scikit-learn checks them; those of a GPU by the forest."""
    check_is_fitted(estimator)
    _refuse_records(X)
    forest = estimator.forest_.ensemble
    if array_gpu(X) is not None and (device_of(estimator.device) == "cpu" or forest.categories is not None):
        X = on_host(X)
    if array_gpu(X) is None:
        if forest.categories is None and not (hasattr(X, "columns") and grow_columns.has_categories(X, None)):
            with _hint_of_order():
                X = validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        elif hasattr(X, "columns"):
            with _hint_of_order():
                _check_feature_names(estimator, X, reset=False)
        else:
            X = grow_columns.rows_of_values(X, forest)
    return estimator.forest_.predict(X, output, device=estimator.device, n_jobs=estimator.n_jobs)


@contextmanager
def _hint_of_order() -> Iterator[None]:
    """Name what predicts columns in another order, which scikit-learn refuses; escape the names that it lists."""
    try:
        yield
    except ValueError as error:
        lines = [shown(line) for line in str(error).split("\n")]
        if "must be in the same order" in str(error):
            hint = "Reorder the columns, or use forest_.predict of the estimator, which matches them by name."
            lines[-1:] = [lines[-1] + hint, ""]
        elif lines == str(error).split("\n"):
            raise
        raise ValueError("\n".join(lines)) from None


def _refuse_text(X: Any, categorical: object) -> None:
    """Raise ValueError if a column of an array without names holds text and is not named as one of categories."""
    if categorical is not None or not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "OUS":
        return
    for place, column in enumerate(X.T):
        text = next(
            (
                value
                for value in column.tolist()
                if isinstance(value, str) and not grow_columns.is_text_of_number(value)
            ),
            None,
        )
        if text is not None:
            raise ValueError(
                f"column {place} of X holds text ({quoted(text)}), expected numbers; name columns of categories, "
                f"categorical_features=[{place}], or pass a data frame"
            )


def _refuse_records(X: Any) -> None:
    """Raise TypeError for rows that are dictionaries."""
    if isinstance(X, dict) or (isinstance(X, list | tuple) and len(X) and isinstance(X[0], dict)):
        raise TypeError(records_message(X))


def check_labels(y: object) -> None:
    """Raise ValueError if the target is absent or holds text that is not a number."""
    if y is None:
        raise ValueError("This ModelTreeRegressor estimator requires y to be passed, but the target y is None")
    values = np.asarray(y)
    if values.dtype.kind in "Mm":
        raise ValueError(
            f"y holds dates or times ({shown(values.flat[0])}), expected numbers; pass them in days or seconds"
        )
    if values.dtype.kind not in "OUST":
        return
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"y holds text ({shown(values.flat[0])}), expected numbers; use glasswood.ModelTreeClassifier for classes"
        ) from None


def check_target(y: Any, X: Any) -> Doubles:
    """Return the target as finite float64, one value a row.

    Raises
    ------
    ValueError
        If it is empty, holds NaN or infinity, or its length is not that of X.
    """
    target = np.asarray(y, np.float64)
    if len(target) != len(X):
        raise ValueError(f"y has {len(target)} values, X has {len(X)} rows; pass one value per row")
    if not len(target):
        raise ValueError("X has 0 rows, expected at least 1")
    if not np.isfinite(target).all():
        at = int(np.argmin(np.isfinite(target)))
        raise ValueError(f"y is {target[at]} in row {at}, expected finite numbers; drop the rows without a target")
    return target
