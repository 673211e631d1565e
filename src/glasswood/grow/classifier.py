"""scikit-learn's interface to trees of logistic regressions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from glasswood.base.device import array_gpu, on_host
from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array, Doubles, Int32s, LeafModel, Rows
from glasswood.forest import Forest
from glasswood.grow.checks import check_parameters
from glasswood.grow.curves.fitting import CurvedTree
from glasswood.grow.data.reading import routed, training_data
from glasswood.grow.estimator import ModelTreeRegressor
from glasswood.grow.likelihood import Shares, as_tree, best_tree, candidate_of, refitted
from glasswood.grow.merging import merged
from glasswood.grow.search.alternatives import MARGIN, Alternatives, Fitted, find_alternatives
from glasswood.grow.search.engine import Circumstances, SearchSettings, cut_short_text, warn_if_cut_short
from glasswood.grow.search.process import on_own_threads, undisturbed
from glasswood.grow.search.progress import watching
from glasswood.grow.table import feature_importances, leaf_table
from glasswood.grow.tree_estimator import TreeEstimator
from glasswood.inputs.targets import as_vector, row_numbers
from glasswood.words.rules import rule_table

if TYPE_CHECKING:
    from glasswood.grow.class_splits import Candidate
    from glasswood.grow.data.columns import TrainingColumns, TrainingData
    from glasswood.grow.table import Table
    from glasswood.grow.tree.assembly import GrownTree
    from glasswood.model.ensemble import TreeEnsemble

OWN = ("rounds", "class_weight", "curves", "pairs")
"""Parameters that a regressor does not have."""

CYCLES = 3
"""Times that the leaves of every class are fitted beside the other classes."""


class ClassEstimator(ClassifierMixin, TreeEstimator):  # type: ignore[misc]
    """Predictions of classes, shared by trees and their ensembles."""

    def predict(self, X: Rows) -> Array:
        """Predict the most probable class of rows: (n_rows,)."""
        check_is_fitted(self)
        labels: Array = routed(self, X, "prediction")
        return labels

    def predict_proba(self, X: Rows) -> Doubles:
        """Probabilities of the classes: float64, (n_rows, n_classes)."""
        probabilities: Doubles = routed(self, X, "probability")
        return probabilities

    def decision_function(self, X: Rows) -> Doubles:
        """Log-odds of the second of two classes or, for more classes, the arguments of the softmax.

        float64, (n_rows,) or (n_rows, n_classes).
        """
        margins: Doubles = routed(self, X, "margin")
        return margins


class ModelTreeClassifier(CurvedTree, ClassEstimator):
    """Classification trees that people can read: few splits, and a logistic regression in each leaf.

    Two classes have one tree of log-odds. More classes have one tree each, and a softmax turns their log-odds into
    probabilities. An evolutionary search finds the trees, as for `ModelTreeRegressor`.

    Most users set only the first six parameters.

    Parameters
    ----------
    max_leaves : int, default=64
        Largest number of leaves of each tree.
    leaf_model : {"linear", "constant"}, default="linear"
        Whether a leaf has an equation or one number.
    time_limit : float or None, default=50
        Seconds for the searches of all classes, with the fits of leaves after each. None sets no limit. If a search
        reaches the limit, the result depends on the machine.
    categorical_features : sequence of int or str, optional
        As for `ModelTreeRegressor`.
    monotonic_cst : array-like of int of shape (n_features,), or dict of int by name, optional
        As for `ModelTreeRegressor`, for the probability of the second of two classes. Splits do not test such features;
        coefficients have the required sign.
    coefficient_signs : array-like of int of shape (n_features,), or dict of int by name, optional
        As for `ModelTreeRegressor`, for the log-odds of the second of two classes.
    interaction_cst : {"pairwise", "no_interactions"} or sequence of sequences of int or str, optional
        As for `ModelTreeRegressor`, for the log-odds; glasswood chooses a group for each class.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config`. The trees do not depend on it.
    random_state : int, RandomState instance or None, default=0
    max_depth : int, default=18
    min_samples_leaf : int, default=5
    max_terms_per_leaf : int or None, default=None
        Largest number of terms of a leaf's equation; all categories of a feature are one term. None sets no limit.
    log_terms : bool or "auto", default="auto"
        As for `ModelTreeRegressor`.
    curves, pairs
        As for `ModelTreeRegressor`, in log-odds: each class of three or more has curves of its own.
    penalty : float, default=1.0
        Factor of BIC's price of a parameter.
    rounds : int, default=2
        Number of searches per class: the first by least squares of 0 and 1, the others by working responses of the best
        tree so far.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows by class; ``balanced`` gives all classes the same weight in total. Probabilities
        are then those of the weighted classes, not of the shares in the data.
    alternatives : int, default=10
        Largest number of other trees in `alternatives_`; 0: none are kept.
    generations : int, default=10000
        Largest number of generations of a search.
    n_iter_no_change : int or "auto", default="auto"
        As for `ModelTreeRegressor`.
    verbose : bool or "auto", default="auto"
        Show a progress bar on standard error. ``auto`` shows it if a search takes, or is expected to take, over ten
        seconds.
    device : str, default="auto"
        Where rows are summed and predicted.

    Attributes
    ----------
    classes_ : array, (n_classes,)
    forest_ : Forest
        The trees, with linear leaves of log-odds. It can be predicted, saved and explained like any forest.
    leaves_ : dict of arrays
        One entry per term, with the keys leaf (of all trees, one after another), feature, coefficient, standard_error
        and mean, as in `ModelTreeRegressor`, in log-odds.
    leaf_summary_ : dict of arrays
        One entry per leaf, with the keys n_rows, log_loss (mean over the training rows), mean (log-odds at the means of
        the features), low and high (0 or 1: the classes that occur), lowest, highest, n_clipped and share (of the
        tree's class among the rows).
    alternatives_ : Alternatives, or tuple of one per class
        Other trees that fit as well, as for `ModelTreeRegressor`; of three or more classes, those of one class beside
        the trees of the others.
    ridges_ : float64, (n_trees,)
        Penalty of the squared coefficients of each tree, in standard deviations.
    n_leaves_ : int
        Number of leaves of all trees.
    feature_importances_ : float64, (n_features,)
        Shares of the explained squares of log-odds, for splits and terms; the mean over trees.
    interrupted_ : bool
    curves_, surfaces_, parts_ : dict of arrays
        With `curves`, as for `AdditiveClassifier`; the first part is the tree. `leaves_`, `leaf_summary_` and
        `n_leaves_` are then those of the tree beside the curves, as for `ModelTreeRegressor`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    glasswood chooses the size of a tree and the ridge of its leaves that minimise a sum: the deviance of rows left out
    of their leaf's fit (to first order), plus 2 ln m per split among m places (at least ln n), plus 2 ln p for each
    split and term chosen among p columns. A single leaf with all columns, or as many as `max_terms_per_leaf` allows, is
    among the candidates.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> glasswood.ModelTreeClassifier().fit(X, y).n_leaves_
    2
    """

    classes_: Array
    leaves_: Table
    leaf_summary_: Table

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
        rounds: int = 2,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        alternatives: int = 10,
        generations: int = 10_000,
        n_iter_no_change: int | Literal["auto"] = "auto",
        verbose: bool | Literal["auto"] = "auto",
        device: str = "auto",
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
        self.rounds = rounds
        self.class_weight = class_weight
        self.alternatives = alternatives
        self.generations = generations
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.device = device

    @on_own_threads
    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ModelTreeClassifier:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
            Class labels.
        sample_weight : array-like of shape (n_rows,), optional
            As in `ModelTreeRegressor`. A class of weight 0 has probabilities next to 0.

        Returns
        -------
        ModelTreeClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        DeviceError
            If `device` requires a GPU that cannot be used, or the GPU fails.
        """
        started = time.perf_counter()
        searching = self._searching()
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        self.classes_, codes = classes_of(self, y)
        data = training_data(self, X, codes, class_weights(self.class_weight, y, sample_weight))
        data, _, _ = data.in_order()
        with undisturbed() as interrupts, watching((), self.verbose) as callbacks:
            margin = MARGIN if self.alternatives else 0.0
            given = Circumstances(0, started, home, callbacks=callbacks, interrupts=interrupts, margin=margin)
            self._grow(searching, data, given)
            self._bend("logistic" if len(self.classes_) == 2 else "softmax", data, given)
        return self

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches in each tree: int32, (n_rows, n_trees)."""
        leaves: Int32s = routed(self, X, "leaf")
        forest = self.forest_.ensemble
        return leaves[:, : forest.n_trees - forest.n_curves]

    @property
    def rules_(self) -> Table:
        """One entry per leaf, as a dict for pandas or polars: the tests that lead to the leaf, and its equation.

        The keys are leaf, rule, rows, mean, equation and log_loss, as in `leaf_summary_`. Texts have four digits.
        """
        check_is_fitted(self)
        return rule_table(self.forest_.ensemble, self.leaf_summary_)

    @property
    def feature_importances_(self) -> Doubles:
        """Shares of the explained squares of log-odds, by feature: float64, (n_features,)."""
        check_is_fitted(self)
        return self._importances

    def _searching(self) -> ModelTreeRegressor:
        """Check the parameters, and return what searches are made with."""
        check_parameters(self)
        shared = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        return ModelTreeRegressor(**shared, noise="uniform")

    def _grow(
        self,
        searching: ModelTreeRegressor,
        data: TrainingData,
        given: Circumstances,
        reader: Any = None,
    ) -> None:
        """Grow the trees on rows whose target is a place in `classes_`; `reader` is the estimator that read them."""
        refuse_several(self.classes_, data.columns)
        data = data.with_columns(tests_constrained=False)
        seeds = check_random_state(self.random_state)
        n_trees = 1 if len(self.classes_) == 2 else len(self.classes_)
        shares = Shares(self.time_limit, n_trees * self.rounds, given.started)
        found = []
        for tree in range(n_trees):
            own = (data.target == (1 if len(self.classes_) == 2 else tree)).astype(np.float64)
            rounds, ordered = self.rounds if 0 < own.sum() < len(own) else 1, data._replace(target=own).by_target()
            found.append(best_tree(searching, ordered, given.now(seed=seeds.randint(2**31 - 1)), rounds, shares))
            shares.n_left = (n_trees - tree - 1) * self.rounds
        if reader is None:
            warn_if_cut_short(self.time_limit, *(one.growth.result for one in found))
        found, reader = _side_by_side(found, data), self if reader is None else reader
        self._keep(found, data.weight, reader)
        if given.margin and all(one.growth.result.met for one in found):
            several = [self._alternatives_of(k, found, data, searching, given) for k in range(n_trees)]
            self.alternatives_: Alternatives | tuple[Alternatives, ...] = several[0] if n_trees == 1 else tuple(several)
        self.interrupted_: bool = given.interrupts.have_come or any(one.growth.result.interrupted for one in found)

    def _of_one_leaf(self, leaf_model: str, data: TrainingData, given: Circumstances) -> ModelTreeClassifier:
        one = ModelTreeClassifier(**self._parameters_of_one_leaf(leaf_model))
        one.classes_ = self.classes_
        one._grow(one._searching(), data, given, self)
        return one

    def _assembled(self, found: list[Candidate], weight: Doubles, reader: Any) -> tuple[list[GrownTree], TreeEnsemble]:
        """Make trees of what was found, and a forest of them."""
        names = getattr(self, "feature_names_in_", None)
        meaning = {
            "feature_names": None if names is None else tuple(str(name) for name in names),
            "source": "glasswood",
            "objective": f"log-loss{reader._constraints}{cut_short_text(*(one.growth.result for one in found))}",
        }
        grown = [as_tree(one, weight, **meaning) for one in found]
        places, ones, base = np.arange(len(grown)), np.ones(len(grown)), np.zeros(len(grown))
        forests = [tree.forest for tree in grown]
        return grown, merged(forests, places, ones, base_score=base, **meaning_of(self.classes_))

    def _alternatives_of(
        self, k: int, found: list[Candidate], data: TrainingData, searching: ModelTreeRegressor, given: Circumstances
    ) -> Alternatives:
        """Find other trees in place of the k-th, beside the others as they are."""
        y = (data.target == (1 if len(self.classes_) == 2 else k)).astype(np.float64)
        offset = None if len(found) == 1 else _offset(found, k)

        def fitted(one: Candidate) -> Fitted:
            _, forest = self._assembled([*found[:k], one, *found[k + 1 :]], data.weight, self)
            error = one.left_out / 2 / float(data.weight.sum())
            return Fitted(one.growth.result.best, forest, error, one.cost)

        def fit(tree: dict[str, Any]) -> Fitted:
            one = candidate_of(found[k].growth.with_tree(tree), y, data.weight, searching)
            return fitted(one if offset is None else refitted(one, y, data.weight, offset))

        return find_alternatives(found[k].growth, fitted(found[k]), self, fit, given.interrupts)

    def _keep(self, found: list[Candidate], weight: Doubles, reader: Any) -> None:
        """Set the fitted attributes."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
        self._forget()
        grown, forest = self._assembled(found, weight, reader)
        self.forest_ = Forest(forest)
        self.leaves_, self.leaf_summary_ = leaf_table(grown, self.forest_.ensemble)
        self.leaf_summary_["log_loss"] = self.leaf_summary_.pop("rmse")
        self.leaf_summary_["share"] = np.array([model.share for tree in grown for model in tree.models])
        self.ridges_: Doubles = np.array([one.ridge for one in found])
        self.n_leaves_: int = self.forest_.n_leaves
        importances = [feature_importances(tree, 1.0) for tree in grown]
        self._importances: Doubles = np.mean([shares for shares, _ in importances], axis=0)
        self._explained = float(np.sqrt(np.mean([explained**2 for _, explained in importances])))


def classes_of(estimator: Any, y: Any) -> tuple[Array, Doubles]:
    """Class labels, and the place of each row's among them."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None")
    as_vector(y, "y")
    labels = column_or_1d(y, warn=True)
    _refuse_missing(labels)
    _refuse_two_kinds(labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.astype(np.float64)


def _refuse_missing(labels: Array) -> None:
    """Raise ValueError for NaN or None among labels."""
    if labels.dtype.kind not in "fO":
        return
    is_text = labels.dtype == object
    lacks = np.array([_is_missing(label) for label in labels]) if is_text else np.isnan(labels)
    if lacks.any():
        at = int(np.argmax(lacks))
        raise ValueError(f"y is {shown(str(labels[at]))} in row {at}, expected a class; drop the rows without one")


def _refuse_two_kinds(labels: Array) -> None:
    """Raise ValueError for texts and other labels beside each other, which have no common order."""
    if labels.dtype != object:
        return
    is_text = np.array([isinstance(label, str) for label in labels], bool)
    if is_text.any() and not is_text.all():
        first, other = labels[is_text.argmax()], labels[is_text.argmin()]
        raise ValueError(
            f"y holds text ({quoted(first)}) and other labels ({quoted(other)}), expected labels of one kind"
        )


def _is_missing(label: object) -> bool:
    """Whether a label is None, NaN or pandas.NA, which equals nothing."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def refuse_several(classes: Array, columns: TrainingColumns) -> None:
    """Raise ValueError for monotone probabilities of more than two classes, which add up to one."""
    if columns.term_signs is not None and len(classes) > 2:
        name = "monotonic_cst" if columns.is_constrained else "coefficient_signs"
        raise ValueError(f"{name} needs two classes, y has {len(classes)}; fit one class against the others")


def class_weights(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Weights of rows, those of their classes included."""
    if class_weight is None:
        return sample_weight
    of_classes = compute_sample_weight(class_weight, y)
    if sample_weight is None:
        return of_classes
    weight = row_numbers(sample_weight, "sample_weight")
    if weight.shape not in {(), of_classes.shape}:
        raise ValueError(f"sample_weight has shape {weight.shape}, expected {of_classes.shape}, one per row of X")
    return weight * of_classes


def meaning_of(classes: Array) -> dict[str, Any]:
    """Fields of a forest of log-odds of these classes."""
    link = "logistic" if len(classes) == 2 else "softmax"
    return {"link": link, "prediction": "argmax", "classes": (classes,), "is_estimator": True}


def _side_by_side(found: list[Candidate], data: TrainingData) -> list[Candidate]:
    """Fit the leaves of each class beside the log-odds of the others, in turn."""
    if len(found) < 2:
        return found
    for _ in range(CYCLES):
        for k in range(len(found)):
            found[k] = refitted(found[k], (data.target == k).astype(np.float64), data.weight, _offset(found, k))
    return found


def _offset(found: list[Candidate], k: int) -> Doubles:
    """Log-odds that the classes other than the k-th give."""
    others = np.delete(np.column_stack([one.margin for one in found]), k, axis=1)
    most = others.max(axis=1)
    offset: Doubles = -(most + np.log(np.exp(others - most[:, None]).sum(axis=1)))
    return offset
