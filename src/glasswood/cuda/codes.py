"""Exact rank codes: every test of a forest as one comparison of two small integers.

A column belongs to one feature and one side of missing values (or one category set). A row's code in it is the number
of the column's thresholds that its value has reached; a split with the j-th smallest threshold sends codes of at most
j to the left. Missing values get the code that goes to their side at every split, so kernels test no NaN, casts and
float64 thresholds stay exact, and a set of categories is a column of two codes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Bools, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble

LARGEST_SHORT_CODE = 2**16 - 1


@dataclass(frozen=True, eq=False)
class Codes:
    """Columns of a forest, and the test of each of its nodes.

    Attributes
    ----------
    node_column, node_rank : int32, (n_nodes,)
        A row goes left if its code in the column is smaller than the rank; 0 at leaves.
    feature : int32, (n_columns,)
    category_set : int32, (n_columns,)
        -1 where the column is numerical.
    missing : int32, (n_columns,)
        Code of missing values.
    offsets : int64, (n_columns + 1,)
        Column ``c`` owns the thresholds ``offsets[c]`` to ``offsets[c + 1] - 1``; a column of categories owns one, the
        smallest value that counts as a category.
    thresholds : float32 or float64
    """

    node_column: Int32s
    node_rank: Int32s
    feature: Int32s
    category_set: Int32s
    missing: Int32s
    offsets: Int64s
    thresholds: Array

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.feature)

    @property
    def code_type(self) -> type[np.unsignedinteger[Any]]:
        """Smallest unsigned type that holds every code."""
        return np.uint16 if int(np.diff(self.offsets).max(initial=1)) < LARGEST_SHORT_CODE else np.uint32


def encode_forest(forest: TreeEnsemble) -> Codes:
    """Find the columns of a forest and the rank of each split: O(n log n) in the nodes."""
    splits = np.flatnonzero(forest.feature >= 0)
    sets = forest.category_set[splits] if forest.is_categorical else np.full(len(splits), -1, np.int32)
    threshold = forest.threshold[splits]
    # Splits on the same set may count different values as categories; those columns are told apart by the threshold.
    of_set = np.where(sets >= 0, threshold, 0)
    keys = [of_set, forest.default_left[splits], sets, forest.feature[splits]]
    order = np.lexsort([threshold, *keys])
    new_column = _is_new(order, keys)
    new_test = new_column | _is_new(order, [threshold])
    column = np.cumsum(new_column) - 1
    starts = np.flatnonzero(new_test & new_column)
    test = np.cumsum(new_test) - 1
    first_test = test[starts]
    node_column = np.zeros(forest.n_nodes, np.int32)
    node_rank = np.zeros(forest.n_nodes, np.int32)
    node_column[splits[order]] = column
    node_rank[splits[order]] = test - first_test[column] + 1
    heads = order[starts]
    n_tests = np.diff(np.append(first_test, test[-1] + 1 if len(test) else 0))
    return Codes(
        node_column=node_column,
        node_rank=node_rank,
        feature=forest.feature[splits][heads],
        category_set=sets[heads],
        missing=np.where(forest.default_left[splits][heads], 0, n_tests).astype(np.int32),
        offsets=np.append(first_test, len(np.flatnonzero(new_test))).astype(np.int64),
        thresholds=threshold[order][new_test],
    )


def divide_sets(codes: Codes) -> tuple[Codes, Codes]:
    """Divide columns into those of numbers and those of sets; nodes of the i-th set have the column -1 - i."""
    is_set, sizes = codes.category_set >= 0, np.diff(codes.offsets)
    n_sets, n_numbers = np.cumsum(is_set, dtype=np.int32), np.cumsum(~is_set, dtype=np.int32)
    place = np.where(is_set, -n_sets, n_numbers - 1)

    def part(taken: Bools) -> Codes:
        return dataclasses.replace(
            codes,
            node_column=place[codes.node_column],
            feature=codes.feature[taken],
            category_set=codes.category_set[taken],
            missing=codes.missing[taken],
            offsets=np.append(0, np.cumsum(sizes[taken])),
            thresholds=codes.thresholds[np.repeat(taken, sizes)],
        )

    return part(~is_set), part(is_set)


def _is_new(order: NDArray[np.intp], keys: list[Array]) -> Bools:
    """Whether any key of an entry, in this order, differs from the entry before."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return new
