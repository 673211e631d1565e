"""Universal Binary JSON as XGBoost writes it, from what `json.loads` returns."""

from __future__ import annotations

import struct

import numpy as np

TYPED = {b"U": ">u1", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}


def encode(value):
    """Bytes of a document; lists of numbers are typed arrays of 32 bits where these hold them."""
    if isinstance(value, dict):
        return b"{" + b"".join(_length(key) + encode(entry) for key, entry in value.items()) + b"}"
    if isinstance(value, list):
        return _array(value)
    if isinstance(value, str):
        return b"S" + _length(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int):
        return b"L" + struct.pack(">q", max(min(value, 2**63 - 1), -(2**63)))
    return b"D" + struct.pack(">d", value)


def _length(text):
    data = text.encode(errors="replace")
    return b"L" + struct.pack(">q", len(data)) + data


def _array(values):
    kind = _kind(values)
    if kind is None:
        return b"[" + b"".join(map(encode, values)) + b"]"
    return b"[$" + kind + b"#L" + struct.pack(">q", len(values)) + np.array(values, TYPED[kind]).tobytes()


def _kind(values):
    types = {type(value) for value in values}
    if not types or not types <= {int, float}:
        return None
    if types == {int}:
        return b"l" if all(-(2**31) <= value < 2**31 for value in values) else None
    return b"d" if all(abs(value) < 3.4e38 or value != value for value in values) else b"D"
