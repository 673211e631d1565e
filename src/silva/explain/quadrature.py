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

    def __init__(self, forest: TreeEnsemble, dtype: str, player_of: Int32s) -> None:
        self._forest, self._player_of = forest, player_of
        self._plan_type = PLANS[dtype]
        self._values = self._plan_type(forest, player_of, False)
        self._interactions: Any = None

    @property
    def expected_value(self) -> Doubles:
        """Margin that each output has on average over the training covers: (n_outputs,)."""
        expected: Doubles = self._values.expected_value
        return expected

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        self._values.values(rows, out, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        if self._interactions is None:
            self._interactions = self._plan_type(self._forest, self._player_of, True)
        self._interactions.interactions(rows, places, out, n_threads(n_jobs))


class CoverIndexRunner:
    """Indices of sets of players in the path-dependent game."""

    def __init__(self, forest: TreeEnsemble, player_of: Int32s) -> None:
        self._walk = _core.CoverWalk(forest, player_of)

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, n_sets) or (n, n_sets, k), with the index of each set (n_sets, 4), padded with -1."""
        self._walk.indices(rows, sets.reshape(-1), is_banzhaf, out, n_threads(n_jobs))
