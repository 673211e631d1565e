"""One row at a time: everything but the walk is done beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva import _core
from silva.device import find_gpus, parse_device
from silva.evaluate import check_arguments, choose, cpu, linear, respond
from silva.evaluate.links import predicts_margins
from silva.inputs import as_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from silva.choice import Choice
    from silva.forest import Forest


def make_predictor(forest: Forest, output: str, algorithm: str, device: str) -> Callable[[NDArray[Any]], Any]:
    """`Forest.predictor`."""
    check_arguments(forest, output, algorithm, device)
    arguments = (forest, output, algorithm, device)
    if parse_device(device)[0] not in {"cpu", "auto"}:
        return _make_on_gpu(arguments, find_gpus(device), choose(forest, algorithm, 1, "cuda"))
    choice = choose(forest, algorithm, 1, "cpu")
    if forest.has_linear_leaves or forest.categories is not None:
        return OutputPredictor(arguments, _PlainRow(forest, output, choice))
    is_final = _is_margin(forest, output) or (output == "leaf" and not forest.leaf_shape)
    result = "leaf" if output == "leaf" else forest.result_dtype if is_final else "float64"
    plan = cpu.plan_of(forest, choice)
    reduced = (make_predictor, arguments)
    core = _core.RowPredictor(plan, result, forest.missing, choice.algorithm == "serial", reduced)
    return core if is_final else OutputPredictor(arguments, core)


def _make_on_gpu(arguments: tuple[Any, ...], gpus: tuple[int, ...], choice: Choice) -> Callable[[NDArray[Any]], Any]:
    forest, output = arguments[:2]
    is_final = _is_margin(forest, output)
    if choice.algorithm == "by_sample" and output != "leaf" and forest.categories is None:
        reduced = (make_predictor, arguments)
        row = forest.cuda_evaluator.predictor(gpus[0], forest.result_dtype if is_final else "float64", reduced)
        if row is not None:
            return row if is_final else OutputPredictor(arguments, row)
    return OutputPredictor(arguments, _GpuRow(forest, output, gpus, choice))


def _is_margin(forest: Forest, output: str) -> bool:
    """Whether the output is the margin itself."""
    return output == "margin" or (output == "prediction" and predicts_margins(forest))


class OutputPredictor:
    """A row's margins or leaves, and the output made of them."""

    def __init__(self, arguments: tuple[Any, ...], raw: Callable[[NDArray[Any]], Any]) -> None:
        self._arguments = arguments
        self._forest, self._output = arguments[:2]
        self._raw = raw

    def __call__(self, row: NDArray[Any]) -> Any:
        """Predict a row."""
        forest, raw = self._forest, np.atleast_1d(self._raw(row))
        if self._output == "leaf":
            return raw.reshape(forest.leaf_shape or -1)
        result = respond(forest, raw[None, :], self._output)
        if isinstance(result, list):
            return [one[0] for one in result]
        return result[0] if result.ndim > 1 else result[0].item()

    def __reduce__(self) -> tuple[Any, ...]:
        return make_predictor, self._arguments


class _PlainRow:
    """Rows that need more than the compiled walk: tables of categories, linear leaves."""

    def __init__(self, forest: Forest, output: str, choice: Choice) -> None:
        self._forest, self._output, self._choice = forest, output, choice

    def __call__(self, row: NDArray[Any]) -> NDArray[Any]:
        forest = self._forest
        rows = as_rows(np.reshape(row, (1, -1)), forest)
        if self._output == "leaf":
            return cpu.leaves(forest, rows, self._choice, 1).reshape(-1)
        margins: NDArray[Any] = (linear if forest.has_linear_leaves else cpu).margins(forest, rows, self._choice, 1)
        return margins.reshape(-1)


class _GpuRow:
    """A row on its way to a GPU and back."""

    def __init__(self, forest: Forest, output: str, gpus: tuple[int, ...], choice: Choice) -> None:
        self._forest, self._output, self._gpus, self._choice = forest, output, gpus, choice

    def __call__(self, row: NDArray[Any]) -> NDArray[Any]:
        evaluator = self._forest.cuda_evaluator
        run = evaluator.leaves if self._output == "leaf" else evaluator.margins
        result: NDArray[Any] = run(np.reshape(row, (1, -1)), self._gpus, self._choice)[0]
        return result
