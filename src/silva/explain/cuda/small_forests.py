"""Values of small forests on GPUs: one launch with its arguments laid out once (explain/cuda/explain_small.cu)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.encoder import row_strides
from silva.cuda.launches import NOWHERE, Plan, PreparedLaunch
from silva.explain.cuda.kernels import walk_macros
from silva.explain.cuda.tapes import TINY_SPLITS, Tape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from silva.cuda.compiler import Variant
    from silva.cuda.encoder import CodeTables
    from silva.explain.cuda.on_gpu import OnGpu
    from silva.typing import GpuArray

WARP, MOST_WARPS, SUM_STRIDE = 32, 16, 33
MOST_SHARED = 48 * 1024
"""Shared memory that no GPU refuses to a block."""


class SmallForest:
    """A forest whose chunks are the warps of one block, with codes and sums in its shared memory."""

    def __init__(self, tape: Tape, dtype: DTypeLike, codes: CodeTables) -> None:
        self._tape, self._dtype, self._codes = tape, dtype, codes
        self.shared = SUM_STRIDE * len(tape.slot_keys) * np.dtype(dtype).itemsize + WARP * codes.row_bytes

    def plan(self, x: GpuArray, tables: OnGpu) -> Plan:
        """Lay out the launch that fills results, (n, F, k) and contiguous, for such rows."""
        codes, tape = self._codes, self._tape
        n_chunks = len(tape.chunk_starts)
        rows = {"X": NOWHERE, **row_strides(x), "n_rows": len(x), "n_columns": codes.codes.n_columns}
        sizes = {"n_chunks": n_chunks, "n_slots": len(tape.slot_keys), "n_entries": len(tables.target)}
        sums = {"slot_starts": tables.slot_starts, "slots": tables.slots, "result": NOWHERE}
        args = {**rows, **codes.tables(), **tables.tapes[0], **sizes, **sums}
        kernel = small_variant(tape, self._dtype, codes.codes.thresholds.dtype, codes.code_type, x.dtype)
        grid, threads = (-(-len(x) // WARP), 1), WARP * min(n_chunks, MOST_WARPS)
        launch = PreparedLaunch(kernel, grid, threads, args, self.shared)
        return Plan([launch], launch.cell("X"), launch.cell("result"))


def make_small(tapes: list[Tape], dtype: DTypeLike, codes: CodeTables) -> SmallForest | None:
    """Values of the tapes of a forest in one launch; None if it is too large for that."""
    if len(tapes) != 1 or tapes[0].n_splits >= TINY_SPLITS:
        return None
    small = SmallForest(tapes[0], dtype, codes)
    return small if small.shared <= MOST_SHARED else None


def small_variant(
    tape: Tape, dtype: DTypeLike, row_type: DTypeLike, code_type: DTypeLike, input_type: DTypeLike
) -> Variant:
    """Name the kernel for the tape of a small forest and rows of a type."""
    macros = walk_macros(tape, dtype, code_type, False)
    types = {"INPUT": np.dtype(input_type), "ROW": np.dtype(row_type)}
    return variant("explain/cuda/explain_small", **macros, **types, SHARED=1, STAGED=1)
