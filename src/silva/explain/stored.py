"""Explainers in `.silva` files: the forest, the settings, and of a background only what the forest's splits ask of it.

A background value is kept as the class of values that it belongs to: the interval of the feature's thresholds, the
category, or missing. Classes are written as some value in them; rows of equal classes are one row with their weights.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.explain.background import Background
from silva.forest import as_forest
from silva.storage import Attachment, forest_bytes, load_attachment, read_attachment_note

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.explain.game import Game, Settings
    from silva.forest import Forest
    from silva.typing import Array, Bools, Doubles, Floats, Int64s

KIND, VERSION = "explainer", 2
SETTINGS = ("algorithm", "output", "dtype", "table_bytes", "feature_names", "output_names")


def holds_explainer(model: object) -> bool:
    """Whether this is the path of a file that `Explainer.save` wrote."""
    if not isinstance(model, str | os.PathLike):
        return False
    return (read_attachment_note(model) or {}).get("kind") == KIND


def explainer_bytes(game: Game, settings: Settings) -> bytes:
    """Content of the file that `Explainer.save` would write."""
    return forest_bytes(game.forest, attachment_of(game, settings))


def attachment_of(game: Game, settings: Settings) -> Attachment:
    """Collect the settings of an explainer and what is left of its background."""
    background = game.background
    kept = {name: getattr(settings, name) for name in SETTINGS} | {"groups": game.players.groups or None}
    about = {"kind": KIND, "version": VERSION, "settings": kept, "expected_value": None}
    if background is None:
        return Attachment(about, {})
    about["expected_value"] = [float(value).hex() for value in background.expected_value]
    return Attachment(about, condense(background, game.forest))


def load_explainer(path: str | os.PathLike[str] | bytes) -> tuple[Forest, dict[str, Any], Background | None]:
    """Read what `save_explainer` wrote.

    Raises
    ------
    ValueError
        If the file holds no explainer, one of a later version, or is truncated or corrupt.
    """
    ensemble, attachment = load_attachment(path)
    if attachment is None or attachment.about.get("kind") != KIND:
        raise ValueError(f"{_name(path)} holds a forest and no explainer; pass it to silva.Explainer")
    about = attachment.about
    if about["version"] > VERSION:
        raise ValueError(
            f"{_name(path)} holds an explainer of version {about['version']}, this silva reads up to {VERSION}; "
            "upgrade silva"
        )
    settings = {name: about["settings"].get(name) for name in (*SETTINGS, "groups")}
    if about["expected_value"] is None:
        return as_forest(ensemble), settings, None
    expected = np.array([float.fromhex(value) for value in about["expected_value"]])
    return as_forest(ensemble), settings, expand(attachment.arrays, expected)


def _name(path: object) -> str:
    return "a model in memory" if isinstance(path, bytes) else str(path)


def condense(background: Background, forest: TreeEnsemble) -> dict[str, Array]:
    """Classes of the rows' values: numbers of classes (m, F), a value of each, weights.

    Leaves with linear models ask for the values themselves: the rows.
    """
    if forest.has_linear_leaves:
        return {"rows": background.rows, "weight": background.weight}
    rows = settled(background.rows, forest)
    classes = [
        np.unique(stand_ins(forest, feature, rows[:, feature]), return_inverse=True)
        for feature in range(forest.n_features)
    ]
    numbers = np.stack([number for _, number in classes], axis=1) if classes else np.zeros((len(rows), 0), np.int64)
    distinct, place = np.unique(numbers, axis=0, return_inverse=True)
    weight = np.zeros(len(distinct), np.int64)
    np.add.at(weight, place.reshape(-1), background.weight)
    most = max((len(values) for values, _ in classes), default=0)
    return {
        "classes": distinct.astype(np.uint16 if most <= 2**16 else np.int32),
        "values": np.concatenate([values for values, _ in classes]) if classes else rows[:0].reshape(-1),
        "offsets": np.cumsum([0, *(len(values) for values, _ in classes)]).astype(np.int64),
        "weight": weight,
    }


def expand(arrays: dict[str, Array], expected: Doubles) -> Background:
    """Background of a value of each class, or of the rows."""
    if "rows" in arrays:
        return Background(arrays["rows"], arrays["weight"], int(arrays["weight"].sum()), expected)
    classes, offsets = arrays["classes"], arrays["offsets"]
    if classes.shape != (len(arrays["weight"]), len(offsets) - 1):
        raise ValueError(f"its background has classes of shape {classes.shape}; save the explainer again")
    weight = arrays["weight"]
    return Background(arrays["values"][classes + offsets[:-1]], weight, int(weight.sum()), expected)


def settled(rows: Array, forest: TreeEnsemble) -> Floats:
    """Rows as the splits see them: in the row type, tiny numbers 0, missing values NaN."""
    with np.errstate(over="ignore"):
        values: Floats = rows.astype(forest.threshold.dtype)
    if forest.zero_threshold > 0:
        values[np.abs(values) <= forest.zero_threshold] = 0
    if len(forest.zero_missing):
        values[(values == 0) & forest.zero_missing] = np.nan
    return values


def stand_ins(forest: TreeEnsemble, feature: int, column: Floats) -> Floats:
    """One value for all that go the same ways at every split on the feature; categories stand for themselves."""
    nodes = np.flatnonzero(forest.feature == feature)
    if not len(nodes):
        return np.zeros_like(column)
    if forest.is_categorical and (forest.category_set[nodes] >= 0).any():
        return column
    thresholds = np.unique(forest.threshold[nodes])
    rank = _ranks(thresholds, column)
    start = np.concatenate([np.nextafter(thresholds[:1], -np.inf), thresholds])[rank]
    result = column.copy()
    smallest = np.nextafter(np.asarray(forest.zero_threshold, column.dtype), np.asarray(np.inf, column.dtype))
    for stand_in in (-smallest, smallest, np.zeros_like(smallest), start):
        offered = np.where(np.isnan(column), column, stand_in).astype(column.dtype)
        fits = (_ranks(thresholds, offered) == rank) & _stays(forest, feature, offered)
        result = np.where(fits, offered, result)
    return result


def _ranks(thresholds: Floats, column: Floats) -> Int64s:
    return np.searchsorted(thresholds, column, side="right")


def _stays(forest: TreeEnsemble, feature: int, column: Floats) -> Bools:
    """Whether `settled` leaves the numbers as they are."""
    zero_is_missing = bool(len(forest.zero_missing)) and bool(forest.zero_missing[feature])
    is_zero = column == 0
    stays: Bools = is_zero & (not zero_is_missing) | ~is_zero & ~(np.abs(column) <= forest.zero_threshold)
    return stays
