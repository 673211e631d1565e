"""Several model trees in one forest: regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from glasswood.base.device import array_gpu, on_host
from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles, Int32s, Loss, Rows
from glasswood.grow.boosting import TreeSequence
from glasswood.grow.data.reading import routed, training_data
from glasswood.grow.ensemble_base import BOOSTED, TreeEnsembleEstimator
from glasswood.grow.estimator import ModelTreeRegressor
from glasswood.grow.exposure import RateRegressorMixin, as_rates, for_exposure
from glasswood.grow.losses import LINKS, SquaredLoss, check_range, loss_of, objective_of, refuse_intervals
from glasswood.grow.search.fitting import fit_tree
from glasswood.grow.search.process import on_own_threads
from glasswood.grow.tree.intervals import MOST_LEFT_OUT, around, of_all_trees, quadratic_mean, usable_errors

if TYPE_CHECKING:
    from glasswood.grow.boosting import Mixture
    from glasswood.grow.data.columns import TrainingData
    from glasswood.grow.losses import SequenceLoss
    from glasswood.grow.search.engine import Circumstances

MEMBERS: dict[str, dict[str, Any]] = {
    "mean": {"penalty": 0.5, "smoothing": "auto", "log_terms": False},
    "boosting": BOOSTED,
}
"""What the trees of an ensemble are grown with by default."""

WHOLE = {"penalty": 1.0, "max_leaves": 64, "noise": "any", "clip": "target"}
"""What differs in a tree that a boosted sequence begins with."""


class ModelTreeEnsembleRegressor(RateRegressorMixin, TreeEnsembleEstimator):
    """Several model trees in one forest: the mean of large trees, or sums of small ones.

    ``method="mean"`` grows each tree on a part of the rows with another seed. ``method="boosting"`` grows a sequence of
    small trees on each part. Each tree fits the residuals of the previous ones (Friedman 2001), until predictions for
    the rows that the sequence has not seen no longer improve. If one larger tree predicts these rows better, the
    sequence begins with it, and may end with it. With ``loss="squared"``, a sequence of trees with constant leaves is
    grown beside it. The same rows choose the share of both in the prediction. The forest is the mean of all parts, plus
    a constant that makes the mean prediction of the training rows the mean of y (not with ``quantile`` and ``huber``).

    Parameters
    ----------
    estimator : ModelTreeRegressor, optional
        The estimator of each tree. Default: a `ModelTreeRegressor` with the parameters of
        ``glasswood.grow.ensemble.MEMBERS[method]``: a lower penalty, because errors of larger trees average out, and
        ``smoothing="auto"``, because nobody reads that many equations; for boosting, up to eight leaves and short
        searches (those of ``glasswood.grow.boosting.IN_MIXTURES`` for a sequence and its companion). Its `n_jobs`,
        `random_state`, `time_limit`, `callbacks` and `verbose` are not used.
    n_estimators : int, default=10
        Number of trees or, when boosting, of sequences and their companions with constant leaves.
    max_samples : float, default=0.8
        Share of the rows that each tree or sequence is grown on, above 0 and up to 1, without replacement. With 1, no
        unseen rows end a sequence, so each has `max_trees` trees, and no companion.
    method : {"mean", "boosting"}, default="mean"
    learning_rate : float, default=0.1
        Factor of each tree of a sequence, above 0 and up to 1; 1.5 times as much for trees with constant leaves.
    max_trees : int, default=100
        Largest number of trees in a sequence.
    loss, quantile, tweedie_power : str and floats, default="squared", 0.5 and 1.5
        As for `ModelTreeRegressor`, except ``huber``, which is a loss of `estimator`. With ``poisson``, ``gamma`` and
        ``tweedie``, trees add up to logarithms, so the mean of trees is a geometric mean, up to the constant.
    time_limit : float or None, default=120
        Seconds for all trees together; later trees share what is left. If a search reaches the limit, the result
        depends on the machine.
    n_jobs : int, optional
        Number of threads, one per tree or sequence; -1 for all. None is that of `glasswood.set_config`. On a GPU, trees
        are grown one after another. The trees do not depend on it.
    random_state : int, RandomState instance or None, default=0

    Attributes
    ----------
    forest_ : Forest
        The trees, each with the weight 1 / n_estimators. Boosted trees have the share of their sequence
        times `learning_rate` besides, except for a tree that a sequence begins with. The forest can be predicted, saved
        and explained like any forest.
    estimators_ : list of ModelTreeRegressor
        The trees, each fitted on its rows, with equations, tables and history. Boosted trees predict the residuals of
        the previous trees.
    sequence_ : int, (n_trees,)
        Which of `n_estimators` each tree belongs to; first those with equations.
    samples_ : list of int32 arrays
        Rows with positive weight that each tree or sequence was grown on. A row whose weight is a whole number may
        occur as many times.
    n_leaves_ : int
        Number of leaves of all trees.
    feature_importances_ : float64, (n_features,)
        Mean of the trees' importances; in sequences, weighted by the squares that each explains.
    interrupted_ : bool
        Whether Ctrl-C ended the search. Unfinished trees are the best found by then; trees that had not begun are
        missing.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    If y is never negative, neither are the mean of trees (glasswood shortens its constant if needed) and predictions
    with ``loss="poisson"``, ``"gamma"`` and ``"tweedie"``. Sums of boosted trees with another loss may be negative,
    because the forest that is saved, exported and explained could not clip the total. `fit` warns if it predicts
    training rows below 0.

    Time and memory are those of `ModelTreeRegressor`, times the number of trees divided by the number of threads. A
    boosted tree takes about a twentieth of a second on 3,000 rows.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001),
    https://doi.org/10.1214/aos/1013203451.

    Examples
    --------
    >>> import numpy as np, glasswood
    >>> X = np.random.default_rng(0).uniform(0, 5, (300, 2))
    >>> y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0])
    >>> glasswood.ModelTreeEnsembleRegressor(n_estimators=3).fit(X, y).n_leaves_
    6
    """

    quantile: float

    def __init__(
        self,
        estimator: ModelTreeRegressor | None = None,
        n_estimators: int = 10,
        max_samples: float = 0.8,
        method: Literal["mean", "boosting"] = "mean",
        learning_rate: float = 0.1,
        max_trees: int = 100,
        loss: Loss = "squared",
        quantile: float = 0.5,
        tweedie_power: float = 1.5,
        time_limit: float | None = 120,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator, self.n_estimators, self.max_samples = estimator, n_estimators, max_samples
        self.method, self.learning_rate, self.max_trees = method, learning_rate, max_trees
        self.loss, self.quantile, self.tweedie_power = loss, quantile, tweedie_power
        self.time_limit, self.n_jobs, self.random_state = time_limit, n_jobs, random_state

    @on_own_threads
    def fit(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> ModelTreeEnsembleRegressor:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            As for `ModelTreeRegressor`. Rows are drawn regardless of their weight.
        exposure : array-like of shape (n_rows,), optional
            As for `ModelTreeRegressor`.

        Returns
        -------
        ModelTreeEnsembleRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        TypeError
            If `estimator` is not a `ModelTreeRegressor`, or a parameter has another type than expected.
        DeviceError
            If a GPU is required and cannot be used, or fails.
        """
        member = self._member().set_params(callbacks=None)
        if member.loss in LINKS:
            raise ValueError(f"estimator has loss={quoted(member.loss)}, expected it as a parameter of the ensemble")
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        y, sample_weight = as_rates(self, y, sample_weight, exposure)
        self._has_exposure = exposure is not None
        data, link = training_data(self, X, y, sample_weight), LINKS.get(self.loss, "identity")
        check_range(self.loss, data.target)
        objective, group = objective_of(self), np.zeros_like(data.target)
        sequences, draws, data = self._fit(member, data, home, group, objective, link=link)
        self._warn_if_negative(data)
        if self.loss in LINKS:
            return self
        unseen = [draw.unseen for draw in draws]
        self._scores = self._out_of_bag(sequences, data.columns.as_rows(), data.target, unseen)
        return self

    def predict(self, X: Rows, exposure: ArrayLike | None = None) -> Doubles:
        """Predict rows: float64, (n_rows,), as `ModelTreeRegressor.predict` does."""
        predictions: Doubles = routed(self, X, "prediction")
        return for_exposure(self, predictions, exposure)  # type: ignore[no-any-return]

    def staged_predict(self, X: Rows) -> Iterator[Doubles]:
        """Predict rows after each step of boosted sequences: float64, (n_rows,), the last time as `predict` does.

        A sequence that has ended stays as it is. The trees of a mean are steps, too.
        """
        return self._staged(X, "prediction")

    def predict_interval(self, X: Rows, coverage: float = 0.9) -> Doubles:
        """Intervals that contain y of new rows with a probability of `coverage`: float64, (n_rows, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            The result is a NumPy array, also for rows on a GPU.
        coverage : float, default=0.9
            Above 0 and below 1.

        Raises
        ------
        ValueError
            If `coverage` is out of range, no row was left out of any tree, or the loss is not ``squared``.

        Notes
        -----
        Every training row (at most 20,000) is predicted by the trees that have not seen it. Its residual is measured in
        units of the errors of the leaves that it reaches (their root mean square). It is also shortened, because the
        mean of these trees varies more than the mean of all trees; how far the trees lie apart says by how much.
        Intervals extend the prediction by the multiple of these units that a share `coverage` of the training rows
        needs (out-of-bag conformal prediction, Johansson et al. 2014). They hold on average over rows like those of
        training, not for every row.
        """
        check_is_fitted(self)
        refuse_intervals(self.loss)
        if not len(self._scores):
            raise ValueError("every tree has seen all rows; fit with max_samples below 1")
        errors = quadratic_mean(self._errors(np.asarray(on_host(self.apply(X)))))
        return around(np.asarray(on_host(self.predict(X))), errors, self._scores, coverage)

    def _warn_if_negative(self, data: TrainingData) -> None:
        """Warn if amounts are predicted to be negative: a sum has no limits, whatever its trees are clipped to."""
        if self.method == "mean" or self.forest_.ensemble.link == "exp" or data.target.min() < 0:
            return
        rows = data.columns.as_rows()
        found = self.forest_.predict(rows, device="cpu", n_jobs=self.n_jobs)
        if n_below := int((np.asarray(found) < 0).sum()):
            warnings.warn(
                f"{n_below:,} of {len(rows):,} training rows are predicted below 0, although y never is: a sum of "
                f"trees (method={quoted(self.method)}) has no limits. loss='poisson' predicts amounts above 0, "
                "zeros in y included; method='mean' and single trees never predict below 0",
                UserWarning,
                stacklevel=3,
            )

    def _members(self) -> dict[str, ModelTreeRegressor]:
        return {method: ModelTreeRegressor(**parameters) for method, parameters in MEMBERS.items()}

    def _loss(self, target: Doubles) -> SequenceLoss:
        return loss_of(self) if self.loss in LINKS else SquaredLoss.of(target)

    def _alone(self, member: ModelTreeRegressor, data: TrainingData, given: Circumstances) -> TreeSequence:
        if self.loss in LINKS:
            member.set_params(loss=self.loss, quantile=self.quantile, tweedie_power=self.tweedie_power)
            member._has_exposure = self._has_exposure
        member._keep(fit_tree(member, data, given), self)
        return TreeSequence(np.zeros(1), member)

    def _whole(
        self, member: ModelTreeRegressor, seconds: float | None, data: TrainingData, given: Circumstances
    ) -> TreeSequence:
        return self._alone(clone(member).set_params(**WHOLE, time_limit=seconds), data, given)

    def _errors(self, leaves: Int32s) -> Doubles:
        """Errors of the leaves that rows reach: the root mean square over the trees of each sequence."""
        n_trees = np.bincount(self.sequence_)
        errors = [usable_errors(tree.leaf_summary_["rmse"]) for tree in self.estimators_]
        unit = max(float(of_leaves.max()) for of_leaves in errors)  # squares of large numbers overflow
        squares = np.zeros((len(leaves), len(n_trees)))
        for t, number in enumerate(self.sequence_):
            squares[:, number] += ((errors[t] / unit) ** 2)[leaves[:, t]]
        return unit * np.sqrt(squares / n_trees)

    def _out_of_bag(
        self, sequences: list[TreeSequence | Mixture], rows: Doubles, target: Doubles, unseen: list[Int32s]
    ) -> Doubles:
        """Residuals of rows, by the sequences that have not seen them, in errors of their leaves; rising."""
        chosen = np.zeros((len(target), len(sequences)), bool)
        for number, those in enumerate(unseen):
            chosen[those, number] = True
        at = np.flatnonzero(chosen.any(axis=1))
        at = at[:: -(-len(at) // MOST_LEFT_OUT) or 1]
        chosen, rows = chosen[at], rows[at]
        constant = self.forest_.ensemble.base_score - np.mean([sequence.start for sequence in sequences], axis=0)
        predictions = constant + np.column_stack([sequence.margins(rows, self.n_jobs) for sequence in sequences])
        errors = self._errors(self.forest_.predict(rows, "leaf", device="cpu", n_jobs=self.n_jobs))
        n_unseen = np.maximum(chosen.sum(axis=1), 1)
        middle = (predictions * chosen).sum(axis=1) / n_unseen
        width = quadratic_mean(errors, chosen)
        apart = (predictions - middle[:, None]) / width[:, None]
        scores: Doubles = np.sort(of_all_trees(np.abs(target[at] - middle) / width, apart, chosen))
        return scores
