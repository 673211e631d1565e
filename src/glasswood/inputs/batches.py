"""Rows that come in batches: from a generator, a folder that Arrow lists, or a frame of polars that is not computed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

TOGETHER = 1 << 14
"""Rows of a batch at most."""


def come_in_batches(X: object) -> bool:
    """Whether these are batches of rows, not rows: an iterator, a LazyFrame, a dataset or reader of Arrow, a list."""
    if hasattr(X, "__next__") or _is_lazy(X):
        return True
    if isinstance(X, list | tuple):
        return bool(X) and (hasattr(X[0], "num_rows") or len(getattr(X[0], "shape", ())) == 2)
    return hasattr(X, "to_batches") and not hasattr(X, "num_rows")


def batches_of(X: Any) -> Iterator[Any]:
    """Read rows, or an iterable of them, in batches of some thousands.

    Raises
    ------
    TypeError
        If `X` is neither.
    """
    if hasattr(X, "num_rows") or hasattr(X, "shape"):
        X = [X]
    elif _is_lazy(X):
        if not hasattr(X, "collect_batches"):
            raise TypeError("this polars collects no batches of a LazyFrame; pass X.collect(), or update polars")
        X = X.collect_batches(chunk_size=TOGETHER, maintain_order=True)
    elif hasattr(X, "to_batches"):
        X = X.to_batches()
    for rows in X:
        n_rows = length_of(rows)
        for first in range(0, n_rows, TOGETHER):
            last = min(first + TOGETHER, n_rows)
            yield rows.slice(first, last - first) if hasattr(rows, "num_rows") else rows[first:last]


def length_of(rows: Any) -> int:
    """Count rows."""
    return int(rows.num_rows if hasattr(rows, "num_rows") else len(rows))


def _is_lazy(X: object) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(X, polars.LazyFrame)
