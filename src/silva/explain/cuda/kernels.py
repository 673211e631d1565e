"""Kernels and blocks of the CUDA walk: which serves a tape. No GPU is needed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from silva.cuda.compiler import Variant
    from silva.explain.cuda.leaf_tapes import LeafTape
    from silva.explain.cuda.tapes import Tape

SHARED_BYTES, PAIR_SHARED_BYTES = 24 * 1024, 32 * 1024
"""Accumulators of a block in shared memory: eight blocks fit beside each other, seven of interactions.
Interactions of 14 features (27 KB) took 13.6 ms on an H200 with accumulators in global memory, 9.7 ms with these."""

BLOCKS = (64, 32)
"""Threads of a block, by preference: with 64 the last wave of blocks is short."""

FEW_THREADS = 2**16
"""Rows times chunks below which blocks are small, to spread over all multiprocessors."""


def choose_block(most_slots: int, itemsize: int, n_rows: int, n_chunks: int, pairs: bool) -> tuple[int, int]:
    """Threads of a block, and its bytes of shared memory; 0 if the accumulators do not fit there."""
    block = BLOCKS[n_rows * n_chunks < FEW_THREADS]
    shared = most_slots * block * itemsize
    return block, shared if shared <= (PAIR_SHARED_BYTES if pairs else SHARED_BYTES) else 0


def walk_variant(tape: Tape, dtype: DTypeLike, code_type: DTypeLike, *, pairs: bool, shared: bool) -> Variant:
    """Name the kernel for a tape."""
    return variant("explain/cuda/explain_rows", **walk_macros(tape, dtype, code_type, pairs), SHARED=int(shared))


def leaves_variant(
    tape: LeafTape, dtype: DTypeLike, code_type: DTypeLike, input_type: DTypeLike, *, pairs: bool, shared: bool
) -> Variant:
    """Name the kernel for leaves with linear models."""
    words = tape.points * np.dtype(dtype).itemsize // 4
    return variant(
        "explain/cuda/explain_leaves",
        REAL=np.dtype(dtype),
        POINTS=tape.points,
        PAIRS=int(pairs),
        HOT_WORDS=_power_of_two(-(-max(tape.most_tested, 1) // 32)),
        CODE=np.dtype(code_type),
        SHARED=int(shared),
        INPUT=np.dtype(input_type),
        MIN_BLOCKS=12 if words <= 4 else 8,
    )


def walk_macros(tape: Tape, dtype: DTypeLike, code_type: DTypeLike, pairs: bool) -> dict[str, Any]:
    """Macros of native/explain/cuda/row.cuh."""
    words = tape.points * np.dtype(dtype).itemsize // 4
    height = 4 if words <= 3 or tape.levels <= 4 else 3
    levels = _round_levels(tape.levels - height)
    # Registers for what is alive: interactions of four points spill 460 bytes a thread with the 64 of eight blocks.
    blocks = (8 if words <= 3 else 5 if words <= 4 else 4) if pairs else 8 if words <= 4 else 5
    blocks = blocks if words <= 8 else 3
    return {
        "REAL": np.dtype(dtype),
        "POINTS": tape.points,
        "HEIGHT": height,
        "LEVELS": levels,
        "PAIRS": int(pairs),
        "HOT_WORDS": _power_of_two(-(-max(tape.tracks, 1) // 32)),
        "CODE": np.dtype(code_type),
        "DELTAS": _round_levels(tape.levels) if pairs else 0,
        "MIN_BLOCKS": blocks,
    }


def _round_levels(levels: int) -> int:
    """0, 8, 16, 32, ...: few kernels serve all depths."""
    return 0 if levels <= 0 else max(8, _power_of_two(levels))


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
