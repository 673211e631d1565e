"""scikit-learn's interface to the search."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from silva.device import array_gpu, on_host
from silva.grow import columns as grow_columns
from silva.grow.assembly import grown_tree
from silva.grow.checks import check_labels, check_parameters, check_target
from silva.grow.data import prepare
from silva.grow.interrupts import keeping_interrupts
from silva.grow.progress import watching
from silva.grow.search import OPERATORS, POLISH, SearchPlan, make_engine, place_rows, search
from silva.grow.table import history_table, leaf_table
from silva.grow.warm import to_ranks, to_values
from silva.parallel import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from silva.forest import Forest
    from silva.grow.columns import TrainingColumns
    from silva.grow.data import TrainingRows
    from silva.grow.search import SearchResult
    from silva.typing import Doubles, Fitness, FloatType, GrowAlgorithm, Int32s, LeafModel, Output, Rows

BIC_ROWS = 1_000_000
"""fitness="auto" takes BIC below this many rows, as the paper does."""

CACHE_BYTES = 2**28


class ModelTreeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A small regression tree with linear models in its leaves, found by evolutionary search.

    The search minimises a fitness that weighs error against size over whole trees: a population of trees is crossed
    and mutated (Jurczuk, Czajkowski, Kretowski 2022), and a local search polishes the best one and random ones every
    few generations. Tests are ``x < threshold``; leaves hold least-squares regressions on attributes of their own.

    Parameters
    ----------
    generations : int, default=10000
        Most generations.
    population_size : int, default=64
    crossover_probability, mutation_probability : float, default=0.2 and 0.8
        Of each pair, and of each tree.
    n_iter_no_change : int, default=100
        Generations without improvement after which the search ends.
    tol : float, default=1e-6
        Least relative gain of fitness that counts as an improvement.
    time_limit : float, optional
        Seconds after which the best tree so far is returned; results then depend on the machine.
    fitness : {"auto", "bic", "weighted"}, default="auto"
        ``bic``: n ln(SSE / n) + penalty · k · ln n, with k = test_weight · tests + sum over leaves (attributes + 1).
        ``weighted``: 1 - 1 / (1 + SSE / (n Var y)) + alpha · k, with k = tests + attributes in the leaves (formula (2)
        of the paper in units of y's variance). ``auto``: BIC below a million rows, weighted from there.
    penalty : float, default=1.0
        Factor of BIC's price of a parameter.
    test_weight : float, default=2.0
        Parameters that a test counts for under BIC: a threshold is chosen among all rows, which costs more than a
        coefficient. 1 is the textbook count; it lets small leaves be cut off by chance.
    alpha : float, default=0.001
        Price of a parameter of the weighted fitness.
    leaf_model : {"linear", "constant"}, default="linear"
    max_leaves : int, default=64
    max_depth : int, default=18
        At most 18.
    min_samples_leaf : int, default=5
    rows_per_parameter : float, default=5.0
        Rows that a leaf holds at least for every coefficient of its model, the intercept included; with 1 it holds two
        rows more than its model has attributes.
    operator_rates : dict, optional
        Rates of operators that differ from `silva.grow.search.OPERATORS`; 0 switches one off.
    polish : bool or sequence of str, default=True
        Moves of the local search, of "models", "variants", "thresholds", "splits", "pull_ups", "rotations",
        "repairs".
    polish_interval : int, default=5
        Generations between two polishings.
    polish_trees : int, default=1
        Random trees polished for every polishing, after the first one those of four together; every second one is newly
        grown after 20 generations without improvement.
    extrapolate : bool, default=False
        Whether a leaf may predict beyond the range of y among its training rows.
    smoothing : float, default=0
        Rows that the model of the split above counts for when it is mixed into a node's, as M5 does (Quinlan 1992: 15);
        0 leaves each leaf its own regression. Leaves then have no standard errors.
    categorical_features : sequence of int or str, optional
        Columns tested by sets of categories; default: columns of frames that hold text or categories. Of an array or
        a list of rows they have to be named, by position. They have no place in the equations of leaves: encode them
        one-hot where they should.
    algorithm : {"gram", "qr"}, default="gram"
        Sums of squares and products, or the paper's evaluation of every tree on all rows by QR decompositions (without
        polish; for comparison; on one GPU at most, whose memory holds all rows).
    device : {"auto", "cpu", "cuda", "cuda:all"} or "cuda:" and an index, default="auto"
        Where rows are summed, and predicted. ``auto`` takes a GPU for arrays that live on one, and where there is one
        for host arrays that are large enough (`silva.grow.search.GPU_WORK`). ``cuda:all`` divides the work among all
        GPUs of the machine; each holds all rows where they fit, otherwise some of them.
    chunks : {"auto"}, int or None, default="auto"
        What happens to rows that the memory of their GPU does not hold: ``auto`` lets as many as needed pass through it
        in chunks, None raises. A number cuts the rows into parts of at most so many; sums over the same parts have the
        same bits, whichever of them stay on the GPU.
    storage : {"float64", "float32"}, default="float64"
        Type in which the search keeps the standardised rows. float32 halves them, so that twice as many rows fit in a
        GPU and a sum reads half as much; products and sums stay float64. If all rows weigh the same, attributes of few
        digits (whole numbers, binary fractions, most float32 columns) are kept as they are; other numbers and y are
        rounded to 24 bits. `fitness_` and `history_` are those of the rounded rows, everything else is computed from
        the rows as they were given.
    n_jobs : int, optional
        Threads; None or -1 for all. The tree does not depend on it.
    random_state : int, RandomState instance or None, default=0
    warm_start : bool, default=False
        Whether `fit` starts from the population of the previous call.
    callbacks : sequence of callables, optional
        Each is called with a `silva.grow.Progress` a few times a second; a true result ends the search.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    forest_ : Forest
        The tree, with linear leaves; it predicts, saves and loads as any forest.
    leaves_ : dict of arrays
        One entry a term, by the keys leaf (index as in `apply`), feature, coefficient, standard_error and mean (of the
        feature over the leaf's rows, in the place of missing values). The intercept is called ``"(intercept)"``; its
        mean is NaN.
    leaf_summary_ : dict of arrays
        One entry a leaf, by the keys n_rows, rmse, mean (prediction at the means of the features: without smoothing
        the mean of y), low and high (smallest and largest y); of the training rows, in units of y.
    history_ : dict of arrays
        One entry a generation, by the keys generation, fitness, rmse, n_leaves, mean_leaves (of the population) and
        seconds (since the call of `fit`).
    fitness_, n_iter_, n_leaves_, n_evaluations_ : float and int
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the search.
    procedure_seconds_ : dict
        With ``algorithm="qr"``: seconds of the paper's procedures (redistribute, separate, reorganise, calc_models,
        estimate_errors, reduction) and of transfers to and from the GPU; on the CPU summed over threads.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Missing values take a learned side of each test, and the leaf's mean in its equation. Random numbers are drawn by
    (seed, generation, individual): the same tree results for any `n_jobs`. A generation costs O(rows under the changed
    nodes times attributes²), less what the cache of Gram matrices knows.

    References
    ----------
    Jurczuk, Czajkowski, Kretowski, "GPU-based acceleration of evolutionary induction of model trees", Applied Soft
    Computing 119 (2022), https://doi.org/10.1016/j.asoc.2022.108503.

    Examples
    --------
    >>> import numpy as np, silva
    >>> X = np.random.default_rng(0).uniform(0, 5, (1000, 2))
    >>> y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0])
    >>> silva.ModelTreeRegressor().fit(X, y).n_leaves_
    2
    """

    def __init__(
        self,
        generations: int = 10_000,
        population_size: int = 64,
        crossover_probability: float = 0.2,
        mutation_probability: float = 0.8,
        n_iter_no_change: int = 100,
        tol: float = 1e-6,
        time_limit: float | None = None,
        fitness: Fitness = "auto",
        penalty: float = 1.0,
        test_weight: float = 2.0,
        alpha: float = 0.001,
        leaf_model: LeafModel = "linear",
        max_leaves: int = 64,
        max_depth: int = 18,
        min_samples_leaf: int = 5,
        rows_per_parameter: float = 5.0,
        operator_rates: dict[str, float] | None = None,
        polish: bool | Sequence[str] = True,
        polish_interval: int = 5,
        polish_trees: int = 1,
        extrapolate: bool = False,
        smoothing: float = 0,
        categorical_features: Sequence[int | str] | None = None,
        algorithm: GrowAlgorithm = "gram",
        device: str = "auto",
        chunks: Literal["auto"] | int | None = "auto",
        storage: FloatType = "float64",
        n_jobs: int | None = None,
        random_state: Any = 0,
        warm_start: bool = False,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        verbose: bool = False,
    ) -> None:
        self.generations, self.population_size = generations, population_size
        self.crossover_probability, self.mutation_probability = crossover_probability, mutation_probability
        self.n_iter_no_change, self.tol, self.time_limit = n_iter_no_change, tol, time_limit
        self.fitness, self.penalty, self.test_weight, self.alpha = fitness, penalty, test_weight, alpha
        self.leaf_model, self.max_leaves, self.max_depth = leaf_model, max_leaves, max_depth
        self.min_samples_leaf, self.rows_per_parameter = min_samples_leaf, rows_per_parameter
        self.operator_rates = operator_rates
        self.polish, self.polish_interval, self.polish_trees = polish, polish_interval, polish_trees
        self.extrapolate, self.smoothing = extrapolate, smoothing
        self.categorical_features = categorical_features
        self.algorithm, self.device, self.chunks, self.storage = algorithm, device, chunks, storage
        self.n_jobs, self.random_state = n_jobs, random_state
        self.warm_start, self.callbacks, self.verbose = warm_start, callbacks, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ModelTreeRegressor:
        """Grow a tree.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values. Rows of a GPU are standardised and ranked on the host, with the same bits as rows
            of the host, and summed on their GPU.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            At least 0; rows of weight 0 are left out.

        Returns
        -------
        ModelTreeRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        DeviceError
            If a GPU is asked for and cannot be used, its memory does not hold the rows (the message says how many it
            would), or it fails during the search: the error's `best` is then the best tree so far, as arrays by node.
        """
        started = time.perf_counter()
        check_parameters(self)
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        columns, target, weight = self._training_data(X, y, sample_weight)
        linear = ~columns.is_categorical & (self.leaf_model == "linear")
        rows = prepare(columns.X, target, weight, linear, n_threads(self.n_jobs), self.storage)
        gpu = place_rows(self.device, self.algorithm, home, rows, self.chunks, self.max_leaves)
        engine = make_engine(rows, self._settings(rows), gpu)
        given = to_ranks(self._population, rows) if self.warm_start and hasattr(self, "_population") else []
        with keeping_interrupts() as interrupts:
            with watching(self.callbacks or (), self.generations, bool(self.verbose)) as callbacks:
                limits = (self.generations, self.n_iter_no_change, self.tol, self.time_limit)
                result = search(engine, rows, SearchPlan(*limits, callbacks, interrupts), given, started, gpu)
            del engine, gpu  # and the cache and lists of rows, before the leaves are fitted
            if rows.source is not None:
                columns, target = columns.taken(rows.source), target[rows.source]
            self._keep(result, rows, columns, target)
            self.interrupted_ |= interrupts.have_come
        return self

    def predict(self, X: Rows) -> Doubles:
        """Predict rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            Columns by name and in the order of `fit`. Missing values and categories that `fit` did not see take the
            learned side of each test.

        Returns
        -------
        float64, (n_rows,)
            In units of y. Rows of a GPU are predicted there, into an array of their library, unless ``device="cpu"`` or
            the tree has categories; rows of the host where `device` says.

        Raises
        ------
        ValueError
            If the columns are not those of `fit`.
        TypeError
            If a column holds text where `fit` saw numbers, or numbers where it saw text.
        DeviceError
            If `device` names a GPU that cannot be used, or another one than that of X.
        """
        predictions: Doubles = self._routed(X, "prediction")
        return predictions

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches, in the order of `leaves_`: int32, (n_rows,)."""
        leaves: Int32s = self._routed(X, "leaf")[:, 0]
        return leaves

    def _routed(self, X: Rows, output: Output) -> Any:
        """Predictions or leaf ids of rows, checked as scikit-learn checks them; those of a GPU by the forest."""
        check_is_fitted(self)
        forest = self.forest_
        if array_gpu(X) is not None and (self.device == "cpu" or forest.categories is not None):
            X = on_host(X)
        if array_gpu(X) is None:
            if forest.categories is None:
                X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
            elif hasattr(X, "columns"):
                _check_feature_names(self, X, reset=False)
            else:
                X = grow_columns.rows_of_values(X, forest)
        return forest.predict(X, output, device=self.device, n_jobs=self.n_jobs)

    def _training_data(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[TrainingColumns, Doubles, Doubles]:
        """Columns, target and weights of the rows that count."""
        check_labels(y)
        if grow_columns.has_categories(X, self.categorical_features):
            _check_feature_names(self, X, reset=True)
            target = check_target(column_or_1d(y, warn=True), X)
            weight = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
            columns = grow_columns.categorical_columns(X, target, weight, self.categorical_features)
            self.n_features_in_ = columns.X.shape[1]
        else:
            data, target = validate_data(
                self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True, order="C"
            )
            target = check_target(target, data)
            weight = _check_sample_weight(sample_weight, data, dtype=np.float64, ensure_non_negative=True)
            columns = grow_columns.numeric_columns(data)
        return grow_columns.weighted_rows(columns, target, weight)

    def _settings(self, rows: TrainingRows) -> dict[str, float]:
        """Numbers that the engine needs, by name."""
        n_rows = len(rows.y)
        bic = self.fitness == "bic" or (self.fitness == "auto" and n_rows < BIC_ROWS)
        moves = POLISH if self.polish is True else tuple(self.polish or ())
        polishes = bool(moves) and self.algorithm == "gram"
        return {
            **OPERATORS,
            **(self.operator_rates or {}),
            **{f"polish_{move}": move in moves for move in POLISH},
            "bic": bic,
            "n": n_rows,
            "alpha": self.alpha,
            "penalty": self.penalty,
            "split_weight": self.test_weight if bic else 1,
            "min_samples_leaf": self.min_samples_leaf,
            "rows_per_parameter": self.rows_per_parameter,
            "max_leaves": self.max_leaves,
            "max_depth": self.max_depth,
            "seed": check_random_state(self.random_state).randint(2**31 - 1),
            "population": self.population_size,
            "crossover": self.crossover_probability,
            "mutation": self.mutation_probability,
            "polish_interval": self.polish_interval if polishes else 0,
            "polish_random": self.polish_trees,
            "n_threads": n_threads(self.n_jobs),
            "cache_bytes": CACHE_BYTES,
            "qr": self.algorithm == "qr",
        }

    def _keep(
        self, result: SearchResult, rows: TrainingRows, columns: TrainingColumns, target: Doubles
    ) -> ModelTreeRegressor:
        """Set the fitted attributes."""
        names = getattr(self, "feature_names_in_", None)
        grown = grown_tree(
            result.best,
            rows,
            columns,
            target,
            extrapolate=self.extrapolate,
            smoothing=self.smoothing,
            feature_names=None if names is None else tuple(str(name) for name in names),
            source="silva",
            objective="squared error",
        )
        self.forest_: Forest = grown.forest
        self.leaves_, self.leaf_summary_ = leaf_table(grown)
        self.history_ = history_table(result.history)
        self.fitness_ = float(result.best["fitness"])
        self.n_iter_ = len(result.history)
        self.n_leaves_ = grown.forest.n_leaves
        self.n_evaluations_ = result.n_evaluations
        self.interrupted_ = result.interrupted
        if self.algorithm == "qr":
            self.procedure_seconds_ = result.procedure_seconds
        self._population = to_values(result.population, rows)
        return self
