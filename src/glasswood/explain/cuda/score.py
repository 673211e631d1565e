"""Mean outputs of all coalitions on a GPU, and the values of their losses (native/explain/cuda/coalitions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from glasswood.base.device import import_cupy, on_host
from glasswood.base.typing import Array, Doubles, GpuArray
from glasswood.cuda.launches import NOWHERE
from glasswood.explain.cuda.coalition_sets import Wanted
from glasswood.explain.cuda.coalitions import MASK_BYTES, CoalitionJob, CoalitionPlan

if TYPE_CHECKING:
    from glasswood.explain.background import Background
    from glasswood.explain.responses.coalitions import CoalitionExplainer
    from glasswood.explain.responses.response import Response

CUBE_BYTES, MOST_ROWS = 2**32, 65_535
"""Memory of the mean outputs and losses of rows that are computed together; rows of a grid's second axis."""


class ScoreSource(NamedTuple):
    """What the CPU has of a score's game, in the names of `CoalitionExplainer`."""

    game: Any
    response: Response
    background: Background
    layout: Any
    most: int = 32
    cheaper: str = "groups of features"


class ScoreJob(CoalitionJob):
    """Losses of mean outputs over a background, and what players change of them.

    All arithmetic is float64, and sums over the background have one order.
    """

    def __init__(self, source: ScoreSource) -> None:
        plan = CoalitionPlan(cast("CoalitionExplainer", source), np.float64)
        size = 1 << plan.n_bits
        super().__init__(plan, np.float64, Wanted(None, size, plan.bit, np.zeros(0)))

    def rows_together(self) -> int:
        """Rows whose mean outputs fit."""
        plan = self.plan
        of_row = 8 * self.wanted.n * (self.forest.n_outputs + 2)  # and losses
        mask_bytes = plan.n_leaves * plan.mask.itemsize + plan.pair_bytes * len(plan.background)
        return max(1, min(CUBE_BYTES // of_row, MASK_BYTES // mask_bytes, MOST_ROWS))

    def values(
        self, rows: Array, targets: Array, lose: Callable[[Any, Any], Any], weights: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Compute values of the used players, (n, d), and losses without features, (n,).

        Parameters
        ----------
        rows, targets : (n, F), (n,)
            On the host.
        lose : callable
            Maps mean outputs (n, k, coalitions) and targets, both on the GPU, to losses (n, coalitions).
        weights : (coalitions, d)
        """
        cupy = import_cupy()
        losses = lose(self._cubes(cupy.asarray(rows)), cupy.asarray(targets))
        values: Doubles = on_host(-losses @ cupy.asarray(weights))
        return values, on_host(losses[:, 0])

    def _cubes(self, x: GpuArray) -> GpuArray:
        cupy, plan, k = import_cupy(), self.plan, self.forest.n_outputs
        shared, size = plan.on_gpu(), self.wanted.n
        masks = plan.masks_of(x, shared)
        pairs, histogram = self._differing(masks, shared)
        counts = on_host(histogram)
        cubes: Any = cupy.zeros((len(x), k, size), np.float64)
        shared = shared | {"weights": NOWHERE, "sets": NOWHERE}
        for team in self._teams(fewest=0):
            if counts[team.fewest : team.most + 1].any():
                self._explain(team, masks, NOWHERE, pairs, shared, cubes, of_means=True)
        for bit in range(plan.n_bits):
            halves = cubes.reshape(len(x), k, -1, 2, 1 << bit)
            halves[:, :, :, 1] += halves[:, :, :, 0]
        found: GpuArray = cubes
        return found
