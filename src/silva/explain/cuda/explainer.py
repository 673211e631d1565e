"""SHAP values and interactions on NVIDIA GPUs: rows in, results out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from silva.cuda.codes import encode_forest
from silva.cuda.encoder import CodeTables
from silva.cuda.kept_calls import Calls, may_be_kept
from silva.cuda.rows import as_cupy, check_gpu_rows, like, map_rows
from silva.cuda.streams import stream_of
from silva.device import DeviceError, array_gpu, import_cupy
from silva.explain.cuda.leaf_games import BackgroundContents, GroupContents
from silva.explain.cuda.paths import PathsJob
from silva.explain.cuda.quadrature import LinearJob, QuadratureJob
from silva.explain.cuda.responses import MOST_PARTS, ResponseJob, with_labels
from silva.explain.cuda.table_launches import TableJob
from silva.explain.cuda.tables import SharedTables, TablePlan
from silva.explain.cuda.tapes import TINY_SPLITS
from silva.explain.players import make_players
from silva.explain.responses import checked_labels
from silva.explain.tables import GPU_TABLE_BYTES
from silva.inputs import as_rows
from silva.parallel import cached_property

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from silva.ensemble import TreeEnsemble
    from silva.explain.background import Background
    from silva.explain.cuda.job import Job
    from silva.explain.players import Players
    from silva.explain.responses import Parts
    from silva.typing import Array, GpuArray, Int32s, Rows


class CudaExplainer:
    """SHAP values of a forest on GPUs; what it needs on a GPU is written at the first call there.

    Parameters
    ----------
    forest : TreeEnsemble
    dtype : {"float32", "float64"}
        Type of the arithmetic and of the results.
    algorithm : {"auto", "tables", "quadrature", "paths"}
    table_bytes : int, optional
        Most memory for tables; default 512 MB.
    background : Background, optional
    parts : Parts, optional
        For the probability instead of the margin.
    players : Players, optional
        Default: the features. Groups of features have tables alone.
    """

    def __init__(
        self,
        forest: TreeEnsemble,
        dtype: str = "float32",
        algorithm: str = "auto",
        table_bytes: int | None = None,
        background: Background | None = None,
        parts: Parts | None = None,
        players: Players | None = None,
    ) -> None:
        self.forest, self._background, self._parts = forest, background, parts
        self._players = make_players(None, forest) if players is None else players
        table_bytes = GPU_TABLE_BYTES if table_bytes is None else table_bytes
        self.table_bytes = table_bytes // (len(parts.weighted) + 1) if parts else table_bytes
        self.dtype = np.dtype(dtype)
        self._table_dtype = np.dtype(np.float64) if parts else self.dtype
        self.algorithm = algorithm
        self.jobs: dict[object, Job] = {}
        self._weighted_tables: dict[bool, list[SharedTables]] = {}
        self._calls = Calls()

    @property
    def again(self) -> Callable[[Any, str, str, str], Any]:
        """Answers calls of "values" or "interactions" like earlier ones, else returns None."""
        return self._calls.again

    def shap_values(
        self,
        X: Rows,
        gpus: tuple[int, ...],
        out: GpuArray | Array | None = None,
        device: str = "auto",
        y: ArrayLike | None = None,
    ) -> Any:
        """SHAP values of the rows: (n, P), or (n, P, k) for k > 1 outputs, in the library of `X`."""
        request = None if out is not None else ("values", self.algorithm, device)
        with stream_of(X):
            return self._run(self.job("values"), X, gpus, (self._players.n,), out, request, y)

    def shap_interaction_values(
        self,
        X: Rows,
        gpus: tuple[int, ...],
        places: Int32s | None = None,
        out: GpuArray | Array | None = None,
        device: str = "auto",
        y: ArrayLike | None = None,
    ) -> Any:
        """SHAP interaction values: (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        key: object = "pairs"
        chosen, n_players = None, self._players.n
        if places is not None:
            chosen = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
            key = tuple(chosen.tolist())
        shape = (n_players if chosen is None else len(chosen), n_players)
        request = None if out is not None or chosen is not None else ("interactions", self.algorithm, device)
        with stream_of(X):
            return self._run(self.job(key, chosen), X, gpus, shape, out, request, y)

    def prepare(self, gpus: tuple[int, ...]) -> None:
        """Build the tables of values on these GPUs, if there are any."""
        job = self.job("values")
        if isinstance(job, (TableJob, ResponseJob)):
            for gpu in gpus:
                with import_cupy().cuda.Device(gpu):
                    job.prepare()

    @property
    def has_tables(self) -> bool:
        """Whether values come from tables."""
        return isinstance(self.job("values"), (TableJob, ResponseJob))

    def _run(
        self,
        job: Job,
        X: Rows,
        gpus: tuple[int, ...],
        shape: tuple[int, ...],
        out: GpuArray | Array | None,
        request: tuple[str, str, str] | None,
        y: ArrayLike | None,
    ) -> Any:
        """Compute what a job does; a `request` is kept for `again` if it can be."""
        forest = self.forest
        full = (*shape, forest.n_outputs)
        rows = as_rows(X, forest) if array_gpu(X) is None else check_gpu_rows(X, forest, gpus[0])
        if request is not None and (result := self._first(job, X, full, request)) is not None:
            return result
        if self._parts and self._parts.is_loss:
            rows = with_labels(rows, checked_labels(y, len(rows), forest), gpus[0])
        target = None if out is None else _check_out(out, rows, (len(rows), *shape), full, self.dtype)
        result = map_rows(rows, gpus, full, self.dtype, job.compute, input_type=forest.threshold.dtype, out=target)
        if out is not None:
            return out
        result = result[..., 0] if forest.n_outputs == 1 else result
        return result if isinstance(result, np.ndarray) else like(X, result)

    def _first(self, job: Job, X: Any, full: tuple[int, ...], request: tuple[str, str, str]) -> Any:
        """Answer a request by one plan, which is kept for `again`; None if no one plan does it."""
        if not may_be_kept(X, self.forest):
            return None
        try:
            plan = job.whole(X, full)
            shape = (len(X), *(full[:-1] if full[-1] == 1 else full))
            return None if plan is None else self._calls.answer(X, request, plan, shape, self.dtype)
        except import_cupy().cuda.memory.OutOfMemoryError:
            return None  # the long way makes room, or says what is missing

    def serves_by_tables(self, of_pairs: bool) -> bool:
        """Whether every tree has tables of values, or of pairs: no walk takes backgrounds and groups here."""
        plan = self._whole_plans(of_pairs)
        return plan is not None and not len(plan.walked_trees) and not self._has_many_parts

    @property
    def _has_many_parts(self) -> bool:
        return self._parts is not None and len(self._parts.weighted) >= MOST_PARTS

    def _whole_plans(self, of_pairs: bool) -> TablePlan | None:
        return self._whole_pair_plan if of_pairs else self._whole_plan

    @cached_property
    def _whole_plan(self) -> TablePlan | None:
        return self._plan_whole(of_pairs=False)

    @cached_property
    def _whole_pair_plan(self) -> TablePlan | None:
        return self._plan_whole(of_pairs=True)

    def _plan_whole(self, of_pairs: bool) -> TablePlan | None:
        if self.table_bytes == 0:
            return None
        settings = self._table_dtype, self.table_bytes, True, of_pairs, self._background is not None
        return TablePlan(self.forest, *settings, players=self._players)

    def _whole_tables(self, of_pairs: bool) -> SharedTables | None:
        """Tables against a background, or of groups; None where no row's values differ from 0."""
        if self._has_many_parts:
            raise NotImplementedError(
                f"margins so far apart take {len(self._parts.weighted) if self._parts else 0} tables, a GPU adds up "
                f"{MOST_PARTS - 1} at most; pass device='cpu' and rows on the host"
            )
        plan = self._whole_plans(of_pairs)
        if plan is None or len(plan.walked_trees):
            n_walked = self.forest.n_trees if plan is None else len(plan.walked_trees)
            what = "interactions" if of_pairs else "values"
            what += " against a background" if self._background else " of groups"
            raise NotImplementedError(
                f"{n_walked} of {self.forest.n_trees} trees have no tables of {what} on a GPU; "
                "pass device='cpu' and rows on the host" + ("" if plan else ", or table_bytes above 0")
            )
        contents = BackgroundContents(self._background) if self._background else GroupContents()
        return SharedTables(plan, contents) if plan.n_subtrees else None

    def job(self, key: object, features: NDArray[np.intp] | None = None) -> Job:
        """Job of "values", of "pairs", or of the interactions of some features, which are the key then."""
        if key not in self.jobs:
            of_pairs = key != "values"
            tables = self._pair_tables if of_pairs else self._tables
            of_walk = LinearJob if self.forest.has_linear_leaves else QuadratureJob
            kind = PathsJob if self.algorithm == "paths" else of_walk
            if tables is None:
                self.jobs[key] = kind(self.forest, self._codes, self.dtype, of_pairs, features)
            elif self._parts is None:
                self.jobs[key] = TableJob(self.forest, self._codes, tables, features)
            else:
                self.jobs[key] = self._response_job(self._parts, tables.plan, features)
        return self.jobs[key]

    def _response_job(self, parts: Parts, plan: TablePlan, features: NDArray[np.intp] | None) -> ResponseJob:
        def job(tables: SharedTables, features: NDArray[np.intp] | None) -> TableJob:
            return TableJob(self.forest, self._codes, tables, features)

        if plan.of_pairs not in self._weighted_tables:
            contents = [BackgroundContents(background) for background in parts.weighted]
            self._weighted_tables[plan.of_pairs] = [SharedTables(plan, each) for each in contents]
        weighted = [job(tables, features) for tables in self._weighted_tables[plan.of_pairs]]
        values = job(cast("SharedTables", self._tables), None)
        if parts.is_loss:
            plain = self._pair_tables if plan.of_pairs else self._tables
            weighted.append(job(cast("SharedTables", plain), features))
        return ResponseJob(values, weighted, parts, self.dtype)

    @cached_property
    def _tables(self) -> SharedTables | None:
        return self._make_tables(of_pairs=False)

    @cached_property
    def _pair_tables(self) -> SharedTables | None:
        return self._make_tables(of_pairs=True)

    def _make_tables(self, of_pairs: bool) -> SharedTables | None:
        """Lay out tables, if the algorithm says so and any tree has them."""
        if self._background is not None or self._players.groups:
            return self._whole_tables(of_pairs)
        forest, forced = self.forest, self.algorithm == "tables"
        if self.algorithm not in {"auto", "tables"} or self.table_bytes == 0 or forest.has_linear_leaves:
            return None
        if not forced and forest.n_nodes // 2 < TINY_SPLITS:
            return None  # a launch or two walk it in less time than four take
        plan = TablePlan(forest, self.dtype, self.table_bytes, forced, of_pairs)
        return SharedTables(plan) if plan.n_subtrees else None

    @cached_property
    def _codes(self) -> CodeTables:
        return CodeTables(self.forest, encode_forest(self.forest))


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
