"""Explanations by subtree tables: which trees have them, and a walk for the others (docs/internals/tables.md)."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from glasswood import _core
from glasswood.base.parallel import n_threads
from glasswood.base.progress import announcing
from glasswood.base.typing import Array, Explained, Int32s, Int64s
from glasswood.explain.walks import walk_of, walked_part
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings
    from glasswood.explain.walks import Walk

TABLE_BYTES, GPU_TABLE_BYTES = 2**28, 2**29
"""Budgets of explainers that are given none, on cores and on a GPU, which has more memory than it needs."""

TABLES: dict[str, Any] = {"float32": _core.SubtreeTables32, "float64": _core.SubtreeTables64}

MOST_PLANS, MOST_BYTES = 2, 2**25
"""Plans that a forest keeps for explainers to come, and bytes of each; larger ones live as long as an explainer."""


class TableChoice(NamedTuple):
    """The settings that decide which tables a game has.

    Attributes
    ----------
    dtype : {"float32", "float64"}
    budget : int
        Bytes that all tables take at most, above 0.
    is_forced : bool
        Tables wherever they can be had, not only where they are the faster.
    of_pairs : bool
        Tables of interactions, not of values.
    has_background : bool
    """

    dtype: str
    budget: int
    is_forced: bool
    of_pairs: bool
    has_background: bool


def choose_tables(game: Game, settings: Settings, kind: Explained, default: int, is_forced: bool) -> TableChoice:
    """Choose tables of values or of pairs; `default` is the budget of settings that have none."""
    budget = default if settings.table_bytes is None else settings.table_bytes
    is_forced = is_forced or settings.algorithm == "tables"
    return TableChoice(settings.dtype, budget, is_forced, kind == "pairs", game.has_background)


class SharedPlan:
    """A plan, which explainers of one forest share: it depends on the forest, not on the background.

    Parameters
    ----------
    planned : SubtreeTables32 or SubtreeTables64
        Not filled.

    Attributes
    ----------
    n_subtrees : int
    n_bytes : int
        Bytes of the plan alone.
    """

    def __init__(self, planned: Any) -> None:
        self._planned = planned
        self.n_subtrees: int = planned.n_subtrees
        self.n_bytes: int = planned.plan_bytes

    def tables(self) -> Any:
        """Tables to be filled."""
        return self._planned.like()


class ForestPlans:
    """Plans of one forest."""

    def __init__(self) -> None:
        self.living: weakref.WeakValueDictionary[tuple[Any, ...], SharedPlan] = weakref.WeakValueDictionary()
        self.kept: deque[SharedPlan] = deque(maxlen=MOST_PLANS)


_plans: weakref.WeakKeyDictionary[TreeEnsemble, ForestPlans] = weakref.WeakKeyDictionary()


def shared_plan(game: Game, choice: TableChoice, for_row: bool, n_jobs: int | None) -> SharedPlan:
    """Lay tables out, or find a plan of the same forest, players and choice."""
    player_of = game.players.of_feature
    plans, key = _plans.setdefault(game.forest, ForestPlans()), (player_of.tobytes(), *choice, for_row)
    found = plans.living.get(key)
    if found is None:
        dtype, *rest = choice
        found = SharedPlan(TABLES[dtype](game.forest, player_of, *rest, for_row, n_threads(n_jobs)))
        plans.living[key] = found
    if found.n_bytes <= MOST_BYTES and found not in plans.kept:
        plans.kept.append(found)
    return found


class TableRunner:
    """Tables of values or of pairs where the forest says that they pay and fit, a walk elsewhere.

    Laid out at the first use.

    Parameters
    ----------
    game : Game
        Its forest has constant leaves.
    choice : TableChoice
    walk : Walk, optional
        The walk of all trees, if there is one already.
    for_row : bool
        For single rows: tables that exceed the budget are made smaller, none are built anew, and what has none is left
        to another walk.

    Attributes
    ----------
    compiled : SubtreeTables32, SubtreeTables64 or None
        None before they are planned, and where no tree has any.
    rest : Walk or None
        The walk of the trees without tables.
    walked : TreeEnsemble or None
        These trees, once tables are built.
    is_built : bool
    """

    is_built: bool

    def __init__(self, game: Game, choice: TableChoice, walk: Walk | None, for_row: bool = False) -> None:
        self._game, self._choice, self._whole_walk, self._for_row = game, choice, walk, for_row
        self.rest: Walk | None = None
        self.walked: TreeEnsemble | None = None
        self.compiled: Any = None
        self._shared: SharedPlan | None = None
        self._is_planned = self.is_built = False
        self._is_first = True
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
                walked = self._game.forest
            self.walked = walked
            if self._for_row:
                pass  # a row has a walk of its own
            elif walked is self._game.forest and self._whole_walk is not None:
                self.rest = self._whole_walk
            elif walked is not None:
                self.rest = walk_of(self._game, walked, self._choice.dtype, n_jobs)
            self.is_built = True

    def share_walked(self, n_jobs: int | None) -> float:
        """Share of the splits that have no tables."""
        self._plan(n_jobs)
        walked = self._game.forest if self.compiled is None else self._left_by(self.compiled)
        return 0.0 if walked is None else float((walked.feature >= 0).sum() / (self._game.forest.feature >= 0).sum())

    def _left_by(self, tables: Any) -> TreeEnsemble | None:
        cut, choice = (tables.walked_trees, tables.cut_nodes), self._choice
        return walked_part(self._game.forest, *cut, choice.dtype, choice.has_background)

    def _fill(self, n_jobs: int | None) -> TreeEnsemble | None:
        """Fill the tables; return the trees that have none."""
        tables, choice = self.compiled, self._choice
        if tables is None:
            return self._game.forest
        what = "interactions" if choice.of_pairs else "values"
        with announcing(f"building tables of {what}, {tables.n_bytes / 1e6:,.0f} MB: once per explainer"):
            if self._game.has_background:
                tables.build_background(*self._game.weighted_rows, n_threads(n_jobs))
            else:
                tables.build(n_threads(n_jobs))
        return self._left_by(tables)

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        if against := self._unbuilt(len(rows), n_jobs):
            self.compiled.values(rows, out, False, n_threads(n_jobs), against)
            return
        if not self.is_built:
            self.prepare(n_jobs)
        if self.rest is not None:
            self.rest.values(rows, out, n_jobs)
        if self.compiled is not None:
            self.compiled.values(rows, out, self.rest is not None, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        if against := self._unbuilt(len(rows), n_jobs):
            self.compiled.interactions(rows, places, out, False, n_threads(n_jobs), against)
            return
        if not self.is_built:
            self.prepare(n_jobs)
        if self.rest is not None:
            self.rest.interactions(rows, places, out, n_jobs)
        if self.compiled is not None:
            self.compiled.interactions(rows, places, out, self.rest is not None, n_threads(n_jobs))

    def _unbuilt(self, n_rows: int, n_jobs: int | None) -> tuple[Array, Int64s, int] | None:
        """Background rows of the first call if its rows are so few that it fills what they look up, and keeps nothing.

        Further calls build the tables, so that what one call saves is all that can be in vain.
        """
        with self._lock:
            is_first, self._is_first = self._is_first, False
            if not is_first or self.is_built or not self._game.has_background:
                return None
            self._plan(n_jobs)
            tables = self.compiled
        is_whole = tables is not None and not len(tables.walked_trees)
        return self._game.weighted_rows if is_whole and tables.has_few(n_rows) else None

    def _plan(self, n_jobs: int | None) -> None:
        with self._lock:
            if self._is_planned:
                return
            self._shared = shared_plan(self._game, self._choice, self._for_row, n_jobs)
            if self._shared.n_subtrees > 0:
                self.compiled = self._shared.tables()
            self._is_planned = True

    def refill(self, game: Game) -> None:
        """Forget what the tables hold, for the game against another background."""
        with self._lock:
            self._game, self._whole_walk = game, None
            self.rest, self.is_built = None, False
            self._is_first = True

    def begin_anew(self) -> None:
        """In a forked process, forget tables that a thread of the parent was planning or building."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = threading.RLock()
        self.compiled, self.rest = None, None
        self._is_planned = self.is_built = False

    def _give_up(self) -> None:
        what = "interactions" if self._choice.of_pairs else "values"
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
