"""Explainers in `.glasswood` files: forest, settings and, of background rows, the intervals that splits distinguish."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import FLOAT_TYPES, Array, Bools, Int64s
from glasswood.explain.background import WEIGHT_BITS, Background, condense, expand, mean_margin
from glasswood.explain.checks import ALGORITHMS, OUTPUTS, RULES
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.storage import Attachment, forest_bytes, load_attachment, name_of, naming, read_attachment_note

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings

KIND, VERSION = "explainer", 3
KEYS = {"kind", "version", "settings", "background"}

ARRAYS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "classes": ("classes", "values", "offsets", "weight"),
    "rows": ("rows", "weight"),
}
"""Names of the arrays, by what the file holds of a background: nothing, classes of values, or rows (linear leaves)."""


COUNTS = "counts"
"""Array of the rows that each state stands for, where these are not its weight."""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _are_groups(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(features, list) and all(type(feature) is int for feature in features) for features in value.values()
    )


SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "algorithm": (lambda value: value in ALGORITHMS, f"one of {', '.join(ALGORITHMS)}"),
    "output": (lambda value: value in OUTPUTS, f"one of {', '.join(OUTPUTS)}"),
    "dtype": (lambda value: value in FLOAT_TYPES, f"one of {', '.join(FLOAT_TYPES)}"),
    "table_bytes": (lambda value: value is None or (type(value) is int and 0 <= value < 2**63), "a number or null"),
    "rule": (lambda value: value in RULES, f"one of {', '.join(RULES)}"),
    "groups": (lambda value: value is None or _are_groups(value), "lists of numbers by name, or null"),
    "feature_names": (lambda value: value is None or _are_texts(value), "a list of strings or null"),
    "output_names": (lambda value: value is None or _are_texts(value), "a list of strings or null"),
}
"""Arguments of Explainer by name. What they must be to each other and to the forest is for Explainer to check."""


def check_version(stored: Attachment, where: str) -> None:
    """Raise ValueError for what a later glasswood has written."""
    version = stored.about.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{shown(where)} holds an explainer of version {version}, this glasswood reads up to {VERSION}; "
            "upgrade glasswood"
        )


def validate_stored(stored: Attachment, forest: TreeEnsemble) -> None:
    """Check names, kinds, dtypes, shapes and ranges.

    Raises
    ------
    ValueError
        If anything is not what `Explainer.save` writes; the message names it.
    """
    about = stored.about
    _check_names(about, KEYS, "entries")
    if about["version"] != VERSION:
        _refuse(f"version is {about['version']!r}, expected {VERSION}")
    _check_settings(about["settings"])
    background = about["background"]
    if background is not None and background != _kind_of(forest):
        _refuse(f"background is {background!r}, expected null or {_kind_of(forest)!r}")
    _check_names({name: one for name, one in stored.arrays.items() if name != COUNTS}, ARRAYS[background], "arrays")
    if background is not None:
        _check_weight(stored.arrays["weight"])
        _check_counts(stored.arrays)
        (_check_rows if background == "rows" else _check_classes)(stored.arrays, forest)


def _kind_of(forest: TreeEnsemble) -> str:
    return "rows" if forest.has_linear_leaves else "classes"


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"corrupt explainer: {shown(what)}")


def _check_names(found: dict[str, Any], expected: Collection[str], what: str) -> None:
    if found.keys() != set(expected):
        _refuse(f"its {what} are {sorted(found)}, expected {sorted(expected)}")


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict):
        _refuse(f"settings is {settings!r}, expected names and values")
    _check_names(settings, SETTINGS, "settings")
    for name, (is_right, expected) in SETTINGS.items():
        if not is_right(settings[name]):
            _refuse(f"{name} is {settings[name]!r}, expected {expected}")


def _check_array(name: str, array: Array, ndim: int, *dtypes: Any) -> None:
    if array.ndim != ndim or array.dtype not in dtypes:
        _refuse(f"{name} is {array.ndim}-dimensional {array.dtype}, expected {ndim}-dimensional {np.dtype(dtypes[0])}")


def _check_weight(weight: Int64s) -> None:
    """Weights above 0 whose sum fits."""
    _check_array("weight", weight, 1, np.int64)
    if not len(weight) or weight.min() < 1:
        _refuse(f"weight holds {weight.min(initial=0)}, expected at least one number, and all above 0")
    halves = weight >> 32, weight & 2**32 - 1
    if (total := (int(halves[0].sum()) << 32) + int(halves[1].sum())) > 2**WEIGHT_BITS:
        _refuse(f"the weights add up to {total}, expected at most 2 ** {WEIGHT_BITS}")


def _check_counts(arrays: dict[str, Array]) -> None:
    """Numbers of rows, at least 1 but for rounding."""
    if COUNTS not in arrays:
        return
    counts = arrays[COUNTS]
    _check_array(COUNTS, counts, 1, np.float64)
    if counts.shape != arrays["weight"].shape or not (np.isfinite(counts) & (counts >= 0.5)).all():
        _refuse(f"counts has the shape {counts.shape}, expected {arrays['weight'].shape} and numbers of at least 1")


def _check_rows(arrays: dict[str, Array], forest: TreeEnsemble) -> None:
    rows, shape = arrays["rows"], (len(arrays["weight"]), forest.n_features)
    _check_array("rows", rows, 2, np.float32, np.float64)
    if rows.shape != shape:
        _refuse(f"rows has the shape {rows.shape}, expected {shape}")
    if not forest.nan_allowed and np.isnan(rows[:, _refusing(forest)]).any():
        _refuse("rows holds NaN, which this forest refuses")


def _refusing(forest: TreeEnsemble) -> Bools:
    """Find the features that may not be NaN where `nan_allowed` is False: (n_features,)."""
    return ~forest.nan_allowed_in if len(forest.nan_allowed_in) else np.ones(forest.n_features, np.bool_)


def _check_classes(arrays: dict[str, Array], forest: TreeEnsemble) -> None:
    """Each feature has classes of rising values, and each row one of them for every feature."""
    classes, values, offsets = arrays["classes"], arrays["values"], arrays["offsets"]
    _check_array("values", values, 1, forest.threshold.dtype)
    _check_array("offsets", offsets, 1, np.int64)
    _check_array("classes", classes, 2, np.uint16, np.int32)
    if len(offsets) != forest.n_features + 1 or offsets[0] != 0 or (offsets[1:] <= offsets[:-1]).any():
        _refuse(f"offsets has {len(offsets)} entries, expected {forest.n_features + 1} that rise from 0")
    if offsets[-1] != len(values):
        _refuse(f"offsets ends with {offsets[-1]}, expected {len(values)}, the number of values")
    if (shape := (len(arrays["weight"]), forest.n_features)) != classes.shape:
        _refuse(f"classes has the shape {classes.shape}, expected {shape}")
    if (wrong := (classes < 0) | (classes >= np.diff(offsets))).any():
        row, feature = np.argwhere(wrong)[0]
        n_classes = np.diff(offsets)[feature]
        _refuse(f"row {row} has class {classes[row, feature]} of feature {feature}, expected 0 to {n_classes - 1}")
    _check_values(values, offsets, forest)


def _check_values(values: Array, offsets: Int64s, forest: TreeEnsemble) -> None:
    """Values of a feature's classes rise; NaN comes last, where the forest takes it."""
    is_nan = np.isnan(values)
    rises: Bools = (values[:-1] < values[1:]) | (~is_nan[:-1] & is_nan[1:])
    rises[offsets[1:-1] - 1] = True
    feature = np.repeat(np.arange(forest.n_features), np.diff(offsets))
    if not rises.all():
        _refuse(f"the values of feature {feature[np.argmin(rises)]} do not rise")
    zero_missing = forest.zero_missing if len(forest.zero_missing) else np.zeros(forest.n_features, np.bool_)
    if not forest.nan_allowed and (is_nan & ~zero_missing[feature] & _refusing(forest)[feature]).any():
        _refuse("values holds NaN, which this forest refuses")


def holds_explainer(model: object) -> bool:
    """Whether this is the path of a file that `Explainer.save` wrote."""
    if not isinstance(model, str | os.PathLike):
        return False
    return (read_attachment_note(model) or {}).get("kind") == KIND


def refuse_explainer(model: object) -> None:
    """Raise ValueError where a forest is expected and this is the path of an explainer's file."""
    if holds_explainer(model):
        raise ValueError(
            f"{shown(model)} holds an explainer, with its background and settings; glasswood.Explainer.load reads it, "
            "glasswood.load only its forest"
        )


def explainer_bytes(game: Game, settings: Settings) -> bytes:
    """Content of the file that `Explainer.save` would write."""
    return forest_bytes(game.forest, attachment_of(game, settings))


def attachment_of(game: Game, settings: Settings) -> Attachment:
    """Collect the settings of an explainer and what is left of its background."""
    if not isinstance(settings.output, str):
        raise TypeError(
            "output is a callable, which files cannot hold; use one of glasswood's outputs, or pickle the explainer"
        )
    groups = game.players.groups or None
    kept = {name: groups if name == "groups" else getattr(settings, name) for name in SETTINGS}
    arrays = {} if game.background is None else condense(game.background, game.forest)
    held = next(kind for kind, names in ARRAYS.items() if set(names) == arrays.keys() - {COUNTS})
    if held and np.array_equal(arrays[COUNTS], arrays["weight"]):
        del arrays[COUNTS]
    return Attachment({"kind": KIND, "version": VERSION, "settings": kept, "background": held}, arrays)


def load_explainer(
    path: str | os.PathLike[str] | bytes, n_jobs: int | None
) -> tuple[TreeEnsemble, dict[str, Any], Background | None]:
    """Read forest, settings and background, whose expected value follows from its rows.

    Raises
    ------
    ValueError
        If the file holds no explainer, one of a later version, or is truncated or corrupt.
    """
    ensemble, attachment = load_attachment(path)
    if attachment is None or attachment.about["kind"] != KIND:
        raise ValueError(f"{shown(name_of(path))} holds a forest but no explainer; pass it to glasswood.Explainer")
    check_version(attachment, name_of(path))
    forest = ensemble
    with naming(path, ValueError):
        validate_stored(attachment, forest)
        settings = attachment.about["settings"]
        if attachment.about["background"] is None:
            return forest, settings, None
        rows, weight = expand(attachment.arrays)
        expected = mean_margin(forest, rows, weight, n_jobs)
    counts = attachment.arrays.get(COUNTS, weight.astype(np.float64))
    return forest, settings, Background(rows, weight, int(weight.sum()), expected, counts)
