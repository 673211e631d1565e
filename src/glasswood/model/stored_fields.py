"""Fields of a forest that are no arrays, as plain values of a header: labels, scalars, metadata, what was checked."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted, retold, shown
from glasswood.base.typing import COLUMNS, Array, Checked, Choice
from glasswood.model.ensemble import TreeEnsemble

MOST_METADATA = 2**20
"""Longest text of metadata, in characters of JSON: every process that opens a file reads its header."""

LABELS = ("classes", "categories", "open_tables")
LABEL_DTYPE = re.compile(r"object|\|[biu]1|<[iuf][248]|<U\d{1,8}")
LEAST_ROOM, ROOM_OF_A_CHARACTER = 2**14, 64
"""Largest number of characters of an array of texts: a minimum, and a number for each character of its texts."""

FIELD_TYPES: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(TreeEnsemble)}


def field_to_json(name: str, value: Any) -> Any:
    """Write a field of TreeEnsemble that is not an array as plain values.

    Raises
    ------
    TypeError
        If a class label or category is not a string, number or boolean.
    """
    if name in LABELS:
        return None if value is None else [_labels_to_json(name, labels) for labels in value]
    return _scalar_to_json(FIELD_TYPES[name], value)


def field_from_json(name: str, value: Any) -> Any:
    """Read what `field_to_json` wrote.

    Raises
    ------
    TypeError, ValueError
        If it did not.
    """
    if name in LABELS:
        return None if value is None else tuple(_labels_from_json(labels) for labels in value)
    if FIELD_TYPES[name] == "float":
        return float.fromhex(value)
    if name == "choices":
        return tuple(Choice(*choice) for choice in value)
    return tuple(value) if isinstance(value, list) else value


def check_of(entry: Any) -> Checked | None:
    """Read what the self-check of a live model found."""
    if entry is None:
        return None
    rows, difference, unchecked = entry
    if not isinstance(rows, int) or not isinstance(difference, float) or not all(isinstance(x, str) for x in unchecked):
        raise ValueError("what it says of its check is no count, difference and texts")
    return Checked(rows, difference, tuple(unchecked))


def columns_of(entry: Any) -> str:
    """Read how columns are matched."""
    if entry not in COLUMNS:
        raise ValueError(f"columns is {quoted(entry)}, expected one of {', '.join(COLUMNS)}")
    return str(entry)


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of what a user says of a model.

    Raises
    ------
    TypeError
        If it is no mapping, or holds other than JSON does: texts, numbers, booleans, None, and lists and dicts of them.
    ValueError
        If it is longer than `MOST_METADATA`, or holds NaN or infinity.
    """
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a {type(metadata).__name__}, expected a dict such as {{'author': 'credit team'}}")
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        wanted = "expected texts, finite numbers, booleans, None, and lists and dicts of them"
        raise retold(error, f"metadata cannot be written as JSON: {shown(error)}; {wanted}") from error
    if len(text) > MOST_METADATA:
        raise ValueError(f"metadata takes {len(text):,} characters as JSON, expected at most {MOST_METADATA:,}")
    read: dict[str, Any] = json.loads(text)
    if read != dict(metadata):  # JSON makes texts of keys, and lists of tuples
        raise TypeError("metadata holds keys that are not texts, or tuples; expected texts as keys, and lists")
    return read


def _scalar_to_json(kind: Any, value: Any) -> Any:
    """Plain values of NumPy's; floats as exact text, which also knows NaN and infinity."""
    if kind == "float":
        return float(value).hex()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_scalar_to_json("", item) for item in value]
    return value


def _labels_to_json(name: str, labels: Array | None) -> Any:
    """Class labels and categories are short: numbers, booleans or strings as JSON beside their dtype."""
    if labels is None:
        return None
    values = [value.item() if isinstance(value, np.generic) else value for value in labels.tolist()]
    dtype = "object" if labels.dtype.kind in "OT" else labels.dtype.newbyteorder("<").str
    if not LABEL_DTYPE.fullmatch(dtype) or not _are_plain(values):
        raise TypeError(
            f"{name} holds {labels.dtype} such as {quoted(labels[:1])}; a .glasswood file stores strings and numbers"
        )
    return {"dtype": dtype, "values": values}


def _labels_from_json(entry: Any) -> Array | None:
    if entry is None:
        return None
    if not LABEL_DTYPE.fullmatch(entry["dtype"]) or not _are_plain(values := list(entry["values"])):
        raise ValueError(f"labels of dtype {quoted(entry['dtype'])} hold more than strings and numbers")
    dtype = np.dtype(entry["dtype"])
    if dtype.kind in "iu" and not all(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max for value in values):
        raise ValueError(f"labels exceed their dtype {dtype}")  # NumPy 1 wraps them around
    return np.array(values, dtype=_text_dtype(values) if dtype.kind == "U" else dtype.newbyteorder("="))


def _text_dtype(texts: list[str]) -> Any:
    """No wider than the longest text; object where arrays would take many times the bytes of the texts."""
    lengths = [len(text) for text in texts]
    longest = max(lengths, default=0)
    is_wasteful = longest * len(texts) > LEAST_ROOM + ROOM_OF_A_CHARACTER * (sum(lengths) + len(texts))
    return object if is_wasteful else f"U{max(longest, 1)}"


def _are_plain(values: list[Any]) -> bool:
    return all(value is None or isinstance(value, str | int | float) for value in values)
