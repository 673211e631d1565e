"""The graph of an ONNX model: the operator that holds the trees, its attributes, and what stands around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.model.onnx_note import NAME, fields_of
from glasswood.readers.protobuf import Message

REGRESSOR, CLASSIFIER, ENSEMBLE = "TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"
TREES = (REGRESSOR, CLASSIFIER, ENSEMBLE)
BEFORE = ("Cast", "Identity")
BEHIND = ("Cast", "Identity", "ZipMap", "Reshape", "Flatten", "Squeeze", "Exp", "Sigmoid", "Softmax")
RESPONSES = ("Exp", "Sigmoid", "Softmax")
FLOAT, DOUBLE, INT64, INT32 = 1, 11, 7, 6
TYPES = {FLOAT: "float32", DOUBLE: "float64", INT64: "int64", INT32: "int32"}
TENSORS: dict[int, tuple[str, int]] = {
    1: ("<f4", 4),
    11: ("<f8", 10),
    2: ("|u1", 5),
    3: ("|i1", 5),
    6: ("<i4", 5),
    7: ("<i8", 7),
}
"""By type of the elements: dtype, and the field that holds them where they are not raw bytes."""

MOST_FEATURES = 2**24
TREES_DOMAIN, NEWEST = "ai.onnx.ml", 5


class Model:
    """Field numbers of the messages."""

    GRAPH, OPSETS, VERSION, METADATA, KEY, VALUE = 7, 8, 2, 14, 1, 2
    NODE, INPUT = 1, 11
    NODE_INPUT, NODE_OUTPUT, OPERATOR, ATTRIBUTE, DOMAIN = 1, 2, 4, 5, 7
    NAME, TYPE, TENSOR_TYPE, ELEMENT, SHAPE, DIMENSION, SIZE = 1, 2, 1, 1, 2, 1, 1
    FLOAT, INTEGER, TEXT, TENSOR, FLOATS, INTEGERS, TEXTS = 2, 3, 4, 5, 7, 8, 9
    DIMENSIONS, DATA_TYPE, RAW = 1, 2, 9


@dataclass(frozen=True, eq=False)
class Operator:
    """A node of the graph."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    message: Message


class Graph:
    """A graph with one operator of trees.

    Attributes
    ----------
    operator : str
        One of TREES.
    row_type : str
        dtype of the rows that the operator gets.
    behind : tuple of str
        Operators that change the values behind it.
    own : dict or None
        Fields of TreeEnsemble that glasswood noted when it wrote the model: they say what the operators around the
        trees do.
    """

    row_type: str

    def __init__(
        self, operators: list[Operator], inputs: dict[str, tuple[int, int]], own: dict[str, Any] | None = None
    ) -> None:
        self.own = own
        trees = [one for one in operators if one.kind in TREES]
        if len(trees) != 1:
            kinds = ", ".join(sorted({one.kind for one in operators})) or "none"
            raise NotImplementedError(
                f"the graph holds {len(trees)} operators of trees (its operators: {kinds}); graphs of one are read"
            )
        self._trees = trees[0]
        self.operator: str = self._trees.kind
        self._attributes = {
            attribute.text(Model.NAME): attribute for attribute in self._trees.message.messages(Model.ATTRIBUTE)
        }
        if own is not None:
            self.row_type, self._width = _typed(*next(iter(inputs.values()), (0, 0)))
            self.behind: tuple[str, ...] = ()
            return
        self.row_type, self._width = _input(self._trees, operators, inputs)
        self.behind = _behind(self._trees, operators, inputs)

    def n_features(self, used: Array) -> int:
        """Width of the graph's input; without one, the features that are used."""
        least = int(used.max(initial=-1)) + 1
        if self._width and least > self._width:
            raise ValueError(f"a node tests feature {least - 1}, the input has {self._width}")
        if (result := self._width or max(least, 1)) > MOST_FEATURES:
            raise ValueError(f"it declares {result} features")
        return result

    def integers(self, name: str) -> Array:
        """Read an attribute of integers, empty if it is absent."""
        attribute = self._attributes.get(name)
        return np.zeros(0, np.int64) if attribute is None else attribute.integers(Model.INTEGERS)

    def integer(self, name: str, default: int) -> int:
        """Read an attribute that is an integer."""
        attribute = self._attributes.get(name)
        return default if attribute is None else attribute.integer(Model.INTEGER, default)

    def text(self, name: str, default: str) -> str:
        """Read an attribute that is a string."""
        attribute = self._attributes.get(name)
        return default if attribute is None else attribute.text(Model.TEXT)

    def texts(self, name: str) -> list[str]:
        """Read an attribute of strings."""
        attribute = self._attributes.get(name)
        return [] if attribute is None else attribute.texts(Model.TEXTS)

    def numbers(self, name: str) -> Array:
        """Read an attribute of floats, or its twin that is a tensor: float32 or float64."""
        for key in (f"{name}_as_tensor", name):
            attribute = self._attributes.get(key)
            if attribute is None:
                continue
            tensor = attribute.message(Model.TENSOR)
            values = attribute.floats(Model.FLOATS) if tensor is None else _tensor(tensor, key)
            if len(values):
                with np.errstate(invalid="ignore"):  # signalling NaNs become quiet ones, whose casts warn of nothing
                    return values * values.dtype.type(1)
        return np.zeros(0, np.float32)


def parse(data: bytes) -> Graph:
    """Read the bytes of an ``.onnx`` file.

    Raises
    ------
    ValueError
        If they are truncated or no model.
    NotImplementedError
        If the graph is more than trees.
    """
    model = Message(data)
    graph = model.message(Model.GRAPH)
    if graph is None:
        raise ValueError("it holds no graph")
    operators = [
        Operator(
            node.text(Model.OPERATOR),
            tuple(node.texts(Model.NODE_INPUT)),
            tuple(node.texts(Model.NODE_OUTPUT)),
            node,
        )
        for node in graph.messages(Model.NODE)
    ]
    own = None
    for entry in model.messages(Model.METADATA):
        if entry.text(Model.KEY) == NAME:
            own = fields_of(entry.text(Model.VALUE), model.parts(Model.GRAPH)[-1])
    result = Graph(operators, dict(_declared(value) for value in graph.messages(Model.INPUT)), own)
    _check_version(model)
    return result


def _check_version(model: Message) -> None:
    """Refuse versions of the trees' operators that nobody has read, and models that end before they name one."""
    versions = [
        opset.integer(Model.VERSION, 0)
        for opset in model.messages(Model.OPSETS)
        if opset.text(Model.NAME) == TREES_DOMAIN
    ]
    if not versions:
        raise ValueError(f"it names no version of {TREES_DOMAIN}: it is truncated")
    if not 1 <= max(versions) <= NEWEST:
        raise NotImplementedError(f"version {max(versions)} of {TREES_DOMAIN} is not read, 1 to {NEWEST} are")


def _declared(value: Message) -> tuple[str, tuple[int, int]]:
    """Name, type of the elements and width of an input; 0 where they are not declared."""
    kind = value.message(Model.TYPE)
    tensor = kind and kind.message(Model.TENSOR_TYPE)
    if not tensor:
        return value.text(Model.NAME), (0, 0)
    shape = tensor.message(Model.SHAPE)
    sizes = [one.integer(Model.SIZE, 0) for one in shape.messages(Model.DIMENSION)] if shape else []
    width = sizes[1] if len(sizes) == 2 else 0
    return value.text(Model.NAME), (tensor.integer(Model.ELEMENT, 0), max(width, 0))


def _input(trees: Operator, operators: list[Operator], inputs: dict[str, tuple[int, int]]) -> tuple[str, int]:
    """Type of the trees' rows, and the width of the graph's input."""
    made = {name: one for one in operators for name in one.outputs}
    name, kind = (*trees.inputs, "")[0], 0
    for _ in range(len(operators)):
        if name in inputs:
            break
        before = made.get(name)
        if before is None or before.kind not in BEFORE:
            what = "nothing" if before is None else before.kind
            raise NotImplementedError(f"the trees' rows come from {what}, expected the graph's own input")
        kind = kind or (_attribute(before, "to") if before.kind == "Cast" else 0)
        name = (*before.inputs, "")[0]
    if name not in inputs:
        raise ValueError("the trees have no input")
    element, width = inputs[name]
    if kind and kind != element:
        raise NotImplementedError(
            "rows are cast to another type before they reach the trees; declare the input as that"
        )
    return _typed(element, width)


def _typed(element: int, width: int) -> tuple[str, int]:
    if element not in TYPES:
        raise NotImplementedError(f"the input's elements have type {element}, expected floats, doubles or integers")
    return TYPES[element], width


def _behind(trees: Operator, operators: list[Operator], inputs: dict[str, tuple[int, int]]) -> tuple[str, ...]:
    """Operators behind the trees that change the values."""
    known, found = set(trees.outputs), []
    before = set(inputs)
    for one in operators:
        if one is trees:
            continue
        if one.inputs[:1] and one.inputs[0] in known:
            if one.kind not in BEHIND:
                raise NotImplementedError(f"the graph has the operator {one.kind} behind the trees, which is not read")
            known |= set(one.outputs)
            found += [one.kind] if one.kind in RESPONSES else []
        elif one.kind in BEFORE and one.inputs[:1] and one.inputs[0] in before:
            before |= set(one.outputs)
        elif one.kind != "Constant":
            raise NotImplementedError(f"the graph has the operator {one.kind} beside the trees, which is not read")
    return tuple(found)


def _attribute(operator: Operator, name: str) -> int:
    for attribute in operator.message.messages(Model.ATTRIBUTE):
        if attribute.text(Model.NAME) == name:
            return attribute.integer(Model.INTEGER, 0)
    return 0


def _tensor(tensor: Message, name: str) -> Array:
    """Read the numbers of a tensor as one array."""
    kind = tensor.integer(Model.DATA_TYPE, 0)
    if kind not in TENSORS:
        raise NotImplementedError(f"{name!r} holds elements of type {kind}, which are not read")
    dtype, field = TENSORS[kind]
    values: Any
    if raw := tensor.parts(Model.RAW):
        if len(raw[-1]) % np.dtype(dtype).itemsize:
            raise ValueError(f"{name!r} has {len(raw[-1])} bytes, not a whole number of elements")
        values = np.frombuffer(raw[-1], dtype)
    elif kind in {FLOAT, DOUBLE}:
        values = tensor.floats(field) if kind == FLOAT else tensor.doubles(field)
    else:
        values = tensor.integers(field)
    result: Array = values.astype(np.dtype(dtype).newbyteorder("="))
    return result
