"""Several model trees in one forest: classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import array_gpu, on_host
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.grow.boosting import TreeSequence
from glasswood.grow.classifier import (
    ClassEstimator,
    ModelTreeClassifier,
    class_weights,
    classes_of,
    meaning_of,
    refuse_several,
)
from glasswood.grow.data.reading import training_data
from glasswood.grow.ensemble_base import BOOSTED, TreeEnsembleEstimator
from glasswood.grow.estimator import ModelTreeRegressor
from glasswood.grow.losses import LogLoss
from glasswood.grow.search.process import on_own_threads

if TYPE_CHECKING:
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.losses import SequenceLoss
    from glasswood.grow.search.engine import Circumstances


SHARED = ("leaf_model", "categorical_features", "n_jobs", "verbose", "device")
"""Parameters that a tree which a boosted sequence begins with has of the sequence's trees."""

BRIEF = 20
"""Generations without improvement after which the search for it ends, as those of a mean's trees do."""


class ModelTreeEnsembleClassifier(ClassEstimator, TreeEnsembleEstimator):
    """Several classification trees in one forest: the mean of large trees, or sums of small ones, in log-odds.

    ``method="mean"`` grows each tree on a part of the rows with another seed, as `ModelTreeClassifier` does.
    ``method="boosting"`` grows a sequence of small trees on each part (LogitBoost; Friedman, Hastie and Tibshirani
    2000). Each tree fits the working responses of the previous ones, until the log-loss of the rows that the sequence
    has not seen no longer falls. If a `ModelTreeClassifier` predicts these rows better, the sequence begins with it.
    A sequence of trees with constant leaves is grown beside each; one share for all mixes both, by the log-loss of the
    rows that neither has seen.
    The forest is the mean of the log-odds of the sequences, plus a constant for each class that makes the mean
    probabilities of the training rows the shares of the classes. A logistic function or, from three classes on, a
    softmax turns it into probabilities.

    Parameters
    ----------
    estimator : ModelTreeClassifier or ModelTreeRegressor, optional
        The estimator of each tree: a `ModelTreeClassifier` or, when boosting, a `ModelTreeRegressor` of working
        responses. By default, trees have half the penalty and short searches; boosted ones have up to eight leaves. Its
        `n_jobs`, `random_state`, `time_limit`, `callbacks`, `class_weight` and `verbose` are not used.
    n_estimators : int, default=10
        Number of trees (from three classes on: of sets of trees, one tree for each class) or, when boosting, of
        sequences.
    max_samples : float, default=0.8
        Share of the rows of each class that each tree or sequence is grown on, above 0 and up to 1, without
        replacement; at least one row, so that no class is missing. With 1, no unseen rows end a sequence, so each has
        `max_trees` steps.
    method : {"mean", "boosting"}, default="mean"
    learning_rate : float, default=0.1
        Factor of each tree of a sequence, above 0 and up to 1; 1.5 times as much for trees with constant leaves.
    max_trees : int, default=100
        Largest number of steps in a sequence. From three classes on, each step grows one tree for each class.
    class_weight : dict, "balanced" or None, default=None
        As for `ModelTreeClassifier`.
    time_limit : float or None, default=120
        Seconds for all trees together; later trees share what is left. If a search reaches the limit, the result
        depends on the machine.
    n_jobs : int, optional
        Number of threads, one per tree or sequence; -1 for all. None is that of `glasswood.set_config`. On a GPU, trees
        are grown one after another. The trees do not depend on it.
    random_state : int, RandomState instance or None, default=0

    Attributes
    ----------
    classes_ : array, (n_classes,)
    forest_ : Forest
        The trees, each with the weight 1 / n_estimators (times `learning_rate`). It can be predicted, saved and
        explained like any forest.
    estimators_ : list of ModelTreeClassifier or ModelTreeRegressor
        The trees, each fitted on its rows. Boosted trees predict working responses; for several classes, the trees of a
        step follow one another. A sequence may begin with a `ModelTreeClassifier`, whose weight is 1 / n_estimators.
    sequence_ : int, (n_trees,)
        Which of `n_estimators` each of `estimators_` belongs to.
    samples_ : list of int32 arrays
        Rows with positive weight that each tree or sequence was grown on.
    n_leaves_ : int
        Number of leaves of all trees.
    feature_importances_ : float64, (n_features,)
        Mean of the trees' importances; for boosted trees, weighted by the squares that each explains.
    interrupted_ : bool
        Whether Ctrl-C ended the search. Unfinished trees are the best found by then; trees that had not begun are
        missing.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    Friedman, Hastie, Tibshirani, "Additive logistic regression: a statistical view of boosting", Annals of Statistics
    28 (2000), https://doi.org/10.1214/aos/1016218223.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> glasswood.ModelTreeEnsembleClassifier(n_estimators=3).fit(X, y).predict([[0.5, 0.5]])
    array([ True])
    """

    classes_: Array

    def __init__(
        self,
        estimator: ModelTreeClassifier | ModelTreeRegressor | None = None,
        n_estimators: int = 10,
        max_samples: float = 0.8,
        method: Literal["mean", "boosting"] = "mean",
        learning_rate: float = 0.1,
        max_trees: int = 100,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        time_limit: float | None = 120,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator, self.n_estimators, self.max_samples = estimator, n_estimators, max_samples
        self.method, self.learning_rate, self.max_trees = method, learning_rate, max_trees
        self.class_weight, self.time_limit = class_weight, time_limit
        self.n_jobs, self.random_state = n_jobs, random_state

    @on_own_threads
    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ModelTreeEnsembleClassifier:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
            Class labels.
        sample_weight : array-like of shape (n_rows,), optional
            As for `ModelTreeClassifier`. Rows are drawn regardless of their weight.

        Returns
        -------
        ModelTreeEnsembleClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        TypeError
            If `estimator` is not of the kind that `method` needs, or a parameter has another type than expected.
        DeviceError
            If a GPU is required and cannot be used, or fails.
        """
        member = self._member()
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        self.classes_, codes = classes_of(self, y)
        data = training_data(self, X, codes, class_weights(self.class_weight, y, sample_weight))
        refuse_several(self.classes_, data.columns)
        self._fit(member, data, home, data.target, "log-loss", **meaning_of(self.classes_))
        return self

    def staged_predict_proba(self, X: Rows) -> Iterator[Doubles]:
        """Probabilities after each step of boosted sequences, the last time as `predict_proba` has them."""
        return self._staged(X, "probability")

    def _members(self) -> dict[str, Any]:
        return {
            "mean": ModelTreeClassifier(penalty=0.5, n_iter_no_change=BRIEF, log_terms=False),
            "boosting": ModelTreeRegressor(**BOOSTED).set_params(penalty=0.3),
        }

    def _loss(self, target: Doubles) -> SequenceLoss:  # noqa: ARG002
        return LogLoss(len(self.classes_))

    def _alone(self, member: ModelTreeClassifier, data: TrainingData, given: Circumstances) -> TreeSequence:
        member.classes_ = self.classes_
        member._grow(member._searching(), data, given, reader=self)
        return TreeSequence(np.zeros(member.forest_.n_outputs), member)

    def _whole(
        self, member: ModelTreeRegressor, seconds: float | None, data: TrainingData, given: Circumstances
    ) -> TreeSequence:
        shared = {name: getattr(member, name) for name in SHARED}
        whole = ModelTreeClassifier(**shared, time_limit=seconds, n_iter_no_change=BRIEF)
        return self._alone(whole, data, given)
