"""SHAP values and interactions on NVIDIA GPUs: rows in, results out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import DeviceError, array_gpu, find_gpus, import_cupy
from glasswood.base.typing import Array, Explained, GpuArray, Int32s
from glasswood.cuda.kept_calls import Calls, may_be_kept
from glasswood.cuda.per_gpu import PerGpu
from glasswood.cuda.rows import as_cupy, check_gpu_rows, like, map_rows
from glasswood.cuda.streams import stream_of
from glasswood.explain.cuda.coalitions import CoalitionJobs
from glasswood.explain.cuda.margin_jobs import MarginJobs
from glasswood.explain.cuda.responses import ResponseJobs, with_labels
from glasswood.explain.responses.coalitions import CoalitionExplainer
from glasswood.explain.responses.rescaling import ResponseExplainer

if TYPE_CHECKING:
    from glasswood.explain.cpu import CpuExplainer
    from glasswood.explain.cuda.job import Job
    from glasswood.explain.game import Game, Settings
    from glasswood.inputs.placed import PlacedRows


class CudaExplainer:
    """Explains on GPUs; what it needs on a GPU is written at the first call there.

    Parameters
    ----------
    game : Game
    settings : Settings
    on_cpu : CpuExplainer, ResponseExplainer or CoalitionExplainer
        What explains the same on the CPU.

    Attributes
    ----------
    jobs : dict
        What has been asked for: a job of "values", of "pairs", or of the pairs of some players, which are the key.
    uploads : PerGpu
        What searches of the strongest pairs read.
    """

    game: Game
    settings: Settings
    n_outputs: int

    def __init__(
        self, game: Game, settings: Settings, on_cpu: CpuExplainer | ResponseExplainer | CoalitionExplainer
    ) -> None:
        self.game, self.settings, self._on_cpu = game, settings, on_cpu
        self._dtype, self.n_outputs = np.dtype(settings.dtype), on_cpu.n_outputs
        self._source: Any = MarginJobs(game, settings)
        if isinstance(on_cpu, ResponseExplainer):
            self._source = ResponseJobs(game, settings, on_cpu)
        if isinstance(on_cpu, CoalitionExplainer):
            self._source = CoalitionJobs(settings, on_cpu)
        self.jobs: dict[object, Job] = {}
        self.uploads: PerGpu = PerGpu()
        self._calls = Calls()

    def __reduce__(self) -> tuple[Any, ...]:
        return CudaExplainer, (self.game, self.settings, self._on_cpu)

    @property
    def again(self) -> Callable[[Any, str, str, str], Any]:
        """Answers calls of "values" or "pairs" like earlier ones, else returns None."""
        return self._calls.again

    def values(self, rows: PlacedRows, out: GpuArray | Array | None = None) -> Any:
        """SHAP values of the rows: (n, P), or (n, P, k) for k > 1 outputs, in the library of the rows."""
        return self._run(rows, "values", None, (self.game.players.n,), out)

    def interactions(self, rows: PlacedRows, places: Int32s | None = None, out: GpuArray | Array | None = None) -> Any:
        """Interaction values: (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        n_players = self.game.players.n
        if places is None:
            return self._run(rows, "pairs", None, (n_players, n_players), out)
        chosen = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        return self._run(rows, "pairs", chosen, (len(chosen), n_players), out)

    def reduced(
        self,
        placed: PlacedRows,
        places: Int32s | None,
        row_shape: tuple[int, ...],
        reduce: Callable[[GpuArray, GpuArray], None],
        batch_bytes: int,
    ) -> Any:
        """Make something smaller of the matrices of interactions, which stay on the GPU.

        Parameters
        ----------
        placed : PlacedRows
        places : int32, (P,), optional
            As for `interactions`.
        row_shape : tuple of int
            Of a row's result, of the explainer's type.
        reduce : callable
            ``reduce(matrices, result)`` queues the work for CuPy arrays (n, m, P, k) and (n, *row_shape).
        batch_bytes : int
            Of the matrices that are there at a time.

        Returns
        -------
        array (n, *row_shape)
            NumPy for host rows, CuPy for GPU rows; complete.
        """
        n_players, cupy = self.game.players.n, import_cupy()
        chosen = None if places is None else np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        job = self.job("pairs", chosen)
        full = (n_players if chosen is None else len(chosen), n_players, self.n_outputs)
        step = max(1, batch_bytes // (self._dtype.itemsize * math.prod(full)))

        def compute(x: GpuArray, result: GpuArray) -> None:
            for start in range(0, len(x), step):
                some = x[start : start + step]
                matrices = cupy.empty((len(some), *full), self._dtype)
                job.compute(some, matrices)
                reduce(matrices, result[start : start + step])

        X, gpus = placed.rows, placed.gpus
        with stream_of(X):
            rows = X if array_gpu(X) is None else check_gpu_rows(X, self.game.forest, gpus[0])
            if placed.labels is not None:
                rows = with_labels(rows, placed.labels, gpus[0])
            found = map_rows(rows, gpus, row_shape, self._dtype, compute, input_type=self.game.forest.threshold.dtype)
            with cupy.cuda.Device(gpus[0]):
                cupy.cuda.get_current_stream().synchronize()
        return found

    def indices(self, rows: PlacedRows, sets: Int32s, is_banzhaf: bool, out: GpuArray | Array | None = None) -> Any:
        """Compute indices of sets of players (n_sets, 4), padded with -1, of exact responses: (n, n_sets, r)."""
        with stream_of(rows.rows):
            return self._compute(self._source.of_sets(sets, is_banzhaf), rows, None, (len(sets),), out)

    def prepare(self) -> None:
        """Build the tables of values, if there are any, on the GPUs that `device` names."""
        job = self.job("values")
        for gpu in find_gpus(self.settings.device):
            with import_cupy().cuda.Device(gpu):
                job.prepare()

    @property
    def has_tables(self) -> bool:
        """Whether values come from tables."""
        return self.job("values").has_tables

    def serves(self, kind: Explained) -> bool:
        """Whether GPUs are the faster for sure: of values, or of pairs, against a background or of groups."""
        return bool(self._source.serves(kind))

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Job of values, of pairs, or of the pairs of some players."""
        key = kind if chosen is None else tuple(chosen.tolist())
        if key not in self.jobs:
            self.jobs[key] = self._source.job(kind, chosen)
        return self.jobs[key]

    def _run(
        self,
        rows: PlacedRows,
        kind: Explained,
        chosen: Array | None,
        shape: tuple[int, ...],
        out: GpuArray | Array | None,
    ) -> Any:
        """Compute what a job does, on the stream of the rows' library."""
        with stream_of(rows.rows):
            return self._compute(self.job(kind, chosen), rows, kind if chosen is None else None, shape, out)

    def _compute(
        self,
        job: Job,
        placed: PlacedRows,
        kind: Explained | None,
        shape: tuple[int, ...],
        out: GpuArray | Array | None,
    ) -> Any:
        """Compute what a job does; a plain call of a kind is kept for `again` if it can be."""
        forest, X, gpus = self.game.forest, placed.rows, placed.gpus
        full = (*shape, self.n_outputs)
        rows = X if array_gpu(X) is None else check_gpu_rows(X, forest, gpus[0])
        if out is None and kind is not None and (result := self._first(job, X, full, kind)) is not None:
            return result
        if placed.labels is not None:
            rows = with_labels(rows, placed.labels, gpus[0])
        target = None if out is None else _check_out(out, rows, (len(rows), *shape), full, self._dtype)
        result = map_rows(rows, gpus, full, self._dtype, job.compute, input_type=forest.threshold.dtype, out=target)
        if out is not None:
            return out
        result = result[..., 0] if self.n_outputs == 1 else result
        return result if isinstance(result, np.ndarray) else like(X, result)

    def _first(self, job: Job, X: Any, full: tuple[int, ...], kind: Explained) -> Any:
        """Answer a call by one plan, which is kept for `again`; None if no one plan does it."""
        if not may_be_kept(X, self.game.forest):
            return None
        request = kind, self.settings.algorithm, self.settings.device
        try:
            plan = job.whole(X, full)
            shape = (len(X), *(full[:-1] if full[-1] == 1 else full))
            return None if plan is None else self._calls.answer(X, request, plan, shape, self._dtype)
        except import_cupy().cuda.memory.OutOfMemoryError:
            return None  # the long way makes room, or says what is missing


def _check_out(
    out: GpuArray | Array, rows: Any, shape: tuple[int, ...], full: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """Return the caller's array as (n, ..., k), checked."""
    expected = shape if full[-1] == 1 else (len(rows), *full)
    if (array_gpu(out) is None) != (array_gpu(rows) is None):
        raise TypeError("out and X must both be NumPy arrays, or both lie on the GPU")
    if array_gpu(out) != array_gpu(rows):
        raise DeviceError(f"out lies on cuda:{array_gpu(out)}, X on cuda:{array_gpu(rows)}; use an array beside X")
    target = out if isinstance(out, np.ndarray) else as_cupy(out)
    if target.shape != expected or target.dtype != dtype:
        raise ValueError(f"out is {target.dtype} of shape {target.shape}, expected {dtype} of shape {expected}")
    return target[..., None] if full[-1] == 1 else target
