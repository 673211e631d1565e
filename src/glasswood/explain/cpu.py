"""Explanations on the CPU: by subtree tables, by a walk, or each for some of the trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood import _core
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.typing import Array, Doubles, Explained, Int32s
from glasswood.explain.tables import TABLE_BYTES, TableRunner, choose_tables
from glasswood.explain.walks import index_walk_of, walk_of

if TYPE_CHECKING:
    from glasswood.explain.game import Game, Settings
    from glasswood.inputs.placed import PlacedRows
    from glasswood.model.ensemble import TreeEnsemble

ROW_NODE_BYTES = 512
"""Bytes of tables a node below which forests of many features do not come: no plan is made where these exceed the
budget."""

ROW_TABLE_BYTES = 2**30
"""Budget of single rows' tables in explainers that are given none: they are built for `Explainer.row` alone."""

MOST_WALKED = 0.5
"""Share of the splits beyond which a row's tables are not built: the walk of the others takes most of the time."""

ROW_TREES: dict[str, Any] = {"float32": _core.RowTrees32, "float64": _core.RowTrees64}


class CpuExplainer:
    """Explains the margin on the CPU; tables are built at the first use.

    Parameters
    ----------
    game : Game
    settings : Settings
        The budget is for tables of values, and as much again for those of pairs; "paths" means the walk here.
    """

    game: Game
    settings: Settings

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings = game, settings
        self._tables: dict[Explained, TableRunner | None] = {}
        if game.background is None:
            _ = self._walk  # has the expected value

    def __reduce__(self) -> tuple[Any, ...]:
        return CpuExplainer, (self.game, self.settings)

    @property
    def expected_value(self) -> Doubles:
        """Margin that each output has without any feature known: (n_outputs,)."""
        background = self.game.background
        expected: Doubles = self._walk.expected_value if background is None else background.expected_value
        return expected

    @property
    def n_outputs(self) -> int:
        """Numbers that are explained of a row."""
        return self.game.forest.n_outputs

    @property
    def has_tables(self) -> bool:
        """Whether any tree has tables."""
        tables = self.tables("values")
        return tables is not None and tables.has_tables(self.settings.n_jobs)

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables that are built."""
        of_rows, _ = self.__dict__.get("row_parts", (None, None))
        more = 0 if of_rows is None or of_rows is self.whole_tables else int(of_rows.n_bytes)
        return sum(tables.n_bytes for tables in self._tables.values() if tables) + more

    @property
    def whole_tables(self) -> Any:
        """The compiled tables if they are built and no tree is walked, else None."""
        tables = self.tables("values")
        return tables.whole_tables if tables else None

    @cached_property
    def row_parts(self) -> tuple[Any, Any]:
        """Tables for single rows, and trees for the walk of one row; None for what there is none of.

        Trees have tables here also where batches are walked, for lanes of a walk are leaves for one row and rows for
        batches, which tables of many features gain less from. What has no room for tables is walked beside them.
        """
        if found := self.whole_tables:
            return found, None
        if self.game.has_background or self.game.forest.has_linear_leaves:
            return None, None
        budget = (ROW_TABLE_BYTES if self.settings.table_bytes is None else self.settings.table_bytes) - self.n_bytes
        is_asked = self.settings.algorithm == "auto" and self.settings.takes_tables
        if not is_asked or budget < self.game.forest.n_nodes * ROW_NODE_BYTES:
            return None, self._row_trees(self.game.forest)
        choice = choose_tables(self.game, self.settings, "values", budget, is_forced=True)
        runner = TableRunner(self.game, choice._replace(budget=budget), None, for_row=True)
        if runner.share_walked(self.settings.n_jobs) > MOST_WALKED:
            return None, self._row_trees(self.game.forest)
        runner.prepare(self.settings.n_jobs)
        return runner.compiled, None if runner.walked is None else self._row_trees(runner.walked)

    def _row_trees(self, trees: TreeEnsemble) -> Any:
        """Trees for the walk of one row."""
        player_of = self.game.players.of_feature
        return ROW_TREES[self.settings.dtype](trees, player_of, n_threads(self.settings.n_jobs))

    def tables(self, kind: Explained) -> TableRunner | None:
        """Runner of tables, None where nothing can have them."""
        if kind not in self._tables:
            self._tables.setdefault(kind, self._make_tables(kind))
        return self._tables[kind]

    def prepare(self) -> None:
        """Build the tables, if there are any, or what the walk needs."""
        if tables := self.tables("values"):
            tables.prepare(self.settings.n_jobs)
        else:
            _ = self._walk

    def refill(self, game: Game) -> None:
        """Take the game against another background; tables keep their plan. For one thread at a time."""
        self.game = game
        for name in ("_walk", "_index_walk"):
            self.__dict__.pop(name, None)
        for tables in self._tables.values():
            if tables:
                tables.refill(game)

    def values(self, rows: PlacedRows, out: Array | None = None) -> Array:
        """SHAP values: (n, P) or (n, P, k)."""
        result = self._result(rows, (self.game.players.n,), out)
        (self.tables("values") or self._walk).values(rows.rows, result, self.settings.n_jobs)
        return result

    def interactions(self, rows: PlacedRows, places: Int32s | None = None, out: Array | None = None) -> Array:
        """Interaction values, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        n_players = self.game.players.n
        places = np.arange(n_players, dtype=np.int32) if places is None else places
        result = self._result(rows, (int(places.max(initial=-1)) + 1, n_players), out)
        (self.tables("pairs") or self._walk).interactions(rows.rows, places, result, self.settings.n_jobs)
        return result

    def indices(self, rows: PlacedRows, sets: Int32s, is_banzhaf: bool, out: Array | None = None) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets) or (n, n_sets, k)."""
        result = self._result(rows, (len(sets),), out)
        self._index_walk.indices(rows.rows, sets, is_banzhaf, result, self.settings.n_jobs)
        return result

    @cached_property
    def _walk(self) -> Any:
        """Walk of all trees."""
        return walk_of(self.game, self.game.forest, self.settings.dtype, self.settings.n_jobs)

    @cached_property
    def _index_walk(self) -> Any:
        return index_walk_of(self.game, self.settings.n_jobs)

    def _make_tables(self, kind: Explained) -> TableRunner | None:
        if not self.settings.takes_tables or self.game.forest.has_linear_leaves:
            return None
        choice = choose_tables(self.game, self.settings, kind, TABLE_BYTES, is_forced=self.game.has_background)
        return TableRunner(self.game, choice, None if self.game.has_background else self._walk)

    def _result(self, rows: PlacedRows, shape: tuple[int, ...], out: Array | None) -> Array:
        n_outputs = self.game.forest.n_outputs
        full = (len(rows), *shape) if n_outputs == 1 else (len(rows), *shape, n_outputs)
        return checked_result(full, self.settings.dtype, rows.rows, out)


def checked_result(shape: tuple[int, ...], dtype: str, rows: Array, out: Array | None) -> Array:
    """Check the caller's array, or make one."""
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}, expected a NumPy array")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out is {out.dtype} of shape {out.shape}, expected {dtype} of shape {shape}")
    if not (out.flags.writeable and out.flags.aligned and out.dtype.isnative):
        raise ValueError("out must be writable, aligned and of native byte order")
    if _overlaps_itself(out):
        raise ValueError(
            f"out has strides {out.strides} over the shape {out.shape}: several entries share memory; pass an "
            "array with room for each"
        )
    if np.may_share_memory(out, rows):
        raise ValueError("out shares memory with X, whose rows are read while results are written; use another array")
    return out


def _overlaps_itself(array: Array) -> bool:
    """Whether a step along some axis lands within what the axes of smaller strides span, as views made by hand may."""
    span = array.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride < span and array.size:
            return True
        span += stride * (length - 1)
    return False
