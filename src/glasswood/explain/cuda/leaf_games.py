"""Tables that are filled leaf by leaf on a GPU: against background rows, of interactions, of groups of features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.base.typing import GpuArray
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import NOWHERE, launch
from glasswood.cuda.per_gpu import gpu_limits
from glasswood.explain.cuda.job import fitting_rows, padded_rows
from glasswood.explain.cuda.tables import KEY_BYTES, RESERVED_SHARED, group_by_workspace, lay_out_build, lay_out_keys
from glasswood.explain.cuda.tapes import quadrature

if TYPE_CHECKING:
    from glasswood._core import TableBatch
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.background import Background
    from glasswood.explain.cuda.tables import Build, TablePlan

COUNT_THREADS, COUNT_ROWS = 128, 8
"""As in native/explain/cuda/tables/count_states.cu."""

COUNT_BLOCKS, FEWEST_COUNTED = 132 * 16, 8192
"""Blocks that fill the GPU, and rows of one, worth adding its counts to the others'."""

IN_FLIGHT = 2**28
"""Bytes of keys and codes of the background rows that are counted together."""

LEAF_POINTS, MOST_POINTS = (2, 4, 8), 8
"""Quadrature points of leaves of up to 4, 8 and 16 positions; room for them in the kernel's argument."""


class BackgroundContents:
    """The game against background rows."""

    arrays: tuple[str, ...] = ("subtrees", "leaves_of", "leaf_lanes", "unmet", "leaves")

    def __init__(self, background: Background) -> None:
        self._background = background

    def prepare(self, plan: TablePlan, arrays: dict[str, Any]) -> GpuArray:
        """Count the background rows in each state of each subtree, uint64."""
        cupy, background = import_cupy(), self._background
        count: GpuArray = cupy.zeros(max(1, plan.arrays["n_states"]), np.uint64)
        most = max(batch.n_subtrees for batch in plan.batches)
        step = fitting_rows(IN_FLIGHT, KEY_BYTES * most + plan.codes.row_bytes)
        rows = background.on_gpu(cupy.cuda.runtime.getDevice())
        for start in range(0, len(rows), step):
            x = cupy.asarray(rows[start : start + step])
            weight = cupy.asarray(background.weight[start : start + step]) if background.is_weighted else None
            codes = plan.codes.encode(x, padded_rows(len(x)))
            for batch in plan.batches:
                _count(plan, arrays, batch, (codes, len(x), weight), count)
        return count

    def builds(self, plan: TablePlan, arrays: dict[str, Any], state: GpuArray, batch: TableBatch) -> list[Build]:
        """Lay out the launches that fill the tables of a batch."""
        counts = {"count": state, "total": self._background.total}
        return leaf_game_builds(plan, arrays, batch, self.arrays, background_variant, counts)


class ShareContents:
    """The path-dependent game from the shares of the covers: interactions, and players of several features."""

    arrays: tuple[str, ...] = ("subtrees", "leaves_of", "leaf_lanes", "leaf_shares", "unmet", "leaves")

    def prepare(self, plan: TablePlan, arrays: dict[str, Any]) -> None:
        """Nothing."""

    def builds(self, plan: TablePlan, arrays: dict[str, Any], state: None, batch: TableBatch) -> list[Build]:  # noqa: ARG002
        """Lay out the launches that fill the tables of a batch."""
        return leaf_game_builds(plan, arrays, batch, self.arrays, shares_variant, {})


def leaf_game_builds(
    plan: TablePlan,
    arrays: dict[str, Any],
    batch: TableBatch,
    names: tuple[str, ...],
    kernel: Callable[[DTypeLike, bool], Variant],
    more: dict[str, Any],
) -> list[Build]:
    """Lay out the launches that fill the tables of a batch leaf by leaf; they take arrays of these names, and more."""
    points = np.zeros((2, len(LEAF_POINTS), MOST_POINTS))
    for kind, n in enumerate(LEAF_POINTS):
        _, points[0, kind, :n], points[1, kind, :n] = quadrature(n)
    members = np.arange(batch.first_subtree, batch.first_subtree + batch.n_subtrees)
    result = []
    for group in group_by_workspace(plan, members, plan.arrays["leaf_game_bytes"][members]):
        args = {**{name: arrays[name] for name in names}, **more, "points": points}
        result.append(lay_out_build(plan, batch, group, kernel(plan.dtype, plan.of_pairs), args))
    return result


def _count(
    plan: TablePlan,
    arrays: dict[str, Any],
    batch: TableBatch,
    rows: tuple[GpuArray, int, GpuArray | None],
    count: GpuArray,
) -> None:
    """Add the states of some rows in a batch of subtrees to `count`; rows are codes, their number and weights."""
    cupy, (codes, n_rows, weight) = import_cupy(), rows
    stride = padded_rows(n_rows)
    keys = cupy.empty((batch.n_subtrees, stride), np.uint16)
    find = lay_out_keys(plan, arrays, batch, stride)
    find.cell("codes")[0], find.cell("keys")[0] = codes.data.ptr, keys.data.ptr
    find(cupy.cuda.get_current_stream().ptr)
    n_parts = min(-(-n_rows // FEWEST_COUNTED), max(1, COUNT_BLOCKS // batch.n_subtrees))
    together = COUNT_THREADS * COUNT_ROWS
    run = -(-n_rows // (n_parts * together)) * together
    sizes = {"stride": stride, "n_rows": n_rows, "run": run}
    weights = {"weight": NOWHERE if weight is None else weight, "count": count}
    args = {"keys": keys, **sizes, "subtrees": arrays["subtrees"][batch.first_subtree :], **weights}
    shared = plan.arrays["most_states"] * (4 if weight is None else 8)
    fits = shared <= gpu_limits().shared_per_block - RESERVED_SHARED
    grid = (batch.n_subtrees, -(-n_rows // run))
    launch(count_variant(weight is not None, fits), grid, (COUNT_THREADS,), args, shared if fits else 0)


def count_variant(is_weighted: bool, fits: bool = True) -> Variant:
    """Name the kernel that counts the states of background rows; `fits`: in shared memory."""
    return variant("explain/cuda/tables/count_states", WEIGHTED=int(is_weighted), SHARED=int(fits))


def background_variant(dtype: DTypeLike, of_pairs: bool = False) -> Variant:
    """Name the kernel that builds tables against a background."""
    return variant("explain/cuda/tables/build_background", REAL=np.dtype(dtype), PAIRS=int(of_pairs))


def shares_variant(dtype: DTypeLike, of_pairs: bool = False) -> Variant:
    """Name the kernel that builds tables from the shares of the covers."""
    return variant("explain/cuda/tables/build_shares", REAL=np.dtype(dtype), PAIRS=int(of_pairs))
