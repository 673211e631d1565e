"""Glass boxes: an equation, a curve a column, and surfaces of a few pairs."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from glasswood.base.device import array_gpu, on_host
from glasswood.base.typing import Array, Doubles, LeafModel, Loss, Rows
from glasswood.grow.checks import check_parameters, one_of
from glasswood.grow.classifier import ClassEstimator, ModelTreeClassifier, class_weights, classes_of, refuse_several
from glasswood.grow.curves.fitting import MAX_BINS, ONE_LEAF, CurvedEstimator, CurvePlan, Curves, wanted_pairs
from glasswood.grow.data.reading import routed, training_data
from glasswood.grow.estimator import ModelTreeRegressor
from glasswood.grow.exposure import RateRegressorMixin, as_rates, for_exposure
from glasswood.grow.losses import check_range, level_of, refuse_intervals
from glasswood.grow.search.engine import Circumstances
from glasswood.grow.search.fitting import fit_tree
from glasswood.grow.search.process import on_own_threads, undisturbed
from glasswood.grow.tree.intervals import around
from glasswood.grow.tree_estimator import TreeEstimator

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData

Interactions = int | float | str | Sequence[tuple[int | str, int | str]]


class AdditiveEstimator(CurvedEstimator, TreeEstimator):
    """Base of both kinds of glass boxes."""

    leaves_: Any

    interactions: Interactions
    max_bins: int
    categorical_features: Sequence[int | str] | None
    monotonic_cst: Any
    random_state: Any
    n_jobs: int | None
    device: str
    coefficient_signs = None
    interaction_cst = None

    @abstractmethod
    def _equation(self, leaf_model: str, data: TrainingData, given: Circumstances) -> Any:
        """Fit an equation, or a constant."""

    def _fit(self, plan: CurvePlan, data: TrainingData, given: Circumstances) -> Curves:
        """Fit curves beside an equation, a constant, or a mean of both whose shares left-out rows choose."""
        kinds = ("linear", "constant") if self.leaf_model == "auto" else (self.leaf_model,)
        equations = [self._equation(kind, data, given) for kind in kinds]
        return self._add_curves(plan, data, equations, "equation")

    def _plan(self, loss: str, data: TrainingData) -> CurvePlan:
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        pairs = wanted_pairs(self.interactions, data.columns, names)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return CurvePlan(loss, level_of(self), pairs, self.max_bins, must_gain=False, seed=seed, n_jobs=self.n_jobs)

    @property
    def feature_importances_(self) -> Doubles:
        """Shares of the explained variance, by feature: float64, (n_features,); surfaces count half for each."""
        check_is_fitted(self)
        return self._importances


class AdditiveRegressor(RateRegressorMixin, AdditiveEstimator):
    """A glass box: predictions are an equation, plus one curve per column, plus surfaces of a few pairs.

    Use it where people must see the whole model as pictures, as with explainable boosting machines. Each part shows
    what it adds, and nothing else is in the model. If targets jump in some part of the data, try
    `ModelTreeRegressor` with ``curves=True``, which begins with a tree.

    Parameters
    ----------
    interactions : int, float, str or sequence of pairs, default="3x"
        Largest number of surfaces: an int, a float below 1 as a share of the number of columns, or ``"3x"`` for three
        times that number. Or the pairs themselves, by names or positions. Surfaces stay only if rows that were left out
        gain from them.
    max_bins : int, default=256
        Largest number of bins of a column; a curve has at most one step per bin.
    leaf_model : {"auto", "linear", "constant"}, default="auto"
        ``linear``: an equation, which curves bend. ``constant``: curves alone. ``auto`` fits both, and takes a mean of
        them: rows that were left out choose the share of the equation, 1, 3/4, 1/2, 1/4 or 0, where a coefficient costs
        as much as in AIC.
    categorical_features : sequence of int or str, optional
        As for `ModelTreeRegressor`.
    monotonic_cst : array-like of int of shape (n_features,), or dict of int by name, optional
        1 if predictions must not fall as a feature rises, -1 if they must not rise. Such features have no surfaces.
    loss : {"squared", "huber", "poisson", "gamma", "tweedie", "quantile"}, default="squared"
        As for `ModelTreeRegressor`. With ``poisson``, ``gamma`` and ``tweedie``, parts add up to the logarithm.
    quantile : float, default=0.5
        Share of the rows below the prediction of ``loss="quantile"``.
    tweedie_power : float, default=1.5
        As for `ModelTreeRegressor`.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config`. The model does not depend on it.
    random_state : int, RandomState instance or None, default=0
        Divides the rows into folds.
    device : {"auto", "cpu", "cuda", "cuda:all"} or "cuda:" and an index, default="auto"
        Where rows are predicted. Curves are fitted on the CPU.

    Attributes
    ----------
    forest_ : Forest
        The model: one leaf with the equation, then one tree for each curve and surface. It can be predicted, saved,
        exported and explained like any forest.
    leaves_ : dict of arrays
        The equation, as for `ModelTreeRegressor`; coefficients and their standard errors are times its share.
    curves_ : dict of arrays
        One entry per step of a curve, in units of the margin, with the keys feature, from and to (numbers from `from`
        on and below `to`), category (a label, or "missing"; then `from` and `to` are NaN), adds, rows, standard_error
        and output. Steps of a feature add 0 on average over the training rows.
    surfaces_ : dict of arrays
        One entry per cell of a surface: feature, from, to, category, other_feature, other_from, other_to,
        other_category, adds, rows, standard_error and output. In each row and column of a surface, cells add 0 on
        average over the training rows.
    parts_ : dict of arrays
        One entry per part, with the keys part, share, steps and output. Shares of the margin's variance add up to 1.
    feature_importances_ : float64, (n_features,)
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The rows are divided into 5 folds, six times. On the rows of the other 4, glasswood adds small steps to one curve
    after the other until the loss of the left-out fold no longer falls (cyclic boosting over histograms). In every
    second division, cuts at random come first, whose sum is smooth. Curves are the means of the 30 fits. Coarse
    surfaces of all pairs rank the pairs; they are fitted to what the curves do not explain in rows that the curves have
    not seen. Surfaces are fitted if left-out rows gain from those that the other rows of one division have ranked.
    glasswood joins neighbouring steps as long as predictions hardly change, and leaves out parts far within their
    errors. Standard errors are those of a jackknife over folds. The cost is O(rounds × fits × (rows × columns + cells
    of surfaces)).

    References
    ----------
    Lou, Caruana, Gehrke, Hooker, "Accurate intelligible models with pairwise interactions", KDD 2013; Lengerich, Tan,
    Chang, Hooker, Caruana, "Purifying interaction effects with the functional ANOVA", AISTATS 2020.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(0, 1, (2000, 3))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = glasswood.AdditiveRegressor().fit(X, y)
    >>> sorted(set(model.curves_["feature"].tolist()))
    ['x0']
    """

    def __init__(
        self,
        *,
        interactions: Interactions = "3x",
        max_bins: int = MAX_BINS,
        leaf_model: LeafModel | Literal["auto"] = "auto",
        categorical_features: Sequence[int | str] | None = None,
        monotonic_cst: Any = None,
        loss: Loss = "squared",
        quantile: float = 0.5,
        tweedie_power: float = 1.5,
        n_jobs: int | None = None,
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.interactions = interactions
        self.max_bins = max_bins
        self.leaf_model = leaf_model
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.loss = loss
        self.quantile = quantile
        self.tweedie_power = tweedie_power
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    @on_own_threads
    def fit(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> AdditiveRegressor:
        """Fit the equation, curves and surfaces.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            As for `ModelTreeRegressor`.
        exposure : array-like of shape (n_rows,), optional
            As for `ModelTreeRegressor`.

        Returns
        -------
        AdditiveRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        """
        started = time.perf_counter()
        check_parameters(self, leaf_model=one_of("auto", *get_args(LeafModel)))
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        y, sample_weight = as_rates(self, y, sample_weight, exposure)
        self._has_exposure = exposure is not None
        data = training_data(self, X, y, sample_weight)
        check_range(self.loss, data.target)
        with undisturbed() as interrupts:
            given = Circumstances(0, started, home, interrupts=interrupts)
            self._scores = self._fit(self._plan(self.loss, data), data, given).scores
        return self

    def predict(self, X: Rows, exposure: ArrayLike | None = None) -> Doubles:
        """Predict rows: float64, (n_rows,), in units of y; see `ModelTreeRegressor.predict`."""
        predictions: Doubles = routed(self, X, "prediction")
        return for_exposure(self, predictions, exposure)  # type: ignore[no-any-return]

    def predict_interval(self, X: Rows, coverage: float = 0.9) -> Doubles:
        """Intervals that contain y of new rows with a probability of about `coverage`: float64, (n_rows, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
        coverage : float, default=0.9
            Above 0 and below 1.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or the loss is neither ``squared`` nor ``huber``.

        Notes
        -----
        All intervals are equally wide: they contain a share `coverage` of the training rows, each predicted by the
        curves of the fold that left it out.
        """
        check_is_fitted(self)
        refuse_intervals(self.loss)
        middle = np.asarray(on_host(self.predict(X)))
        return around(middle, np.ones(len(middle)), self._scores, coverage)

    def _equation(self, leaf_model: str, data: TrainingData, given: Circumstances) -> ModelTreeRegressor:
        shared: dict[str, Any] = {"leaf_model": leaf_model, "n_jobs": self.n_jobs, "device": self.device, **ONE_LEAF}
        equation = ModelTreeRegressor(
            loss=self.loss, quantile=self.quantile, tweedie_power=self.tweedie_power, **shared
        )
        equation._has_exposure = self._has_exposure
        equation._keep(fit_tree(equation, data, given), self)
        return equation


class AdditiveClassifier(AdditiveEstimator, ClassEstimator):
    """A glass box for classes: log-odds are an equation, plus one curve per column, plus surfaces of a few pairs.

    It works as `AdditiveRegressor` does. With more than two classes, each class has its own equation, curves and
    surfaces, and a softmax turns their sums into probabilities.

    Parameters
    ----------
    interactions, max_bins, leaf_model, categorical_features, n_jobs, random_state, device
        As for `AdditiveRegressor`.
    monotonic_cst : array-like of int of shape (n_features,), or dict of int by name, optional
        As for `AdditiveRegressor`, for the probability of the second of two classes.
    class_weight : dict, "balanced" or None, default=None
        As for `ModelTreeClassifier`.

    Attributes
    ----------
    classes_ : array, (n_classes,)
    forest_, leaves_, curves_, surfaces_, parts_, feature_importances_, n_features_in_, feature_names_in_
        As for `AdditiveRegressor`, in log-odds; with three or more classes, `output` is the class.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.random.default_rng(1).random(2000) < 1 / (1 + np.exp(-8 * np.abs(X[:, 0]) + 4))
    >>> model = glasswood.AdditiveClassifier(interactions=0).fit(X, y)
    >>> sorted(set(model.curves_["feature"].tolist()))
    ['x0']
    """

    classes_: Array

    def __init__(
        self,
        *,
        interactions: Interactions = "3x",
        max_bins: int = MAX_BINS,
        leaf_model: LeafModel | Literal["auto"] = "auto",
        categorical_features: Sequence[int | str] | None = None,
        monotonic_cst: Any = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.interactions = interactions
        self.max_bins = max_bins
        self.leaf_model = leaf_model
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    @on_own_threads
    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AdditiveClassifier:
        """Fit equations, curves and surfaces.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
            Class labels.
        sample_weight : array-like of shape (n_rows,), optional
            As for `ModelTreeRegressor`.

        Returns
        -------
        AdditiveClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        """
        started = time.perf_counter()
        check_parameters(self, leaf_model=one_of("auto", *get_args(LeafModel)))
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        self.classes_, codes = classes_of(self, y)
        data = training_data(self, X, codes, class_weights(self.class_weight, y, sample_weight))
        refuse_several(self.classes_, data.columns)
        plan = self._plan("logistic" if len(self.classes_) == 2 else "softmax", data)
        with undisturbed() as interrupts:
            self._fit(plan, data, Circumstances(0, started, home, interrupts=interrupts))
        return self

    def _equation(self, leaf_model: str, data: TrainingData, given: Circumstances) -> ModelTreeClassifier:
        shared: dict[str, Any] = {"leaf_model": leaf_model, "n_jobs": self.n_jobs, "device": self.device, **ONE_LEAF}
        equation = ModelTreeClassifier(rounds=1, **shared)
        equation.classes_ = self.classes_
        equation._grow(equation._searching(), data.in_order()[0], given, self)
        return equation
