"""Explanations by subtree tables: which trees have them, and the walk for the others (docs/internals/tables.md)."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

from silva import _core
from silva.explain.quadrature import QuadratureRunner
from silva.explain.walked import walked_part
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.forest import Forest
    from silva.typing import Array, Int32s

TABLES = {"float32": _core.SubtreeTables32, "float64": _core.SubtreeTables64}
TABLE_BYTES = 2**28


class TableRunner:
    """Tables of values or of interactions where the forest says that they pay and fit, the walk elsewhere.

    Laid out at the first use.

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
    of_pairs : bool
        Tables of interactions, not of values.
    """

    def __init__(
        self, forest: Forest, dtype: str, table_bytes: int, forced: bool, walk: QuadratureRunner, of_pairs: bool = False
    ) -> None:
        self._forest, self._dtype, self._table_bytes, self._forced = forest, dtype, table_bytes, forced
        self._of_pairs = of_pairs
        self._whole_walk = walk
        self._walk: QuadratureRunner | None = walk
        self._tables: Any = None
        self._is_planned = self._is_built = False
        self._lock = threading.RLock()

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

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, F) or (n, m, F, k); places[f] is feature f's place among the m, or -1."""
        if not self._is_built:
            self.prepare(n_jobs)
        if self._walk is not None:
            self._walk.interactions(rows, places, out, n_jobs)
        if self._tables is not None:
            self._tables.interactions(rows, places, out, self._walk is not None, n_threads(n_jobs))

    def _plan(self, n_jobs: int | None) -> None:
        with self._lock:
            if self._is_planned:
                return
            tables = TABLES[self._dtype](
                self._forest, self._table_bytes, self._forced, self._of_pairs, n_threads(n_jobs)
            )
            if tables.n_subtrees > 0:
                self._tables = tables
                walked = walked_part(self._forest, tables.walked_trees, tables.cut_nodes, self._dtype)
                self._walk = QuadratureRunner(walked, self._dtype) if walked is not None else None
            self._is_planned = True

    def _give_up(self) -> None:
        size = self._tables.n_bytes
        warnings.warn(
            f"no memory for {size:,} bytes of tables; {'interactions' if self._of_pairs else 'values'} come from the "
            "quadrature walk. "
            "Pass a smaller table_bytes to have some tables",
            RuntimeWarning,
            stacklevel=2,
        )
        self._tables, self._walk = None, self._whole_walk
