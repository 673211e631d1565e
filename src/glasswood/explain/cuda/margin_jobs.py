"""Jobs of the margin on GPUs: which algorithm explains which trees, and the tables that jobs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Explained
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.encoder import CodeTables
from glasswood.explain.cuda.divided import DividedJob, divide
from glasswood.explain.cuda.leaf_games import BackgroundContents, ShareContents
from glasswood.explain.cuda.paths_job import PathsJob
from glasswood.explain.cuda.patterns import PatternJob, SharedPatterns
from glasswood.explain.cuda.quadrature import LinearJob, QuadratureJob
from glasswood.explain.cuda.table_launches import TableJob
from glasswood.explain.cuda.tables import CoverContents, SharedTables, TablePlan
from glasswood.explain.cuda.tapes import TINY_SPLITS
from glasswood.explain.players import over_players
from glasswood.explain.tables import GPU_TABLE_BYTES, choose_tables

if TYPE_CHECKING:
    from glasswood.explain.cuda.divided import Division, Planned
    from glasswood.explain.cuda.job import Job
    from glasswood.explain.game import Game, Settings


class MarginJobs:
    """Jobs that explain the margin of a game.

    Parameters
    ----------
    game : Game
    settings : Settings
    """

    def __init__(self, game: Game, settings: Settings) -> None:
        self._game, self._settings = game, settings
        self._divisions: dict[Explained, Division] = {}
        self._parts: dict[Explained, list[SharedTables | None]] = {}
        self._patterns: dict[Explained, SharedPatterns] = {}
        self._tables: dict[Explained, SharedTables | None] = {}

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Make a job of values, of pairs, or of the pairs of some players."""
        if self._game.has_background:
            return self._divided_job(kind, chosen)
        if (tables := self.tables(kind)) is not None:
            return self.table_job(tables, chosen)
        return self.walk_job(kind, chosen, self._settings.dtype)

    def table_job(self, tables: SharedTables, chosen: Array | None = None) -> TableJob:
        """Make a job by tables."""
        return TableJob(self._game.forest, self._codes, tables, chosen)

    def walk_job(self, kind: Explained, chosen: Array | None, dtype: str) -> Job:
        """Make a job without tables."""
        forest = over_players(self._game.forest, self._game.players)
        of_walk = LinearJob if forest.has_linear_leaves else QuadratureJob
        make = PathsJob if self._settings.algorithm == "paths" else of_walk
        return make(forest, self._codes, dtype, kind == "pairs", chosen)

    def serves(self, kind: Explained) -> bool:
        """Whether tables explain every tree against a background, or of groups."""
        if self._game.has_background:
            division = self._division(kind)
            return bool(division.parts) and division.rest is None
        tables = self.tables(kind)
        return tables is not None and not len(tables.plan.walked_trees)

    def tables(self, kind: Explained) -> SharedTables | None:
        """Tables of values or of pairs, None where nothing has any.

        Raises
        ------
        NotImplementedError
            If the game needs one plan of all trees, and there is none.
        """
        if kind not in self._tables:
            of_kind = self._whole_tables if self._game.has_background else self._cover_tables
            self._tables[kind] = of_kind(kind)
        return self._tables[kind]

    def _cover_tables(self, kind: Explained) -> SharedTables | None:
        """Lay out tables beside a walk, if the algorithm says so and any tree has them."""
        forest, settings = self._game.forest, self._settings
        if not settings.takes_tables or forest.has_linear_leaves:
            return None
        players = self._game.players
        choice = choose_tables(self._game, settings, kind, GPU_TABLE_BYTES, is_forced=bool(players.groups))
        if not choice.is_forced and forest.n_nodes // 2 < TINY_SPLITS:
            return None  # a launch or two walk it in less time than four take
        plan = TablePlan(forest, *choice, players=players)
        contents = ShareContents() if kind == "pairs" or players.groups else CoverContents()
        return SharedTables(plan, contents, may_be_walked=True) if plan.n_subtrees else None

    def _whole_tables(self, kind: Explained) -> SharedTables | None:
        """Tables of one plan against a background; None where no row's values differ from 0."""
        division = self._division(kind)
        if len(division.parts) > 1 or division.rest is not None:
            first = division.parts[0].plan if division.parts else None
            self._refuse(kind, self._game.forest.n_trees if first is None else len(first.walked_trees))
        return self._shared(division.parts[0])

    def _divided_job(self, kind: Explained, chosen: Array | None) -> Job:
        """Make a job of the parts of the forest: those with tables, and the rest by patterns."""
        division = self._division(kind)
        if kind not in self._parts:
            self._parts[kind] = [self._shared(part) for part in division.parts]
        jobs = [
            TableJob(part.forest, self._codes, tables, chosen)
            for part, tables in zip(division.parts, self._parts[kind], strict=True)
            if tables is not None
        ]
        if division.rest is None:
            if not jobs:
                return self.walk_job(kind, chosen, self._settings.dtype)  # of trees without splits: zeros
            return jobs[0] if len(jobs) == 1 else DividedJob(jobs, None, self._settings.dtype)
        if kind not in self._patterns:
            self._patterns[kind] = SharedPatterns(division.rest, self._game, kind == "pairs")
        return DividedJob(jobs, PatternJob(self._patterns[kind], chosen), self._settings.dtype)

    def _refuse(self, kind: Explained, n_walked: int) -> NoReturn:
        what = "interactions" if kind == "pairs" else "values"
        instead = "pass device='cpu' and rows on the host"
        if self._settings.table_bytes == 0:
            instead += ", or table_bytes above 0"
        raise NotImplementedError(
            f"{n_walked} of {self._game.forest.n_trees} trees have no tables of {what} against a background on a GPU; "
            f"{instead}"
        )

    def _shared(self, part: Planned) -> SharedTables | None:
        """Tables of a part, which its jobs share."""
        assert self._game.background is not None
        contents = BackgroundContents(self._game.background)
        return SharedTables(part.plan, contents, may_be_walked=False) if part.plan.n_subtrees else None

    def _division(self, kind: Explained) -> Division:
        if kind not in self._divisions:
            self._divisions[kind] = divide(self._game, self._settings, kind)
        return self._divisions[kind]

    @cached_property
    def _codes(self) -> CodeTables:
        return CodeTables(self._game.forest, encode_forest(self._game.forest))
