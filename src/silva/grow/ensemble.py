"""Means of several model trees."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from silva.device import array_gpu, on_host, parse_device
from silva.grow.checks import check_parameters
from silva.grow.estimator import ModelTreeRegressor, TreeEstimator
from silva.grow.fitting import fit_tree
from silva.grow.growing import Circumstances
from silva.grow.interrupts import keeping_interrupts
from silva.grow.intervals import around, usable_errors
from silva.grow.merging import merged
from silva.grow.reading import routed, training_data
from silva.grow.repeats import in_order
from silva.parallel import n_threads

MEMBER_PENALTY = 0.5
"""Of the trees of an ensemble by default."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from silva.forest import Forest
    from silva.grow.columns import TrainingColumns
    from silva.grow.interrupts import Interrupts
    from silva.typing import Doubles, Int32s, Rows

    Sample = tuple[int, Int32s]
    """Seed of a tree, and the rows that it is grown on."""


class ModelTreeEnsembleRegressor(RegressorMixin, TreeEstimator):  # type: ignore[misc]
    """The mean of several model trees, each grown on a part of the rows from another seed.

    Parameters
    ----------
    estimator : ModelTreeRegressor, optional
        What each tree is grown with; default: ``ModelTreeRegressor(penalty=0.5)``, since larger trees, whose errors
        average out, are better together. Its `n_jobs`, `random_state`, `time_limit`,
        `callbacks` and `verbose` are not used.
    n_estimators : int, default=10
        Number of trees.
    max_samples : float, default=0.8
        Part of the rows that each tree is grown on, drawn without replacement; in (0, 1].
    time_limit : float or None, default=120
        Seconds for all trees together; those that are grown later share what is left. The result then depends on the
        machine.
    n_jobs : int, optional
        Threads, one a tree; None or -1 for all. On a GPU trees are grown one after the other. The trees do not depend
        on it.
    random_state : int, RandomState instance or None, default=0

    Attributes
    ----------
    forest_ : Forest
        The trees, each of the weight 1 / n_estimators; it predicts, saves, loads and is explained as any forest.
    estimators_ : list of ModelTreeRegressor
        Each fitted on its rows, with equations, tables and history.
    samples_ : list of int32 arrays
        Rows that each tree was grown on, among those of positive weight; one whose weight is a whole number may be
        there as many times.
    n_leaves_ : int
        Of all trees.
    feature_importances_ : float64, (n_features,)
        Mean of those of the trees.
    interrupted_ : bool
        Whether Ctrl-C ended the search; trees that were not ready are what was found by then.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Time and memory are those of `ModelTreeRegressor`, times the number of trees over that of threads.

    Examples
    --------
    >>> import numpy as np, silva
    >>> X = np.random.default_rng(0).uniform(0, 5, (300, 2))
    >>> y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0])
    >>> silva.ModelTreeEnsembleRegressor(n_estimators=3).fit(X, y).n_leaves_
    6
    """

    def __init__(
        self,
        estimator: ModelTreeRegressor | None = None,
        n_estimators: int = 10,
        max_samples: float = 0.8,
        time_limit: float | None = 120,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator, self.n_estimators, self.max_samples = estimator, n_estimators, max_samples
        self.time_limit, self.n_jobs, self.random_state = time_limit, n_jobs, random_state

    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ModelTreeEnsembleRegressor:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            NaN marks missing values.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            As `ModelTreeRegressor` has it; rows are drawn whatever they weigh.

        Returns
        -------
        ModelTreeEnsembleRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the data or a parameter is out of range; the message says what was expected.
        TypeError
            If `estimator` is no `ModelTreeRegressor`, or a parameter of another type than expected.
        DeviceError
            If a GPU is asked for and cannot be used, or fails.
        """
        member = self._member()
        home = array_gpu(X)
        X, y, sample_weight = (on_host(array) for array in (X, y, sample_weight))
        columns, target, weight = training_data(self, X, y, sample_weight)
        n_given = len(np.asarray(y))
        order, weight, _ = in_order(columns.X, target, weight)
        data = columns.taken(order), target[order], weight
        draws = self._samples(len(order))
        with keeping_interrupts() as interrupts:
            self.estimators_ = self._grown(member, data, draws, home, interrupts)
            self.samples_ = [order[rows] for _, rows in draws]
            self.interrupted_ = interrupts.have_come
        n_trees = len(self.estimators_)
        forests = [tree.forest_ for tree in self.estimators_]
        self.forest_: Forest = merged(forests, np.zeros(n_trees, int), np.full(n_trees, 1 / n_trees))
        self.n_leaves_ = self.forest_.n_leaves
        positive = np.ones(n_given, bool) if sample_weight is None else np.asarray(sample_weight) > 0
        used = np.flatnonzero(positive).astype(np.int32)
        self._scores = self._out_of_bag(X, y, [used[rows] for rows in self.samples_])
        return self

    def predict(self, X: Rows) -> Doubles:
        """Predict rows: float64, (n_rows,), as `ModelTreeRegressor.predict` does."""
        predictions: Doubles = routed(self, X, "prediction")
        return predictions

    def predict_interval(self, X: Rows, coverage: float = 0.9) -> Doubles:
        """Intervals that hold y of new rows with a probability of `coverage`: float64, (n_rows, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            Of rows on a GPU the intervals are a NumPy array all the same.
        coverage : float, default=0.9
            In (0, 1).

        Raises
        ------
        ValueError
            If `coverage` is out of range, or no row was left out of any tree.

        Notes
        -----
        Every training row is predicted by the trees that have not seen it; its residual is measured in the error of
        the leaves that it reaches, the root mean square of theirs. Intervals are as many of those about the prediction
        as a part `coverage` of the training rows needs (conformal prediction by rows left out of bags, Johansson et
        al. 2014). They hold on average over rows like those of training, not for every row.
        """
        check_is_fitted(self)
        if not len(self._scores):
            raise ValueError("every tree has seen all rows; fit with max_samples below 1")
        errors = np.sqrt(np.mean(self._errors(np.asarray(on_host(self.apply(X)))) ** 2, axis=1))
        return around(np.asarray(on_host(self.predict(X))), errors, self._scores, coverage)

    def _errors(self, leaves: Int32s) -> Doubles:
        """Errors of the leaves that rows reach in the trees."""
        errors = [usable_errors(tree.leaf_summary_["rmse"]) for tree in self.estimators_]
        return np.column_stack([error[leaves[:, t]] for t, error in enumerate(errors)])

    def _out_of_bag(self, X: Rows, y: Any, samples: list[Int32s]) -> Doubles:
        """Residuals of rows, by the trees that have not seen them, in errors of their leaves; rising."""
        target = np.asarray(y, np.float64).ravel()
        unseen = np.ones((len(target), len(samples)), bool)
        for tree, rows in enumerate(samples):
            unseen[rows, tree] = False
        seen_by_any = ~unseen.all(axis=1)
        chosen = unseen.any(axis=1) & seen_by_any
        n_unseen = np.maximum(unseen.sum(axis=1), 1)
        predictions = np.column_stack([np.asarray(tree.predict(X)) for tree in self.estimators_])
        errors = self._errors(np.column_stack([np.asarray(tree.apply(X)) for tree in self.estimators_]))
        middle = (predictions * unseen).sum(axis=1) / n_unseen
        width = np.sqrt((errors**2 * unseen).sum(axis=1) / n_unseen)
        scores: Doubles = np.sort(np.abs(target - middle)[chosen] / width[chosen])
        return scores

    def apply(self, X: Rows) -> Int32s:
        """Index of the leaf that each row reaches in each tree: int32, (n_rows, n_estimators)."""
        leaves: Int32s = routed(self, X, "leaf")
        return leaves

    @property
    def feature_importances_(self) -> Doubles:
        """Mean of the importances of the trees: float64, (n_features,)."""
        check_is_fitted(self)
        importances: Doubles = np.mean([tree.feature_importances_ for tree in self.estimators_], axis=0)
        return importances

    @property
    def categorical_features(self) -> Sequence[int | str] | None:
        """Those of `estimator`."""
        return None if self.estimator is None else self.estimator.categorical_features

    @property
    def device(self) -> str:
        """That of `estimator`."""
        return "auto" if self.estimator is None else self.estimator.device

    def _member(self) -> ModelTreeRegressor:
        """Check the parameters, and return what a tree is grown with."""
        if self.estimator is not None and not isinstance(self.estimator, ModelTreeRegressor):
            raise TypeError(f"estimator is a {type(self.estimator).__name__}, expected a ModelTreeRegressor or None")
        if not isinstance(self.n_estimators, Integral) or isinstance(self.n_estimators, bool):
            raise TypeError(f"n_estimators is {self.n_estimators!r}, expected an integer")
        if self.n_estimators < 1:
            raise ValueError(f"n_estimators is {self.n_estimators}, expected at least 1")
        if not isinstance(self.max_samples, Real) or not 0 < self.max_samples <= 1:
            raise ValueError(f"max_samples is {self.max_samples!r}, expected a part of the rows, above 0 and up to 1")
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError(f"time_limit is {self.time_limit}, expected seconds above 0 or None")
        member = ModelTreeRegressor(penalty=MEMBER_PENALTY) if self.estimator is None else clone(self.estimator)
        check_parameters(member)
        return member

    def _samples(self, n_rows: int) -> list[Sample]:
        random = check_random_state(self.random_state)
        n_drawn = max(1, round(self.max_samples * n_rows))
        return [
            (int(random.randint(2**31 - 1)), np.sort(random.permutation(n_rows)[:n_drawn]).astype(np.int32))
            for _ in range(self.n_estimators)
        ]

    def _grown(
        self,
        member: ModelTreeRegressor,
        data: tuple[TrainingColumns, Doubles, Doubles],
        draws: list[Sample],
        home: int | None,
        interrupts: Interrupts,
    ) -> list[ModelTreeRegressor]:
        """Grow the trees, as many beside each other as there are threads."""
        began, n_together = time.perf_counter(), min(n_threads(self.n_jobs), len(draws))
        if parse_device(member.device)[0] in {"cuda", "all"} or home is not None:
            n_together = 1
        columns, target, weight = data

        def fitted(number: int) -> ModelTreeRegressor:
            seed, rows = draws[number]
            tree: ModelTreeRegressor = clone(member).set_params(
                n_jobs=self.n_jobs if n_together == 1 else 1,
                random_state=seed,
                time_limit=self._share(time.perf_counter() - began, len(draws) - number, n_together),
                callbacks=None,
                verbose=False,
            )
            given = Circumstances(seed, home=home, callbacks=[lambda _: interrupts.have_come])
            tree._keep(fit_tree(tree, columns.taken(rows), target[rows], weight[rows], given), self)
            return tree

        if n_together == 1:
            return [fitted(number) for number in range(len(draws))]
        with ThreadPoolExecutor(n_together) as pool:
            return list(pool.map(fitted, range(len(draws))))

    def _share(self, elapsed: float, n_left: int, n_together: int) -> float | None:
        """Seconds for one of the trees that are left."""
        if self.time_limit is None:
            return None
        return max((self.time_limit - elapsed) * min(1.0, n_together / n_left), 1e-3)
