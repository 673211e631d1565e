"""Messages of Protocol Buffers: what an .onnx file needs of the format, with every length checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Doubles, Int64s

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
MOST_VARINT_BYTES = 10
FEW = 8
"""Numbers of a field that are read one by one, before it is worth while to look for more of them at once."""
SMALLEST_WINDOW = 256


class Message:
    """The fields of a message by their numbers.

    Parameters
    ----------
    data : bytes

    Raises
    ------
    ValueError
        If a field ends beyond the message, or is of a kind that the format no longer has.
    """

    def __init__(self, data: bytes) -> None:
        self._numbers: dict[int, list[Int64s | list[int]]] = {}
        self._words: dict[int, list[Array]] = {}
        self._bytes: dict[int, list[bytes]] = {}
        at = 0
        while at < len(data):
            key, after = _varint(data, at)
            field, kind = key >> 3, key & 7
            if kind == VARINT:
                values, at = _varints_from(data, at, after)
                self._numbers.setdefault(field, []).append(values)
            elif kind == BYTES:
                length, after = _varint(data, after)
                at = _end(data, after, length)
                self._bytes.setdefault(field, []).append(data[after:at])
            elif kind in {FOUR_BYTES, EIGHT_BYTES}:
                words, at = _words_from(data, at, after, 4 if kind == FOUR_BYTES else 8)
                self._words.setdefault(field, []).append(words)
            else:
                raise ValueError(f"byte {at} starts a field of the unknown kind {kind}")

    def integers(self, field: int) -> Int64s:
        """All integers of a field, packed or one by one."""
        packed = [_decode_varints(part) for part in self._bytes.get(field, ())]
        return np.concatenate([*self._numbers.get(field, ()), *packed, np.zeros(0, np.int64)])

    def integer(self, field: int, default: int) -> int:
        """Read the last integer of a field."""
        values = self.integers(field)
        return int(values[-1]) if len(values) else default

    def floats(self, field: int) -> NDArray[np.float32]:
        """All float32 of a field, packed or one by one."""
        return self._numbers_of(field, np.dtype("<f4")).astype(np.float32)

    def doubles(self, field: int) -> Doubles:
        """All float64 of a field, packed or one by one."""
        return self._numbers_of(field, np.dtype("<f8")).astype(np.float64)

    def parts(self, field: int) -> list[bytes]:
        """List all strings of bytes of a field."""
        return self._bytes.get(field, [])

    def text(self, field: int) -> str:
        """Read the last string of a field, empty if there is none."""
        parts = self.parts(field)
        return decode_text(parts[-1]) if parts else ""

    def texts(self, field: int) -> list[str]:
        """List all strings of a field."""
        return [decode_text(part) for part in self.parts(field)]

    def message(self, field: int) -> Message | None:
        """Read the last message of a field."""
        parts = self.parts(field)
        return Message(parts[-1]) if parts else None

    def messages(self, field: int) -> list[Message]:
        """List all messages of a field."""
        return [Message(part) for part in self.parts(field)]

    def _numbers_of(self, field: int, dtype: np.dtype[np.float32] | np.dtype[np.float64]) -> Array:
        parts = [words.view(dtype).ravel() for words in self._words.get(field, ()) if words.shape[1] == dtype.itemsize]
        for packed in self._bytes.get(field, ()):
            if len(packed) % dtype.itemsize:
                raise ValueError(f"a list of numbers has {len(packed)} bytes, expected a multiple of {dtype.itemsize}")
            parts.append(np.frombuffer(packed, dtype))
        return np.concatenate([*parts, np.zeros(0, dtype)])


def decode_text(data: bytes) -> str:
    """Decode a string.

    Raises
    ------
    ValueError
        If it is not valid UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"a string is not valid UTF-8: {error}") from error


def _end(data: bytes, start: int, length: int) -> int:
    if length > len(data) - start:
        raise ValueError(f"a field of {length} bytes ends beyond its message")
    return start + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number, and where it ends."""
    if at < len(data) and data[at] < 128:  # as most do
        return data[at], at + 1
    value = 0
    for i, byte in enumerate(data[at : at + MOST_VARINT_BYTES]):
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value & (2**64 - 1), at + i + 1
    raise ValueError(f"the number at byte {at} does not end")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _decode_varints(data: bytes) -> Int64s:
    """Read numbers that stand behind each other."""
    if data and data[-1] >= 128:
        raise ValueError("a list of numbers does not end")
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes < 128)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    if lengths.max(initial=0) > MOST_VARINT_BYTES:
        raise ValueError("a list of numbers holds a number that does not end")
    values = np.zeros(len(ends), np.uint64)
    for i in range(int(lengths.max(initial=0))):
        has = lengths > i
        values[has] |= (codes[starts[has] + i] & 127).astype(np.uint64) << np.uint64(7 * i)
    return values.view(np.int64)


def _varints_from(data: bytes, at: int, after: int) -> tuple[Int64s | list[int], int]:
    """Read the number behind the tag at `at`, and those behind it that have the same tag; where they end."""
    tag = data[at:after]
    values: list[int] = []
    while data.startswith(tag, at):
        if len(values) == FEW and len(tag) == 1:
            more, at = _run_of_varints(data, at)
            return np.concatenate([values, more]), at
        value, at = _varint(data, at + len(tag))
        values.append(_signed(value))
    return values, at


def _run_of_varints(data: bytes, at: int) -> tuple[Int64s, int]:
    """Read tag and number alternately, as long as the tag is the first one."""
    for n_bytes in _windows(len(data) - at):
        codes = np.frombuffer(data, np.uint8, n_bytes, at)
        ends = np.flatnonzero(codes < 128)
        n = len(ends) // 2
        numbers_end = ends[1 : 2 * n : 2] + 1
        tag_at = np.concatenate([[0], numbers_end])[:n]
        same = (codes[tag_at] == codes[0]) & (ends[: 2 * n : 2] == tag_at)
        if not same.all():
            break
    count = n if same.all() else int(np.argmin(same))
    stop = int(numbers_end[count - 1])
    pairs = _decode_varints(data[at : at + stop])
    return pairs[1::2], at + stop


def _windows(most: int) -> Iterator[int]:
    """Yield sizes that grow up to the largest: a look ahead then costs what is found, not what is left of the data."""
    size = SMALLEST_WINDOW
    while size < most:
        yield size
        size *= 4
    yield most


def _words_from(data: bytes, at: int, after: int, size: int) -> tuple[Array, int]:
    """Read the number of fixed size behind the tag at `at`, and those that follow with the same tag."""
    tag, stride = data[at:after], after - at + size
    end = at
    while data.startswith(tag, end) and end < at + FEW * stride:
        end = _end(data, end + len(tag), size)
    if end == at + FEW * stride:
        end += _run_of_words(data, end, tag, stride)
    block = np.frombuffer(data, np.uint8, end - at, at).reshape(-1, stride)
    return np.ascontiguousarray(block[:, len(tag) :]), end


def _run_of_words(data: bytes, at: int, tag: bytes, stride: int) -> int:
    """Count the bytes of the numbers from `at` that have the tag."""
    n_same = 0
    for n_bytes in _windows(len(data) - at):
        n = n_bytes // stride
        block = np.frombuffer(data, np.uint8, n * stride, at).reshape(n, stride)
        same = (block[:, : len(tag)] == np.frombuffer(tag, np.uint8)).all(axis=1)
        n_same = n if same.all() else int(np.argmin(same))
        if n_same < n:
            break
    return n_same * stride
