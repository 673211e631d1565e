"""Graphs of ONNX as bytes: what Protocol Buffers need of the format, without the onnx package."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasswood.base.typing import Array

FLOAT, INT64, STRING, BOOL, DOUBLE, UINT8 = 1, 7, 8, 9, 11, 2
ELEMENTS = {"float32": FLOAT, "float64": DOUBLE, "int64": INT64, "bool": BOOL, "uint8": UINT8}
MAIN_VERSION, TREES_VERSION, IR_VERSION = 18, 5, 9
TREES_DOMAIN = "ai.onnx.ml"


def _varint(value: int) -> bytes:
    value %= 2**64
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _bytes(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def tensor(name: str, values: Array) -> bytes:
    """Write a tensor."""
    dims = b"".join(_number(1, size) for size in values.shape)
    if values.dtype.kind in "OU":
        content = b"".join(_bytes(6, str(one)) for one in values.ravel().tolist())
        return dims + _number(2, STRING) + content + _bytes(8, name)
    raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
    return dims + _number(2, ELEMENTS[values.dtype.name]) + _bytes(8, name) + _bytes(9, raw.tobytes())


def _attribute(name: str, value: Any) -> bytes:
    head = _bytes(1, name)
    if isinstance(value, np.ndarray):
        if value.dtype == np.int64 and value.ndim == 1 and not name.endswith(("values", "splits", "weights", "modes")):
            return head + b"".join(_number(8, one) for one in value.tolist()) + _number(20, 7)
        return head + _bytes(5, tensor("", value)) + _number(20, 4)
    if isinstance(value, float):
        return head + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    return head + _number(3, int(value)) + _number(20, 2)


class Graph:
    """A graph under construction: operators in their order, constants by name."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        self._count = 0

    def constant(self, values: Any, dtype: str = "float64") -> str:
        """Add a constant; return its name."""
        name = f"c{len(self._constants)}"
        array = np.asarray(values) if dtype == "text" else np.asarray(values, dtype)
        self._constants[name] = tensor(name, array)
        return name

    def add(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        """Add an operator of one output; return the output's name."""
        self._count += 1
        name = output or f"v{self._count}"
        node = b"".join(_bytes(1, one) for one in inputs) + _bytes(2, name) + _bytes(4, operator)
        node += b"".join(_bytes(5, _attribute(key, value)) for key, value in attributes.items())
        self._nodes.append(node + (_bytes(7, domain) if domain else b""))
        return name

    def model(
        self,
        rows: tuple[str, int, int],
        outputs: Sequence[tuple[str, int, tuple[int, ...]]],
        note: Callable[[bytes], tuple[str, str]],
        said: str = "",
    ) -> bytes:
        """Write the model.

        Parameters
        ----------
        rows : tuple
            The input's name, type and width.
        outputs : sequence of tuple
            Names, types and widths.
        note : function
            Makes metadata, text by a name, of the graph's bytes.
        said : str
            What the model says of its outputs.
        """
        graph = b"".join(_bytes(1, node) for node in self._nodes) + _bytes(2, "glasswood")
        graph += b"".join(_bytes(5, constant) for constant in self._constants.values())
        graph += _bytes(11, _value(rows[0], rows[1], (rows[2],)))
        graph += b"".join(_bytes(12, _value(*output)) for output in outputs)
        opsets = _bytes(8, _bytes(1, "") + _number(2, MAIN_VERSION))
        opsets += _bytes(8, _bytes(1, TREES_DOMAIN) + _number(2, TREES_VERSION))
        name, text = note(graph)
        metadata = _bytes(14, _bytes(1, name) + _bytes(2, text))
        about = _bytes(6, said) if said else b""
        return _number(1, IR_VERSION) + _bytes(2, "glasswood") + about + _bytes(7, graph) + opsets + metadata


def _value(name: str, element: int, widths: tuple[int, ...]) -> bytes:
    """Describe an input or output whose first dimension is the rows."""
    shape = _bytes(1, _bytes(2, "rows")) + b"".join(_bytes(1, _number(1, width)) for width in widths)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, element) + _bytes(2, shape)))
