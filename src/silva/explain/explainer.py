"""The public Explainer."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from silva.device import array_gpu, on_host, parse_device
from silva.explain.additivity import check_sums
from silva.explain.approximate import approximate_values
from silva.explain.background import mean_margin
from silva.explain.checks import places_of, refuse_linear_leaves
from silva.explain.coalitions import CoalitionExplainer
from silva.explain.engines import Engines, require_cpu
from silva.explain.explanation import base_values_of, make_explanation
from silva.explain.game import checked_settings
from silva.explain.mapper import ExplanationMapper
from silva.explain.players import by_column, sets_of
from silva.explain.row import make_row
from silva.explain.setup import set_up
from silva.explain.shap_arguments import call_arguments, own_algorithm, taking_one_row
from silva.explain.sparse import in_used_columns, sparse_values, values_of_sparse
from silva.explain.stored import attachment_of, load_explainer
from silva.explain.strongest import PairSearch
from silva.explain.walked import walked_part
from silva.facts import as_html, forest_facts
from silva.facts import feature_names as shown_names
from silva.forest import Forest
from silva.inputs import arranged, as_rows, refuse_transform
from silva.inputs.sparse import is_sparse
from silva.parallel import cached_property, n_threads
from silva.storage import naming, save_forest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from numpy.typing import ArrayLike

    from silva.ensemble import TreeEnsemble
    from silva.typing import (
        Array,
        Doubles,
        ExplainAlgorithm,
        ExplainOutput,
        ExplainRule,
        FloatType,
        Int32s,
        InteractionIndex,
        Rows,
    )


class Explainer:
    """Exact SHAP values and interaction values of a tree ensemble.

    Parameters
    ----------
    model : object or path
        A Forest, or any model that `silva.load` reads.
    background : array-like or frame of shape (m, F), optional
        Rows whose values replace unknown features (interventional values). Their number does not affect the cost of a
        row, except for exact values of responses (`rule`). None: path-dependent values, which weight the two sides of a
        split by the training rows that took them. On GPUs, a background requires tables for every tree.
    algorithm : {"auto", "tables", "quadrature", "paths"}
        "tables" keeps finished values of small subtrees, so that a row costs about as much as its prediction.
        "quadrature" walks every tree for every row. "auto" uses tables where they pay off, otherwise the walk; the
        forest and its background decide, never the rows. "paths" is GPUTreeShap's method, an independent check on GPUs
        for at most 31 distinct features on a path.
    output : {"margin", "probability", "log_loss", "response", "decision"} or callable
        What is explained: the margin, before any link. With a background also the probability of the second class, or
        of each of k classes; the loss of each row's label; the response, which the link makes of the margin; whether
        the model decides for a class, 1 or 0; or a function of margins (N, k) that returns (N,) or (N, r) numbers.
    device : {"auto", "cpu", "cuda", "cuda:1", "cuda:all"}
        Where to run. "auto" uses the GPU that holds the rows; rows on the host go to a GPU if that is faster.
        "cuda:all" divides the rows among the GPUs of this machine.
    dtype : {"float32", "float64"}
        Type of the arithmetic within a tree and of the results; sums over trees are float64 in both.
    n_jobs : int, optional
        Number of threads; None or -1 for all.
    table_bytes : int, optional
        Largest memory for tables of values, and as much again for tables of interactions; 0 for no tables. Tables that
        do not fit are built again for each call if that pays off. Default: 256 MB on CPUs, 512 MB on each GPU.
    background_weight : array-like of shape (m,), optional
        Weights of the background rows, at least 0; default 1 each.
    groups : dict of str to sequence of int or str, or "source", optional
        Groups of features by name. The features of a group are known together or not at all, and have one value.
        Results have the groups first, then the features that are in no group. On GPUs, groups require tables for every
        tree. "source" groups the features that a pipeline's steps made from one column, or CatBoost's target statistics
        of one column; for other models, each feature is a group.
    feature_names : sequence of str, optional
        Names of the features in explanations; default the model's names.
    rule : {"exact", "rescale"}
        Definition of the values of outputs other than the margin. "exact": Shapley values of the response, which is
        computed for all coalitions of features. The cost grows with the background rows, and as 2^d with the d features
        on which two rows differ; beyond 20, values are estimates (see `shap_values`). "rescale": for each pair of rows,
        the margin's values times one number, as in shap; for two classes.
    **shap_arguments
        Arguments of shap: `data` or `masker` for background, `model_output` ("raw" is the margin),
        `feature_perturbation` and `output_names`. ``algorithm="tree"``, `seed`, `approximate`, `link` and
        `linearize_link` are accepted if they change nothing. Others are refused by name.

    Attributes
    ----------
    forest : Forest
    settings : Settings
        Algorithm, output, device, dtype, n_jobs, table_bytes and names, as given.
    players : tuple of str
        Labels of the results: the names of the features, or of the groups and the other features.
    algorithm_ : str
        The algorithm that computes values on `device` (for "auto", on the CPU): "tables" if any tree has them,
        otherwise "quadrature", or "patterns" with a background.
    expected_value : float, or ndarray of shape (k,)
        The output if no feature is known; with a background, its mean. An array for k > 1 outputs. For the log-loss
        (k,), for the label of each class.

    Raises
    ------
    ValueError
        If an argument has an unknown value, background rows or their weights do not fit, leaf values exceed the range
        of dtype="float32", or, without a background, covers of a split are negative or not finite.
    NotImplementedError
        For combinations that are not supported.

    Notes
    -----
    The error relative to the sum over trees of (largest - smallest leaf value) is below 1e-12 in float64 and 1e-6 in
    float32 (1e-5 beyond depth 32). The bits do not depend on n_jobs or on how rows are split into calls. They depend
    on table_bytes, which decides which trees have tables.

    Leaves may hold linear models. An unknown feature counts as its mean over the leaf's training rows or, with a
    background, as the background row's value. With a background, such leaves have values only, on the CPU; with groups
    they are explained on the CPU.

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
    Intelligence 2 (2020), https://doi.org/10.1038/s42256-019-0138-9; Mitchell, Frank, Holmes, "GPUTreeShap: massively
    parallel exact calculation of SHAP scores for tree ensembles", PeerJ Computer Science 8:e880 (2022),
    https://doi.org/10.7717/peerj-cs.880; Owen, "Multilinear extensions of games", Management Science 18 (1972),
    https://doi.org/10.1287/mnsc.18.5.64.

    Examples
    --------
    >>> explainer = silva.Explainer("model.json")  # doctest: +SKIP
    >>> shap.plots.beeswarm(explainer(X))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        algorithm: ExplainAlgorithm = "auto",
        output: ExplainOutput | Callable[[Doubles], ArrayLike] = "margin",
        device: str = "auto",
        dtype: FloatType = "float32",
        n_jobs: int | None = None,
        table_bytes: int | None = None,
        background_weight: ArrayLike | None = None,
        groups: Mapping[str, Sequence[int | str]] | Literal["source"] | None = None,
        feature_names: Sequence[str] | None = None,
        rule: ExplainRule = "exact",
        **shap_arguments: Any,
    ) -> None:
        settings = checked_settings(own_algorithm(algorithm), output, device, dtype, n_jobs, table_bytes, rule)
        of_players = groups, feature_names, shap_arguments
        self.game, self.settings = set_up(model, settings, background, background_weight, *of_players)
        self._engines = Engines(self.game, self.settings)

    def __getstate__(self) -> dict[str, object]:
        return {"game": self.game, "settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._engines = Engines(self.game, self.settings)

    @property
    def forest(self) -> Forest:
        """The forest that is explained."""
        return Forest(self.game.forest)

    def by_column(self, values: Array) -> tuple[Array, tuple[str, ...]]:
        """Divide the values of combined columns equally among the columns, as CatBoost's ShapValues do.

        Parameters
        ----------
        values : ndarray of shape (n, P), or (n, P, k)
            Values of an explainer with groups="source".

        Returns
        -------
        values : ndarray of shape (n, C), or (n, C, k)
        columns : tuple of str
            Names of the C columns.
        """
        return by_column(values, self.game.players)

    @property
    def groups(self) -> dict[str, list[int]] | None:
        """Features of each group by index, None without groups."""
        return self.game.players.groups or None

    @property
    def players(self) -> tuple[str, ...]:
        """Names of the groups and of the features in no group; without groups, names of the features."""
        return self.game.players.names or shown_names(self.game.forest)

    @property
    def n_outputs(self) -> int:
        """Numbers that are explained of a row: the outputs of the margin, or those of the response."""
        return self._engines.cpu.n_outputs

    @property
    def algorithm_(self) -> str:
        """Algorithm of values on `device` ("auto": on the CPU): "tables", "quadrature", "patterns" or "paths"."""
        if self.settings.algorithm == "paths":
            return "paths"
        if self._engines.asked.has_tables:
            return "tables"
        return "patterns" if self.game.has_background else "quadrature"

    def prepare(self) -> Explainer:
        """Build the tables now, on `device` ("auto": on the CPU), instead of in the first call.

        Returns
        -------
        Explainer
            Itself.
        """
        self._engines.asked.prepare()
        return self

    @property
    def expected_value(self) -> float | Doubles:
        """Output if no feature is known: a float, or (k,) for k > 1 outputs."""
        expected = self._engines.cpu.expected_value
        return float(expected[0]) if len(expected) == 1 else expected

    @taking_one_row
    def shap_values(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        out: Array | None = None,
        by_position: bool = False,
        check_additivity: bool = False,
        sparse_output: bool = False,
        standard_errors: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Compute SHAP values.

        Parameters
        ----------
        X : array-like, frame or sparse rows (SciPy, CuPy) of shape (n, F), or one row (F,)
            Sparse rows are made dense a chunk at a time, and only in the columns that the forest uses. An entry that
            is not stored is missing for XGBoost and 0 for other libraries. For a single row (an array or a
            pandas.Series), the result has no row axis.
        y : array-like of shape (n,), optional
            Labels, for output="log_loss" alone: classes of the model, or their numbers from 0 where it knows none or
            texts.
        out : ndarray, optional
            Array for the result, with its shape and dtype and any strides, such as a memory map for results that are
            larger than memory.
        by_position : bool
            Match the columns of a frame by position and ignore their names.
        check_additivity : bool
            Also predict the rows, and check that each row's values and `expected_value` add up to its margin, within
            the error of a value (Notes of `Explainer`) for each feature of each tree.
        sparse_output : bool
            Return a CSR array (n, F) of the values that are not 0, (1, F) for one row; for k > 1 outputs, a list of k.
        standard_errors : bool
            Return values and their standard errors. These are 0, except for values of responses that are estimated
            since the row differs from background rows on more than 20 features.
        **shap_arguments
            `tree_limit`: explain the first trees only, without linear leaves. `approximate`: shap's approximation
            (Saabas), without a background; it is not what Shapley values are, and rarely faster than these.

        Returns
        -------
        ndarray of shape (n, F), or (n, F, k) for k > 1 outputs, of `dtype`; F is the number of `players`
            Values in the unit of the output. A row's values and `expected_value` add up to its margin, probability or
            loss (with the expected value of its label). With `standard_errors`, a pair of such arrays.

        Raises
        ------
        ValueError
            If X does not fit the forest, `out` the result, or `y` the rows.
        ArithmeticError
            If `check_additivity` finds a row whose values do not add up; `out` then holds them.
        NotImplementedError
            For linear leaves on a GPU with a background or groups.
        DeviceError
            If `device` or X requires a GPU that cannot be used.

        Warns
        -----
        EstimateWarning
            If values of a response are estimates, since rows differ from background rows on more than 20 features.
        CostWarning
            If exact values of a response are going to take more than 20 seconds.
        """
        limit, approximate = call_arguments(shap_arguments, self.forest.n_trees)
        if limit is not None:
            how: Any = {"by_position": by_position, "check_additivity": check_additivity, "approximate": approximate}
            how |= {"sparse_output": sparse_output, "standard_errors": standard_errors}
            return self._of_first_trees(limit).shap_values(X, y, out=out, **how)
        if sparse_output and out is not None:
            raise ValueError("out holds dense values; pass either out or sparse_output=True")
        if standard_errors:
            return self._values_and_errors(X, y, out, by_position)
        if check_additivity and self.settings.output != "margin":
            raise ValueError(f"check_additivity compares margins; leave it off for output={self.settings.output!r}")
        if approximate:
            values = self._approximate_values(X, by_position, out)
            return sparse_values(values, self.forest.n_outputs) if sparse_output else values
        is_plain = out is None and not (check_additivity or sparse_output)
        if is_plain and (kept := self._engines.again(X, "values")) is not None:
            return kept
        X = arranged(X, self.game.forest, by_position, keeps_sparse=not self.groups)
        if is_sparse(X):
            explain = functools.partial(self._of_used.shap_values, check_additivity=check_additivity)
            about = self.game, self.n_outputs, self.settings.dtype
            return values_of_sparse(explain, *about, X, out, sparse_output, y)
        rows = self._engines.place(X, "values", y)
        values = self._engines.of(rows).values(rows, out)
        if check_additivity:
            check_sums(self.game.forest, self.settings.dtype, self._engines.cpu.expected_value, rows, values)
        return sparse_values(on_host(values), self.n_outputs) if sparse_output else values

    def _values_and_errors(self, X: Rows, y: ArrayLike | None, out: Array | None, by_position: bool) -> Any:
        """Values, and their standard errors: of what is not estimated 0."""
        engine = self._engines.cpu
        if not isinstance(engine, CoalitionExplainer):
            values = self.shap_values(X, y, out=out, by_position=by_position)
            return values, 0 * values
        rows = self._engines.place(arranged(X, self.game.forest, by_position), "values", y, on_host=True)
        return engine.values_and_errors(rows, out)

    def _of_first_trees(self, n_trees: int) -> Explainer:
        """Explainer of the first trees, with the same settings."""
        refuse_linear_leaves(self.game.forest, f"tree_limit={n_trees}", "explain all trees")
        first = np.arange(n_trees, dtype=np.int32)
        forest = cast("TreeEnsemble", walked_part(self.game.forest, first, np.zeros(0, np.int64), np.float64))
        background, settings = self.game.background, self.settings
        if background is not None:
            expected = mean_margin(forest, background.rows, background.weight, settings.n_jobs)
            background = dataclasses.replace(background, expected_value=expected)
        names: Any = {"feature_names": settings.feature_names, "output_names": settings.output_names}
        return Explainer(forest, background, groups=self.groups, **settings.arguments, **names)

    def _approximate_values(self, X: Rows, by_position: bool, out: Array | None) -> Array:
        """Give each split's change of the mean to its feature."""
        if self.game.has_background or self.groups:
            raise NotImplementedError("approximate=True has no background and no groups; leave it out for exact values")
        forest = self.game.forest
        refuse_linear_leaves(forest, "approximate=True", "leave it out for exact values")
        rows = as_rows(on_host(arranged(X, forest, by_position)), forest)
        values = approximate_values(forest, self.forest._positions(rows)).astype(self.settings.dtype)
        result = values[:, :, 0] if forest.n_outputs == 1 else values
        if out is None:
            return result
        out[:] = result
        return out

    @cached_property
    def _of_used(self) -> Explainer:
        """Explainer of the features that the forest uses alone, which sparse rows have."""
        forest, background = in_used_columns(self.game)
        return Explainer(forest, background, **self.settings.arguments)

    def row(self, top: int | None = None, names: bool = False) -> Callable[[Any], Any]:
        """Prepare explanations of single rows with low latency, such as reason codes in serving.

        `shap_values` checks its arguments in each call; here this is done once.

        Parameters
        ----------
        top : int, optional
            Number of features to return, those with the largest magnitudes. None returns the values of all features.
        names : bool
            Take a mapping of names to values (texts of categories, numbers, None for a missing one), a tuple of values
            in the order of the features, or what `Forest.encoder` made of either. With `top`, return a list of reasons
            (feature, value, effect) with the row's own values, for several outputs a list per output.

        Returns
        -------
        callable
            A function of one row: a float32 or float64 array of shape (F,) or (1, F), in the order of the
            forest's features, with categories as in an array for `shap_values` (an array of objects if CatBoost's or
            scikit-learn's are text) and missing values as NaN. It returns what `shap_values` returns, to the bit and
            without the row axis: an ndarray (F,), or (F, k) for k > 1 outputs. With `top`, it returns a pair of int32
            features (top,) and their values (top,), by falling magnitude; both (top, k) for k > 1 outputs. Threads may
            share it, and it can be pickled.

        Raises
        ------
        ValueError
            If `top` is below 1; from the callable, if the row has other features or another number of them.
        TypeError
            From the callable, if the row is not a float32 or float64 array, or its values do not fit the features.
        NotImplementedError
            For pipelines and target statistics, whose columns are not the trees' features, and output="log_loss".

        Notes
        -----
        Runs on the CPU. It takes microseconds if every tree has tables, otherwise as long as `shap_values`.
        """
        if self.settings.output == "log_loss":
            raise NotImplementedError("single rows have no labels for output='log_loss'; use shap_values(X, y=y)")
        refuse_transform(self.game.forest, "row", "shap_values")
        return make_row(self._engines.cpu, top, names)

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
            Indices or names of the m features whose interactions with all others are returned; default all.
        out : ndarray, optional
            Array for the result, as in `shap_values`.
        by_position : bool
            As in `shap_values`.
        top : int, optional
            Return only so many pairs of each row, the strongest, without holding the matrices in memory.
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
            the pairs. With `overall`, pairs (top, 2) and values (n, top) or (n, top, k). NumPy arrays.

        Raises
        ------
        ValueError
            If X does not fit the forest or `out` the result, a feature is unknown or named twice, or `top` is below 1
            or above the number of pairs.
        NotImplementedError
            For linear leaves with a background.
        DeviceError
            If `device` or X requires a GPU that cannot be used.

        Notes
        -----
        silva uses tables if they pay off and fit into `table_bytes`, otherwise a walk of O(nodes × features on a path
        × K) per row. Memory beyond the result: the tables, and a float64 for each pair of features, row of a block and
        thread. With `top`, matrices are computed 64 MB at a time, twice with `overall`; rows of host frames are then
        explained on the CPU.
        """
        limit, approximate = call_arguments(shap_arguments, self.forest.n_trees)
        if approximate:
            raise NotImplementedError("approximate=True has values only; leave it out for exact interaction values")
        if limit is not None:
            how: Any = {"features": features, "out": out, "by_position": by_position, "top": top, "overall": overall}
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
        X = arranged(X, self.game.forest, by_position)
        if top is None and not overall:
            rows = self._engines.place(X, "pairs", y)
            found = self._engines.of(rows).interactions(rows, None if features is None else places, out)
            return cast("Array", found)
        search = PairSearch(places, self.n_outputs, top, overall, out)
        rows = self._engines.place(X, "pairs", y, on_host=not isinstance(X, np.ndarray) and array_gpu(X) is None)
        return search.run(rows, lambda some: on_host(self._engines.of(some).interactions(some, places)))

    def interaction_index(
        self,
        X: Rows,
        sets: Iterable[Sequence[int | str]],
        index: InteractionIndex = "shapley",
        out: Array | None = None,
        by_position: bool = False,
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
        out, by_position, y : ndarray, bool, array-like
            As in `shap_values`.

        Returns
        -------
        ndarray of shape (n, n_sets), or (n, n_sets, k) for k > 1 outputs, of `dtype`
            The index of each set in the order of `sets`, in the unit of the output.

        Raises
        ------
        ValueError, TypeError
            If X does not fit the forest or `out` the result, or a set is empty, has more than 4 features, or names an
            unknown feature or the same feature twice.
        NotImplementedError
            For linear leaves, and on GPUs.

        Notes
        -----
        The discrete derivative of a set S at a coalition T of other features is the sum over the subsets L of S of
        ``(-1)^(s - l) v(T and L)``, where v is the game that `shap_values` explains, and s, l and t are the sizes of S,
        L and T. The index is the mean of this derivative over T. For n features, the weights are

        - t! (n - s - t)! / (n - s + 1)! for the Shapley interaction index ("SII" in shapiq). For one feature it is the
          SHAP value, for two features twice the entry of `shap_interaction_values`;
        - 2^(s - n) for the Banzhaf interaction index ("BII" in shapiq). For one feature it is the Banzhaf value.

        Features that no tree tests do not change the index. It is computed in float64, without tables, from the sets of
        conditions that rows do not meet at a leaf, with a background for each of its distinct patterns there. The cost
        is O(leaves × patterns × sets on the path) for each distinct set of conditions among 256 rows.

        References
        ----------
        Grabisch, Roubens, "An axiomatic approach to the concept of interaction among players in cooperative games",
        International Journal of Game Theory 28 (1999), https://doi.org/10.1007/s001820050125; Muschalik et al.,
        "shapiq: Shapley interactions for machine learning", NeurIPS 2024, https://arxiv.org/abs/2410.01649.
        """
        if not isinstance(index, str) or index not in {"shapley", "banzhaf"}:
            raise ValueError(f"index is {index!r}, expected 'shapley' or 'banzhaf'")
        if not self._engines.is_exact_response:
            refuse_linear_leaves(self.game.forest, "interaction indices", "use shap_values")
        require_cpu(self.settings.device, X, "interaction indices")
        chosen = sets_of(sets, self.game.players)
        rows = self._engines.place(arranged(X, self.game.forest, by_position), "values", y, on_host=True)
        return self._engines.cpu.indices(rows, chosen, index == "banzhaf", out)

    @taking_one_row
    def __call__(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        interactions: bool = False,
        *,
        by_position: bool = False,
        check_additivity: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Explain rows for shap's plots.

        Parameters
        ----------
        X : array-like or frame of shape (n, F), or one row (F,)
        y : array-like of shape (n,), optional
            As in `shap_values`.
        interactions : bool
            Compute interaction values instead of values.
        by_position, check_additivity : bool
            As in `shap_values`.
        **shap_arguments
            As in `shap_values`.

        Returns
        -------
        shap.Explanation
            Its fields are values (n, F) or (n, F, k), base_values (n,) or (n, k), data, the rows as given (categories
            by value), feature_names and, for k > 1 outputs, output_names. If shap is not installed, a dataclass with
            the same fields. For a single row, there is no row axis.
        """
        limit, _ = call_arguments(shap_arguments, self.forest.n_trees)
        if limit is not None:
            how: Any = shap_arguments | {"tree_limit": None, "by_position": by_position}
            return self._of_first_trees(limit)(X, y, interactions, check_additivity=check_additivity, **how)
        if interactions:
            values = self.shap_interaction_values(X, y, by_position=by_position, **shap_arguments)
        else:
            shap_arguments["check_additivity"] = check_additivity
            values = self.shap_values(X, y, by_position=by_position, **shap_arguments)

        base_values = base_values_of(self.game.forest, self.settings.output, self.expected_value, len(values), y)
        return make_explanation(self.game, self.settings, self.n_outputs, X, by_position, on_host(values), base_values)

    def mapper(
        self,
        output: str = "values",
        columns: Any = (),
        inputs: Sequence[str] | None = None,
        features: Sequence[int | str] | None = None,
        n_jobs: int | None = 1,
        path: str | os.PathLike[str] | None = None,
    ) -> ExplanationMapper:
        """Make a function of batches that Dask, Spark, Ray, polars and DuckDB can send to their workers.

        Parameters
        ----------
        output : {"values", "interactions", "margin"}
            The results have the columns ``phi_<feature>`` (or ``phi_<a>__<b>``), ``expected_value`` and ``margin``; for
            "margin", only the last two. Several outputs add ``_<output>`` to each name.
        columns, inputs, path
            As for `Forest.mapper`.
        features : sequence of int or str, optional
            Features or groups to explain, by index or name; default all. Values are in the model's order, interactions
            in the order of `features`.
        n_jobs : int, optional
            Number of threads of a call: 1 because engines run one task per core, None or -1 for all.

        Returns
        -------
        Mapper
            It has the explainer's background, settings and device. "cuda" is the first GPU that a worker sees.

        Raises
        ------
        ValueError
            If an argument has an unknown value, or a feature is unknown.
        TypeError
            If `features` is not a sequence of names or indices.
        NotImplementedError
            For output="log_loss" of the explainer, which needs labels, and for pipelines, whose columns are not the
            trees' features.
        """
        return ExplanationMapper(self, output, columns, inputs, features, n_jobs, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest, the settings and a summary of the background to a ``.silva`` file.

        Parameters
        ----------
        path : path
            A file name without another library's suffix. `silva.load` reads only the forest from it.

        Raises
        ------
        ValueError, TypeError, OSError
            As for `Forest.save`.

        Notes
        -----
        For each background value, the file holds the interval of thresholds in which it lies, or its category, in
        about 2 bytes. Rows that agree in these are one row with the sum of their weights. From this, `load` builds the
        tables again, to the same bits. For forests with linear leaves, whose values depend on the numbers themselves,
        the file holds the background rows.
        """
        save_forest(self.game.forest, path, attachment_of(self.game, self.settings))

    @classmethod
    def load(cls, path: str | os.PathLike[str] | bytes, device: str = "auto", n_jobs: int | None = None) -> Self:
        """Read an explainer that `save` wrote, without the background rows.

        Parameters
        ----------
        path : path, or bytes
            The path of a file, or its content.
        device, n_jobs : str, int
            As for the class; they are not saved.

        Returns
        -------
        Explainer
            With the same bits in all results.

        Raises
        ------
        ValueError
            If the file holds no explainer, one of a later version of silva, or is truncated or corrupt.
        """
        parse_device(device)
        forest, settings, background = load_explainer(path, n_threads(n_jobs))
        with naming(path, ValueError, TypeError, NotImplementedError):
            return cls(forest, background, device=device, n_jobs=n_jobs, **settings)

    def __repr__(self) -> str:
        n_bytes, settings, background = self._engines.cpu.n_bytes, self.settings, self.game.background
        tables = f", {n_bytes / 1e6:.1f} MB of tables" if n_bytes else ""
        against = f", background={background!r}" if background else ""
        output = f", output={settings.output!r}" if settings.output != "margin" else ""
        chosen = f"algorithm={settings.algorithm!r}, dtype={settings.dtype!r}"
        return f"{type(self).__name__}({self.forest!r}{against}{output}, {chosen}{tables})"

    def _repr_html_(self) -> str:
        """Forest and settings, for notebooks."""
        background, settings = self.game.background, self.settings
        answers = f"interventional, against {background!r}" if background else "path-dependent"
        own = {"values": answers, **{name: getattr(settings, name) for name in ("output", "algorithm", "dtype")}}
        expected = ", ".join(f"{value:.6g}" for value in np.atleast_1d(self.expected_value)[:12])
        return as_html(
            f"silva.{type(self).__name__}", {**forest_facts(self.game.forest), **own, "expected value": expected}
        )
