"""Columns of training rows sorted and ranked on the cores; `silva.grow.cuda.sorting` does so on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.typing import Doubles, Int32s


class Sorter:
    """Sorts columns on the cores; several threads may ask it."""

    def rank(self, values: Doubles, ranks: Int32s, order: Int32s) -> tuple[Doubles, Int32s]:
        """Write ranks and order of a column as `ranked` finds them; return its distinct values and starts."""
        ranks[:], order[:], distinct, starts = ranked(values)
        return distinct, starts

    def order(self, keys: NDArray[np.uint16]) -> Int32s:
        """Rows by their keys, equal ones in their order."""
        return np.argsort(keys, kind="stable").astype(np.int32)


def ranked(values: Doubles) -> tuple[Int32s, Int32s, Doubles, Int32s]:
    """Ranks, rows by rank (missing first), distinct values and the first position of each rank and the end."""
    n_missing = int(np.isnan(values).sum())
    order = np.roll(np.argsort(values, kind="stable").astype(np.int32), n_missing)
    present = values[order[n_missing:]]
    is_new = np.ones(len(present), bool)
    is_new[1:] = present[1:] != present[:-1]
    ranks = np.full(len(values), -1, np.int32)
    ranks[order[n_missing:]] = np.cumsum(is_new, dtype=np.int32) - np.int32(1)
    starts = np.concatenate([np.flatnonzero(is_new), [len(present)]]) + n_missing
    return ranks, order, present[is_new], starts.astype(np.int32)
