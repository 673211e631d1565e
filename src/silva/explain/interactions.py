"""What an Explainer says of several features together: interactions, the strongest of them, indices of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from silva.device import array_gpu, on_host
from silva.explain.checks import places_of, refuse_linear_leaves
from silva.explain.placement import require_cpu
from silva.explain.players import sets_of
from silva.explain.responses import checked_labels, labels_of
from silva.explain.shap_arguments import refuse_call_arguments, taking_one_row
from silva.explain.strongest import PairSearch
from silva.inputs import arranged, as_rows
from silva.inputs.targets import as_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike

    from silva.explain.background import Background
    from silva.explain.cpu import CpuExplainer
    from silva.explain.players import Players
    from silva.explain.responses import ResponseExplainer
    from silva.forest import Forest
    from silva.typing import Array, Int32s, InteractionIndex, Rows


class InteractionExplainer:
    """What an Explainer does with more than one feature at a time."""

    forest: Forest
    device: str
    output: str
    _background: Background | None
    _players: Players
    _on_cpu: CpuExplainer | ResponseExplainer
    _on_cuda: Any
    _again: Callable[[Any, str], Array | None]
    _gpus: Callable[..., tuple[int, ...]]

    @overload
    def shap_interaction_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] | None = None,
        out: Array | None = None,
        by_position: bool = False,
        top: None = None,
        overall: bool = False,
        **shap_arguments: Any,
    ) -> Array: ...
    @overload
    def shap_interaction_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] | None = None,
        out: Array | None = None,
        by_position: bool = False,
        top: int,
        overall: bool = False,
        **shap_arguments: Any,
    ) -> tuple[Int32s, Array]: ...
    @taking_one_row
    def shap_interaction_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] | None = None,
        out: Array | None = None,
        by_position: bool = False,
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
            Indices or names of the m features whose interactions with all others are wanted; default all of them.
        out : ndarray, optional
            Where to write, as in `shap_values`.
        by_position : bool
            As in `shap_values`.
        top : int, optional
            Return the strongest pairs alone, so many of each row, without the matrices in memory.
        overall : bool
            With `top`: the pairs of the largest mean magnitude over the rows (and outputs), the same for all rows.
        **shap_arguments
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, m, F), or (n, m, F, k) for k > 1 outputs, of `dtype`
            Entry (i, j) is half of the interaction of features i and j, entry (i, i) the main effect: row i adds up
            to the SHAP value of feature i.
        pairs, values : int32 (n, top, 2) and ndarray (n, top), of k > 1 outputs (n, top, 2, k) and (n, top, k)
            With `top`: features i < j and the entry (i, j) of the matrix, by falling magnitude, of equal ones the first
            pair first. With `overall`: pairs (top, 2), values (n, top) or (n, top, k). NumPy arrays.

        Raises
        ------
        ValueError
            If X does not fit the forest, out not the result, a feature is unknown or named twice, or `top` is below 1
            or above the number of pairs.
        NotImplementedError
            For linear leaves against a background.
        DeviceError
            If a GPU is asked for and cannot be used.

        Notes
        -----
        By tables where they pay and fit into `table_bytes`, else O(nodes × features on a path × K) a row. Memory beyond
        the result: the tables, and a float64 a pair of features, row of a block and thread. With `top` matrices of 64
        MB of rows at a time, twice with `overall`; rows of host frames are then explained on the CPU.
        """
        if shap_arguments:
            refuse_call_arguments(shap_arguments, self.forest.n_trees)
        is_plain = features is None and out is None and top is None
        if is_plain and (interactions := self._again(X, "interactions")) is not None:
            return interactions
        if self._background is not None:
            refuse_linear_leaves(self.forest, "interactions against a background", "explain without background rows")
        places = places_of(features, self._players.n, self._players.names)
        X = arranged(X, self.forest, by_position)
        if top is not None or overall:
            return self._strongest(X, PairSearch(places, self.forest.n_outputs, top, overall, out), y)
        labels = labels_of(self.output, y)
        if gpus := self._gpus(X, of_pairs=True):
            asked = None if features is None else places
            found = self._on_cuda.shap_interaction_values(X, gpus, asked, out, self.device, **labels)
            return cast("Array", found)
        return self._on_cpu.interactions(as_rows(X, self.forest), places, out, **labels)

    def _strongest(self, X: Rows, search: PairSearch, y: ArrayLike | None) -> tuple[Int32s, Array]:
        """Strongest pairs, from matrices of some rows at a time."""
        is_array = isinstance(X, np.ndarray) or array_gpu(X) is not None
        gpus = self._gpus(X, of_pairs=True) if is_array else ()
        rows: Any = X if gpus else as_rows(X, self.forest)
        labels = labels_of(self.output, y)
        if labels:
            checked_labels(y, len(rows), self.forest)  # all of them, before the first rows are explained
            labels = {"y": as_targets(cast("ArrayLike", y), len(rows))}

        def explain(first: int, end: int, places: Int32s) -> Array:
            of_rows = {name: array[first:end] for name, array in labels.items()}
            if gpus:
                explain_pairs = self._on_cuda.shap_interaction_values
                found = explain_pairs(rows[first:end], gpus, places, None, self.device, **of_rows)
                return cast("Array", on_host(found))
            return self._on_cpu.interactions(rows[first:end], places, None, **of_rows)

        return search.run(explain, len(rows))

    def interaction_index(
        self,
        X: Rows,
        sets: Iterable[Sequence[int | str]],
        index: InteractionIndex = "shapley",
        out: Array | None = None,
        by_position: bool = False,
        y: ArrayLike | None = None,
    ) -> Array:
        """Compute the interaction index of chosen sets of features, of order 1 to 4.

        Parameters
        ----------
        X : array-like or frame of shape (n, F)
        sets : iterable of sequences of int or str
            Each 1 to 4 features (or groups) by index or name; ``itertools.combinations(features, 3)`` for all sets of
            three.
        index : {"shapley", "banzhaf"}
            Which mean of a set's effects over the coalitions of the other features (Notes).
        out, by_position, y : ndarray, bool, array-like
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, n_sets), or (n, n_sets, k) for k > 1 outputs, of `dtype`
            The index of each set in the order of `sets`, in the unit of the output.

        Raises
        ------
        ValueError, TypeError
            If X does not fit the forest, out not the result, or a set is empty, larger than 4, or names a feature that
            is unknown or in it already.
        NotImplementedError
            For linear leaves, and on GPUs.

        Notes
        -----
        The discrete derivative of a set S at a coalition T of other features is the sum over the subsets L of S of
        ``(-1)^(s - l) v(T and L)``, v the game that `shap_values` explains, s, l and t the sizes of S, L and T. Its
        mean over T has, of n features, the weights

        - t! (n - s - t)! / (n - s + 1)!: the Shapley interaction index ("SII" in shapiq), of one feature its SHAP
          value, of two twice the entry of `shap_interaction_values`;
        - 2^(s - n): the Banzhaf interaction index ("BII" in shapiq), of one feature the Banzhaf value.

        Features that no tree tests change neither. Computed in float64 from the sets of conditions that rows do not
        meet at a leaf, with a background for each of its distinct patterns there: O(leaves × patterns × sets on the
        path) for each distinct set of conditions among 256 rows, without tables.

        References
        ----------
        Grabisch, Roubens, "An axiomatic approach to the concept of interaction among players in cooperative games",
        International Journal of Game Theory 28 (1999), https://doi.org/10.1007/s001820050125; Muschalik et al.,
        "shapiq: Shapley interactions for machine learning", NeurIPS 2024, https://arxiv.org/abs/2410.01649.
        """
        if not isinstance(index, str) or index not in {"shapley", "banzhaf"}:
            raise ValueError(f"index is {index!r}, expected 'shapley' or 'banzhaf'")
        refuse_linear_leaves(self.forest, "interaction indices", "use shap_values")
        require_cpu(self.device, X, "interaction indices")
        chosen = sets_of(sets, self._players)
        X = arranged(X, self.forest, by_position)
        labels = labels_of(self.output, y)
        return self._on_cpu.indices(as_rows(X, self.forest), chosen, index == "banzhaf", out, **labels)
