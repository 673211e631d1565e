"""Evaluation on NVIDIA GPUs: which kernels run a choice, and from leaves to results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import array_gpu, explaining_memory, import_cupy
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Choice, GpuArray
from glasswood.cuda import kept_calls
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables, row_strides
from glasswood.cuda.launches import NOWHERE, KeptByRows, Plan, launch
from glasswood.cuda.per_gpu import PerGpu
from glasswood.cuda.rows import check_gpu_rows, map_rows
from glasswood.evaluate.choice import runnable
from glasswood.evaluate.cuda.few_rows import FewRows
from glasswood.evaluate.cuda.node_walks import BLOCK, NodeWalks
from glasswood.evaluate.cuda.packing import choose_format, code_type, order_by_output
from glasswood.evaluate.cuda.tiles import PackedForest, Tiles
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.evaluate.cuda.responding import GpuResponse

LEAF_BYTES = 2**29
"""Leaves of the rows in flight."""


class CudaEvaluator:
    """A forest laid out for GPUs; what a kernel needs on a GPU is uploaded at its first call there."""

    def __init__(self, forest: TreeEnsemble) -> None:
        self._forest = forest
        self._uploads = PerGpu()
        self._plans: KeptByRows[Plan] = KeptByRows()
        self._calls = kept_calls.Calls()

    @property
    def again(self) -> Callable[[Any, str, str, str], Any]:
        """Answers calls of margins like earlier ones, else returns None."""
        return self._calls.again

    def margins(self, rows: Any, gpus: tuple[int, ...], choice: Choice, dtype: DTypeLike = np.float64) -> Any:
        """Sum margins (n, n_outputs) in float64 and return them as `dtype`.

        NumPy for host rows, CuPy for GPU rows.
        """
        return self._run(rows, gpus, (self._forest.n_outputs,), dtype, functools.partial(self._sum, choice))

    def responses(self, rows: Any, gpus: tuple[int, ...], choice: Choice, response: GpuResponse) -> Any:
        """Responses in the source library's shape and dtype: where the rows are."""
        compute = functools.partial(self._respond, choice, response)
        return self._run(rows, gpus, response.shape, self._forest.result_dtype, compute)

    def leaves(self, rows: Any, gpus: tuple[int, ...], choice: Choice) -> Any:
        """Find the source's leaf ids (n, n_trees), int32: NumPy for host rows, CuPy for GPU rows."""
        return self._run(rows, gpus, (self._forest.n_trees,), np.int32, functools.partial(self._name, choice))

    def default_choice(self, n_rows: int) -> Choice:
        """Pick what the model of costs prefers for `n_rows` rows."""
        return Choice(n_rows, "cuda", "by_sample")

    def candidates(self, n_rows: int) -> tuple[Choice, ...]:
        """List what is worth measuring for batches of `n_rows` rows."""
        names = [name for name in runnable(self._forest) if name != "serial"]
        return tuple(Choice(n_rows, "cuda", name, setting) for name in names for setting in NodeWalks.settings(name))

    @cached_property
    def packed(self) -> PackedForest | None:
        """The trees in few bytes; None if no format holds them."""
        codes = encode_forest(self._forest)
        name = choose_format(self._forest, codes)
        if name is None:
            return None
        return PackedForest(self._forest, CodeTables(self._forest, codes, code_type(name)), name)

    @cached_property
    def tiles(self) -> Tiles | None:
        """Schedule for many rows."""
        return Tiles(self.packed) if self.packed else None

    @cached_property
    def few(self) -> FewRows | None:
        """Schedule for few rows; constant scalar leaves only."""
        return FewRows(self.packed) if self.packed and _is_plain(self._forest) else None

    @cached_property
    def nodes(self) -> NodeWalks:
        """The algorithms that read nodes one by one."""
        if self.packed:
            return NodeWalks(self._forest, self.packed.codes)
        return NodeWalks(self._forest, CodeTables(self._forest, encode_forest(self._forest)))

    def _run(self, rows: Any, gpus: tuple[int, ...], shape: tuple[int, ...], dtype: DTypeLike, compute: Any) -> Any:
        forest = self._forest
        rows = rows if array_gpu(rows) is None else check_gpu_rows(rows, forest, gpus[0])
        return map_rows(rows, gpus, shape, dtype, compute, input_type=forest.threshold.dtype)

    def _sum(self, choice: Choice, x: GpuArray, out: GpuArray) -> None:
        schedule = self._schedule(choice, len(x))
        if schedule is not None:
            step = max(1, min(len(x), schedule.most_rows()))
            for begin in range(0, len(x), step):
                batch, target = x[begin : begin + step], out[begin : begin + step]
                self._plan(schedule, batch, out.dtype).run(batch, target)
            return
        for begin, end, leaves in self._reach(choice, x):
            self._add_up(x[begin:end], leaves, out[begin:end])

    def _respond(self, choice: Choice, response: GpuResponse, x: GpuArray, out: GpuArray) -> None:
        cupy = import_cupy()
        margin = cupy.empty((len(x), self._forest.n_outputs), np.float64)
        self._sum(choice, x, margin)
        link = response.launch(len(x))
        link.cell("margin")[0], link.cell("result")[0] = margin.data.ptr, out.data.ptr
        link(cupy.cuda.get_current_stream().ptr)

    def _schedule(self, choice: Choice, n_rows: int) -> FewRows | Tiles | None:
        """Schedule that takes rows to margins, None if leaves must be found first."""
        if choice.algorithm != "by_sample" or not _is_plain(self._forest):
            return None
        if self.few and self.few.serves(n_rows):
            return self.few
        return self.tiles if self.tiles and self.tiles.serves() else None

    def _plan(self, schedule: FewRows | Tiles, x: GpuArray, result_type: DTypeLike) -> Plan:
        """Plan for rows of this type, strides and number on the current GPU and stream."""
        kind = np.dtype(result_type)
        return self._kept(schedule, x, kind.char, lambda: schedule.plan(x.dtype, row_strides(x), len(x), kind))

    def _response_plan(self, schedule: FewRows | Tiles, x: GpuArray, response: GpuResponse) -> Plan:
        def make() -> Plan:
            margins = schedule.plan(x.dtype, row_strides(x), len(x), np.float64)
            return margins.followed_by(response.launch(len(x)), "margin", 8 * self._forest.n_outputs * len(x))

        return self._kept(schedule, x, response.link, make)

    def _kept(self, schedule: FewRows | Tiles, x: GpuArray, what: str, make: Callable[[], Plan]) -> Plan:
        return self._plans.of(x, (type(schedule), what, import_cupy().cuda.get_current_stream().ptr), make)

    def first(self, X: Any, request: tuple[str, str, str], choice: Choice, response: GpuResponse | None) -> Any:
        """Margins, or responses, of GPU rows in the source library's dtype and shape, kept for `again`.

        None if no one plan does it.
        """
        forest = self._forest
        schedule = self._schedule(choice, len(X)) if kept_calls.may_be_kept(X, forest) else None
        if schedule is None or len(X) > schedule.most_rows():
            return None
        check_gpu_rows(X, forest, X.device.id)
        with explaining_memory(import_cupy(), X.device.id):
            if response is None:
                plan = self._plan(schedule, X, forest.result_dtype)
                shape: tuple[int, ...] = () if forest.n_outputs == 1 else (forest.n_outputs,)
            else:
                plan, shape = self._response_plan(schedule, X, response), response.shape
            return self._calls.answer(X, request, plan, (len(X), *shape), forest.result_dtype)

    def _name(self, choice: Choice, x: GpuArray, out: GpuArray) -> None:
        ids = self._tables()["ids"]
        for begin, end, leaves in self._reach(choice, x):
            out[begin:end] = ids[leaves[:, : end - begin]].T

    def _reach(self, choice: Choice, x: GpuArray) -> Iterator[tuple[int, int, GpuArray]]:
        """Yield begin, end and the leaves that these rows reach: (n_trees, stride), at least `end - begin` wide."""
        step = max(BLOCK, LEAF_BYTES // max(4 * self._forest.n_trees, 1) // BLOCK * BLOCK)
        tiles = self.tiles if choice.algorithm == "by_sample" and self.tiles and self.tiles.serves() else None
        for begin in range(0, len(x), step):
            batch = x[begin : begin + step]
            leaves = tiles.leaves(batch) if tiles else self.nodes.leaves(batch, choice)
            yield begin, begin + len(batch), leaves

    def _add_up(self, x: GpuArray, leaves: GpuArray, out: GpuArray) -> None:
        forest, tables = self._forest, self._tables()
        n_rows, stride = len(x), leaves.shape[1] if len(leaves) else len(x)
        grid = -(-n_rows // BLOCK), forest.n_outputs
        args = {"leaves": leaves, "stride": stride, "n_rows": n_rows, "n_outputs": forest.n_outputs, "result": out}
        args |= {name: tables[name] for name in ("starts", "trees", "base_score")}
        if forest.has_linear_leaves:
            args |= {name: tables[name] for name in (*_LINEAR.values(), "weight")}
            args["missing"] = tables["missing"] if len(forest.leaf_missing) else NOWHERE
            launch(linear_variant(x.dtype, out.dtype), grid, (BLOCK,), {**args, "X": x, **row_strides(x)})
            return
        args |= {"values": tables["values"], "width": forest.leaf_width}
        launch(variant("evaluate/cuda/sum_leaves", RESULT=out.dtype), grid, (BLOCK,), args)

    def _tables(self) -> dict[str, GpuArray]:
        upload = import_cupy().asarray
        return self._uploads.get(lambda: {name: upload(array) for name, array in self._arrays().items()})

    def _arrays(self) -> dict[str, Array]:
        forest = self._forest
        weight = np.repeat(forest.tree_weight, np.diff(forest.leaf_offsets))[:, None]
        trees, starts = order_by_output(forest)
        arrays: dict[str, Array] = {
            "ids": forest.leaf_id,
            "trees": trees,
            "starts": starts,
            "base_score": forest.base_score,
        }
        if not forest.has_linear_leaves:
            return {**arrays, "values": forest.leaf_value * weight}
        models = {name: getattr(forest, field) for field, name in _LINEAR.items()}
        return {**arrays, "weight": forest.tree_weight, "missing": forest.leaf_missing, **models}

    def __getstate__(self) -> dict[str, object]:
        return {"_forest": self._forest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_forest"])  # type: ignore[misc]


_LINEAR = {
    "leaf_value": "value", "linear_offsets": "offsets", "linear_feature": "feature", "linear_category": "category",
    "linear_coefficient": "coefficient", "linear_mean": "mean", "leaf_range": "range",
}  # fmt: skip
"""Fields of a forest, and what sum_linear.cu calls them."""


def linear_variant(input_type: DTypeLike, result_type: DTypeLike) -> Variant:
    """Name the kernel that adds linear leaves up."""
    return variant("evaluate/cuda/sum_linear", INPUT=np.dtype(input_type), RESULT=np.dtype(result_type))


def _is_plain(forest: TreeEnsemble) -> bool:
    """Whether each leaf is one number."""
    return forest.leaf_width == 1 and not forest.has_linear_leaves
