"""The part of Universal Binary JSON that XGBoost writes; arrays of numbers become views of the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_DEPTH = 64
ARRAY_TYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
INTEGER_BYTES = {b"i": 1, b"U": 1, b"I": 2, b"l": 4, b"L": 8}
CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}


MARKERS = b"$#iUIlL"
"""What stands behind the brace of an object, where JSON has a quote, a brace or a space."""


def is_ubjson(data: bytes) -> bool:
    """Tell UBJSON from JSON by the first bytes."""
    return data[:1] == b"{" and data[1:2] != b"" and data[1] in MARKERS


def decode(data: bytes) -> Any:
    """Decode one document.

    Parameters
    ----------
    data : bytes
        Must outlive the result, whose typed arrays are read-only views of it.

    Returns
    -------
    dict, list, numpy.ndarray, str, int, float, bool or None
        Typed arrays are big-endian.

    Raises
    ------
    ValueError
        If the bytes are truncated, nested more than 64 deep or no UBJSON; nothing is allocated for a length that
        exceeds the bytes that are left.

    Notes
    -----
    Not read, because XGBoost does not write them: typed objects, high-precision numbers, no-ops.
    Specification: https://ubjson.org (draft 12).
    """
    decoder = _Decoder(data)
    value = decoder.value(decoder.take(1), 0)
    if decoder.position != len(data):
        raise ValueError(f"{len(data) - decoder.position} bytes follow the document")
    return value


class _Decoder:
    """A position in the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        end = self.position + n_bytes
        if end > len(self.data):
            raise ValueError(f"truncated: {n_bytes} bytes expected at byte {self.position} of {len(self.data)}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def value(self, marker: bytes, depth: int) -> Any:
        """Read the value that a marker announces."""
        if marker == b"[":
            return self.array(depth + 1)
        if marker == b"S":
            return self.text(self.take(1))
        if marker == b"{":
            return self.object(depth + 1)
        if marker in INTEGER_BYTES:
            return self.integer(marker)
        if marker in ARRAY_TYPES:
            return float(self.numbers(marker, 1)[0])
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"C":
            return ord(self.take(1))
        raise ValueError(f"unknown marker {marker!r} at byte {self.position - 1}")

    def integer(self, marker: bytes) -> int:
        """Read an integer of the marker's width."""
        if marker not in INTEGER_BYTES:
            raise ValueError(f"marker {marker!r} at byte {self.position - 1}, expected an integer")
        return int.from_bytes(self.take(INTEGER_BYTES[marker]), "big", signed=marker != b"U")

    def length(self, marker: bytes) -> int:
        """Read a number of things of at least one byte each."""
        n = self.integer(marker)
        if not 0 <= n <= len(self.data) - self.position:
            raise ValueError(f"length {n} at byte {self.position}, {len(self.data) - self.position} bytes are left")
        return n

    def text(self, marker: bytes) -> str:
        """Read a string whose length has the marker's type."""
        return self.take(self.length(marker)).decode()

    def numbers(self, marker: bytes, n: int) -> np.ndarray[Any, Any]:
        """View the next bytes as numbers."""
        dtype = np.dtype(ARRAY_TYPES[marker])
        start = self.position
        if n * dtype.itemsize > len(self.data) - start:
            raise ValueError(f"truncated: {n} numbers of {dtype.itemsize} bytes at byte {start} of {len(self.data)}")
        self.position = start + n * dtype.itemsize
        return np.frombuffer(self.data, dtype, n, start)

    def array(self, depth: int) -> Any:
        """Read an array, typed, counted or closed by a bracket."""
        self.check(depth)
        marker = self.take(1)
        if marker == b"$":
            return self.typed_array()
        if marker == b"#":
            n = self.length(self.take(1))
            return [self.value(self.take(1), depth) for _ in range(n)]
        values = []
        while marker != b"]":
            values.append(self.value(marker, depth))
            marker = self.take(1)
        return values

    def typed_array(self) -> np.ndarray[Any, Any]:
        """Read an array of numbers of one type."""
        marker, hash_mark = self.take(1), self.take(1)
        if marker not in ARRAY_TYPES or hash_mark != b"#":
            raise ValueError(
                f"typed array {marker + hash_mark!r} at byte {self.position}, expected a number type and #"
            )
        return self.numbers(marker, self.length(self.take(1)))

    def object(self, depth: int) -> dict[str, Any]:
        """Read an object closed by a brace."""
        self.check(depth)
        result: dict[str, Any] = {}
        marker = self.take(1)
        while marker != b"}":
            key = self.text(marker)
            if key in result:
                raise ValueError(f"key {key!r} occurs twice in an object that ends after byte {self.position}")
            result[key] = self.value(self.take(1), depth)
            marker = self.take(1)
        return result

    def check(self, depth: int) -> None:
        """Refuse what would exhaust the stack."""
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep at byte {self.position}")
