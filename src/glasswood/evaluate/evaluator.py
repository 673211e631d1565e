"""Predictions of a forest: check, choose device and algorithm, run, return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.device import (
    array_gpu,
    count_rows,
    find_gpus,
    gpus_worthwhile,
    import_cupy,
    is_cuda_usable,
    parse_device,
)
from glasswood.base.escapes import quoted
from glasswood.base.parallel import cached_property
from glasswood.base.typing import OUTPUTS, Choice, Floats, Int32s, Rows
from glasswood.evaluate.choice import refuse_algorithm, runnable, tuned
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.evaluate.links import check_probabilities, is_margin, respond, squeeze
from glasswood.inputs import as_rows
from glasswood.inputs.sparse import dense_chunks, in_columns, is_sparse, joined, used_columns
from glasswood.inputs.statistics import StatisticRows
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.evaluate.cuda.evaluator import CudaEvaluator
    from glasswood.evaluate.cuda.responding import GpuResponse

WORTHWHILE = 3e6
"""Rows times trees from which host rows go to a GPU: the crossover beside 16 CPU cores (benchmarks/results/)."""


class Evaluator:
    """A forest and all that its predictions need more than once: layouts, choices and, on GPUs, whole calls."""

    def __init__(self, forest: TreeEnsemble) -> None:
        self.forest = forest
        self.cpu: CpuEvaluator = CpuEvaluator(forest)
        self._algorithms = {"auto", *runnable(forest)}
        self._cuda: CudaEvaluator | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Evaluator, (self.forest,)

    @property
    def cuda(self) -> CudaEvaluator:
        """The same on GPUs, made on first use."""
        if self._cuda is None:
            from glasswood.evaluate.cuda.evaluator import CudaEvaluator

            self._cuda = CudaEvaluator(self.forest)
        return self._cuda

    def predict(self, X: Rows, output: str, algorithm: str, device: str, n_jobs: int | None) -> Any:
        """`Forest.predict`."""
        # Calls like the last ones go by all checks, which take as long as a GPU needs for a row.
        if self._cuda is not None and (result := self._cuda.again(X, output, algorithm, device)) is not None:
            return result
        self.check(output, algorithm, device)
        if is_sparse(X):
            return self._predict_sparse(X, output, algorithm, device, n_jobs)
        forest, gpus = self.forest, self._gpus(X, device)
        if isinstance(X, StatisticRows):
            if not gpus:
                return self._predict_statistics(X, output, algorithm, n_jobs)
            X = X.whole(n_jobs)
        if gpus and array_gpu(X) is not None:
            choice = self.choose(algorithm, count_rows(X), "cuda")
            return self._predict_on_gpu(X, (output, algorithm, device), gpus, choice)
        rows = as_rows(X, forest)
        choice = self.choose(algorithm, len(rows), "cuda" if gpus else "cpu")
        if output == "leaf":
            return self._shaped(self.cuda.leaves(rows, gpus, choice) if gpus else self.cpu.leaves(rows, choice, n_jobs))
        # Of rows that `auto` moves, the bits do not depend on how many there are: their links are NumPy's.
        if gpus and parse_device(device)[0] != "auto" and (response := self._response(output)) is not None:
            return self.cuda.responses(rows, gpus, choice, response)
        if gpus:
            dtype = forest.result_dtype if is_margin(forest, output) else "float64"
            return respond(forest, self.cuda.margins(rows, gpus, choice, dtype), output)
        return respond(forest, self.cpu.margins(rows, choice, n_jobs), output)

    def _predict_statistics(self, X: StatisticRows, output: str, algorithm: str, n_jobs: int | None) -> Any:
        """Predict rows of target statistics chunk by chunk: by their ranks where trees compare these."""
        choice = self.choose(algorithm, len(X), "cpu")
        if output != "leaf" and (margins := self.cpu.statistic_margins(X, choice, n_jobs)) is not None:
            return respond(self.forest, np.concatenate(margins), output)
        return _joined([self.predict(rows, output, algorithm, "cpu", n_jobs) for rows in X.chunks(n_jobs)])

    def _predict_sparse(self, X: Any, output: str, algorithm: str, device: str, n_jobs: int | None) -> Any:
        """Predict sparse rows chunk by chunk, in the columns that the forest uses."""
        used = used_columns(self.forest)
        parts = [
            self._of_used.predict(dense, output, algorithm, device, n_jobs)
            for _, dense in dense_chunks(X, self.forest, used)
        ]
        if not parts:
            return self.predict(np.zeros((0, self.forest.n_features)), output, algorithm, device, n_jobs)
        return _joined(parts)

    @cached_property
    def _of_used(self) -> Evaluator:
        return Evaluator(in_columns(self.forest, used_columns(self.forest)))

    def predict_rows(self, rows: Floats, output: str, n_jobs: int | None) -> Any:
        """Predict rows that `as_rows` made, on the CPU."""
        choice = self.choose("auto", len(rows), "cpu")
        return respond(self.forest, self.cpu.margins(rows, choice, n_jobs), output)

    def positions(self, rows: Floats, n_jobs: int | None = None) -> Int32s:
        """Find the places of the leaves that rows which `as_rows` made reach, (n, n_trees), on the CPU."""
        return self.cpu.positions(rows, self.choose("auto", len(rows), "cpu"), n_jobs)

    def check(self, output: str, algorithm: str, device: str) -> None:
        """Raise ValueError unless the arguments are known and the algorithm can run the forest."""
        if output not in OUTPUTS:
            raise ValueError(f"output is {quoted(output)}, expected one of {', '.join(OUTPUTS)}")
        if algorithm not in self._algorithms:
            refuse_algorithm(self.forest, algorithm)
        parse_device(device)

    def choose(self, algorithm: str, n_rows: int, kind: str, lasts: bool = False) -> Choice:
        """Pick what runs on the device: the algorithm asked for, the tuned one, or what is measured or estimated.

        A choice that `lasts`, for many calls, is measured at once; for one call, when as many rows have come that this
        pays.
        """
        if algorithm != "auto":
            return Choice(n_rows, kind, algorithm)
        choice = tuned(self.forest.choices, n_rows, (kind,))
        if choice is None and kind == "cpu" and not lasts:
            return self.cpu.choice_for_next(n_rows)
        return choice or (self.cpu if kind == "cpu" else self.cuda).default_choice(n_rows)

    def _gpus(self, X: Rows, device: str) -> tuple[int, ...]:
        """GPUs that take these rows; none if the CPU does."""
        kind, home = parse_device(device)[0], array_gpu(X)
        n_rows = count_rows(X)
        if kind == "auto" and home is None and (choice := tuned(self.forest.choices, n_rows)):
            return find_gpus("cuda") if choice.device == "cuda" and is_cuda_usable() else ()
        return gpus_worthwhile(device, X, n_rows * self.forest.n_trees, WORTHWHILE)

    def _predict_on_gpu(self, X: Rows, request: tuple[str, str, str], gpus: tuple[int, ...], choice: Choice) -> Any:
        """GPU rows to a GPU result of the same library; labels that are not numbers come to the host."""
        from glasswood.cuda.streams import stream_of

        with stream_of(X):
            return self._responses_on_gpu(X, request, gpus, choice)

    def _responses_on_gpu(self, X: Rows, request: tuple[str, str, str], gpus: tuple[int, ...], choice: Choice) -> Any:
        from glasswood.cuda.rows import like

        cupy, output = import_cupy(), request[0]
        if output == "leaf":
            return like(X, self._shaped(self.cuda.leaves(X, gpus, choice)))
        response = self._response(output)
        if response is not None or is_margin(self.forest, output):
            if (found := self.cuda.first(X, request, choice, response)) is not None:
                return found
            if response is not None:
                return like(X, self.cuda.responses(X, gpus, choice, response))
            return like(X, squeeze(self.cuda.margins(X, gpus, choice, self.forest.result_dtype)))
        result = respond(self.forest, cupy.asnumpy(self.cuda.margins(X, gpus, choice)), output)
        if isinstance(result, list) or result.dtype.kind not in "fiub":
            return result
        with cupy.cuda.Device(gpus[0]):
            return like(X, cupy.asarray(result))

    def _response(self, output: str) -> GpuResponse | None:
        """Return how GPUs compute an output, None if it is the margin, or NumPy makes it of margins."""
        from glasswood.evaluate.cuda.responding import response_of

        if output == "probability":
            check_probabilities(self.forest)
        return response_of(self.forest, output)

    def _shaped(self, ids: Any) -> Any:
        """Leaf ids in the shape of the source library."""
        return ids.reshape(len(ids), *self.forest.leaf_shape) if self.forest.leaf_shape else ids


def _joined(parts: list[Any]) -> Any:
    """Put results of chunks below each other; several classification outputs are lists of them."""
    if isinstance(parts[0], list):
        return [joined(list(each)) for each in zip(*parts, strict=True)]
    return joined(parts)


def evaluator_of(forest: TreeEnsemble) -> Evaluator:
    """Return the evaluator of a forest, made at its first use and kept with it."""
    made: Evaluator | None = forest.__dict__.get("evaluator")
    return forest.__dict__.setdefault("evaluator", Evaluator(forest)) if made is None else made
