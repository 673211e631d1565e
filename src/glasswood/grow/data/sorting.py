"""Columns of training rows sorted and ranked on the cores; `glasswood.grow.cuda.sorting` does so on GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Bools, Doubles, Int32s, Int64s


class Sorter:
    """Sorts columns on the cores; several threads may ask it."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Take memory that columns are written to."""
        return np.empty(shape, dtype)

    def rank(self, values: Doubles, ranks: Int32s, order: Int32s, distinct: Doubles, starts: Int32s) -> int:
        """Write what `ranked` finds of a column, the latter two into first places; return how many are distinct."""
        ranks[:], order[:], found, first = ranked(values)
        distinct[: len(found)], starts[: len(first)] = found, first
        return len(found)

    def order(self, keys: NDArray[np.uint16]) -> Int32s:
        """Rows by their keys, equal ones in their order."""
        return np.argsort(keys, kind="stable").astype(np.int32)

    def rearrange(self, ranks: Int32s, order: Int32s, source: Int32s, n_threads: int) -> None:
        """Let ranks and order, (n_attributes, n_rows), speak of the rows in a new order; `source` are their places."""
        place = np.empty_like(source)
        place[source] = np.arange(len(source), dtype=np.int32)

        def move(a: int) -> None:
            ranks[a], order[a] = ranks[a][source], place[order[a]]

        side_by_side(move, len(ranks), n_threads)


@dataclass(frozen=True, eq=False)
class KnownRanks:
    """Ranks of all rows, from which those of some of them follow without sorting.

    Attributes
    ----------
    ranks : int32, (n_columns, n_all_rows)
    n_distinct : int64, (n_columns,)
        Distinct values of all rows; -1 of a column whose ranks are not known.
    rows : int32, (n_rows,)
        The rows that are meant.
    """

    ranks: Int32s
    n_distinct: Int64s
    rows: Int32s

    @classmethod
    def of(cls, X: Doubles, is_known: Bools, n_threads: int, sorter: Sorter) -> KnownRanks:
        """Rank those of the columns."""
        n_rows = len(X)
        ranks = np.empty((X.shape[1], n_rows), np.int32)

        def rank(a: int) -> int:
            if not is_known[a]:
                return -1
            order, distinct, starts = np.empty(n_rows, np.int32), np.empty(n_rows), np.empty(n_rows + 1, np.int32)
            return sorter.rank(np.ascontiguousarray(X[:, a]), ranks[a], order, distinct, starts)

        n_distinct = np.array(side_by_side(rank, len(ranks), n_threads), np.int64)
        return cls(ranks, n_distinct, np.arange(n_rows, dtype=np.int32))

    def taken(self, rows: Int32s) -> KnownRanks:
        """Mean these of the rows."""
        return replace(self, rows=self.rows[rows])

    def knows(self, column: int) -> bool:
        """Whether the ranks of a column are known."""
        return column < len(self.ranks) and bool(self.n_distinct[column] >= 0)

    def rank(
        self, column: int, values: Doubles, ranks: Int32s, order: Int32s, distinct: Doubles, starts: Int32s
    ) -> int:
        """Do what `Sorter.rank` does with `values`, which are the column's."""
        known = self.ranks[column], int(self.n_distinct[column])
        return _core.rank_again(*known, self.rows, values, ranks, order, distinct, starts)


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
