"""Targets and labels that belong to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import is_per_exposure

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Largest weights of rows that are taken as they are."""

MOST_RATE = 1e150
"""Largest rate, and one over the smallest above 0, whose squares are numbers."""

MOST_APART = 1e12
"""Largest exposure in units of the smallest: sums of others say nothing about the rows of these."""


def as_targets(y: ArrayLike, n_rows: int) -> Array:
    """Make an array with an entry per row, (n,) or (n, k): a frame or an array of one column is that column.

    Raises
    ------
    ValueError
        If there are more or fewer than rows.
    """
    values = as_vector(on_host(y), "y")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape[:1] != (n_rows,):
        raise ValueError(f"y has shape {values.shape}, expected ({n_rows},), one per row of X")
    return values


def as_vector(values: Any, name: str) -> Array:
    """Make an array of what a caller gave.

    Raises
    ------
    ValueError
        For lists within lists of different lengths, and for values that a mask hides: nobody should count these.
    """
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} is masked in row {int(np.ma.getmaskarray(values).argmax())}, expected a value in each row; leave "
            "such rows out"
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} holds lists of different lengths, expected one number per row") from error


def exposures_of(values: Any, n_rows: int) -> Doubles:
    """Read exposures: float64, (n_rows,), above 0.

    Raises
    ------
    ValueError
        If they are anything else.
    """
    exposed = row_numbers(values, "exposure")
    if exposed.shape != (n_rows,):
        raise ValueError(f"exposure has shape {exposed.shape}, expected ({n_rows},): one for each row")
    wrong = ~(np.isfinite(exposed) & (exposed > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"exposure is {exposed[at]:g} in row {at}, expected numbers above 0")
    return exposed


def rates_of(target: Doubles, exposed: Doubles) -> Doubles:
    """Divide targets by exposures.

    Raises
    ------
    ValueError
        If exposures are too small or too large for the targets, or too far apart to add up.
    """
    with np.errstate(over="ignore"):
        rates = target / exposed
    if (wrong := (np.abs(rates) > MOST_RATE) & (np.abs(target) <= MOST_RATE)).any():
        at = int(wrong.argmax())
        raise ValueError(f"exposure is {exposed[at]:g} in row {at}, too small to divide y by; give it in larger units")
    if (wrong := (np.abs(rates) < 1 / MOST_RATE) & (np.abs(target) >= 1 / MOST_RATE)).any():
        at = int(wrong.argmax())
        raise ValueError(f"exposure is {exposed[at]:g} in row {at}, too large to divide y by; give it in smaller units")
    if len(exposed) and not exposed.max() / MOST_APART <= exposed.min():
        low, high = int(exposed.argmin()), int(exposed.argmax())
        raise ValueError(
            f"exposure is {exposed[low]:g} in row {low} and {exposed[high]:g} in row {high}, too far apart to add up; "
            "give all in one unit"
        )
    return rates


def refuse_counts(forest: TreeEnsemble, weights: object, call: str) -> None:
    """Raise ValueError where targets are compared with rates, and nothing says that they are rates.

    Parameters
    ----------
    forest : TreeEnsemble
    weights : object
        None if the caller gave none: of counts, they would be the exposures.
    call : str
        For the message.
    """
    if weights is None and is_per_exposure(forest):
        raise ValueError(
            "the model predicts rates for one unit of exposure, and y may be counts or amounts; pass "
            f"{call}(..., y / exposure, sample_weight=exposure), or ones as weights"
        )


def row_numbers(values: Any, name: str) -> Doubles:
    """Copy numbers that a caller gave as float64; what float64 would make numbers of, such as dates, is refused.

    Raises
    ------
    ValueError
        If they are no numbers.
    """
    found = as_vector(on_host(values), name)
    if found.dtype.kind not in "biufOUST":
        raise ValueError(f"{name} holds {found.dtype}, expected numbers")
    try:
        return np.array(found, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds {quoted(next(filter(_is_no_number, found.flat)))}, expected numbers") from None


def _is_no_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return True
    return False


def row_weights(values: Any, n_rows: int, name: str = "sample_weight") -> Doubles:
    """Copy weights of rows as float64, (n_rows,), scaled where their sums would be too large or too small a number.

    Raises
    ------
    ValueError
        If they are not one finite number of at least 0 for each row, or all 0.
    """
    found = row_numbers(values, name)
    if found.shape != (n_rows,):
        raise ValueError(f"{name} has shape {found.shape}, expected ({n_rows},), one per row of X")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"{name} is {found[at]:g} in row {at}, expected finite numbers of at least 0")
    if n_rows and not found.any():
        raise ValueError(f"{name} is 0 in all rows, expected one above 0")
    return in_range(found)


def in_range(weights: Doubles) -> Doubles:
    """Relative weights times a power of 2, where squares and sums of them would overflow or vanish."""
    largest = float(weights.max(initial=0.0))
    if largest == 0 or LEAST_WEIGHT < largest < MOST_WEIGHT:
        return weights
    scaled: Doubles = np.ldexp(weights, -np.frexp(largest)[1])
    return scaled


def class_places(labels: Array, forest: TreeEnsemble) -> Int64s:
    """Place of each label among the classes of the model's one output.

    If the classes are texts, numbers are places, except where all of them are such texts ("1").

    Raises
    ------
    ValueError
        If one is none of them.
    """
    if labels.ndim > 1:
        raise ValueError(f"y has shape {labels.shape}, expected ({len(labels)},), one class per row of X")
    classes: list[Any] = forest.classes[0].tolist()
    place, more = {label: i for i, label in enumerate(classes)}, ""
    found: list[Any] = labels.tolist()
    if labels.dtype.kind in "biuf" and all(isinstance(name, str) for name in classes):
        texts = {number: f"{number:g}" for number in set(found)}
        are_names = place.keys() >= set(texts.values())
        place = {number: place[texts[number]] for number in texts} if are_names else {i: i for i in range(len(classes))}
        more = f", or their places from 0 to {len(classes) - 1}"
    if unknown := set(found) - set(place):
        first = next(label for label in found if label in unknown)
        raise ValueError(
            f"y holds {quoted(first)}, expected one of the model's classes, such as {quoted(classes[:5])}{more}"
        )
    return np.array([place[label] for label in found], np.int64)


def own_labels(y: Any, forest: TreeEnsemble) -> tuple[Array, float]:
    """Labels of the model's own for targets of two classes, which may be places; and the share of the second class."""
    places = class_places(as_targets(y, len(y)), forest)
    return forest.classes[0][places], float(places.mean()) if len(places) else 0.5


def refuse_text(values: Array) -> None:
    """Raise ValueError unless targets of a model that predicts numbers are numbers."""
    if values.dtype.kind in "biuf":
        return
    text = next((value for value in values.ravel().tolist() if isinstance(value, str)), None)
    if text is None:
        raise ValueError(f"y holds {values.dtype}, expected numbers; the model predicts numbers")
    raise ValueError(
        f"y holds text ({quoted(text)}), but the model predicts numbers and has no labels; replace them by 0, 1, ... "
        "as in training"
    )
