"""One row at a time: everything but the walk is done beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood import _core
from glasswood.base.typing import Array, Choice, Floats
from glasswood.evaluate.links import is_margin, respond
from glasswood.inputs.categories import arrays_hold_values
from glasswood.inputs.encoder import NamedRow, ValueRow
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.evaluate.evaluator import Evaluator

    Arguments = tuple[Evaluator, str, str]


def make_predictor(
    evaluator: Evaluator, output: str, algorithm: str, names: bool = False, strict: bool = False
) -> Callable[[Any], Any]:
    """`Forest.predictor`."""
    if strict and not names:
        raise ValueError("strict=True refuses values that are no categories of the model; it needs names=True")
    evaluator.check(output, algorithm, "cpu")
    arguments = (evaluator, output, algorithm)
    row = _of_codes(arguments)
    if names:
        return NamedRow(evaluator.forest, row, (make_predictor, (*arguments, True, strict)), strict)
    if arrays_hold_values(evaluator.forest):
        return ValueRow(evaluator.forest, row, (make_predictor, arguments))
    return row


def _of_codes(arguments: Arguments) -> Callable[[Floats], Any]:
    """Predict rows whose categories are codes."""
    evaluator, output, algorithm = arguments
    row = _compiled_row(arguments, output, evaluator.choose(algorithm, 1, "cpu", lasts=True))
    return row if _is_final(evaluator.forest, output) else OutputPredictor(arguments, row)


def _is_final(forest: TreeEnsemble, output: str) -> bool:
    """Whether nothing is left to do after the walk."""
    return is_margin(forest, output) or (output == "leaf" and not forest.leaf_shape)


def _compiled_row(arguments: Arguments, output: str, choice: Choice) -> _core.RowPredictor:
    evaluator, forest = arguments[0], arguments[0].forest
    result = "leaf" if output == "leaf" else forest.result_dtype if _is_final(forest, output) else "float64"
    plan, is_serial = evaluator.cpu.plan_of(choice), choice.algorithm == "serial"
    return _core.RowPredictor(plan, result, forest.missing, is_serial, (make_predictor, arguments))


class OutputPredictor:
    """A row's margins or leaves, and the output made of them."""

    def __init__(self, arguments: Arguments, raw: Callable[[Floats], Any]) -> None:
        self._arguments = arguments
        self._forest, self._output = arguments[0].forest, arguments[1]
        self._raw = raw

    def __call__(self, row: Floats) -> Any:
        """Predict a row."""
        forest, raw = self._forest, np.atleast_1d(self._raw(row))
        if self._output == "leaf":
            return raw.reshape(forest.leaf_shape or -1)
        return _first(respond(forest, raw[None, :], self._output))

    def __reduce__(self) -> tuple[object, ...]:
        return make_predictor, self._arguments


def _first(result: Array | list[Array]) -> Any:
    """Drop the axis of rows of one row's output."""
    if isinstance(result, list):
        return [one[0] for one in result]
    return result[0] if result.ndim > 1 else result.tolist()[0]
