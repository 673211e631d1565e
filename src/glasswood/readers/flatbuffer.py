"""Tables of a FlatBuffer: what a .cbm file of CatBoost needs of the format, with every offset checked."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.typing import Array

UINT16, INT32, UINT32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")


@dataclass(frozen=True)
class FlatTable:
    """A table; its fields are numbered in the order of the schema.

    Attributes
    ----------
    data : bytes
        The whole buffer.
    position : int
        Where the table starts.
    """

    data: bytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the table that the buffer starts with."""
        return cls(data, _unpack(UINT32, data, 0))

    def integer(self, field: int, kind: str, default: int) -> int:
        """Read an integer or boolean of a struct code (``"i"``, ``"b"``, ``"?"``)."""
        at = self._place(field)
        return default if at is None else int(_unpack(struct.Struct(f"<{kind}"), self.data, at))

    def number(self, field: int, default: float) -> float:
        """Read a double."""
        at = self._place(field)
        return default if at is None else float(_unpack(struct.Struct("<d"), self.data, at))

    def array(self, field: int, dtype: DTypeLike) -> Array:
        """Read a vector of numbers, empty if the field is absent; a view of the buffer."""
        first, length = self._vector(field, np.dtype(dtype).itemsize)
        return np.frombuffer(self.data, dtype, length, first)

    def text(self, field: int) -> str:
        """Read a string, empty if the field is absent."""
        first, length = self._vector(field, 1)
        return self.data[first : first + length].decode()

    def table(self, field: int) -> FlatTable | None:
        """Return a table inside this one."""
        at = self._place(field)
        return None if at is None else FlatTable(self.data, self._follow(at))

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables, empty if the field is absent."""
        first, length = self._vector(field, UINT32.size)
        return [FlatTable(self.data, self._follow(first + UINT32.size * i)) for i in range(length)]

    def _place(self, field: int) -> int | None:
        """Where a field's content or offset stands; None if the field is absent."""
        layout = self.position - _unpack(INT32, self.data, self.position)
        if UINT16.size * (field + 2) >= _unpack(UINT16, self.data, layout):
            return None
        distance = _unpack(UINT16, self.data, layout + UINT16.size * (field + 2))
        return self.position + int(distance) if distance else None

    def _follow(self, at: int) -> int:
        return at + int(_unpack(UINT32, self.data, at))

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Find the first element, and the number of elements of `size` bytes."""
        at = self._place(field)
        if at is None:
            return 0, 0
        start = self._follow(at)
        length = _unpack(UINT32, self.data, start)
        first = start + UINT32.size
        if first + length * size > len(self.data):
            raise ValueError(f"a vector of {length} elements ends beyond the {len(self.data)} bytes of the document")
        return first, length


def _unpack(kind: struct.Struct, data: bytes, at: int) -> Any:
    if not 0 <= at <= len(data) - kind.size:
        raise ValueError(f"an offset leads to byte {at} of {len(data)}")
    return kind.unpack_from(data, at)[0]
