"""Explanations by the quadrature walk on the CPU: calls the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva import _core
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.typing import Array, Doubles, Int32s

PLANS = {"float32": _core.ExplainPlan32, "float64": _core.ExplainPlan64}


class QuadratureRunner:
    """A forest laid out for the compiled explanations; the tables of interactions are built when first needed."""

    def __init__(self, forest: TreeEnsemble, dtype: str) -> None:
        self._forest = forest
        self._plan_type = PLANS[dtype]
        self._values = self._plan_type(forest, False)
        self._interactions: Any = None

    @property
    def expected_value(self) -> Doubles:
        """Margin that each output has on average over the training covers: (n_outputs,)."""
        expected: Doubles = self._values.expected_value
        return expected

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, F) or (n, F, k)."""
        self._values.values(rows, out, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, F) or (n, m, F, k); places[f] is feature f's place among the m, or -1."""
        if self._interactions is None:
            self._interactions = self._plan_type(self._forest, True)
        self._interactions.interactions(rows, places, out, n_threads(n_jobs))
