"""Evaluation on the CPU: calls the compiled core."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from glasswood import _core
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.typing import Choice, Doubles, Floats, Int32s, Int64s
from glasswood.evaluate import costs
from glasswood.evaluate.choice import MOST_SPLITS, most_splits, runnable
from glasswood.evaluate.costs import MOST_WINDOW_LEVELS, needs_ranks, window_levels
from glasswood.evaluate.linear import numbered_leaves
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.inputs.statistics import StatisticRows

LARGE_FOREST = 2_000_000
"""Nodes beyond which no second layout is built to estimate what it would bring."""

PROBED_ROWS, PROBES = 2_000, 7
"""Largest number of rows by which `auto` measures, and least calls of each algorithm."""

PROBE_SECONDS, PROBE_SECONDS_OF_NODE = 2e-3, 2e-8
"""Least seconds of all calls of few rows, and more for each node, since it is to be in caches: a third of its
layout's."""

PROBED_CALL = 3e5
"""Nanoseconds by estimate up to which a batch is measured, whatever the number of trees."""

IN_A_ROW = 32
"""Rows that an algorithm predicts, call after call, before it is the next one's turn: what it reads is then near."""

DIFFERENT_ROWS, PROBED_NODES = 1_000, 1 << 13
"""Rows that are drawn at least, since processors learn the way of rows that come again and again; nodes that suffice to
draw rows from."""

seconds = time.thread_time if time.get_clock_info("thread_time").resolution <= 1e-6 else time.perf_counter
"""What `auto` measures by: the thread's own time, which other processes do not take from it, where clocks are fine."""

WINDOW_LEVELS, REDUCTIONS = (3, 4, 6), (1, 2, 3)
"""Settings of windowed and by_node that are worth measuring, besides their defaults."""

REDUCED_SPLITS = 64
"""Splits up to which a path is reduced in a register; larger or flatter trees ignore the number of reductions."""

BY_SAMPLE = Choice(0, "cpu", "by_sample")
"""What needs no layout but the forest itself."""


class CpuEvaluator:
    """A forest laid out for the compiled evaluation, each layout built on first use."""

    def __init__(self, forest: TreeEnsemble) -> None:
        self._forest = forest
        self._node_plans: dict[tuple[str, int], _core.NodePlan] = {}
        self._default_choices: dict[int, Choice] = {}
        self._rows_left: dict[int, float] = {}

    def margins(self, rows: Floats, choice: Choice, n_jobs: int | None) -> Doubles:
        """Margins (n, n_outputs); the sum over trees has one order whatever the schedule."""
        out = np.empty((len(rows), self._forest.n_outputs))
        if choice.algorithm in {"by_node", "windowed"}:
            self.node_plan(choice).margins(rows, out, n_threads(n_jobs))
        else:
            self._plan.margins(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
        return out

    def statistic_margins(self, rows: StatisticRows, choice: Choice, n_jobs: int | None) -> list[Doubles] | None:
        """Margins of rows of target statistics, chunk by chunk, None where the algorithm does not compare ranks."""
        if choice.algorithm not in {"by_node", "windowed"}:
            return None
        plan = self.node_plan(choice)
        if (tables := rows.rank_tables(plan)) is None:
            return None
        margins: list[Doubles] = []
        for own, ranks in rows.ranked_chunks(tables, n_jobs):
            margins.append(np.empty((len(own), self._forest.n_outputs)))
            plan.margins_of_ranks(own, ranks, margins[-1], n_threads(n_jobs))
        return margins

    def margins_on_grid(self, rows: Floats, columns: Sequence[int], points: Floats, n_jobs: int | None) -> Doubles:
        """Margins (n, n_outputs, points) of rows with each point's values in these columns; not for linear leaves."""
        out = np.empty((len(rows), self._forest.n_outputs, len(points)))
        self._plan.margins_on_grid(rows, points, list(columns), out, n_threads(n_jobs))
        return out

    def sums_on_grid(
        self, rows: Floats, columns: Sequence[int], points: Floats, weights: Doubles | None, n_jobs: int | None
    ) -> Doubles:
        """Sum these margins over the rows, (points, n_outputs)."""
        out = np.empty((self._forest.n_outputs, len(points)))
        self._plan.sums_on_grid(rows, points, list(columns), weights, out, n_threads(n_jobs))
        return out.T

    def moved_margins(self, rows: Floats, features: Sequence[int], sources: Int64s, n_jobs: int | None) -> Doubles:
        """Margins (features, sources, n, n_outputs) with a feature's values from the rows of each source, (sources, n).

        Each feature is one that a tree splits; `can_move` says whether the forest has this.
        """
        out = np.empty((len(features), len(sources), len(rows), self._forest.n_outputs))
        self._lanes.moved_margins(rows, list(features), sources, out, n_threads(n_jobs))
        return out

    @cached_property
    def can_move(self) -> bool:
        """Whether `moved_margins` knows these trees: at most 255 splits, no linear leaves, ranks of 16 bits."""
        is_small = most_splits(self._forest) <= MOST_SPLITS["by_node"] and not self._forest.has_linear_leaves
        return is_small and self._lanes.lane_cost > 0

    def leaves(self, rows: Floats, choice: Choice, n_jobs: int | None) -> Int32s:
        """Leaf ids (n, n_trees)."""
        out = np.empty((len(rows), self._forest.n_trees), np.int32)
        if choice.algorithm in {"by_node", "windowed"}:
            self.node_plan(choice).leaves(rows, out, n_threads(n_jobs))
        else:
            self._plan.leaves(rows, out, n_threads(n_jobs), choice.algorithm == "serial")
        return out

    def positions(self, rows: Floats, choice: Choice, n_jobs: int | None) -> Int32s:
        """Places in `leaf_value` of the leaves that rows reach, (n, n_trees)."""
        return self._numbered.leaves(rows, choice, n_jobs)

    def plan_of(self, choice: Choice) -> _core.EvaluatePlan | _core.NodePlan:
        """Lay the forest out for the choice, once."""
        return self.node_plan(choice) if choice.algorithm in {"by_node", "windowed"} else self._plan

    def numbered(self) -> CpuEvaluator:
        """Evaluate with leaves numbered by their place in `leaf_value`."""
        return self._numbered

    def node_plan(self, choice: Choice) -> _core.NodePlan:
        """Lay the forest out for by_node or windowed, once a setting."""
        key = (choice.algorithm, choice.setting)
        plan = self._node_plans.get(key)
        if plan is None:
            levels = window_levels(self._forest, choice) if choice.algorithm == "windowed" else 0
            reductions = choice.setting if choice.algorithm == "by_node" else 0
            plan = _core.NodePlan(self._forest, levels, reductions, needs_ranks(self._forest))
            self._node_plans[key] = plan
        return plan

    def default_choice(self, n_rows: int) -> Choice:
        """Pick what serves the kind of batches that has `n_rows` rows: as measured where that is short, else by costs.

        Which algorithm is the fastest for few trees or few rows differs between processors by a factor of two and more
        either way.
        """
        typical = costs.TYPICAL_ROWS[costs.batch_kind(n_rows)]
        if typical not in self._default_choices:
            is_measured = self._is_measured(typical)
            find = self._fastest if is_measured else self._cheapest
            self._default_choices[typical] = find(min(typical, PROBED_ROWS) if is_measured else typical)
        return self._default_choices[typical]

    def choice_for_next(self, n_rows: int) -> Choice:
        """Pick for a call: by_sample until as many rows of such batches have come as measuring would take time for.

        Margins have the same bits.
        """
        typical = costs.TYPICAL_ROWS[costs.batch_kind(n_rows)]
        if typical not in self._default_choices:
            left = self._rows_left.get(typical)
            self._rows_left[typical] = left = (self._rows_of_measuring(typical) if left is None else left) - n_rows
            if left >= 0:
                return BY_SAMPLE
        return self.default_choice(n_rows)

    def _rows_of_measuring(self, typical: int) -> float:
        """Estimate how many rows go by_sample in the time of measuring; none where the model of costs decides."""
        if not self._is_measured(typical):
            return 0
        if typical >= costs.LANE_ROWS:
            return PROBES * len(self.usual()) * min(typical, PROBED_ROWS)
        lasts = PROBE_SECONDS + PROBE_SECONDS_OF_NODE * self._forest.n_nodes
        return 1e9 * lasts / costs.nanoseconds(self._forest, BY_SAMPLE, typical, None)

    def _is_measured(self, n_rows: int) -> bool:
        if self._forest.n_trees <= costs.SMALL_FOREST:
            return True
        return n_rows * costs.nanoseconds(self._forest, BY_SAMPLE, n_rows, None) <= PROBED_CALL

    def _cheapest(self, n_rows: int) -> Choice:
        """Estimate the usual choices by the model of costs."""
        return min(self.usual(), key=lambda choice: self._cost(choice, n_rows))

    def _fastest(self, n_rows: int) -> Choice:
        """Measure the usual choices on drawn rows, in turns: the second half counts, when layouts are in caches."""
        choices = self.usual()
        if len(choices) == 1:
            return choices[0]
        for choice in choices:
            self.plan_of(choice)
        rows = probe_rows(self._forest, max(n_rows, DIFFERENT_ROWS))
        batches = itertools.cycle(rows[first : first + n_rows] for first in range(0, len(rows) - n_rows + 1, n_rows))
        runs: dict[Choice, list[float]] = {choice: [] for choice in choices}
        is_long = n_rows >= costs.LANE_ROWS
        until = 0.0 if is_long else PROBE_SECONDS + PROBE_SECONDS_OF_NODE * self._forest.n_nodes
        began = start = seconds()
        while len(runs[choices[0]]) < PROBES or start - began < until:
            these = list(itertools.islice(batches, -(-IN_A_ROW // n_rows)))
            for choice, batch in itertools.product(choices, these):
                start = seconds()
                self.margins(batch, choice, 1)
                runs[choice].append(seconds() - start)
        return min(choices, key=lambda choice: quartile(runs[choice][len(runs[choice]) // 2 :]))

    def choice_for_once(self, n_rows: int) -> Choice:
        """Pick for rows that come once: by_sample where these take less time than a layout that is yet to be made.

        Margins have the same bits.
        """
        layout = 0.0 if self._node_plans else costs.LAYOUT * self._forest.n_nodes
        is_shorter = n_rows * costs.most_of_walk(self._forest) < layout  # of few rows, whose terms would take as long
        if not (is_shorter or n_rows * costs.nanoseconds(self._forest, BY_SAMPLE, n_rows, None) < layout):
            return self.default_choice(n_rows)
        return BY_SAMPLE

    def candidates(self, n_rows: int) -> tuple[Choice, ...]:
        """List what is worth measuring for batches of `n_rows` rows, the default settings first."""
        usable = tuple(Choice(max(n_rows, 1), "cpu", name) for name in runnable(self._forest))
        settings = {"windowed": WINDOW_LEVELS}
        if most_splits(self._forest) <= REDUCED_SPLITS and self._forest.depth > MOST_WINDOW_LEVELS:
            settings["by_node"] = REDUCTIONS
        more = [c._replace(setting=setting) for c in usable for setting in settings.get(c.algorithm, ())]
        return (*usable, *more)

    def usual(self) -> list[Choice]:
        """List what `auto` decides between."""
        can_test_nodes = "by_node" in runnable(self._forest)
        names = ["by_sample", "by_node" if can_test_nodes else "windowed"]
        if self._forest.n_trees <= costs.SMALL_FOREST and can_test_nodes:
            names.append("windowed")
        if self._forest.n_nodes > LARGE_FOREST:
            names = ["by_sample"]
        return [Choice(0, "cpu", name) for name in names]

    def _cost(self, choice: Choice, n_rows: int) -> float:
        plan = None if choice.algorithm == "by_sample" else self.node_plan(choice)
        return costs.nanoseconds(self._forest, choice, n_rows, plan)

    @cached_property
    def _plan(self) -> _core.EvaluatePlan:
        return _core.EvaluatePlan(self._forest)

    @cached_property
    def _lanes(self) -> _core.NodePlan:
        return _core.NodePlan(self._forest, window_levels=0, reductions=0, ranks=True, lanes=True)

    @cached_property
    def _numbered(self) -> CpuEvaluator:
        return CpuEvaluator(numbered_leaves(self._forest))


def quartile(times: list[float]) -> float:
    """Take the lower quartile, which whatever else runs disturbs less than the median, and luck less than the least."""
    return sorted(times)[len(times) // 4]


def probe_rows(forest: TreeEnsemble, n_rows: int) -> Floats:
    """Draw rows on the forest's thresholds and categories, which go everywhere in its trees; the same in each call."""
    rng = np.random.default_rng(0)
    rows = np.zeros((n_rows, forest.n_features), forest.threshold.dtype)
    nodes = np.flatnonzero(forest.feature >= 0)
    nodes = nodes[:: -(-len(nodes) // PROBED_NODES) or 1]
    nodes = nodes[np.argsort(forest.feature[nodes], kind="stable")]
    features, first = np.unique(forest.feature[nodes], return_index=True)
    for feature, tests in zip(features, np.split(nodes, first[1:])[: len(features)], strict=True):
        known = forest.threshold[tests][np.isfinite(forest.threshold[tests])]
        if forest.is_categorical and (forest.category_set[tests] >= 0).any():
            words = np.diff(forest.set_offsets)[forest.category_set[tests].clip(0)].max()
            rows[:, feature] = rng.integers(0, max(32 * words, 1), n_rows)
        elif len(known):
            rows[:, feature] = rng.choice(known, n_rows)
    return rows
