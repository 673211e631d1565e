"""Targets and labels that belong to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Int64s
from glasswood.model.ensemble import TreeEnsemble


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
    """Make an array of what a caller gave; lists within lists of different lengths are refused by name."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} holds lists of different lengths, expected one number per row") from error


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
