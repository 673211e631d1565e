"""Explanations on the CPU without tables: walks of trees, whose parameters are a game's and whose maths is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from silva import _core
from silva.parallel import n_threads

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.explain.background import Background
    from silva.explain.game import Game
    from silva.typing import Array, Doubles, Int32s

PLANS = {"float32": _core.ExplainPlan32, "float64": _core.ExplainPlan64}


class Walk(Protocol):
    """Explanations of a forest without tables."""

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""


def walk_of(game: Game, trees: TreeEnsemble, dtype: str, n_jobs: int | None) -> Any:
    """Walk of a game's trees, or of some of them."""
    if game.background is None:
        return QuadratureWalk(trees, dtype, game.players.of_feature)
    return (LinearPatternWalk if trees.has_linear_leaves else PatternWalk)(game, trees, n_jobs)


def index_walk_of(game: Game, n_jobs: int | None) -> Any:
    """Walk of a game's trees for indices of sets."""
    if game.background is None:
        return CoverIndexWalk(game.forest, game.players.of_feature)
    return walk_of(game, game.forest, "float64", n_jobs)


class QuadratureWalk:
    """The path-dependent game by quadrature; what interactions need is laid out when they are first asked for."""

    def __init__(self, trees: TreeEnsemble, dtype: str, player_of: Int32s) -> None:
        self._trees, self._player_of = trees, player_of
        self._plan_type = PLANS[dtype]
        self._values = self._plan_type(trees, player_of, False)
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
            self._interactions = self._plan_type(self._trees, self._player_of, True)
        self._interactions.interactions(rows, places, out, n_threads(n_jobs))


class CoverIndexWalk:
    """Indices of sets of players in the path-dependent game."""

    def __init__(self, trees: TreeEnsemble, player_of: Int32s) -> None:
        self._walk = _core.CoverWalk(trees, player_of)

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, n_sets) or (n, n_sets, k), with the index of each set (n_sets, 4), padded with -1."""
        self._walk.indices(rows, sets.reshape(-1), is_banzhaf, out, n_threads(n_jobs))


class PatternWalk:
    """The game against a background by its patterns at each leaf: any trees of constant leaves."""

    def __init__(self, game: Game, trees: TreeEnsemble, n_jobs: int | None) -> None:
        player_of, background = game.players.of_feature, cast("Background", game.background)
        of_rows = background.rows, background.weight, background.total
        self._walk = _core.PatternWalk(trees, player_of, *of_rows, n_threads(n_jobs))

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        self._walk.values(rows, out, n_threads(n_jobs))

    def interactions(self, rows: Array, places: Int32s, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, m, P) or (n, m, P, k); places[p] is player p's place among the m, or -1."""
        self._walk.interactions(rows, places, out, n_threads(n_jobs))

    def indices(self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, n_sets) or (n, n_sets, k), with the index of each set (n_sets, 4), padded with -1."""
        self._walk.indices(rows, sets.reshape(-1), is_banzhaf, out, n_threads(n_jobs))


class LinearPatternWalk:
    """Values against a background where leaves hold linear models: by patterns, and pair by pair where leaves clip."""

    def __init__(self, game: Game, trees: TreeEnsemble, n_jobs: int | None) -> None:
        player_of, background = game.players.of_feature, cast("Background", game.background)
        of_rows = background.rows, background.weight, background.total
        self._walk = _core.LinearPatternWalk(trees, player_of, *of_rows, n_threads(n_jobs))
        self._instead = "explain without a background" + " or grow with clip='none'" * (trees.source == "silva")

    def values(self, rows: Array, out: Array, n_jobs: int | None) -> None:
        """Fill out, (n, P) or (n, P, k)."""
        try:
            self._walk.values(rows, out, n_threads(n_jobs))
        except ValueError as error:
            raise NotImplementedError(f"{error}; {self._instead}") from error
