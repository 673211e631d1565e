"""Measure candidates on a user's rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from numbers import Real
from statistics import median
from typing import TYPE_CHECKING, Any

from glasswood.base.device import array_gpu, find_gpus, import_cupy, is_cuda_usable, parse_device
from glasswood.base.escapes import quoted
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Choice, Rows
from glasswood.inputs import as_rows

if TYPE_CHECKING:
    from glasswood.evaluate.evaluator import Evaluator

SIZES = (1, 100, 10_000, 1_000_000)
"""Rows of the batches that are measured, up to the number of rows given."""

HOPELESS = 3.0
"""A candidate is not called again if its first call takes this many times as long as the best one's median."""

LEAST_CALLS, MOST_CALLS = 3, 1000


def tune(evaluator: Evaluator, X: Rows, seconds: float, device: str, n_jobs: int | None) -> tuple[Choice, ...]:
    """`Forest.tune`: the fastest choice of each device and batch size."""
    return choose_fastest(measure(evaluator, X, seconds, device, n_jobs))


def choose_fastest(measured: Sequence[Choice]) -> tuple[Choice, ...]:
    """Keep the fastest choice of each device and batch size."""
    best: dict[tuple[int, str], Choice] = {}
    for choice in measured:
        key = (choice.n_rows, choice.device)
        if key not in best or choice.seconds < best[key].seconds:
            best[key] = choice
    return tuple(best.values())


def measure(evaluator: Evaluator, X: Rows, seconds: float, device: str, n_jobs: int | None) -> list[Choice]:
    """Measure the candidates of each device and batch size, each as the median of its calls.

    Raises
    ------
    ValueError, DeviceError
        As `Forest.tune` does.
    """
    if not isinstance(seconds, Real) or not 0 < seconds < math.inf:
        raise ValueError(f"seconds is {quoted(seconds)}, expected a positive number: the time to spend")
    n_threads(n_jobs)
    kinds = _kinds(X, device)
    rows = X if array_gpu(X) is not None else as_rows(X, evaluator.forest)
    if len(rows) == 0:
        raise ValueError("X has no rows to measure on; pass at least one row like those to predict")
    sizes = sorted({*(size for size in SIZES if size < len(rows)), len(rows)})
    of_batch = float(seconds) / (len(sizes) * len(kinds))
    measured: list[Choice] = []
    for size in sizes:
        for kind in kinds:
            measured += _measure_batch(evaluator, rows[:size], kind, device, n_jobs, of_batch)
    return measured


def _kinds(X: Rows, device: str) -> tuple[str, ...]:
    """Devices to measure."""
    kind, home = parse_device(device)[0], array_gpu(X)
    if home is not None or kind not in {"auto", "cpu"}:
        find_gpus("cuda" if kind in {"auto", "cpu"} else device, X)
        return ("cuda",)
    return ("cpu", "cuda") if kind == "auto" and is_cuda_usable() else ("cpu",)


def _measure_batch(
    evaluator: Evaluator, rows: Any, kind: str, device: str, n_jobs: int | None, seconds: float
) -> list[Choice]:
    """Measure the candidates of one device on one batch within `seconds`, about."""
    candidates = (evaluator.cpu if kind == "cpu" else evaluator.cuda).candidates(len(rows))
    measured: list[Choice] = []
    for candidate in candidates:
        best = min((choice.seconds for choice in measured), default=math.inf)
        call = _call(evaluator, rows, candidate, device, n_jobs)
        call()  # builds the plan
        first = _time(call)
        times = [first]
        end = time.perf_counter() + seconds / len(candidates)
        while first < HOPELESS * best and _wants_more(len(times), end):
            times.append(_time(call))
        measured.append(candidate._replace(seconds=median(times)))
    return measured


def _wants_more(n_calls: int, end: float) -> bool:
    return n_calls < LEAST_CALLS or (n_calls < MOST_CALLS and time.perf_counter() < end)


def _call(evaluator: Evaluator, rows: Any, choice: Choice, device: str, n_jobs: int | None) -> Callable[[], object]:
    """Margins of the rows, complete when the call returns."""
    if choice.device == "cpu":
        return lambda: evaluator.cpu.margins(rows, choice, n_jobs)
    gpus = find_gpus("cuda" if parse_device(device)[0] in {"auto", "cpu"} else device, rows)
    if array_gpu(rows) is None:
        return lambda: evaluator.cuda.margins(rows, gpus, choice)
    stream = import_cupy().cuda.get_current_stream()

    def run() -> None:
        evaluator.cuda.margins(rows, gpus, choice)
        stream.synchronize()

    return run


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
