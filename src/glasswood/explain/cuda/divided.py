"""Forests that are explained against a background in parts: by tables, and by patterns what has none on a GPU.

Values are sums over trees. What the tables of one plan leave out goes, of values, to a second one, whose tables may be
as large as keys count, and what that leaves out to the patterns. Parts beyond the first are float64 and rounded once,
in the sum.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.device import import_cupy
from glasswood.explain.cuda.job import Job, fitting_rows
from glasswood.explain.cuda.tables import TablePlan
from glasswood.explain.tables import GPU_TABLE_BYTES, choose_tables
from glasswood.explain.walks import walked_part

if TYPE_CHECKING:
    from glasswood.base.typing import Explained, GpuArray
    from glasswood.cuda.launches import Plan
    from glasswood.explain.cuda.patterns import PatternJob
    from glasswood.explain.cuda.table_launches import TableJob
    from glasswood.explain.game import Game, Settings
    from glasswood.explain.players import Players
    from glasswood.explain.tables import TableChoice
    from glasswood.model.ensemble import TreeEnsemble

PART_BYTES = 2**29
"""Memory for the results of a further part, of the rows in flight."""


class Planned(NamedTuple):
    """A forest and its plan of tables."""

    forest: TreeEnsemble
    plan: TablePlan


class Division(NamedTuple):
    """A forest as sums of parts.

    Attributes
    ----------
    parts : list of Planned
        Those that have tables.
    rest : TreeEnsemble or None
        What has none.
    """

    parts: list[Planned]
    rest: TreeEnsemble | None

    @property
    def n_walked(self) -> int:
        """Trees without tables, or with tables in part."""
        return 0 if self.rest is None else self.rest.n_trees

    @property
    def rest_share(self) -> float:
        """Share of the forest's splits that have no tables."""
        if self.rest is None or not self.parts:
            return float(self.rest is not None)
        return float(np.count_nonzero(self.rest.feature >= 0) / np.count_nonzero(self.parts[0].forest.feature >= 0))


def divide(game: Game, settings: Settings, kind: Explained) -> Division:
    """Plan the tables of all parts; those of the second share the budget with those of the first."""
    choice = choose_tables(game, settings, kind, GPU_TABLE_BYTES, is_forced=True)
    forest, players = game.forest, game.players
    if not choice.budget:
        return Division([], forest)
    first = TablePlan(forest, *choice, players=players)
    rest = _left_by(forest, first)
    if rest is None:
        return Division([Planned(forest, first)], None)
    if choice.of_pairs:  # their subtrees have ten features at most, which larger tables do not help
        return Division([Planned(forest, first)] if first.n_subtrees else [], rest)
    left = choice.budget - first.n_bytes
    if left < choice.budget // 2:
        first = TablePlan(forest, *choice._replace(budget=choice.budget // 2), players=players)
        left = choice.budget - choice.budget // 2
        rest = _left_by(forest, first)
        assert rest is not None
    second = _roomy(rest, choice._replace(dtype="float64"), left, players)
    planned = [each for each in (Planned(forest, first), Planned(rest, second)) if each.plan.n_subtrees]
    return Division(planned, _left_by(rest, second) if second.n_subtrees else rest)


def _roomy(forest: TreeEnsemble, choice: TableChoice, most_bytes: int, players: Players) -> TablePlan:
    """Plan tables that are kept: the planner counts their numbers, without what rounds them up to 16 bytes."""
    budget = most_bytes
    while True:
        plan = TablePlan(forest, *choice._replace(budget=budget), players=players, is_roomy=True)
        if plan.n_bytes <= most_bytes:
            return plan
        budget = budget * most_bytes // plan.n_bytes * 15 // 16


def _left_by(forest: TreeEnsemble, plan: TablePlan) -> TreeEnsemble | None:
    """Return what the plan has no tables of."""
    return walked_part(forest, plan.walked_trees, plan.arrays["cut_nodes"], plan.dtype, has_background=True)


class DividedJob(Job):
    """Sums of the parts of a forest.

    Parameters
    ----------
    tables : list of TableJob
    patterns : PatternJob or None
        What has no tables; one part at least.
    dtype : dtype
        Of the results.
    """

    def __init__(self, tables: list[TableJob], patterns: PatternJob | None, dtype: DTypeLike) -> None:
        self._jobs: list[TableJob | PatternJob] = [*tables, *([] if patterns is None else [patterns])]
        first = self._jobs[0]
        chosen = first.chosen if first.pairs else None
        super().__init__(first.forest, first.codes, dtype, first.pairs, chosen, first.n_players)
        self.tables, self.patterns = tables, patterns

    @property
    def has_tables(self) -> bool:
        """Whether tables explain any tree."""
        return bool(self.tables)

    @property
    def plan(self) -> TablePlan:
        """The plan of the first tables."""
        return self.tables[0].plan

    def prepare(self) -> None:
        """Build the tables, and collect the patterns, on the current GPU."""
        for job in self._jobs:
            job.prepare()

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """Return the one part's plan: of more, or of other numbers than it has, there is none."""
        is_one = len(self._jobs) == 1 and self._jobs[0].dtype == self.dtype
        return self._jobs[0].whole(x, row_shape) if is_one else None

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        return fitting_rows(PART_BYTES, np.dtype(np.float64).itemsize * math.prod(row_shape))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        """Float64 sums of the parts beyond the first are rounded once."""
        cupy = import_cupy()
        for number, job in enumerate(self._jobs):
            if number == 0 and job.dtype == result.dtype:
                job.compute(x, result)
                continue
            part = cupy.empty(result.shape, job.dtype)
            job.compute(x, part)
            result[...] = part if number == 0 else result + part
