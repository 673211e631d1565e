"""Typed access to JSON-like documents that nobody has checked yet."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Int32s, Int64s
from glasswood.readers.ubjson import decode, is_ubjson

T = TypeVar("T")
INT32 = np.iinfo(np.int32)


def load_document(path: str | os.PathLike[str]) -> Any:
    """Parse a file, as UBJSON if its first bytes say so, or are no JSON's under the suffix ``.ubj``; else as JSON.

    Raises
    ------
    ValueError
        If it is truncated or corrupt.
    """
    data = Path(path).read_bytes()
    try:
        if is_ubjson(data):
            return decode(data)
        is_text = data.lstrip()[:1] in {b"{", b"["} or Path(path).suffix.lower() != ".ubj"
        return _parse_json(data) if is_text else decode(data)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is truncated or corrupt: {reason}; save the model again") from error


def _parse_json(data: bytes) -> Any:
    """Parse by orjson if it is installed; it knows no NaN, which XGBoost 1.7 writes at categorical splits."""
    try:
        return importlib.import_module("orjson").loads(data)
    except (ImportError, ValueError):
        return json.loads(data)


def get(parent: dict[str, Any], key: str, kind: type[T]) -> T:
    """Return the member `key`, which must be of a kind.

    Raises
    ------
    ValueError
        If it is missing or something else.
    """
    value = parent.get(key)
    if not isinstance(value, kind):
        found = "missing" if key not in parent else f"of type {type(value).__name__}"
        raise ValueError(f"{key!r} is {found}, expected {kind.__name__}")
    return value


def get_int(parent: dict[str, Any], key: str, default: int | None = None) -> int:
    """Read a member that holds an integer, often written as text."""
    value = parent.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{key!r} is {value!r}, expected an integer")
    return int(value)


def as_array(values: Any, name: str) -> Array:
    """Turn a list of numbers or a typed array into a one-dimensional array of booleans, integers or floats."""
    if not isinstance(values, list | np.ndarray):
        raise ValueError(f"{name!r} is of type {type(values).__name__}, expected an array of numbers")
    array = np.asarray(values)
    if len(array) == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(f"{name!r} holds something other than numbers")
    return array


def concatenate(parts: Sequence[Any], name: str) -> tuple[Array, Int64s]:
    """Join all parts, and return the length of each beside them."""
    for part in parts:
        if not isinstance(part, list | np.ndarray):
            found = "missing" if part is None else f"of type {type(part).__name__}"
            raise ValueError(f"{name!r} is {found}, expected an array of numbers")
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    arrays = [part for part in parts if len(part)]
    if all(isinstance(part, np.ndarray) for part in arrays):
        return as_array(np.concatenate(arrays) if arrays else [], name), lengths
    return as_array(list(chain.from_iterable(arrays)), name), lengths


def to_int32(array: Array, name: str) -> Int32s:
    """Convert to integers of 32 bits; booleans count as 0 and 1."""
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name!r} holds {array.dtype}, expected integers")
    wide = array if array.dtype.kind != "b" else array.astype(np.int8)
    if len(wide) and not INT32.min <= int(wide.min()) <= int(wide.max()) <= INT32.max:
        raise ValueError(f"{name!r} holds {wide.min()} to {wide.max()}, expected integers of 32 bits")
    return wide.astype(np.int32)


def to_float32(array: Array) -> NDArray[np.float32]:
    """Round to the float32 nearest to each number as it was written.

    Doubles read from decimal text have been rounded once. A second rounding goes wrong only where the double lies
    exactly between two float32; there the shortest text of the double, which is what was written if that had at most
    15 digits, decides.
    """
    with np.errstate(all="ignore"):
        if array.dtype != np.float64:
            return array.astype(np.float32)
        single = array.astype(np.float32)
        side = np.where(array > single, np.inf, -np.inf).astype(np.float32)
        other = np.nextafter(single, side)
        is_tie = (single != array) & ((single.astype(np.float64) + other) / 2 == array)
    for at in np.flatnonzero(is_tie).tolist():
        written, middle = Fraction(repr(float(array[at]))), Fraction(float(array[at]))
        nearer = max if written > middle else min
        if written != middle:
            single[at] = nearer(single[at], other[at])
    return single
