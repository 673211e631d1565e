"""One row at a time: everything but the walk is done beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.device import find_gpus, parse_device
from silva.evaluate.links import is_margin, respond
from silva.inputs import as_rows
from silva.inputs.arrays import checked_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.evaluate.evaluator import Evaluator
    from silva.typing import Array, Choice, Floats

    Arguments = tuple[Evaluator, str, str, str]


def make_predictor(evaluator: Evaluator, output: str, algorithm: str, device: str) -> Callable[[Floats], Any]:
    """`Forest.predictor`."""
    evaluator.check(output, algorithm, device)
    forest, arguments = evaluator.forest, (evaluator, output, algorithm, device)
    if parse_device(device)[0] not in {"cpu", "auto"}:
        return _make_on_gpu(arguments, find_gpus(device), evaluator.choose(algorithm, 1, "cuda"))
    choice = evaluator.choose(algorithm, 1, "cpu")
    if forest.has_linear_leaves or forest.categories is not None:
        return OutputPredictor(arguments, _PlainRow(evaluator, output, choice))
    is_final = is_margin(forest, output) or (output == "leaf" and not forest.leaf_shape)
    result = "leaf" if output == "leaf" else forest.result_dtype if is_final else "float64"
    plan = evaluator.cpu.plan_of(choice)
    reduced = (make_predictor, arguments)
    row = _core.RowPredictor(plan, result, forest.missing, choice.algorithm == "serial", reduced)
    return row if is_final else OutputPredictor(arguments, row)


def _make_on_gpu(arguments: Arguments, gpus: tuple[int, ...], choice: Choice) -> Callable[[Floats], Any]:
    evaluator, output = arguments[:2]
    forest, is_final = evaluator.forest, is_margin(evaluator.forest, output)
    if choice.algorithm == "by_sample" and output != "leaf" and forest.categories is None:
        reduced = (make_predictor, arguments)
        row = evaluator.cuda.predictor(gpus[0], forest.result_dtype if is_final else "float64", reduced)
        if row is not None:
            return row if is_final else OutputPredictor(arguments, row)
    return OutputPredictor(arguments, _GpuRow(evaluator, output, gpus, choice))


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
        result = respond(forest, raw[None, :], self._output)
        if isinstance(result, list):
            return [one[0] for one in result]
        return result[0] if result.ndim > 1 else result[0].item()

    def __reduce__(self) -> tuple[object, ...]:
        return make_predictor, self._arguments


class _PlainRow:
    """Rows that need more than the compiled walk: tables of categories, linear leaves."""

    def __init__(self, evaluator: Evaluator, output: str, choice: Choice) -> None:
        self._evaluator, self._output, self._choice = evaluator, output, choice

    def __call__(self, row: Floats) -> Array:
        cpu, forest = self._evaluator.cpu, self._evaluator.forest
        rows = as_rows(checked_row(row, forest.n_features), forest)
        return (cpu.leaves if self._output == "leaf" else cpu.margins)(rows, self._choice, 1).reshape(-1)


class _GpuRow:
    """A row on its way to a GPU and back."""

    def __init__(self, evaluator: Evaluator, output: str, gpus: tuple[int, ...], choice: Choice) -> None:
        self._evaluator, self._output, self._gpus, self._choice = evaluator, output, gpus, choice

    def __call__(self, row: Floats) -> Array:
        cuda, rows = self._evaluator.cuda, checked_row(row, self._evaluator.forest.n_features)
        run = cuda.leaves if self._output == "leaf" else cuda.margins
        result: Array = run(rows, self._gpus, self._choice)[0]
        return result
