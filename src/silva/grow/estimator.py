"""scikit-learn's interface to the search."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from silva.device import array_gpu, on_host
from silva.grow.checks import check_parameters
from silva.grow.data.reading import routed, training_data
from silva.grow.importances import feature_importances
from silva.grow.search.blas import one_blas_thread
from silva.grow.search.consensus import settled
from silva.grow.search.fitting import fit_tree
from silva.grow.search.growing import Circumstances
from silva.grow.search.interrupts import keeping_interrupts
from silva.grow.search.progress import watching
from silva.grow.table import history_table, leaf_table
from silva.grow.tree.intervals import around, usable_errors
from silva.rules import rule_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from silva.forest import Forest
    from silva.grow.search.growing import Growth
    from silva.grow.table import Table
    from silva.typing import Clip, Doubles, Fitness, FloatType, GrowAlgorithm, Int32s, LeafModel, Loss, Noise, Rows


class TreeEstimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators of model trees tell scikit-learn: NaN marks missing values."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class ModelTreeRegressor(RegressorMixin, TreeEstimator):  # type: ignore[misc]
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
    n_iter_no_change : int or "auto", default="auto"
        Generations without improvement after which the search ends. ``auto``: 100, but not before two seconds of work,
        which are counted from trees and rows, not measured, so that the result depends on no clock.
    tol : float, default=1e-6
        Least relative gain of fitness that counts as an improvement.
    time_limit : float or None, default=50
        Seconds after which the search ends with the best tree so far; the result then depends on the machine. What
        follows on few rows, for intervals and ``smoothing="auto"``, may take 1.2 times as long again. None: no limit.
    fitness : {"bic", "weighted"}, default="bic"
        ``bic``: n ln(SSE / n) + penalty · k · ln n, with k = test_weight · tests + sum over leaves (attributes + 1).
        ``weighted``: 1 - 1 / (1 + SSE / (n Var y)) + alpha · k, with k = tests + attributes in the leaves (formula (2)
        of the paper in units of y's variance).
    penalty : float, default=1.0
        Factor of BIC's price of a parameter.
    test_weight : float, default=2.0
        Parameters that a test counts for under BIC: a threshold is chosen among all rows, which costs more than a
        coefficient. 1 is the textbook count; it lets small leaves be cut off by chance.
    alpha : float, default=0.001
        Price of a parameter of the weighted fitness.
    loss : {"squared", "huber"}, default="squared"
        ``huber``: residuals beyond 1.345 standard deviations count by their absolute values, in three searches and in
        the equations, whose rows are weighted accordingly; for data with outliers.
    noise : {"any", "uniform"}, default="any"
        ``any``: splits and terms of the tree that the search has found are cut off where they do not pay for the noise
        about them: their price under BIC is then that of the noise of the rows concerned, not of one variance for all
        (`silva.grow.tree.pruning`). ``uniform``: the tree of the least BIC.
    honest : float, default=0
        Part of the rows that splits, terms and their number are not chosen on; equations, standard errors and intervals
        are then from these rows alone, drawn by `random_state`, and free of what the choice does to them.
    leaf_model : {"linear", "constant"}, default="linear"
    max_leaves : int, default=64
    max_depth : int, default=18
        At most 18.
    min_samples_leaf : int, default=5
    rows_per_parameter : float, default=5.0
        Rows that a leaf holds at least for every coefficient of its model, the intercept included; with 1 it holds two
        rows more than its model has attributes.
    operator_rates : dict, optional
        Rates of operators that differ from `silva.grow.search.engine.OPERATORS`; 0 switches one off.
    polish : bool or sequence of str, default=True
        Moves of the local search, of "models", "variants", "thresholds", "splits", "pull_ups", "rotations".
    polish_interval : int, default=5
        Generations between two polishings.
    polish_trees : int, default=1
        Random trees polished for every polishing, after the first one those of four together; every second one is newly
        grown after 20 generations without improvement.
    clip : {"target", "leaf", "none"}, default="target"
        What a leaf's prediction is confined to: the range of y among all training rows, widened by a twentieth of it on
        either side; that among the leaf's own rows; or nothing.
    smoothing : float or "auto", default=0
        Rows that the model of the split above counts for when it is mixed into a node's, as M5 does (Quinlan 1992: 15).
        Equations of smoothed leaves have the features of all models above them and no standard errors; 0 leaves each
        leaf its own regression. ``auto``: 15, or 5, unless that costs rows that are left out of all models more than
        a hundredth of their squared error, which splits chosen on the same rows flatter; 0 from 20,000 rows on. Where
        rows are few for so large a tree, splits and equations then follow the mean of y and of what five trees on parts
        of the rows predict (`silva.grow.search.consensus`; not with ``noise="uniform"``, ``honest`` or ``huber``).
    categorical_features : sequence of int or str, optional
        Columns of categories; default: columns of frames that hold text or categories. Of an array or a list of rows
        they have to be named, by position. Splits test sets of categories; equations have a term a category, of up to
        10 of them, or one that all categories share (`silva.grow.data.derived`).
    algorithm : {"gram", "qr"}, default="gram"
        Sums of squares and products, or the paper's evaluation of every tree on all rows by QR decompositions (without
        polish; for comparison; on one GPU at most, whose memory holds all rows).
    device : {"auto", "cpu", "cuda", "cuda:all"} or "cuda:" and an index, default="auto"
        Where rows are summed, and predicted. ``auto`` takes a GPU for arrays that live on one, and where there is one
        for host arrays that are large enough (`silva.grow.search.engine.GPU_WORK`). ``cuda:all`` divides the work among
        all GPUs of the machine; each holds all rows where they fit, otherwise some of them.
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
    verbose : bool or "auto", default="auto"
        Show a progress bar on standard error, with the seconds that are left. ``auto``: once the search has taken ten
        seconds, or is expected to.

    Attributes
    ----------
    forest_ : Forest
        The tree, with linear leaves; it predicts, saves and loads as any forest.
    leaves_ : dict of arrays
        One entry a term, by the keys leaf (index as in `apply`), feature (``"region = north"`` for a category,
        ``"income missing"`` for a missing value), coefficient, standard_error and mean (of the
        feature over the leaf's rows, in the place of missing values). Standard errors do not know that splits and terms
        were chosen on the same rows; with ``honest`` they were not. The intercept is called ``"(intercept)"``; its
        mean is NaN.
    leaf_summary_ : dict of arrays
        One entry a leaf, by the keys n_rows, rmse, mean (prediction at the means of the features: where smoothing is
        0 the mean of y), low and high (smallest and largest y), lowest and highest (that the leaf predicts, infinite
        where nothing confines it), n_clipped (rows that its equation puts beyond); of the training rows, in units of y.
    history_ : dict of arrays
        One entry a generation of the search, before anything is cut off, by the keys generation, fitness, rmse,
        n_leaves, mean_leaves (of the population) and seconds (since the call of `fit`).
    feature_importances_ : float64, (n_features,)
    fitness_ : float
        Of the best tree that the search has seen, before anything is cut off.
    n_iter_, n_leaves_, n_evaluations_ : int
    smoothing_ : float
        What the leaves were smoothed by.
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the search.
    procedure_seconds_ : dict
        With ``algorithm="qr"``: seconds of the paper's procedures (redistribute, separate, reorganise, calc_models,
        estimate_errors, reduction) and of transfers to and from the GPU; on the CPU summed over threads.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The tree depends neither on the order of the rows, up to 131,072 of them, nor on whether all are repeated: BIC
    counts rows without their copies. Missing values take a learned side of each test, and the leaf's mean in its
    equation. Random numbers are drawn by (seed, generation, individual): the same tree results for any `n_jobs`. A
    generation costs O(rows under the changed nodes times attributes²), less what the cache of Gram matrices knows.

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
        n_iter_no_change: int | Literal["auto"] = "auto",
        tol: float = 1e-6,
        time_limit: float | None = 50,
        fitness: Fitness = "bic",
        penalty: float = 1.0,
        test_weight: float = 2.0,
        alpha: float = 0.001,
        loss: Loss = "squared",
        noise: Noise = "any",
        honest: float = 0.0,
        leaf_model: LeafModel = "linear",
        max_leaves: int = 64,
        max_depth: int = 18,
        min_samples_leaf: int = 5,
        rows_per_parameter: float = 5.0,
        operator_rates: dict[str, float] | None = None,
        polish: bool | Sequence[str] = True,
        polish_interval: int = 5,
        polish_trees: int = 1,
        clip: Clip = "target",
        smoothing: float | Literal["auto"] = 0,
        categorical_features: Sequence[int | str] | None = None,
        algorithm: GrowAlgorithm = "gram",
        device: str = "auto",
        chunks: Literal["auto"] | int | None = "auto",
        storage: FloatType = "float64",
        n_jobs: int | None = None,
        random_state: Any = 0,
        warm_start: bool = False,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        verbose: bool | Literal["auto"] = "auto",
    ) -> None:
        self.generations, self.population_size = generations, population_size
        self.crossover_probability, self.mutation_probability = crossover_probability, mutation_probability
        self.n_iter_no_change, self.tol, self.time_limit = n_iter_no_change, tol, time_limit
        self.fitness, self.penalty, self.test_weight, self.alpha = fitness, penalty, test_weight, alpha
        self.loss, self.noise, self.honest, self.leaf_model = loss, noise, honest, leaf_model
        self.max_leaves, self.max_depth = max_leaves, max_depth
        self.min_samples_leaf, self.rows_per_parameter = min_samples_leaf, rows_per_parameter
        self.operator_rates = operator_rates
        self.polish, self.polish_interval, self.polish_trees = polish, polish_interval, polish_trees
        self.clip, self.smoothing = clip, smoothing
        self.categorical_features = categorical_features
        self.algorithm, self.device, self.chunks, self.storage = algorithm, device, chunks, storage
        self.n_jobs, self.random_state = n_jobs, random_state
        self.warm_start, self.callbacks, self.verbose = warm_start, callbacks, verbose

    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ModelTreeRegressor:
        """Grow a tree.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values. Rows of a GPU are standardised on the host, with the same bits as rows of the
            host, and summed on their GPU; from a million rows on GPUs rank the columns.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            At least 0; rows of weight 0 are left out. Whole numbers count repetitions, up to 131,072 rows in all: a row
            of weight two is two rows. Other weights are relative.

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
        columns, target, weight = training_data(self, X, y, sample_weight)
        population = self._population if self.warm_start and hasattr(self, "_population") else []
        with keeping_interrupts() as interrupts, one_blas_thread():
            with watching(self.callbacks or (), self.verbose) as callbacks:
                seed = check_random_state(self.random_state).randint(2**31 - 1)
                given = Circumstances(seed, started, home, population, callbacks, interrupts)
                growth = fit_tree(self, columns, target, weight, given)
            self._keep(settled(self, growth, (columns, target, weight), given), self)
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
        predictions: Doubles = routed(self, X, "prediction")
        return predictions

    def predict_interval(self, X: Rows, coverage: float = 0.9) -> Doubles:
        """Intervals that hold y of new rows with a probability of about `coverage`: float64, (n_rows, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            Of rows on a GPU the intervals are a NumPy array all the same.
        coverage : float, default=0.9
            In (0, 1).

        Raises
        ------
        ValueError
            If `coverage` is out of range.

        Notes
        -----
        Residuals of training rows, each by its leaf's regression without it, in errors of the leaf (of 20,000 rows, if
        there are more): as many errors of a leaf about its prediction as a part `coverage` of the rows needs. Where up
        to 20,000 rows are few for so large a tree, `fit` also grows five trees by brief searches, each on four fifths
        of the rows, and widens the intervals by what rows that a tree has not seen are further off
        (`silva.grow.search.selection`; a sixth more time, seldom half); not with ``honest``. They hold on average over
        rows like those of training, not for every row.
        """
        check_is_fitted(self)
        errors = usable_errors(self.leaf_summary_["rmse"])[np.asarray(on_host(self.apply(X)))]
        return around(np.asarray(on_host(self.predict(X))), errors, self._scores, coverage)

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches, in the order of `leaves_`: int32, (n_rows,)."""
        leaves: Int32s = routed(self, X, "leaf")[:, 0]
        return leaves

    @property
    def rules_(self) -> Table:
        """One entry a leaf: its number, the tests that lead there, rows, mean, equation and error; for pandas, polars.

        Keys leaf, rule, rows, mean, equation and rmse, as in `leaf_summary_`; numbers in texts have four digits.
        """
        check_is_fitted(self)
        return rule_table(self.forest_, self.leaf_summary_)

    @property
    def feature_importances_(self) -> Doubles:
        """Shares of the explained variance of y, by feature: float64, (n_features,), of sum 1 or all zeros.

        A split explains the variance between the means of its two sides, a leaf's equation what its residuals lack of
        the leaf's variance, divided among the terms by the variance of each. Of the training rows; smoothed leaves are
        taken as they are. O(nodes + terms), once after `fit`.
        """
        check_is_fitted(self)
        return self._importances

    def _keep(self, growth: Growth, reader: Any) -> None:
        """Set the fitted attributes; `reader` is the estimator that read the rows."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
        names = getattr(self, "feature_names_in_", None)
        grown = growth.tree(
            self,
            feature_names=None if names is None else tuple(str(name) for name in names),
            source="silva",
            objective="squared error",
        )
        result = growth.result
        self.forest_: Forest = grown.forest
        self.leaves_, self.leaf_summary_ = leaf_table([grown], grown.forest)
        self.history_ = history_table(result.history)
        self.fitness_ = float(result.best["fitness"])
        self.n_iter_ = len(result.history)
        self.n_leaves_, self.smoothing_ = grown.forest.n_leaves, grown.smoothing
        self.n_evaluations_ = result.n_evaluations
        self.interrupted_ = result.interrupted
        if self.algorithm == "qr":
            self.procedure_seconds_ = result.procedure_seconds
        self._importances, self._explained = feature_importances(grown, growth.rows.target.scale or 1.0)
        self._population = growth.population()
        self._scores = grown.scores
