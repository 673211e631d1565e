"""The `.silva` file format: versioned, little-endian, memory-mapped.

Layout: 8 bytes magic, uint32 format version, uint32 length of the header, the header (JSON, UTF-8), zeros up to a
multiple of 64, then the arrays, each at a multiple of 64. The header lists for each array its name, dtype, shape and
offset from the first array, and the scalar fields of Forest. A reader of version v refuses files of a later version.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from silva.files import replacing
from silva.forest import Forest

MAGIC = b"\x93SILVA\r\n"
VERSION = 1
ALIGNMENT = 64
MAX_HEADER = 2**28
PREFIX = struct.Struct("<8sII")


def save_forest(forest: Forest, path: str | os.PathLike[str]) -> None:
    """Write a forest to `path`, complete or not at all."""
    scalars, arrays = _split_fields(forest)
    entries, offset = [], 0
    for name, array in arrays.items():
        entries.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": offset})
        offset += _padded(array.nbytes)
    header = json.dumps({"fields": scalars, "arrays": entries, "size": offset}).encode()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(PREFIX.pack(MAGIC, VERSION, len(header)))
        file.write(header)
        _pad(file)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())
            _pad(file)


def load_forest(path: str | os.PathLike[str]) -> Forest:
    """Map the arrays of a `.silva` file; they stay on disk until a page of them is read.

    Raises
    ------
    ValueError
        If the file is no `.silva` file, of a later version, truncated or corrupt.
    """
    path = Path(path)
    header, start = _read_header(path)
    try:
        buffer = np.memmap(path, np.uint8, "r")
        if len(buffer) - start < header["size"]:
            raise ValueError(f"{len(buffer) - start} of {header['size']} bytes of arrays")
        arrays = {entry["name"]: _array(buffer[start:], entry) for entry in header["arrays"]}
        return Forest(**_join_fields(header["fields"], arrays))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is truncated or corrupt: {error}; save the forest again") from error


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def _pad(file: BinaryIO) -> None:
    file.write(b"\0" * (-file.tell() % ALIGNMENT))


def _little_endian(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _split_fields(forest: Forest) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """JSON-able fields, and arrays by name; tuples of arrays become `name.0`, `name.1`."""
    scalars: dict[str, Any] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for field in dataclasses.fields(forest):
        value = getattr(forest, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = _little_endian(value)
        elif field.name in {"classes", "categories"} and value is not None:
            scalars[field.name] = [_labels_to_json(labels) for labels in value]
        elif isinstance(value, float):
            scalars[field.name] = value.hex()
        else:
            scalars[field.name] = list(value) if isinstance(value, tuple) else value
    return scalars, arrays


def _join_fields(scalars: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = dict(arrays)
    for field in dataclasses.fields(Forest):
        if field.name in arrays or field.name not in scalars:
            continue
        value = scalars[field.name]
        if field.name in {"classes", "categories"} and value is not None:
            value = tuple(_labels_from_json(labels) for labels in value)
        elif field.type == "float":
            value = float.fromhex(value)
        elif isinstance(value, list):
            value = tuple(value)
        values[field.name] = value
    unknown = set(values) - {field.name for field in dataclasses.fields(Forest)}
    if unknown:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    return values


def _labels_to_json(labels: np.ndarray[Any, Any] | None) -> Any:
    """Class labels and categories are short: numbers, booleans or strings as JSON beside their dtype."""
    if labels is None:
        return None
    return {"dtype": "object" if labels.dtype == object else labels.dtype.str, "values": labels.tolist()}


def _labels_from_json(entry: Any) -> np.ndarray[Any, Any] | None:
    if entry is None:
        return None
    return np.array(entry["values"], dtype=np.dtype(entry["dtype"]))


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    with open(path, "rb") as file:
        prefix = file.read(PREFIX.size)
        if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
            raise ValueError(f"{path} is no .silva file: it starts with {prefix[:8]!r}")
        _, version, length = PREFIX.unpack(prefix)
        if version > VERSION:
            raise ValueError(f"{path} has format version {version}, this silva reads up to {VERSION}; upgrade silva")
        text = file.read(length) if length <= MAX_HEADER else b""
    if len(text) < length:
        raise ValueError(f"{path} is truncated or corrupt: its header is incomplete; save the forest again")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is truncated or corrupt: {error}; save the forest again") from error
    if not isinstance(header, dict):
        raise ValueError(f"{path} is truncated or corrupt: its header is no object; save the forest again")
    return header, _padded(PREFIX.size + length)


def _array(buffer: np.ndarray[Any, Any], entry: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype, shape, offset = np.dtype(entry["dtype"]), tuple(entry["shape"]), entry["offset"]
    if dtype.kind not in "biuf" or any(not isinstance(n, int) or n < 0 for n in (*shape, offset)):
        raise ValueError(f"array {entry['name']!r} has dtype {dtype}, shape {shape} and offset {offset}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if offset % ALIGNMENT or offset + n_bytes > len(buffer):
        raise ValueError(f"array {entry['name']!r} lies outside the file")
    array = buffer[offset : offset + n_bytes].view(dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)
