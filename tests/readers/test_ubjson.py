"""The decoder of UBJSON, against the draft 12 specification and hostile bytes."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from glasswood.readers.ubjson import MAX_DEPTH, decode


def length(n: int) -> bytes:
    return b"L" + struct.pack(">q", n)


def key(name: str) -> bytes:
    return length(len(name.encode())) + name.encode()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"Z", None),
        (b"T", True),
        (b"F", False),
        (b"i\xff", -1),
        (b"U\xff", 255),
        (b"I\x80\x00", -32768),
        (b"l" + struct.pack(">i", -(2**31)), -(2**31)),
        (b"L" + struct.pack(">q", 2**62), 2**62),
        (b"d" + struct.pack(">f", 0.5), 0.5),
        (b"D" + struct.pack(">d", -1e-300), -1e-300),
        (b"Ca", 97),
        (b"Si\x03abc", "abc"),
        (b"S" + key("é"), "é"),
        (b"[]", []),
        (b"[i\x01TZ]", [1, True, None]),
        (b"[#i\x02i\x01[]", [1, []]),
        (b"{}", {}),
        (b"{" + key("a") + b"i\x01" + b"i\x01b" + b"{}}", {"a": 1, "b": {}}),
    ],
)
def test_values(data, value):
    assert decode(data) == value


@pytest.mark.parametrize("marker", ["i", "U", "I", "l", "L", "d", "D"])
def test_typed_arrays_are_read_only_views(marker):
    dtype = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}[marker]
    values = np.array([1, 2, 100], dtype)
    data = b"[$" + marker.encode() + b"#" + length(3) + values.tobytes()
    result = decode(data)
    np.testing.assert_array_equal(result, values)
    assert result.dtype == dtype
    assert not result.flags.writeable
    assert np.shares_memory(result, np.frombuffer(data, np.uint8))
    assert len(decode(data[:4] + length(0))) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated: 1 bytes expected at byte 0 of 0"),
        (b"l\x00\x00", "truncated: 4 bytes"),
        (b"S" + length(5) + b"abc", "length 5 at byte 10, 3 bytes are left"),
        (b"S" + length(-1), "length -1"),
        (b"Sd\x00\x00\x00\x00", "expected an integer"),
        (b"Si\x02\xff\xfe", "decode"),
        (b"[#" + length(10**9), "length 1000000000 at byte 11, 0 bytes are left"),
        (b"[$d#" + length(2) + b"\0" * 7, "truncated: 2 numbers of 4 bytes"),
        (b"[$d#" + length(10**18) + b"\0" * 7, "length 1000000000000000000"),
        (b"[$Z#" + length(2**40), "typed array b'Z#'"),
        (b"[$d" + length(2), "typed array b'dL'"),
        (b"[i\x01", "truncated"),
        (b"{" + key("a") + b"i\x01", "truncated"),
        (b"{" + key("a") + b"i\x01" + key("a") + b"i\x01}", "'a' occurs twice"),
        (b"{S" + key("a") + b"i\x01}", "expected an integer"),
        (b"N", "unknown marker b'N' at byte 0"),
        (b"H", "unknown marker b'H'"),
        (b"ZZ", "1 bytes follow the document"),
    ],
)
def test_corrupt(data, message):
    with pytest.raises(ValueError, match=message.replace("(", "\\(")):
        decode(data)


@pytest.mark.parametrize("opening", [b"[", b"{" + key("a"), b"[#" + b"i\x01"])
def test_deep_nesting_is_refused(opening):
    with pytest.raises(ValueError, match=f"nested more than {MAX_DEPTH} deep"):
        decode(opening * 100_000)


def test_nesting_to_the_limit_is_read():
    value = decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


def test_random_bytes_raise_nothing_but_value_errors():
    source = random.Random(0)
    markers = b"ZTFiUIlLdDCS[]{}#$\x00\x01\x02\xff"
    refused = 0
    for _ in range(5000):
        data = bytes(source.choice(markers) for _ in range(source.randrange(1, 40)))
        try:
            decode(data)
        except ValueError:
            refused += 1
    assert refused > 4000
