"""Jobs of the margin on GPUs: which algorithm explains which trees, and the tables that jobs share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Explained
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.encoder import CodeTables
from glasswood.explain.cuda.divided import DividedJob, divide
from glasswood.explain.cuda.leaf_games import BackgroundContents, ShareContents
from glasswood.explain.cuda.paths_job import PathsJob
from glasswood.explain.cuda.patterns import MOST_WORDS, WARP, PatternJob, PatternPlan, SharedPatterns
from glasswood.explain.cuda.quadrature import LinearJob, QuadratureJob
from glasswood.explain.cuda.table_launches import TableJob
from glasswood.explain.cuda.tables import CoverContents, SharedTables, TablePlan
from glasswood.explain.cuda.tapes import TINY_SPLITS
from glasswood.explain.players import over_players
from glasswood.explain.tables import GPU_TABLE_BYTES, choose_tables

if TYPE_CHECKING:
    from glasswood.explain.background import Background
    from glasswood.explain.cuda.divided import Division
    from glasswood.explain.cuda.job import Job
    from glasswood.explain.game import Game, Settings


class GamePlans:
    """What is laid out of a game whatever its background.

    Parameters
    ----------
    game : Game
    settings : Settings
    n_backgrounds : int
        Whose patterns share the memory of a GPU.
    """

    def __init__(self, game: Game, settings: Settings, n_backgrounds: int = 1) -> None:
        self._game, self._settings, self._n_backgrounds = game, settings, n_backgrounds
        self._divisions: dict[Explained, Division] = {}
        self._patterns: dict[Explained, PatternPlan] = {}

    def division(self, kind: Explained) -> Division:
        """Which part of the forest has which tables against a background, and what has none."""
        if kind not in self._divisions:
            self._divisions[kind] = divide(self._game, self._settings, kind)
        return self._divisions[kind]

    def patterns(self, kind: Explained) -> PatternPlan | None:
        """Leaves of what has no tables, None if there is nothing."""
        rest = self.division(kind).rest
        if rest is None:
            return None
        if kind not in self._patterns:
            self._patterns[kind] = PatternPlan(rest, self._game.players, kind == "pairs", self._n_backgrounds)
        return self._patterns[kind]

    @cached_property
    def codes(self) -> CodeTables:
        """Codes of the forest."""
        return CodeTables(self._game.forest, encode_forest(self._game.forest))


class MarginJobs:
    """Jobs that explain the margin of a game.

    Parameters
    ----------
    game : Game
    settings : Settings
    plans : GamePlans, optional
        Of the same game against another background.
    """

    def __init__(self, game: Game, settings: Settings, plans: GamePlans | None = None) -> None:
        self._game, self._settings = game, settings
        self._plans = GamePlans(game, settings) if plans is None else plans
        self._parts: dict[Explained, tuple[list[SharedTables], SharedPatterns | None]] = {}
        self._tables: dict[Explained, SharedTables | None] = {}

    def against(self, background: Background) -> MarginJobs:
        """Return the jobs against other background rows."""
        return MarginJobs(replace(self._game, background=background), self._settings, self._plans)

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Make a job of values, of pairs, or of the pairs of some players."""
        if self._game.has_background:
            return self._divided_job(kind, chosen)
        if (tables := self._cover_tables(kind)) is not None:
            return TableJob(self._game.forest, self._plans.codes, tables, chosen)
        return self.walk_job(kind, chosen, self._settings.dtype)

    def walk_job(self, kind: Explained, chosen: Array | None, dtype: str) -> Job:
        """Make a job without tables."""
        forest = over_players(self._game.forest, self._game.players)
        of_walk = LinearJob if forest.has_linear_leaves else QuadratureJob
        make = PathsJob if self._settings.algorithm == "paths" else of_walk
        return make(forest, self._plans.codes, dtype, kind == "pairs", chosen)

    @property
    def has_splits(self) -> bool:
        """Whether rows differ in anything."""
        return self._game.forest.n_leaves > self._game.forest.n_trees

    def serves(self, kind: Explained) -> bool:
        """Whether GPUs are the faster for sure, against a background or of groups.

        Patterns, and the walk of groups, take the place of tables. Pairs are not measured: every tree needs tables.
        """
        if kind == "values":
            return min(self._game.forest.depth, self._game.players.n) <= MOST_WORDS * WARP
        if self._game.has_background:
            division = self._plans.division(kind)
            return bool(division.parts) and division.rest is None
        tables = self._cover_tables(kind)
        return tables is not None and not len(tables.plan.walked_trees)

    def _cover_tables(self, kind: Explained) -> SharedTables | None:
        """Tables beside a walk, if the algorithm says so and any tree has them."""
        if kind not in self._tables:
            self._tables[kind] = self._lay_out_cover_tables(kind)
        return self._tables[kind]

    def _lay_out_cover_tables(self, kind: Explained) -> SharedTables | None:
        forest, settings, players = self._game.forest, self._settings, self._game.players
        if not settings.takes_tables or forest.has_linear_leaves:
            return None
        choice = choose_tables(self._game, settings, kind, GPU_TABLE_BYTES, is_forced=bool(players.groups))
        if not choice.is_forced and forest.n_nodes // 2 < TINY_SPLITS:
            return None  # a launch or two walk it in less time than four take
        plan = TablePlan(forest, *choice, players=players)
        contents = ShareContents() if kind == "pairs" or players.groups else CoverContents()
        return SharedTables(plan, contents, may_be_walked=True) if plan.n_subtrees else None

    def _divided_job(self, kind: Explained, chosen: Array | None) -> Job:
        """Make a job of the parts of the forest: those with tables, and the rest by patterns."""
        dtype, background = self._settings.dtype, self._game.background
        assert background is not None
        if not self.has_splits:
            return self.walk_job(kind, chosen, dtype)  # zeros
        if kind not in self._parts:
            plan = self._plans.patterns(kind)
            contents = BackgroundContents(background)
            self._parts[kind] = (
                [SharedTables(part.plan, contents, may_be_walked=False) for part in self._plans.division(kind).parts],
                None if plan is None else SharedPatterns(plan, background),
            )
        tables, patterns = self._parts[kind]
        of_parts = zip(self._plans.division(kind).parts, tables, strict=True)
        jobs = [TableJob(part.forest, self._plans.codes, one, chosen) for part, one in of_parts]
        if len(jobs) == 1 and patterns is None:
            return jobs[0]
        return DividedJob(jobs, None if patterns is None else PatternJob(patterns, chosen), dtype)
