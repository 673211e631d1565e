"""scikit-learn's interface to the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from glasswood.base.device import array_gpu, on_host
from glasswood.base.typing import (
    Clip,
    Doubles,
    Fitness,
    FloatType,
    GrowAlgorithm,
    Int32s,
    LeafModel,
    Loss,
    Noise,
    Rows,
)
from glasswood.forest import Forest
from glasswood.grow.checks import check_parameters
from glasswood.grow.curves.fitting import CurvedTree
from glasswood.grow.data.reading import routed, training_data
from glasswood.grow.exposure import RateRegressorMixin, as_rates, for_exposure
from glasswood.grow.losses import LINKS, check_range, objective_of, refuse_intervals
from glasswood.grow.search.alternatives import MARGIN, alternatives_of
from glasswood.grow.search.consensus import settled
from glasswood.grow.search.engine import Circumstances, SearchSettings, cut_short_text, warn_if_cut_short
from glasswood.grow.search.fitting import fit_tree
from glasswood.grow.search.process import on_own_threads, undisturbed
from glasswood.grow.search.progress import watching
from glasswood.grow.search.shrinkage import shrunk
from glasswood.grow.table import feature_importances, history_table, leaf_table, of_outcomes
from glasswood.grow.tree.intervals import around, usable_errors
from glasswood.grow.tree_estimator import TreeEstimator
from glasswood.words.rules import rule_table

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.search.alternatives import Alternatives
    from glasswood.grow.search.growing import Growth
    from glasswood.grow.table import Table
    from glasswood.grow.tree.assembly import GrownTree


class ModelTreeRegressor(CurvedTree, RateRegressorMixin, TreeEstimator):
    """A regression tree that people can read: few splits, and a linear equation in each leaf.

    Use it for tables if you must show the model to experts, customers or regulators. Its error is often within a few
    percent of a boosted ensemble's. If only accuracy counts, use a boosted ensemble.

    CART and M5 choose one split after the other. Here an evolutionary search finds the whole tree at once. It crosses
    and mutates a population of trees (Jurczuk, Czajkowski, Kretowski 2022) and improves the best ones by local search.
    Its fitness weighs the error of a tree against its size. Splits test ``x < threshold`` or sets of categories. Each
    leaf has a least-squares regression on its own features.

    Most users set only the first six parameters. The others concern the tree's size, its equations, the search and the
    machine, in this order.

    Parameters
    ----------
    max_leaves : int, default=64
        Largest number of leaves. The search uses fewer if more do not pay.
    leaf_model : {"linear", "constant"}, default="linear"
        Whether a leaf has an equation or one number.
    time_limit : float or None, default=50
        Seconds after which the search ends with the best tree so far; the result then depends on the machine. None
        sets no limit. Intervals and ``smoothing="auto"`` are computed after the search.
    categorical_features : sequence of int or str, optional
        Columns of categories; default: columns of frames with text or categories. In an array or a list of rows, name
        them by position. Splits test sets of categories. For up to 10 categories, equations have one coefficient per
        category; for more, each category is replaced by a number (`glasswood.grow.data.derived`).
    monotonic_cst : array-like of int of shape (n_features,), or dict of int by name, optional
        1 if predictions must not fall as a feature rises while all others stay; -1 if they must not rise; 0 for no
        constraint. It holds for all rows, not only those of training. Coefficients of such features have the required
        sign. Leaves on the two sides of a split by such a feature are clipped at a common value (``lowest``,
        ``highest`` of `leaf_summary_`). Categories cannot be constrained. With a constraint, ``smoothing="auto"`` is 0.
    coefficient_signs : array-like of int of shape (n_features,), or dict of int by name, optional
        1 if the coefficients of a feature, and of its logarithm, must be positive in all equations; -1 if they must be
        negative; 0 for any. glasswood leaves out terms that would have the other sign, and fits the others without
        them. Splits may test such features. If predictions themselves must rise, use `monotonic_cst`, which includes
        this. Categories cannot be constrained, and `smoothing` must be 0 or ``auto``, which is then 0.
    interaction_cst : {"pairwise", "no_interactions"} or sequence of sequences of int or str, optional
        Groups of features that may interact, as in scikit-learn. Splits and equations of a tree use the features of
        one group, so in sums of trees, features of different groups do not interact. Features in no group form another
        group. A regression ranks the groups, and glasswood searches trees for the two best. It is meant for ensembles,
        above all boosted ones: pass the tree as `estimator`.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config`, all at first (1 in scikit-learn). The
        tree depends on it only if `time_limit` ends the search.
    random_state : int, RandomState instance or None, default=0
    max_depth : int, default=18
        At most 18.
    min_samples_leaf : int, default=5
        Smallest number of rows in a leaf. It also has five for each coefficient of its model, the intercept included.
    max_terms_per_leaf : int or None, default=None
        Largest number of terms of a leaf's equation; all categories of a feature are one term. None sets no limit.
        Blended equations (`smoothing`) and ``algorithm="qr"`` without pruning may have more.
    log_terms : bool or "auto", default="auto"
        Whether terms may be natural logarithms of features that are positive and skewed, and whose largest value is at
        least four times the smallest. ``auto``: from 500 rows on. If a new row has a number that is not positive, the
        logarithm counts as the leaf's mean, like a missing value. Features of `monotonic_cst` have no logarithms.
    curves : bool or "auto", default=False
        Whether the prediction is a tree plus one curve per column. Each curve is a step function of one feature
        (`curves_`). Rows that were left out choose what stands beside the curves: the tree, one equation for all rows,
        or a mean of either with a constant, which has the same splits and terms and smaller coefficients. ``auto`` adds
        curves if rows that were left out gain from them; otherwise, the tree stays as it is.
    pairs : int or "auto", default=0
        With `curves`: largest number of surfaces of two features (`surfaces_`), which stay if left-out rows gain from
        them; ``auto`` is three times the number of columns.
    penalty : float, default=1.0
        Factor of BIC's price of a parameter.
    fitness : {"bic", "weighted"}, default="bic"
        ``bic``: n ln(SSE / n) + penalty · k · ln n, with k = 2 · tests + sum over leaves (attributes + 1).
        ``weighted``: 1 - 1 / (1 + SSE / (n Var y)) + alpha · k, with k = tests + attributes in the leaves (formula (2)
        of the paper in units of y's variance).
    loss : {"squared", "huber", "poisson", "gamma", "tweedie", "quantile"}, default="squared"
        ``huber`` is for data with outliers: residuals beyond 1.345 standard deviations count by their absolute values.
        Predictions are then not means: if y is skewed, they lie nearer to the median. ``poisson`` is for counts,
        ``gamma`` for positive amounts, ``tweedie`` for amounts of which some are 0: leaves then predict the logarithm.
        ``quantile`` predicts a quantile. Each of these runs three searches. For the last four, the searches fit working
        responses; standard errors and `history_` are then those of the working responses, and there are no intervals.
    quantile : float, default=0.5
        Share of the rows below the prediction of ``loss="quantile"``, between 0 and 1.
    tweedie_power : float, default=1.5
        Of ``loss="tweedie"``: the variance grows as the mean to this power, above 1 (``poisson``) and below 2
        (``gamma``).
    noise : {"any", "uniform"}, default="any"
        ``any`` prices splits and terms by the noise of the rows concerned, and prunes those that do not pay off
        (`glasswood.grow.tree.pruning`). ``uniform`` assumes one variance for all rows and returns the tree with the
        smallest BIC.
    honest : float, default=0
        Share of the rows, drawn by `random_state`, that is not used to choose splits and terms. Equations, standard
        errors and intervals come only from these rows, so the choice does not bias them.
    clip : {"target", "leaf", "none"}, default="target"
        Limits of predictions: the range of y among all training rows plus a twentieth of it on both sides, but never
        below 0 if no y is (nor above 0 if no y is); the range of y among the leaf's own rows; or no limits. ``target``
        does not limit a shrunk equation (see Notes) of more than 16 features.
    smoothing : float or "auto", default=0
        Weight, in rows, of the parent node's model when it is blended into a node's own, as in M5 (Quinlan 1992: 15).
        Equations of smoothed leaves have the features of all models above them and no standard errors. With 0, each
        leaf has its own regression. ``auto`` uses 15 or 5, unless the squared error of held-out rows rises by more than
        a hundredth; from 20,000 rows on it uses 0. If there are few rows for so large a tree, ``auto`` also blends y
        with the predictions of five trees on parts of the rows before it fits splits and equations
        (`glasswood.grow.search.consensus`; not with ``noise="uniform"``, ``honest`` or ``huber``).
    alternatives : int, default=10
        Largest number of other trees in `alternatives_`; 0: none are kept.
    generations : int, default=10000
        Largest number of generations.
    population_size : int, default=64
    n_iter_no_change : int or "auto", default="auto"
        Generations without improvement after which the search ends. ``auto`` is 100, but at least two seconds of work,
        which glasswood computes from trees and rows, so that the result does not depend on a clock.
    algorithm : {"gram", "qr"}, default="gram"
        ``gram`` uses sums of squares and products. ``qr`` is for comparison: as in the paper, it evaluates every tree
        on all rows by QR decompositions, without local search. It uses at most one GPU, whose memory must hold all
        rows.
    warm_start : bool, default=False
        Whether `fit` starts from the population of the previous call.
    callbacks : sequence of callables, optional
        Each is called with a `glasswood.grow.Progress` a few times per second; a true result ends the search.
    verbose : bool or "auto", default="auto"
        Show a progress bar on standard error, with the seconds that are left. ``auto`` shows it if the search takes, or
        is expected to take, more than ten seconds.
    device : {"auto", "cpu", "cuda", "cuda:all"} or "cuda:" and an index, default="auto"
        Where rows are summed and predicted. ``auto`` uses a GPU for arrays that are on one and, if there is one, for
        large host arrays (`glasswood.grow.search.engine.GPU_WORK`). ``cuda:all`` divides the work among all GPUs of the
        machine; each holds all rows if they fit, otherwise some of them.
    chunks : {"auto"}, int or None, default="auto"
        What to do with rows that do not fit into GPU memory. ``auto`` passes them through it in parts; None raises an
        error. A number divides the rows into parts of at most that size. Sums over the same parts have the same bits,
        whichever of them stay on the GPU.
    storage : {"float64", "float32"}, default="float64"
        Type of the standardised rows during the search. float32 halves their memory. Products and sums stay float64.
        If all rows have the same weight, features with few digits (whole numbers, binary fractions, most float32
        columns) are exact; other features and y are rounded to 24 bits. `fitness_` and `history_` are those of the
        rounded rows; glasswood computes everything else from the rows as given.

    Attributes
    ----------
    forest_ : Forest
        The tree, which can be predicted, saved and explained like any forest.
    leaves_ : dict of arrays
        One entry per term, with the keys leaf (index as in `apply`), feature (``"region = north"`` for a category,
        ``"income missing"`` for a missing value), coefficient, standard_error and mean (of the feature over the leaf's
        rows, which replaces missing values). Without ``honest``, standard errors ignore that splits and terms were
        chosen on the same rows. The intercept is called ``"(intercept)"``; its mean is NaN.
    leaf_summary_ : dict of arrays
        One entry per leaf, for the training rows and in units of y, with the keys n_rows, rmse, mean (prediction at the
        means of the features; without smoothing, the mean of y), low and high (smallest and largest y), lowest and
        highest (limits of predictions, infinite without limits) and n_clipped (rows whose predictions are clipped).
        rmse is the root of the weighted mean of the squared residuals of the equation before its predictions are
        clipped. With ``loss="huber"``, outliers have less weight in it; codes of many categories are those of rows left
        out in turn, so that it can exceed the error of `predict` on the training rows. With ``poisson``, ``gamma``
        and ``tweedie``, mean is the mean of y (of rates, with `exposure`); with these and ``quantile``, rmse is that of
        predictions.
    history_ : dict of arrays
        One entry per generation of the search, before pruning, with the keys generation, fitness, rmse, n_leaves,
        mean_leaves (of the population) and seconds (since the call of `fit`).
    feature_importances_ : float64, (n_features,)
    fitness_ : float
        Fitness of the best tree of the search, before pruning.
    n_iter_, n_leaves_, n_evaluations_ : int
    smoothing_ : float
        The smoothing that was used.
    curves_, surfaces_, parts_ : dict of arrays
        With `curves`: as for `AdditiveRegressor`; the first part is the tree. `leaves_`, `leaf_summary_` and
        `n_leaves_` are then those of the tree beside the curves. n_rows, rmse, low, high and n_clipped of leaves are of
        the tree alone, as are `history_` and `fitness_`.
    alternatives_ : Alternatives
        Other trees that fit as well, without curves, and how often features and splits occur among all those that the
        search has met (`glasswood.grow.Alternatives`); not after an interrupt, beside a shrunk equation, or where
        `curves` stand beside one leaf instead of the tree.
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the search.
    procedure_seconds_ : dict
        With ``algorithm="qr"``: seconds of the paper's procedures (redistribute, separate, reorganise, calc_models,
        estimate_errors, reduction) and of transfers to and from the GPU; on the CPU summed over threads.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Up to 131,072 rows, the tree depends neither on their order nor on whether all are repeated. A missing value goes to
    a learned side of each split and counts as the leaf's mean in its equation. Random numbers depend on (seed,
    generation, individual), so `n_jobs` does not change the tree. A generation costs O(rows under the changed nodes ×
    features²), minus what the cache of Gram matrices saves.

    If there are fewer than five rows for each column and ``loss="squared"``, one leaf with a shrunk equation (the
    lasso) takes the place of the tree where it is better on rows that are left out. Its coefficients have no standard
    errors.

    References
    ----------
    Jurczuk, Czajkowski, Kretowski, "GPU-based acceleration of evolutionary induction of model trees", Applied Soft
    Computing 119 (2022), https://doi.org/10.1016/j.asoc.2022.108503.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(0, 5, (1000, 2))
    >>> y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0])
    >>> glasswood.ModelTreeRegressor().fit(X, y).n_leaves_
    2
    """

    leaves_: Table
    leaf_summary_: Table
    n_leaves_: int
    smoothing_: float

    search_settings: ClassVar[SearchSettings] = SearchSettings()

    def __init__(
        self,
        *,
        max_leaves: int = 64,
        leaf_model: LeafModel = "linear",
        time_limit: float | None = 50,
        categorical_features: Sequence[int | str] | None = None,
        monotonic_cst: Any = None,
        coefficient_signs: Any = None,
        interaction_cst: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        max_depth: int = 18,
        min_samples_leaf: int = 5,
        max_terms_per_leaf: int | None = None,
        log_terms: bool | Literal["auto"] = "auto",
        curves: bool | Literal["auto"] = False,
        pairs: int | Literal["auto"] = 0,
        penalty: float = 1.0,
        fitness: Fitness = "bic",
        loss: Loss = "squared",
        quantile: float = 0.5,
        tweedie_power: float = 1.5,
        noise: Noise = "any",
        honest: float = 0.0,
        clip: Clip = "target",
        smoothing: float | Literal["auto"] = 0,
        alternatives: int = 10,
        generations: int = 10_000,
        population_size: int = 64,
        n_iter_no_change: int | Literal["auto"] = "auto",
        algorithm: GrowAlgorithm = "gram",
        warm_start: bool = False,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        verbose: bool | Literal["auto"] = "auto",
        device: str = "auto",
        chunks: Literal["auto"] | int | None = "auto",
        storage: FloatType = "float64",
    ) -> None:
        self.max_leaves = max_leaves
        self.leaf_model = leaf_model
        self.time_limit = time_limit
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.coefficient_signs = coefficient_signs
        self.interaction_cst = interaction_cst
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_terms_per_leaf = max_terms_per_leaf
        self.log_terms = log_terms
        self.curves = curves
        self.pairs = pairs
        self.penalty = penalty
        self.fitness = fitness
        self.loss = loss
        self.quantile = quantile
        self.tweedie_power = tweedie_power
        self.noise = noise
        self.honest = honest
        self.clip = clip
        self.smoothing = smoothing
        self.alternatives = alternatives
        self.generations = generations
        self.population_size = population_size
        self.n_iter_no_change = n_iter_no_change
        self.algorithm = algorithm
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.device = device
        self.chunks = chunks
        self.storage = storage

    @on_own_threads
    def fit(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> ModelTreeRegressor:
        """Grow a tree.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values. Rows on a GPU are standardised on the host, with the same bits as rows on the
            host, and summed on their GPU. From a million rows on, GPUs rank the columns.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            At least 0; rows of weight 0 are ignored. If all are whole numbers with a sum of at most 131,072, they are
            counts: a row of weight two is two rows. Other weights are relative.
        exposure : array-like of shape (n_rows,), optional
            With ``loss="poisson"``, ``"gamma"`` or ``"tweedie"``: what y was counted over, such as years or areas,
            above 0. The tree then predicts rates: y for each unit of exposure. The offset of other libraries is the
            logarithm of the exposure. With an exposure, weights are relative.

        Returns
        -------
        ModelTreeRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        DeviceError
            If `device` requires a GPU that cannot be used, its memory cannot hold the rows, or it fails during the
            search; the error's `best` is then the best tree so far, as arrays by node.
        """
        started = time.perf_counter()
        check_parameters(self)
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        y, sample_weight = as_rates(self, y, sample_weight, exposure)
        self._has_exposure = exposure is not None
        data = training_data(self, X, y, sample_weight)
        check_range(self.loss, data.target)
        population = self._population if self.warm_start and hasattr(self, "_population") else []
        with undisturbed() as interrupts:
            with watching(self.callbacks or (), self.verbose) as callbacks:
                seed = check_random_state(self.random_state).randint(2**31 - 1)
                margin = MARGIN if self.alternatives else 0.0
                given = Circumstances(seed, started, home, population, callbacks, interrupts, margin)
                growth = fit_tree(self, data, given)
            warn_if_cut_short(self.time_limit, growth.result)
            data = data.with_columns(groups=growth.columns.groups)
            growth = shrunk(self, settled(self, growth, data, given), given)
            grown = self._keep(growth, self)
            if growth.result.met:
                self.alternatives_: Alternatives = alternatives_of(
                    self, growth, grown, self._meaning(growth, self), interrupts
                )
            self._bend(self.loss, data, given, growth.parts)
            self.interrupted_ |= interrupts.have_come
        return self

    def predict(self, X: Rows, exposure: ArrayLike | None = None) -> Doubles:
        """Predict rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            Columns with the names and in the order of `fit`. Missing values, and categories that `fit` did not see,
            go to the learned side of each split.
        exposure : array-like of shape (n_rows,), optional
            What the predicted rates are multiplied by, as in `fit`; default 1. `forest_`, exports and SHAP values
            always are for 1, so SHAP values add up to the logarithm of the rate. With an exposure, the result is a
            NumPy array.

        Returns
        -------
        float64, (n_rows,)
            Predictions in units of y. Rows on a GPU are predicted there, into an array of their library, unless
            ``device="cpu"`` or the tree has categories. Rows on the host are predicted on `device`.

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
        return for_exposure(self, predictions, exposure)  # type: ignore[no-any-return]

    def predict_interval(self, X: Rows, coverage: float = 0.9) -> Doubles:
        """Intervals that contain y of new rows with a probability of about `coverage`: float64, (n_rows, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            The result is a NumPy array, also for rows on a GPU.
        coverage : float, default=0.9
            Above 0 and below 1.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or the loss is neither ``squared`` nor ``huber``.

        Notes
        -----
        The width is a multiple of the error of the leaf. glasswood chooses the multiple so that the intervals contain a
        share `coverage` of the training rows (at most 20,000), each predicted by its leaf's regression without this
        row. If there are up to 20,000 rows and few for so large a tree, `fit` also grows five trees by brief searches,
        each on four fifths of the rows, and widens the intervals by how much larger the errors of unseen rows are
        (`glasswood.grow.search.selection`; not with ``honest``). The coverage holds on average over rows like those of
        training, not for every row.
        """
        check_is_fitted(self)
        refuse_intervals(self.loss)
        errors = usable_errors(self.leaf_summary_["rmse"])[np.asarray(on_host(self.apply(X)))]
        return around(np.asarray(on_host(self.predict(X))), errors, self._scores, coverage)

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches, in the order of `leaves_`: int32, (n_rows,)."""
        leaves: Int32s = routed(self, X, "leaf")[:, 0]
        return leaves

    @property
    def rules_(self) -> Table:
        """One entry per leaf, as a dict for pandas or polars: the tests that lead to the leaf, and its equation.

        The keys are leaf, rule, rows, mean, equation and rmse, as in `leaf_summary_`. Texts have four digits.
        """
        check_is_fitted(self)
        return rule_table(self.forest_.ensemble, self.leaf_summary_)

    @property
    def feature_importances_(self) -> Doubles:
        """Shares of the explained variance of y, by feature: float64, (n_features,), with sum 1 or all zeros.

        A split explains the variance between the means of its two sides. A leaf's equation explains the leaf's variance
        minus that of its residuals, which is divided among the terms by the variance of each. Computed on the training
        rows, with smoothed leaves as they are, in O(nodes + terms), once after `fit`.
        """
        check_is_fitted(self)
        return self._importances

    def _of_one_leaf(self, leaf_model: str, data: TrainingData, given: Circumstances) -> ModelTreeRegressor:
        one = ModelTreeRegressor(**self._parameters_of_one_leaf(leaf_model))
        one._has_exposure = self._has_exposure
        one._keep(fit_tree(one, data, given), self)
        return one

    def _keep(self, growth: Growth, reader: Any) -> GrownTree:
        """Set the fitted attributes; `reader` is the estimator that read the rows."""
        self._forget()
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
        grown = growth.tree(self, **self._meaning(growth, reader))
        result = growth.result
        self.forest_ = Forest(grown.forest)
        self.leaves_, self.leaf_summary_ = leaf_table([grown], grown.forest)
        if growth.outcome is not None:
            rows = growth.columns.as_rows()[:, : grown.forest.n_features]
            self.leaf_summary_ = of_outcomes(self.leaf_summary_, grown.forest, rows, *growth.outcome)
        self.history_: Table = history_table(result.history)
        self.fitness_: float = float(result.best["fitness"])
        self.n_iter_: int = len(result.history)
        self.n_leaves_, self.smoothing_ = grown.forest.n_leaves, grown.smoothing
        self.n_evaluations_: int = result.n_evaluations
        self.interrupted_: bool = result.interrupted
        if self.algorithm == "qr":
            self.procedure_seconds_: dict[str, float] = result.procedure_seconds
        self._importances, self._explained = feature_importances(grown, growth.rows.target.scale or 1.0)
        self._population = growth.population()
        self._scores = grown.scores
        return grown

    def _meaning(self, growth: Growth, reader: Any) -> dict[str, Any]:
        """Fields of the forest that are no trees."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "feature_names": None if names is None else tuple(str(name) for name in names),
            "source": "glasswood",
            "objective": (f"{objective_of(self)}{reader._constraints}{cut_short_text(growth.result)}"),
            "link": LINKS.get(self.loss, "identity"),
        }
