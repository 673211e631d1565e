"""Values and interactions of a probability or a loss against a background on a GPU: sums of those of the margin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import array_gpu, import_cupy
from glasswood.base.typing import Array, Explained, GpuArray, Int32s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import NOWHERE, PreparedLaunch
from glasswood.explain.cuda.job import Job
from glasswood.explain.cuda.margin_jobs import GamePlans, MarginJobs
from glasswood.explain.tables import GPU_TABLE_BYTES
from glasswood.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.game import Game, Settings
    from glasswood.explain.responses.rescaling import ResponseExplainer

THREADS, MOST_PARTS = 128, 49
"""As in native/explain/cuda/weigh_parts.cu."""

PART_BYTES = 2**30
"""Memory for the parts' results of the rows in flight."""


class ResponseJob(Job):
    """Values of a response as sums of those of the margin; for the log-loss, labels stand behind a row's features.

    Parameters
    ----------
    values : Job
        Values of the margin, float64.
    jobs : list of Job
        One a node, float64, and for the log-loss that of the margin.
    on_cpu : ResponseExplainer
        Whose parts these are; it explains what rows of equal margins have too much.
    dtype : dtype
        Type of the results.
    """

    values: Job

    def __init__(self, values: Job, jobs: list[Job], on_cpu: ResponseExplainer, dtype: DTypeLike) -> None:
        first = jobs[0]
        chosen = first.chosen if first.pairs else None
        super().__init__(first.forest, first.codes, dtype, first.pairs, chosen, first.n_players)
        self.values, self._jobs, self._on_cpu, self._parts = values, jobs, on_cpu, on_cpu.parts

    @property
    def has_tables(self) -> bool:
        """Whether tables explain any tree."""
        return self.values.has_tables

    def prepare(self) -> None:
        """Build the tables, and collect the patterns, on the current GPU."""
        for job in (self.values, *self._jobs):
            job.prepare()

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        numbers = self.forest.n_features + len(self._jobs) * math.prod(row_shape)
        return max(1, PART_BYTES // (np.dtype(np.float64).itemsize * numbers))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        cupy, parts, n_features = import_cupy(), self._parts, self.forest.n_features
        values = cupy.empty((len(x), self.n_players, 1), np.float64)
        of_nodes = cupy.empty((len(self._jobs), *result.shape), np.float64)
        rows, labels = x[:, :n_features], NOWHERE
        if parts.is_loss:
            labels = cupy.empty(len(x), np.float64)
            labels[...] = x[:, n_features]
        self.values.compute(rows, values)
        for job, out in zip(self._jobs, of_nodes, strict=True):
            job.compute(rows, out)
        row_size = math.prod(result.shape[1:])
        if not len(x) or not row_size:
            return
        nodes = np.zeros(MOST_PARTS)
        nodes[: len(parts.nodes)] = parts.nodes
        args = {
            "values": values,
            "n_features": self.n_players,
            "mean": parts.plain.expected_value[0],
            "parts": of_nodes,
            "n_parts": len(self._jobs),
            "row_size": row_size,
            "nodes": nodes,
            "slope": parts.slope,
            "labels": labels,
            "result": result,
        }
        launch = PreparedLaunch(weigh_variant(self.dtype, parts.is_loss), (len(x), 1), THREADS, args)
        launch(cupy.cuda.get_current_stream().ptr)
        self._take_ties_away(x, values, result)

    def _take_ties_away(self, x: GpuArray, values: GpuArray, result: GpuArray) -> None:
        """Take from rows whose margin background rows have by other leaves what the sum counts for these pairs.

        Only where there are such rows, which few forests but small ones have, does the CPU explain some.
        """
        cupy, n_features, on_cpu = import_cupy(), self.forest.n_features, self._on_cpu
        margins = cupy.asnumpy(cupy.sum(values, axis=(1, 2))) + float(self._parts.plain.expected_value[0])
        tied = on_cpu.may_tie(margins)
        if not len(tied):
            return
        own = cupy.asnumpy(x)[tied]
        labels = own[:, n_features].astype(np.int32) if self._parts.is_loss else None
        rows = PlacedRows(np.ascontiguousarray(own[:, :n_features]), labels=labels)
        places = np.full(self.n_players, -1, np.int32)
        places[self.chosen] = np.arange(len(self.chosen))
        changed = cupy.asnumpy(result)
        for at, factor, part in on_cpu.ties(rows):
            some = rows[at]
            found = part.interactions(some, places) if self.pairs else part.values(some)
            found = (factor.reshape(-1, *[1] * (found.ndim - 1)) * found).reshape(len(at), *changed.shape[1:])
            changed[tied[at]] -= found.astype(changed.dtype)
        result[...] = cupy.asarray(changed)


class ResponseJobs:
    """Jobs that explain the probability or the log-loss: those of the margin against weighted background rows.

    Parameters
    ----------
    game : Game
        Of the margin, against background rows.
    settings : Settings
    on_cpu : ResponseExplainer
        What explains the same on the CPU.
    """

    def __init__(self, game: Game, settings: Settings, on_cpu: ResponseExplainer) -> None:
        self._settings, self._on_cpu, self._parts = settings, on_cpu, on_cpu.parts
        n_parts = len(self._parts.weighted) + 1
        of_part = settings.of_part(n_parts, GPU_TABLE_BYTES)
        self._margin = MarginJobs(game, of_part, GamePlans(game, of_part, n_parts))
        self._weighted = [self._margin.against(background) for background in self._parts.weighted]

    def serves(self, kind: Explained) -> bool:
        """Whether every tree has tables, and a GPU adds up as many parts as there are."""
        return self._margin.serves(kind) and len(self._parts.weighted) < MOST_PARTS

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Make a job of values, of pairs, or of the pairs of some players."""
        parts, margin = self._parts, self._margin
        if len(parts.weighted) >= MOST_PARTS:
            raise NotImplementedError(
                f"margins so far apart need {len(parts.weighted)} tables, a GPU adds up {MOST_PARTS - 1} at most; pass "
                "device='cpu' and rows on the host"
            )
        if not margin.has_splits:
            return margin.walk_job(kind, chosen, self._settings.dtype)  # zeros
        weighted = [each.job(kind, chosen) for each in self._weighted]
        if parts.is_loss:
            weighted.append(margin.job(kind, chosen))
        return ResponseJob(margin.job("values"), weighted, self._on_cpu, self._settings.dtype)


def with_labels(rows: Any, labels: Int32s, gpu: int) -> Any:
    """Put the labels behind the features of rows on the host or on a GPU."""
    if isinstance(rows, np.ndarray) and array_gpu(rows) is None:
        return np.column_stack([rows, labels.astype(rows.dtype)])
    cupy = import_cupy()
    with cupy.cuda.Device(gpu):
        result = cupy.empty((len(rows), rows.shape[1] + 1), rows.dtype)
        result[:, :-1] = rows
        result[:, -1] = cupy.asarray(labels)
    return result


def weigh_variant(dtype: DTypeLike, is_loss: bool) -> Variant:
    """Name the kernel that adds up the parts."""
    return variant("explain/cuda/weigh_parts", REAL=np.dtype(dtype), LOSS=int(is_loss))
