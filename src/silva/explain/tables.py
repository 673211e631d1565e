"""Values by subtree tables: which trees have them, and the walk for the others (docs/internals/tables.md)."""

from __future__ import annotations

import dataclasses
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from silva import _core
from silva.explain.quadrature import QuadratureRunner
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.forest import Forest
    from silva.typing import Array, Int32s

TABLES = {"float32": _core.SubtreeTables32, "float64": _core.SubtreeTables64}
TABLE_BYTES = 2**28

Ensemble = TypeVar("Ensemble", bound="TreeEnsemble")


class TableRunner:
    """Values by tables where the forest says that they pay and fit, by the walk elsewhere; laid out at first use.

    Parameters
    ----------
    forest : Forest
        Of constant leaves.
    dtype : {"float32", "float64"}
    table_bytes : int
        Most that all tables take, above 0.
    forced : bool
        Tables wherever they can be had, not only where they are the faster.
    walk : QuadratureRunner
        Of the whole forest, for forests without any table.
    """

    def __init__(self, forest: Forest, dtype: str, table_bytes: int, forced: bool, walk: QuadratureRunner) -> None:
        self._forest, self._dtype, self._table_bytes, self._forced = forest, dtype, table_bytes, forced
        self._whole_walk = walk
        self._walk: QuadratureRunner | None = walk
        self._tables: Any = None
        self._is_planned = self._is_built = False
        self._lock = threading.RLock()
        _runners.add(self)

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables that are built."""
        return int(self._tables.n_bytes) if self._is_built and self._tables else 0

    @property
    def whole_tables(self) -> Any:
        """The compiled tables if they are built and no tree is walked, else None."""
        return self._tables if self._is_built and self._walk is None else None

    def has_tables(self, n_jobs: int | None) -> bool:
        """Whether any tree has tables."""
        self._plan(n_jobs)
        return self._tables is not None

    def prepare(self, n_jobs: int | None) -> None:
        """Build the tables, once."""
        with self._lock:
            self._plan(n_jobs)
            if self._tables is not None and not self._is_built:
                try:
                    self._tables.build(n_threads(n_jobs))
                except MemoryError:
                    self._give_up()
            self._is_built = True

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, F) or (n, F, k)."""
        if not self._is_built:
            self.prepare(n_jobs)
        if self._walk is not None:
            self._walk.values(rows, out, n_jobs)
        if self._tables is not None:
            self._tables.values(rows, out, self._walk is not None, n_threads(n_jobs))

    def _plan(self, n_jobs: int | None) -> None:
        with self._lock:
            if self._is_planned:
                return
            tables = TABLES[self._dtype](self._forest, self._table_bytes, self._forced, n_threads(n_jobs))
            if tables.n_subtrees > 0:
                self._tables, walked = tables, tables.walked_trees
                self._walk = QuadratureRunner(select_trees(self._forest, walked), self._dtype) if len(walked) else None
            self._is_planned = True

    def begin_anew(self) -> None:
        """In a forked process: forget tables that a thread of the other one was about to plan or build."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = threading.RLock()
        self._tables, self._walk = None, self._whole_walk
        self._is_planned = self._is_built = False

    def _give_up(self) -> None:
        size = self._tables.n_bytes
        warnings.warn(
            f"no memory for {size:,} bytes of tables; values come from the quadrature walk. "
            "Pass a smaller table_bytes to have some tables",
            RuntimeWarning,
            stacklevel=2,
        )
        self._tables, self._walk = None, self._whole_walk


_runners: weakref.WeakSet[TableRunner] = weakref.WeakSet()


def _begin_anew() -> None:
    for runner in list(_runners):
        runner.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def select_trees(forest: Ensemble, trees: Int32s) -> Ensemble:
    """Return the forest of some of the trees."""
    sizes = np.diff(forest.tree_offsets)
    has_tree = np.zeros(forest.n_trees, np.bool_)
    has_tree[trees] = True
    has_node = np.repeat(has_tree, sizes)
    has_leaf = has_node[forest.feature < 0]
    by_node = {
        name: getattr(forest, name)[has_node] for name in ("feature", "threshold", "left", "default_left", "cover")
    }
    if forest.is_categorical:
        by_node["category_set"] = forest.category_set[has_node]
    by_tree = {name: getattr(forest, name)[has_tree] for name in ("tree_output", "tree_weight")}
    return dataclasses.replace(
        forest,
        tree_offsets=np.concatenate([[0], np.cumsum(sizes[has_tree])]).astype(np.int64),
        leaf_value=forest.leaf_value[has_leaf],
        leaf_id=forest.leaf_id[has_leaf],
        leaf_shape=(),
        choices=(),
        **by_node,
        **by_tree,
    )
