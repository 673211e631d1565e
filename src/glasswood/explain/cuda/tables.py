"""Values by subtree tables on a GPU: the plan, and the tables in the memory of a GPU (explain/cuda/tables/*.cu)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from glasswood import _core
from glasswood.base.device import import_cupy
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Int32s, Int64s
from glasswood.cuda.codes import Codes
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables
from glasswood.cuda.launches import NOWHERE, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu, gpu_limits
from glasswood.explain.cuda.tapes import quadrature
from glasswood.explain.players import make_players
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood._core import TableBatch
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.players import Players

BUILD_THREADS = 128
"""As in native/explain/cuda/tables/build_tables.cu and leaf_games.cuh."""

KEY_THREADS, KEY_ROWS, KEY_BLOCKS = 128, 8, 132 * 16
"""Threads and rows of a thread of native/explain/cuda/tables/find_keys.cu; blocks that fill the GPU."""

KEY_BYTES = 2
"""Size of the key of a row and subtree."""

POINTS = (2, 4, 8)
"""Quadrature points of the kernels that build: few kernels serve all subtrees."""

WORKSPACES = (6_000, 12_000, 24_000, 48_000, 96_000)
"""Bytes of shared memory of launches that build: more blocks fit beside each other where subtrees need less."""

ROW_ARRAYS = ("heads", "entries", "records", "stages", "chunks")

RESERVED_SHARED = 1024
"""Bytes of shared memory that the driver takes for each block."""

SCRATCH_BYTES = 2**26
"""Workspaces of subtrees that need more than a block's shared memory, in a launch."""


class TablePlan:
    """The layout of a forest's subtrees, their tables and the keys of rows in memory; needs no GPU.

    Parameters
    ----------
    forest : TreeEnsemble
        Of constant leaves.
    dtype : dtype
        Of tables and results.
    table_bytes : int
        Most that tables take: those that exceed it are built anew for each call.
    forced : bool
        Tables wherever they can be had, not only where they are the faster.
    of_pairs : bool
        Tables of interactions, not of values.
    has_background : bool
        Tables of the game against background rows, not of the covers'.
    players : Players, optional
        Default: the features.
    is_roomy : bool
        Tables of as many states as keys count, which rows read where they lie, and none that are built anew; else those
        that fit into shared memory.

    Attributes
    ----------
    players : Players
    arrays : dict
        What `_core.plan_gpu_tables` returns, structs as bytes, a line each.
    codes : CodeTables
        A column for each feature.
    walked_trees : int32
        Trees without tables, or with tables in part.
    batches : list of TableBatch
    n_bytes : int
        Of tables that are kept and of the largest batch of others.
    """

    dtype: np.dtype[Any]
    of_pairs: bool

    def __init__(
        self,
        forest: TreeEnsemble,
        dtype: DTypeLike,
        table_bytes: int,
        forced: bool,
        of_pairs: bool = False,
        has_background: bool = False,
        players: Players | None = None,
        is_roomy: bool = False,
    ) -> None:
        self.dtype, self.of_pairs = np.dtype(dtype), of_pairs
        self.players: Players = make_players(None, forest) if players is None else players
        settings = table_bytes, self.dtype.itemsize, forced, of_pairs, has_background, is_roomy, n_threads(None)
        self.arrays: dict[str, Any] = _core.plan_gpu_tables(forest, self.players.of_feature, *settings)
        self.codes: CodeTables = CodeTables(forest, _columns(forest, self.arrays), np.uint16)
        self.walked_trees: Int32s = self.arrays["walked_trees"]
        self.n_components: int = forest.leaf_width
        self.n_subtrees: int = len(self.arrays["subtrees"])
        self.batches: list[TableBatch] = self.arrays["batches"]
        numbers = (self.arrays["kept_size"] + self.arrays["built_size"]) * self.n_components
        self.n_bytes: int = numbers * self.dtype.itemsize


def _columns(forest: TreeEnsemble, arrays: dict[str, Any]) -> Codes:
    """Columns of the encoder: ranks of all of a feature's thresholds, categories among them."""
    feature = arrays["column_feature"]
    none = np.zeros(0, np.int32)
    return Codes(
        node_column=none,
        node_rank=none,
        feature=feature,
        category_set=np.full(len(feature), -1, np.int32),
        missing=np.full(len(feature), arrays["missing_code"], np.int32),
        offsets=arrays["column_offsets"],
        thresholds=arrays["column_thresholds"].astype(forest.threshold.dtype),
    )


class Tables:
    """Tables on the current GPU (built on construction) and the arrays that the row kernels read.

    Parameters
    ----------
    plan : TablePlan
    contents : Contents
        What fills the tables.

    Attributes
    ----------
    numbers : (n_components, kept_size)
        Tables that are kept.
    arrays : dict
        Arrays of the plan, on the GPU.

    Raises
    ------
    cupy.cuda.memory.OutOfMemoryError
        If they do not fit.
    """

    def __init__(self, plan: TablePlan, contents: Contents) -> None:
        cupy = import_cupy()
        self._plan, self._contents = plan, contents
        self.numbers: Any = cupy.empty((plan.n_components, plan.arrays["kept_size"]), plan.dtype)
        self.arrays: dict[str, Any] = {
            name: cupy.asarray(plan.arrays[name]) for name in (*ROW_ARRAYS, *contents.arrays)
        }
        self._state = contents.prepare(plan, self.arrays)
        stream = cupy.cuda.get_current_stream()
        for batch in plan.batches:
            for launch, room in self.builds(batch) if batch.is_kept else ():
                memory = cupy.empty(room, np.uint8)
                launch.cell("scratch")[0] = memory.data.ptr if room else 0
                launch.cell("tables")[0] = self.numbers.data.ptr
                launch(stream.ptr)
        stream.synchronize()
        if all(batch.is_kept for batch in plan.batches):
            self._state = None
            for name in contents.arrays:
                del self.arrays[name]

    def builds(self, batch: TableBatch) -> list[Build]:
        """Lay out the launches that fill the tables of a batch."""
        return self._contents.builds(self._plan, self.arrays, self._state, batch)


class SharedTables:
    """Tables that several jobs read, made at the first use on each GPU.

    Parameters
    ----------
    plan : TablePlan
        With a subtree at least.
    contents : Contents
        What fills the tables.
    may_be_walked : bool
        Whether the walk can take the tables' place.
    """

    plan: TablePlan
    contents: Contents
    may_be_walked: bool

    def __init__(self, plan: TablePlan, contents: Contents, *, may_be_walked: bool) -> None:
        self.plan, self.contents, self.may_be_walked = plan, contents, may_be_walked
        self._made = PerGpu()

    def on_gpu(self) -> Tables:
        """Return those of the current GPU."""
        tables: Tables = self._made.get(lambda: Tables(self.plan, self.contents))
        return tables

    @property
    def n_made(self) -> int:
        """On how many GPUs they are built."""
        return len(self._made)


class Build(NamedTuple):
    """A launch that fills `tables`, and the bytes of its `scratch`, 0 where it works in shared memory."""

    launch: PreparedLaunch
    room: int


class Contents(Protocol):
    """What fills the tables."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the plan's arrays that the launches read."""

    def prepare(self, plan: TablePlan, arrays: dict[str, Any]) -> Any:
        """Find out what all builds need, on the current GPU."""

    def builds(self, plan: TablePlan, arrays: dict[str, Any], state: Any, batch: TableBatch) -> list[Build]:
        """Lay out the launches that fill the tables of a batch; `state` is what `prepare` has returned."""


class CoverContents:
    """Values of the path-dependent game, split by split."""

    arrays: tuple[str, ...] = ("subtrees", "splits", "cells", "bits", "factors", "leaves")

    def prepare(self, plan: TablePlan, arrays: dict[str, Any]) -> None:
        """Nothing."""

    def builds(self, plan: TablePlan, arrays: dict[str, Any], state: None, batch: TableBatch) -> list[Build]:  # noqa: ARG002
        """Lay out the launches that fill the tables of a batch."""
        result = []
        for points, group in build_groups(plan, batch):
            _, t, weight = quadrature(points)
            args = {**{name: arrays[name] for name in self.arrays}, "points": np.concatenate([t, weight])}
            result.append(lay_out_build(plan, batch, group, build_variant(plan.dtype, points), args))
        return result


class Group(NamedTuple):
    """Subtrees whose tables a launch fills, and the bytes of a workspace; whether it lies in global memory."""

    subtrees: Int32s
    workspace: int
    is_scratch: bool


def lay_out_build(plan: TablePlan, batch: TableBatch, group: Group, kernel: Variant, args: dict[str, Any]) -> Build:
    """Lay out a launch that fills tables: `args`, and what all such kernels take."""
    size = plan.arrays["kept_size" if batch.is_kept else "built_size"]
    chosen = {"chosen": import_cupy().asarray(group.subtrees), "n_components": plan.n_components}
    scratch = {"scratch": NOWHERE, "scratch_size": group.workspace}
    all_args = {**args, **chosen, **scratch, "component_size": size, "tables": NOWHERE}
    grid, shared = (len(group.subtrees), plan.n_components), 0 if group.is_scratch else group.workspace
    room = len(group.subtrees) * plan.n_components * group.workspace if group.is_scratch else 0
    return Build(PreparedLaunch(kernel, grid, BUILD_THREADS, all_args, shared), room)


def build_groups(plan: TablePlan, batch: TableBatch) -> Iterator[tuple[int, Group]]:
    """Points and subtrees of the launches that fill tables of a batch split by split."""
    of_batch = slice(batch.first_subtree, batch.first_subtree + batch.n_subtrees)
    needed, units = plan.arrays["n_points"][of_batch], plan.arrays["build_units"][of_batch]
    choices = (batch.n_points,) if batch.n_points else POINTS
    rounded = np.array(choices)[np.searchsorted(choices, needed)]
    # Six points are filled up to eight (native/explain/cuda/tables/build_tables.cu).
    n_bytes = units * np.where(rounded == 6, 8, rounded) * plan.dtype.itemsize
    for points in choices:
        chosen = np.flatnonzero(rounded == points)
        for group in group_by_workspace(plan, chosen + batch.first_subtree, n_bytes[chosen]):
            yield points, group


def group_by_workspace(plan: TablePlan, subtrees: Int64s, n_bytes: Int64s) -> Iterator[Group]:
    """Share subtrees out to launches by the bytes of their workspaces."""
    n_bytes = -(-n_bytes // 16) * 16
    most = gpu_limits().shared_per_block - RESERVED_SHARED
    sizes = [size for size in WORKSPACES if size < most] + [most]
    place = np.searchsorted(sizes, n_bytes)
    for number in range(len(sizes) + 1):
        chosen = subtrees[place == number].astype(np.int32)
        if not len(chosen):
            continue
        workspace, is_scratch = int(n_bytes[place == number].max()), number == len(sizes)
        step = max(1, SCRATCH_BYTES // (workspace * plan.n_components)) if is_scratch else len(chosen)
        for start in range(0, len(chosen), step):
            yield Group(chosen[start : start + step], workspace, is_scratch)


def lay_out_keys(plan: TablePlan, arrays: dict[str, Any], batch: TableBatch, stride: int) -> PreparedLaunch:
    """Lay out the launch that finds `keys` from the rows' `codes`."""
    n_tiles = -(-stride // (KEY_THREADS * KEY_ROWS))
    run = int(np.clip(batch.n_subtrees * n_tiles // KEY_BLOCKS, 4, 64))
    rows = {"codes": NOWHERE, "stride": stride, "keys": NOWHERE}
    sizes = {"n_subtrees": batch.n_subtrees, "run": run}
    args = {**rows, **sizes, "heads": arrays["heads"][batch.first_subtree :], "entries": arrays["entries"]}
    grid = n_tiles, -(-batch.n_subtrees // run)
    is_packed = plan.arrays["is_packed"] and not batch.n_points
    return PreparedLaunch(keys_variant(is_packed), grid, KEY_THREADS, args)


def build_variant(dtype: DTypeLike, points: int) -> Variant:
    """Name the kernel that builds tables of values split by split."""
    return variant("explain/cuda/tables/build_tables", REAL=np.dtype(dtype), POINTS=points)


def keys_variant(is_packed: bool) -> Variant:
    """Name the kernel that finds the keys of rows."""
    return variant("explain/cuda/tables/find_keys", PACKED=int(is_packed))
