"""Explanations by subtree tables: which trees have them, and a walk for the others (docs/internals/tables.md)."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from silva.explain.table_plans import shared_plan
from silva.explain.walked import walked_part
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.explain.background import Background
    from silva.explain.players import Players
    from silva.explain.table_plans import SharedPlan
    from silva.forest import Forest
    from silva.typing import Array, Explained, Int32s

TABLE_BYTES, GPU_TABLE_BYTES = 2**28, 2**29
"""Budgets of explainers that are given none, on cores and on a GPU, which has more memory than it needs."""


class Walk(Protocol):
    """Explanations of a forest without tables."""

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""


class Game(Protocol):
    """What is explained: the contents of tables, and the walk of trees without them."""

    @property
    def background(self) -> Background | None:
        """Rows that fill the tables; None: the covers."""

    def walk(self, forest: Forest, n_jobs: int | None) -> Walk:
        """Explanations of some of the trees without tables."""


class TableRunner:
    """Tables of values or of interactions where the forest says that they pay and fit, a walk elsewhere.

    Laid out at the first use.

    Parameters
    ----------
    forest : Forest
        Of constant leaves.
    players : Players
    dtype : {"float32", "float64"}
    table_bytes : int
        Most that all tables take, above 0.
    forced : bool
        Tables wherever they can be had, not only where they are the faster.
    game : Game
    kind : {"values", "pairs"}
        Tables of values or of interactions.
    """

    def __init__(
        self,
        forest: Forest,
        players: Players,
        dtype: str,
        table_bytes: int,
        forced: bool,
        game: Game,
        kind: Explained = "values",
    ) -> None:
        self._forest, self._dtype, self._table_bytes, self._forced = forest, dtype, table_bytes, forced
        self._player_of = players.of_feature
        self._game, self._kind = game, kind
        self.rest: Walk | None = None
        self.compiled: Any = None
        self._shared: SharedPlan | None = None
        self._is_planned = self.is_built = False
        self._lock = threading.RLock()
        _runners.add(self)

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables that are built."""
        return int(self.compiled.n_bytes) if self.is_built and self.compiled else 0

    @property
    def whole_tables(self) -> Any:
        """The compiled tables if they are built and kept, and no tree is walked, else None."""
        is_whole = self.is_built and self.rest is None and self.compiled.is_whole
        return self.compiled if is_whole else None

    def has_tables(self, n_jobs: int | None) -> bool:
        """Whether any tree has tables."""
        self._plan(n_jobs)
        return self.compiled is not None

    def prepare(self, n_jobs: int | None) -> None:
        """Build the tables, once."""
        with self._lock:
            self._plan(n_jobs)
            if self.is_built:
                return
            try:
                walked = self._fill(n_jobs)
            except MemoryError:
                self._give_up()
                walked = self._forest
            if walked is not None:
                self.rest = self._game.walk(walked, n_jobs)
            self.is_built = True

    def _fill(self, n_jobs: int | None) -> Forest | None:
        """Fill the tables; return the trees that have none."""
        if self.compiled is None:
            return self._forest
        background = self._game.background
        if background is None:
            self.compiled.build(n_threads(n_jobs))
        else:
            self.compiled.build_background(background.rows, background.weight, background.total, n_threads(n_jobs))
        tables = self.compiled
        has_background = background is not None
        return walked_part(self._forest, tables.walked_trees, tables.cut_nodes, self._dtype, has_background)

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        if not self.is_built:
            self.prepare(n_jobs)
        if self.rest is not None:
            self.rest.values(rows, out, n_jobs)
        if self.compiled is not None:
            self.compiled.values(rows, out, self.rest is not None, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        if not self.is_built:
            self.prepare(n_jobs)
        if self.rest is not None:
            self.rest.interactions(rows, places, out, n_jobs)
        if self.compiled is not None:
            self.compiled.interactions(rows, places, out, self.rest is not None, n_threads(n_jobs))

    def _plan(self, n_jobs: int | None) -> None:
        with self._lock:
            if self._is_planned:
                return
            has_background = self._game.background is not None
            settings = self._dtype, self._table_bytes, self._forced, self._kind == "pairs", has_background
            self._shared = shared_plan(self._forest, self._player_of, settings, n_jobs)
            if self._shared.n_subtrees > 0:
                self.compiled = self._shared.tables()
            self._is_planned = True

    def empty(self) -> None:
        """Forget what the tables hold, for another background."""
        with self._lock:
            self.rest, self.is_built = None, False

    def begin_anew(self) -> None:
        """In a forked process: forget tables that a thread of the other one was about to plan or build."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = threading.RLock()
        self.compiled, self.rest = None, None
        self._is_planned = self.is_built = False

    def _give_up(self) -> None:
        what = "values" if self._kind == "values" else "interactions"
        warnings.warn(
            f"no memory for {self.compiled.n_bytes:,} bytes of tables; {what} come from a walk. Pass a smaller "
            "table_bytes to have some tables",
            RuntimeWarning,
            stacklevel=2,
        )
        self.compiled = None


_runners: weakref.WeakSet[TableRunner] = weakref.WeakSet()


def _begin_anew() -> None:
    for runner in list(_runners):
        runner.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
