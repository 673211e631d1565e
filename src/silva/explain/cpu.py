"""Explanations on the CPU: by subtree tables, by a walk, or each for some of the trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.explain.background import LinearPatternRunner, PatternRunner
from silva.explain.players import make_players
from silva.explain.quadrature import CoverIndexRunner, QuadratureRunner
from silva.explain.tables import TableRunner
from silva.parallel import cached_property

if TYPE_CHECKING:
    from silva.explain.background import Background
    from silva.explain.players import Players
    from silva.explain.tables import Walk
    from silva.forest import Forest
    from silva.typing import Array, Doubles, Explained, Int32s


class CoverGame:
    """The path-dependent game, which weights the sides of a split by the training rows that took them."""

    background = None

    def __init__(self, forest: Forest, dtype: str, players: Players) -> None:
        self._forest, self._dtype, self._player_of = forest, dtype, players.of_feature
        self.whole = QuadratureRunner(forest, dtype, self._player_of)

    @property
    def expected_value(self) -> Doubles:
        """Value of the empty coalition: (n_outputs,)."""
        return self.whole.expected_value

    def walk(self, forest: Forest, n_jobs: int | None) -> QuadratureRunner:  # noqa: ARG002
        """Walk of some of the trees."""
        return self.whole if forest is self._forest else QuadratureRunner(forest, self._dtype, self._player_of)

    def index_walk(self) -> CoverIndexRunner:
        """Walk of all trees for indices of sets."""
        return CoverIndexRunner(self._forest, self._player_of)


class BackgroundGame:
    """The interventional game: features that a coalition does not know have the values of background rows."""

    def __init__(self, forest: Forest, background: Background, players: Players, n_jobs: int | None) -> None:
        self.background = background
        self._forest, self._player_of, self._n_jobs = forest, players.of_feature, n_jobs

    @property
    def expected_value(self) -> Doubles:
        """Value of the empty coalition: (n_outputs,)."""
        return self.background.expected_value

    def walk(self, forest: Forest, n_jobs: int | None) -> Any:
        """Walk of some of the trees."""
        runner = LinearPatternRunner if forest.has_linear_leaves else PatternRunner
        return runner(forest, self.background, self._player_of, n_jobs)

    def index_walk(self) -> Any:
        """Walk of all trees for indices of sets."""
        return self.walk(self._forest, self._n_jobs)


class CpuExplainer:
    """A forest with what its explanations on the CPU need; tables are built at the first use.

    Parameters
    ----------
    forest : Forest
    dtype : {"float32", "float64"}
    algorithm : {"auto", "tables", "quadrature", "paths"}
        "paths" runs on GPUs; here it means the walk.
    table_bytes : int
        Most memory for tables of values, and as much again for those of interactions.
    n_jobs : int or None
    background : Background, optional
    players : Players, optional
        Default: the features.
    """

    def __init__(
        self,
        forest: Forest,
        dtype: str,
        algorithm: str,
        table_bytes: int,
        n_jobs: int | None,
        background: Background | None = None,
        players: Players | None = None,
    ) -> None:
        self.forest, self.dtype, self.n_jobs = forest, dtype, n_jobs
        self.players = make_players(None, forest) if players is None else players
        self._algorithm, self._table_bytes = algorithm, table_bytes
        self._tables: dict[Explained, TableRunner | None] = {}
        self._game: Any = (
            CoverGame(forest, dtype, self.players)
            if background is None
            else BackgroundGame(forest, background, self.players, n_jobs)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        of_game = self._game.background, self.players
        return CpuExplainer, (self.forest, self.dtype, self._algorithm, self._table_bytes, self.n_jobs, *of_game)

    @property
    def expected_value(self) -> Doubles:
        """Margin that each output has without any feature known: (n_outputs,)."""
        expected: Doubles = self._game.expected_value
        return expected

    @property
    def has_tables(self) -> bool:
        """Whether any tree has tables."""
        tables = self.tables("values")
        return tables is not None and tables.has_tables(self.n_jobs)

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables that are built."""
        return sum(tables.n_bytes for tables in self._tables.values() if tables)

    @property
    def whole_tables(self) -> Any:
        """The compiled tables if they are built and no tree is walked, else None."""
        tables = self.tables("values")
        return tables.whole_tables if tables else None

    def prepare(self) -> None:
        """Build the tables, if there are any, or what the walk needs."""
        if tables := self.tables("values"):
            tables.prepare(self.n_jobs)
        else:
            _ = self._whole_walk

    def refill(self, background: Background) -> None:
        """Take another background; tables keep their plan. For one thread at a time."""
        self._game.background = background
        for name in ("_whole_walk", "_index_walk"):
            self.__dict__.pop(name, None)
        for tables in self._tables.values():
            if tables:
                tables.empty()

    def values(self, rows: Array, out: Array | None = None) -> Array:
        """SHAP values of rows that `as_rows` made: (n, P) or (n, P, k)."""
        result = self._result((len(rows), self.players.n), rows, out)
        (self.tables("values") or self._whole_walk).values(rows, result, self.n_jobs)
        return result

    def interactions(self, rows: Array, places: Int32s, out: Array | None = None) -> Array:
        """Interaction values, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        shape = (len(rows), int(places.max(initial=-1)) + 1, self.players.n)
        result = self._result(shape, rows, out)
        (self.tables("pairs") or self._whole_walk).interactions(rows, places, result, self.n_jobs)
        return result

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array | None = None) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets) or (n, n_sets, k)."""
        result = self._result((len(rows), len(sets)), rows, out)
        self._index_walk.indices(rows, sets, is_banzhaf, result, self.n_jobs)
        return result

    @cached_property
    def _index_walk(self) -> Any:
        return self._game.index_walk()

    def tables(self, kind: Explained) -> TableRunner | None:
        """Runner of tables, None where nothing can have them."""
        if kind not in self._tables:
            self._tables.setdefault(kind, self._make_tables(kind))
        return self._tables[kind]

    def _make_tables(self, kind: Explained) -> TableRunner | None:
        if self._algorithm not in {"auto", "tables"} or self._table_bytes == 0:
            return None
        if self.forest.has_linear_leaves:
            return None
        forced = self._algorithm == "tables" or self._game.background is not None
        return TableRunner(self.forest, self.players, self.dtype, self._table_bytes, forced, self._game, kind)

    @cached_property
    def _whole_walk(self) -> Walk:
        """Walk of all trees, where there are no tables."""
        walk: Walk = self._game.walk(self.forest, self.n_jobs)
        return walk

    def _result(self, shape: tuple[int, ...], rows: Array, out: Array | None) -> Array:
        if self.forest.n_outputs > 1:
            shape = (*shape, self.forest.n_outputs)
        return checked_result(shape, self.dtype, rows, out)


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
