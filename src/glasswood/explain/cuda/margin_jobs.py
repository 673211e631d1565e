"""Jobs of the margin on GPUs: which algorithm explains which trees, and the tables that jobs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Explained
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.encoder import CodeTables
from glasswood.explain.cuda.leaf_games import BackgroundContents, ShareContents
from glasswood.explain.cuda.paths_job import PathsJob
from glasswood.explain.cuda.quadrature import LinearJob, QuadratureJob
from glasswood.explain.cuda.table_launches import TableJob
from glasswood.explain.cuda.tables import CoverContents, SharedTables, TablePlan
from glasswood.explain.cuda.tapes import TINY_SPLITS
from glasswood.explain.tables import GPU_TABLE_BYTES, choose_tables

if TYPE_CHECKING:
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
        self._whole_plans: dict[Explained, TablePlan | None] = {}
        self._tables: dict[Explained, SharedTables | None] = {}

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Make a job of values, of pairs, or of the pairs of some players."""
        if (tables := self.tables(kind)) is not None:
            return self.table_job(tables, chosen)
        return self.walk_job(kind, chosen, self._settings.dtype)

    def table_job(self, tables: SharedTables, chosen: Array | None = None) -> TableJob:
        """Make a job by tables."""
        return TableJob(self._game.forest, self._codes, tables, chosen)

    def walk_job(self, kind: Explained, chosen: Array | None, dtype: str) -> Job:
        """Make a job without tables."""
        forest = self._game.forest
        of_walk = LinearJob if forest.has_linear_leaves else QuadratureJob
        make = PathsJob if self._settings.algorithm == "paths" else of_walk
        return make(forest, self._codes, dtype, kind == "pairs", chosen)

    def serves(self, kind: Explained) -> bool:
        """Whether every tree has tables, as backgrounds and groups need."""
        plan = self._whole_plan(kind)
        return plan is not None and not len(plan.walked_trees)

    def tables(self, kind: Explained) -> SharedTables | None:
        """Tables of values or of pairs, None where nothing has any."""
        if kind not in self._tables:
            needs_tables = self._game.has_background or self._game.players.groups
            self._tables[kind] = self._whole_tables(kind) if needs_tables else self._cover_tables(kind)
        return self._tables[kind]

    def _cover_tables(self, kind: Explained) -> SharedTables | None:
        """Lay out tables beside a walk, if the algorithm says so and any tree has them."""
        forest, settings = self._game.forest, self._settings
        if not settings.takes_tables or forest.has_linear_leaves:
            return None
        choice = choose_tables(self._game, settings, kind, GPU_TABLE_BYTES, is_forced=False)
        if not choice.is_forced and forest.n_nodes // 2 < TINY_SPLITS:
            return None  # a launch or two walk it in less time than four take
        plan = TablePlan(forest, *choice)
        contents = ShareContents() if kind == "pairs" else CoverContents()
        return SharedTables(plan, contents, may_be_walked=True) if plan.n_subtrees else None

    def _whole_tables(self, kind: Explained) -> SharedTables | None:
        """Tables against a background, or of groups; None where no row's values differ from 0."""
        plan, background = self._whole_plan(kind), self._game.background
        if plan is None or len(plan.walked_trees):
            n_trees = self._game.forest.n_trees
            n_walked = n_trees if plan is None else len(plan.walked_trees)
            what = "interactions" if kind == "pairs" else "values"
            what += " against a background" if background else " of groups"
            raise NotImplementedError(
                f"{n_walked} of {n_trees} trees have no tables of {what} on a GPU; "
                "pass device='cpu' and rows on the host" + ("" if plan else ", or table_bytes above 0")
            )
        contents = BackgroundContents(background) if background else ShareContents()
        return SharedTables(plan, contents, may_be_walked=False) if plan.n_subtrees else None

    def _whole_plan(self, kind: Explained) -> TablePlan | None:
        """Plan of tables of all trees, None without a budget."""
        if kind not in self._whole_plans:
            choice = choose_tables(self._game, self._settings, kind, GPU_TABLE_BYTES, is_forced=True)
            plan = TablePlan(self._game.forest, *choice, players=self._game.players) if choice.budget else None
            self._whole_plans[kind] = plan
        return self._whole_plans[kind]

    @cached_property
    def _codes(self) -> CodeTables:
        return CodeTables(self._game.forest, encode_forest(self._game.forest))
