"""Forests of which only a part has tables on a GPU: backgrounds and groups, which no walk explains there.

Values are sums over trees. What the tables of one plan leave out goes, of values, to a second one, whose tables may be
as large as keys count, and what that leaves out to the cores. Parts beyond the first are float64 and rounded once, in
the sum.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.device import import_cupy
from glasswood.explain.cpu import CpuExplainer
from glasswood.explain.cuda.job import Job, fitting_rows
from glasswood.explain.cuda.tables import TablePlan
from glasswood.explain.game import Game
from glasswood.explain.tables import GPU_TABLE_BYTES, choose_tables
from glasswood.explain.walks import walked_part
from glasswood.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from glasswood.base.typing import Explained, GpuArray
    from glasswood.cuda.launches import Plan
    from glasswood.explain.cuda.table_launches import TableJob
    from glasswood.explain.game import Settings
    from glasswood.explain.players import Players
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
        Those that have tables on a GPU.
    rest : TreeEnsemble or None
        What the cores explain.
    """

    parts: list[Planned]
    rest: TreeEnsemble | None

    @property
    def n_walked(self) -> int:
        """Trees that the cores explain, in whole or in part."""
        return 0 if self.rest is None else self.rest.n_trees

    @property
    def rest_share(self) -> float:
        """Share of the forest's splits that the cores explain."""
        if self.rest is None:
            return 0.0
        return float(np.count_nonzero(self.rest.feature >= 0) / np.count_nonzero(self.parts[0].forest.feature >= 0))


def divide(game: Game, settings: Settings, kind: Explained) -> Division:
    """Plan the tables of all parts; those of the second share the budget with those of the first."""
    choice = choose_tables(game, settings, kind, GPU_TABLE_BYTES, is_forced=True)
    forest, players, has_background = game.forest, game.players, game.has_background
    if not choice.budget:
        return Division([], forest)
    first = TablePlan(forest, *choice, players=players)
    rest = _left_by(forest, first, has_background)
    if rest is None:
        return Division([Planned(forest, first)], None)
    if choice.of_pairs:  # their subtrees have ten features at most, which larger tables do not help
        return Division([Planned(forest, first)] if first.n_subtrees else [], rest)
    left = choice.budget - first.n_bytes
    if left < choice.budget // 2:
        first = TablePlan(forest, *choice._replace(budget=choice.budget // 2), players=players)
        left = choice.budget - choice.budget // 2
        rest = _left_by(forest, first, has_background)
        assert rest is not None
    second = TablePlan(rest, *choice._replace(dtype="float64", budget=left), players=players, is_roomy=True)
    planned = [each for each in (Planned(forest, first), Planned(rest, second)) if each.plan.n_subtrees]
    return Division(planned, _left_by(rest, second, has_background) if second.n_subtrees else rest)


def _left_by(forest: TreeEnsemble, plan: TablePlan, has_background: bool) -> TreeEnsemble | None:
    """Return what the plan has no tables of."""
    return walked_part(forest, plan.walked_trees, plan.arrays["cut_nodes"], plan.dtype, has_background)


class HostPart:
    """What the cores explain of a forest whose other parts are on a GPU.

    Parameters
    ----------
    game : Game
    rest : TreeEnsemble
    settings : Settings
    """

    def __init__(self, game: Game, rest: TreeEnsemble, settings: Settings) -> None:
        self._players: Players = game.players
        self._on_cpu = CpuExplainer(
            Game(rest, game.players, game.background), replace(settings, device="cpu", dtype="float64")
        )

    def prepare(self) -> None:
        """Build its tables."""
        self._on_cpu.prepare()

    def explain(self, x: GpuArray, chosen: NDArray[np.intp] | None) -> Any:
        """Explain rows of a GPU, or the pairs of some players: (n, ..., k), float64, on the host."""
        rows = PlacedRows(np.ascontiguousarray(import_cupy().asnumpy(x)))
        if chosen is None:
            found = self._on_cpu.values(rows)
        else:
            places = np.full(self._players.n, -1, np.int32)
            places[chosen] = np.arange(len(chosen))
            found = self._on_cpu.interactions(rows, places)
        return found if self._on_cpu.n_outputs > 1 else found[..., None]


class DividedJob(Job):
    """Sums of the parts of a forest.

    Parameters
    ----------
    jobs : list of TableJob
        The first writes, the others add; one at least.
    on_host : HostPart or None
    """

    def __init__(self, jobs: list[TableJob], on_host: HostPart | None) -> None:
        first = jobs[0]
        chosen = first.chosen if first.pairs else None
        super().__init__(first.forest, first.codes, first.dtype, first.pairs, chosen, first.n_players)
        self._jobs, self._on_host = jobs, on_host

    @property
    def plan(self) -> TablePlan:
        """The plan of the first part."""
        return self._jobs[0].plan

    def prepare(self) -> None:
        """Build the tables, on the current GPU and on the host."""
        for job in self._jobs:
            job.prepare()
        if self._on_host is not None:
            self._on_host.prepare()

    def whole(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        """Return the one part's plan: of more there is none."""
        is_one = len(self._jobs) == 1 and self._on_host is None
        return self._jobs[0].whole(x, row_shape) if is_one else None

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        return fitting_rows(PART_BYTES, np.dtype(np.float64).itemsize * math.prod(row_shape))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        """GPU and cores work side by side: launches do not wait."""
        cupy, (first, *further) = import_cupy(), self._jobs
        first.compute(x, result)
        for job in further:
            part = cupy.empty(result.shape, job.dtype)
            job.compute(x, part)
            _add(part, result)
        if self._on_host is not None:
            _add(cupy.asarray(self._on_host.explain(x, self.chosen if self.pairs else None)), result)


def _add(part: Any, result: Any) -> None:
    """Add a part in float64, rounded once."""
    result[...] = result + part
