"""Calls of explainers that take rows: interactions and indices of sets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Int32s, InteractionIndex, Rows
from glasswood.explain.background import mean_margin
from glasswood.explain.checks import places_of, refuse_linear_leaves
from glasswood.explain.engines import Engines, require_cpu
from glasswood.explain.game import Game
from glasswood.explain.players import sets_of
from glasswood.explain.shap_arguments import call_arguments, is_mean_of_rounds, taking_one_row
from glasswood.explain.strongest import HostPairs, PairSearch
from glasswood.explain.walks import walked_part
from glasswood.inputs import arranged
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Settings
    from glasswood.explain.strongest import PairEngine
    from glasswood.inputs.placed import PlacedRows


class InteractionCalls:
    """What all calls of an explainer share, and those for more than one feature.

    Attributes
    ----------
    game : Game
    settings : Settings
    """

    game: Game
    settings: Settings

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings = game, settings
        self._engines = Engines(game, settings)

    def __getstate__(self) -> dict[str, object]:
        return {"game": self.game, "settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        InteractionCalls.__init__(self, **state)

    def _of_game(self, game: Game) -> Self:
        """Explain another game."""
        result = object.__new__(type(self))
        InteractionCalls.__init__(result, game, self.settings)
        return result

    @property
    def n_outputs(self) -> int:
        """Numbers that are explained of a row: the outputs of the margin, or those of the response."""
        return self._engines.cpu.n_outputs

    @property
    def expected_value(self) -> float | Doubles:
        """Output if no feature is known: a float, or (k,) for k > 1 outputs."""
        expected = self._engines.cpu.expected_value
        return float(expected[0]) if len(expected) == 1 else expected

    def _of_first_trees(self, n_trees: int) -> Self:
        """Explain the first trees."""
        refuse_linear_leaves(self.game.forest, f"tree_limit={n_trees}", "explain all trees")
        first = np.arange(n_trees, dtype=np.int32)
        forest = cast("TreeEnsemble", walked_part(self.game.forest, first, np.zeros(0, np.int64), np.float64))
        if is_mean_of_rounds(self.game.forest):
            forest = dataclasses.replace(forest, tree_weight=forest.tree_weight * (self.game.forest.n_trees / n_trees))
        background = self.game.background
        if background is not None:
            expected = mean_margin(forest, background.rows, background.weight, self.settings.n_jobs)
            background = dataclasses.replace(background, expected_value=expected)
        return self._of_game(Game(forest, self.game.players, background))

    @taking_one_row
    def shap_interaction_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] | None = None,
        out: Array | None = None,
        top: int | None = None,
        overall: bool = False,
        **shap_arguments: Any,
    ) -> Array | tuple[Int32s, Array]:
        """Compute SHAP interaction values.

        Parameters
        ----------
        X : array-like or frame of shape (n, F), or one row (F,)
        y : array-like, optional
            As in `shap_values`.
        features : sequence of int or str, optional
            Indices or names of the m features whose interactions with all others are returned; default all.
        out : ndarray, optional
            Array for the result, as in `shap_values`.
        top : int, optional
            Return only this number of pairs for each row, the strongest, without storing the matrices.
        overall : bool
            With `top`, return the same pairs for all rows: those with the largest mean magnitude over rows and outputs.
        **shap_arguments
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, m, F), or (n, m, F, k) for k > 1 outputs, of `dtype`
            Entry (i, j) is half of the interaction of features i and j, and entry (i, i) the main effect of feature i.
            Row i adds up to the SHAP value of feature i.
        pairs, values : int32 (n, top, 2) and ndarray (n, top); for k > 1 outputs (n, top, 2, k) and (n, top, k)
            With `top`, features i < j and the entry (i, j) of the matrix, by falling magnitude; ties keep the order of
            the pairs. With `overall`, pairs (top, 2) and values (n, top) or (n, top, k). Those of
            rows on a GPU stay there, in the library of the rows.

        Raises
        ------
        ValueError
            If X does not fit the forest or `out` the result, a feature is unknown or named twice, or `top` is below 1
            or above the number of pairs.
        NotImplementedError
            For linear leaves with a background, and for exact values of responses if rows differ from background rows
            on more than 20 features.
        DeviceError
            If `device` or X requires a GPU that cannot be used.

        Notes
        -----
        glasswood uses tables if they pay off and fit into `table_bytes`, otherwise a walk of O(nodes × features on a
        path × K) per row. Memory beyond the result: the tables, and a float64 for each pair of features, row of a block
        and thread. With `top`, matrices are computed 16 MB at a time (256 MB on a GPU) and searched where they are.
        """
        limit, approximate = call_arguments(shap_arguments, self.game, of_pairs=True)
        if approximate:
            raise NotImplementedError("approximate=True does not support interaction values; leave it out")
        if limit is not None:
            how: Any = {"features": features, "out": out, "top": top, "overall": overall}
            return self._of_first_trees(limit).shap_interaction_values(X, y, **how)
        is_plain = features is None and out is None and top is None
        if is_plain and (found := self._engines.again(X, "pairs")) is not None:
            return cast("Array", found)
        if self.game.has_background and not self._engines.is_exact_response:
            refuse_linear_leaves(
                self.game.forest, "interactions against a background", "explain without background rows"
            )
        players = self.game.players
        places = places_of(features, players.n, players.names)
        X = arranged(X, self.game.forest)
        if top is None and not overall:
            rows = self._engines.place(X, "pairs", y)
            found = self._engines.of(rows).interactions(rows, None if features is None else places, out)
            return cast("Array", found)
        search = PairSearch(places, self.n_outputs, top, overall, out)
        rows = self._engines.place(X, "pairs", y)
        return search.run(rows, self._pair_engine(rows, None if features is None else places, search))

    def _pair_engine(self, rows: PlacedRows, places: Int32s | None, search: PairSearch) -> PairEngine:
        """Choose what searches matrices: GPUs where they are computed there and lists are short, else the CPU."""
        n_players = self.game.players.n
        shape = (n_players if places is None else int(places.max()) + 1, n_players)
        engine = self._engines.of(rows)
        if rows.gpus:
            from glasswood.explain.cuda.strongest import MOST_LISTED, CudaPairs

            if search.n_listed <= MOST_LISTED:
                return CudaPairs(self._engines.cuda, places, math.prod(shape))

        def explain(some: PlacedRows, out: Array | None) -> Array:
            return np.asarray(on_host(engine.interactions(some, places, out)))

        outputs = () if self.n_outputs == 1 else (self.n_outputs,)
        return HostPairs(explain, (*shape, *outputs), self.settings.dtype, self.settings.n_jobs)

    def interaction_index(
        self,
        X: Rows,
        sets: Iterable[Sequence[int | str]],
        index: InteractionIndex = "shapley",
        y: ArrayLike | None = None,
    ) -> Array:
        """Compute an interaction index for sets of one to four features.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        sets : iterable of sequences of int or str
            Each set has 1 to 4 features (or groups), by index or name. ``itertools.combinations(features, 3)`` gives
            all sets of three.
        index : {"shapley", "banzhaf"}
            How the effects of a set are averaged over the coalitions of the other features (Notes).
        y : array-like
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, n_sets), or (n, n_sets, k) for k > 1 outputs, of `dtype`
            The index of each set in the order of `sets`, in the unit of the output.

        Raises
        ------
        ValueError, TypeError
            If X does not fit the forest, or a set is empty, has more than 4 features, or names an
            unknown feature or the same feature twice.
        NotImplementedError
            For margins of forests with linear leaves, for margins on GPUs, and for exact values of responses if rows
            differ from background rows on more than 20 features.

        Notes
        -----
        The discrete derivative of a set S at a coalition T of other features is the sum over the subsets L of S of
        ``(-1)^(s - l) v(T and L)``, where v is the game that `shap_values` explains, and s, l and t are the sizes of S,
        L and T. The index is the mean of this derivative over T. For n features, the weights are

        - t! (n - s - t)! / (n - s + 1)! for the Shapley interaction index ("SII" in shapiq). For one feature it is the
          SHAP value, for two features twice the entry of `shap_interaction_values`;
        - 2^(s - n) for the Banzhaf interaction index ("BII" in shapiq). For one feature it is the Banzhaf value.

        Features that no tree tests do not change the index. For margins, glasswood computes it in float64, without
        tables, from the sets of conditions that rows do not meet at a leaf; a background adds its distinct patterns
        there. The cost is O(leaves × patterns × sets on the path) for each distinct set of conditions among 256 rows.

        References
        ----------
        Grabisch, Roubens, "An axiomatic approach to the concept of interaction among players in cooperative games",
        International Journal of Game Theory 28 (1999), https://doi.org/10.1007/s001820050125; Muschalik et al.,
        "shapiq: Shapley interactions for machine learning", NeurIPS 2024, https://arxiv.org/abs/2410.01649.
        """
        if not isinstance(index, str) or index not in {"shapley", "banzhaf"}:
            raise ValueError(f"index is {quoted(index)}, expected 'shapley' or 'banzhaf'")
        is_exact_response = self._engines.is_exact_response
        if not is_exact_response:
            refuse_linear_leaves(self.game.forest, "interaction indices", "use shap_values")
            require_cpu(self.settings.device, X, "interaction indices of margins")
        chosen = sets_of(sets, self.game.players)
        X = arranged(X, self.game.forest)
        rows = self._engines.place(X, "pairs", y, on_host=not is_exact_response)
        engine: Any = self._engines.of(rows)
        return cast("Array", engine.indices(rows, chosen, index == "banzhaf", None))
