"""`glasswood.Neighbors`: what a forest's leaves know of its training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.parallel import cached_property
from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Bools, Doubles, Int32s, Int64s, IntervalMethod, QuantileMethod, Rows
from glasswood.model.facts import is_per_exposure
from glasswood.neighbors.conformal import LeafScale, check_coverage, conformal_quantile, jackknife_plus
from glasswood.neighbors.influence import influence_of
from glasswood.neighbors.leaf_rows import targets_of
from glasswood.neighbors.similar import SimilarRows
from glasswood.neighbors.training import is_average, oob_predictions

if TYPE_CHECKING:
    from glasswood.neighbors.index import TargetIndex
    from glasswood.neighbors.influence import AverageInfluence, BoostedInfluence

INFLUENCES_TOGETHER = 2**22
"""Influences that are held together."""


class Neighbors(SimilarRows):
    """Training rows by the leaves of a forest: distributions, intervals, similar rows, influence, missing values.

    Two rows are similar if they reach the same leaves. All methods use one inverted index from leaves to training rows;
    none stores all pairs of rows.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
        For a live random forest of scikit-learn, the index also knows which rows each tree was given.
    X : array-like or frame of shape (n, n_features)
        The rows that the forest was trained on.
    y : array-like of shape (n,) or (n, n_outputs), optional
        Their targets or class labels. Similar rows, `impute` and `outlier_score` do not need them. A model that was
        fitted with `exposure` predicts rates: pass rates, and the exposures as weights.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the training. Quantiles take whole numbers as counts of rows, others relative to their
        mean.
    tree_weight : {"auto", "uniform"} or array-like of shape (n_trees,)
        Weights of the trees. "auto": equal in forests that average (random forests); in boosted forests the standard
        deviation, over the training rows, of what the tree adds to the margin, so that the first trees count most.
        Weights are rounded to 1/65,535 of their sum.
    check : bool
        Compare the number of rows in each leaf with the forest's own counts, if its source counts rows. Pass False for
        other rows than those of the training; glasswood then ignores which rows each tree was given.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config` in each call.

    Attributes
    ----------
    forest : Forest
    n_rows : int
        Number of training rows.
    tree_weight : float64, (n_trees,)
        Weights of the trees; they add up to 1.

    Raises
    ------
    ValueError
        If X or y does not fit the forest, y holds NaN, or the rows are not those of the training.

    Notes
    -----
    Row i has the weight Σ_t v_t · c_ti · [i in the leaf of x in tree t] / (size of the leaf) for a row x, where v_t is
    the weight of tree t and c_ti counts how often the tree was given row i (1 where that is not known). With equal v_t
    this is Meinshausen's quantile regression forest. Similarity is Breiman's proximity, Σ_t v_t · [same leaf], over all
    training rows. Building the index costs about as much as predicting the rows. It has 4 bytes for each row and tree,
    twice that with y, and more if trees were given different rows.

    References
    ----------
    Meinshausen, "Quantile regression forests", JMLR 7 (2006). Breiman, "Random forests", Machine Learning 45 (2001),
    https://doi.org/10.1023/A:1010933404324. Sharchilev et al., "Finding influential training samples for gradient
    boosted decision trees", ICML 2018.

    Examples
    --------
    >>> neighbors = glasswood.Neighbors(model, X_train, y_train)  # doctest: +SKIP
    >>> neighbors.quantile(X, [0.05, 0.5, 0.95])  # doctest: +SKIP
    """

    # Distributions

    def quantile(
        self,
        X: Rows | None,
        q: ArrayLike = 0.5,
        *,
        method: QuantileMethod = "linear",
        weighted_leaves: bool = True,
    ) -> Doubles:
        """Quantiles of the target for rows like these (quantile regression forests).

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), or None
            None for the training rows.
        q : float or array-like of shape (k,)
            Between 0 and 1.
        method : {"linear", "inverted_cdf"}
            As in NumPy. "linear" interpolates between neighbouring targets, as quantile-forest does, with the number of
            rows in the leaves as the total weight. "inverted_cdf" is the smallest target whose share of the weight
            reaches q (Meinshausen's definition).
        weighted_leaves : bool
            True: each leaf has the weight of its tree (Meinshausen). False: each row of a leaf has it, so large leaves
            count more, as is the default of quantile-forest.

        Returns
        -------
        ndarray of float64
            (n,) for a number q, otherwise (n, k); (n, n_outputs) or (n, n_outputs, k) for several outputs. NaN for a
            row whose leaves have no training rows.

        Raises
        ------
        ValueError
            If q lies outside 0 to 1, y was not given, or the targets are classes.
        """
        if method not in {"linear", "inverted_cdf"}:
            raise ValueError(f"method is {quoted(method)}, expected 'linear' or 'inverted_cdf'")
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        if wanted.ndim > 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise ValueError(f"q is {quoted(q)}, expected numbers from 0 to 1")
        self._numbers("quantile")

        def of_part(target: TargetIndex, positions: Int32s) -> Doubles:
            return target.quantiles(positions, wanted, method == "linear", weighted_leaves, self._n_jobs)

        return self._distribution(X, of_part, len(wanted), np.ndim(q) == 0)

    def cdf(self, X: Rows | None, values: ArrayLike, *, weighted_leaves: bool = True) -> Doubles:
        """Probability that the target is at most a value, for rows like these.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), or None
            None for the training rows.
        values : float or array-like of shape (k,)
        weighted_leaves : bool
            As for `quantile`.

        Returns
        -------
        ndarray of float64
            Shapes as for `quantile`.
        """
        wanted = np.atleast_1d(np.asarray(values, np.float64))
        if wanted.ndim > 1 or np.isnan(wanted).any():
            raise ValueError("values has several dimensions or NaN, expected a number or a list of numbers")
        self._numbers("cdf")

        def of_part(target: TargetIndex, positions: Int32s) -> Doubles:
            return target.below(positions, wanted, weighted_leaves, self._n_jobs)

        return self._distribution(X, of_part, len(wanted), np.ndim(values) == 0)

    def sample(self, X: Rows | None, n_samples: int = 1, *, random_state: Any = None) -> Array:
        """Draw targets of training rows, with their weights for rows like these.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), or None
            None for the training rows.
        n_samples : int
        random_state : int, SeedSequence, Generator or None
            As for ``numpy.random.default_rng``.

        Returns
        -------
        ndarray
            (n, n_samples), or (n, n_samples, n_outputs); labels if the targets are classes. All outputs of a draw come
            from one training row.

        Raises
        ------
        ValueError
            If y was not given, or the leaves of a row have no training rows.
        """
        targets = self._given_targets("sample")
        if not hasattr(n_samples, "__index__") or n_samples < 1:
            raise ValueError(f"n_samples is {quoted(n_samples)}, expected a whole number of at least 1")
        rng = generator_of(random_state)
        positions = self._positions(X)
        lists = self._drawn
        weight = lists.weight()
        ends = np.cumsum(weight)
        drawn = np.empty((len(positions), int(n_samples)), np.int64)
        for row, leaves in enumerate(positions):
            share = np.cumsum(self.tree_weight * (weight[leaves] > 0))
            if share[-1] <= 0:
                raise ValueError(f"no training row reaches a leaf of row {row}; leave such rows out")
            tree = np.searchsorted(share, rng.random(int(n_samples)) * share[-1], side="right")
            leaf = leaves[np.minimum(tree, len(leaves) - 1)]
            place = (ends - weight)[leaf] + rng.random(int(n_samples)) * weight[leaf]
            drawn[row] = np.clip(
                np.searchsorted(self._drawn_mass, place, side="right"), lists.offsets[leaf], lists.offsets[leaf + 1] - 1
            )
        found: Array = targets[lists.rows[drawn]]
        return self._labels[found] if self._is_classifier else found

    # Intervals and sets

    def conformalize(self, X: Rows, y: ArrayLike) -> Neighbors:
        """Learn from held-out rows how large the errors of predictions are.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Rows that the forest was **not** trained on.
        y : array-like of shape (n,)
            Their targets or class labels.

        Returns
        -------
        Neighbors
            Itself; `predict_interval` and `predict_set` use the result, and `save` stores it.

        Raises
        ------
        ValueError
            If y does not fit X or holds NaN, `Neighbors` has no training targets, or the model was fitted with
            `exposure`: errors of rates depend on the exposure of each row.
        """
        self._given_targets("conformalize")
        if is_per_exposure(self.forest.ensemble):
            raise ValueError(
                "conformalize compares y with predicted rates, whose errors depend on the exposure of each row; "
                "predict_interval(X, method='quantile') is without a guarantee, but weighs training rows by theirs"
            )
        positions, rows = self._read(X)
        targets = targets_of(self.forest.ensemble, y, len(rows))
        if self._is_classifier:
            scores = 1 - self._probabilities(rows)[np.arange(len(rows)), targets]
        else:
            self._one_output("conformalize")
            scores = np.abs(targets - self._predictions(rows)) / self._scale.of(positions)
        if not len(scores):
            raise ValueError("X has no rows, expected held-out rows")
        self._scores = np.sort(scores)
        return self

    def predict_interval(self, X: Rows, coverage: float = 0.9, *, method: IntervalMethod = "auto") -> Doubles:
        """Intervals that hold the target with a given probability.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        coverage : float
            Between 0 and 1.
        method : {"auto", "split", "jackknife+", "quantile"}
            "split": prediction ± a quantile of the errors of the rows of `conformalize`, each in units of a scale:
            the mean absolute residual of the training rows in the same leaves, plus a tenth of that of all training
            rows (so that leaves fitted without error keep a width). It covers with at least this probability,
            whatever the distribution, if new rows come from the same one. "jackknife+": from the trees that were not
            given a row, for random forests of scikit-learn with bootstrap. It needs no held-out rows, and covers with
            at least 2 · coverage − 1, in practice about coverage. "quantile": between quantiles of the leaves' targets,
            without any guarantee. "auto": "split" after `conformalize`, otherwise "jackknife+".

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends; infinite if there are too few rows for this coverage.

        Raises
        ------
        ValueError
            If the method lacks what it needs, or the targets are classes.
        """
        coverage = check_coverage(coverage)
        self._numbers("predict_interval")
        self._one_output("predict_interval")
        if method == "auto":
            method = "split" if self._scores is not None else "jackknife+"
        if method == "quantile":
            return self.quantile(X, [(1 - coverage) / 2, (1 + coverage) / 2])
        if method == "split":
            if self._scores is None:
                raise ValueError("method='split' needs held-out rows; call conformalize(X, y) first")
            positions, rows = self._read(X)
            half = conformal_quantile(self._scores, coverage) * self._scale.of(positions)
            middle = self._predictions(rows)
            return np.stack([middle - half, middle + half], axis=1)
        if method == "jackknife+":
            return self._jackknife(X, coverage)
        raise ValueError(f"method is {quoted(method)}, expected 'auto', 'split', 'jackknife+' or 'quantile'")

    def _jackknife(self, X: Rows, coverage: float) -> Doubles:
        index, ensemble = self._index, self.forest.ensemble
        if index.bags is None or not is_average(ensemble) or ensemble.has_linear_leaves:
            raise ValueError(
                "method='jackknife+' needs a live random forest of scikit-learn with bootstrap, whose trees were not "
                "given all rows; pass held-out rows to conformalize, and method='split'"
            )
        values = ensemble.leaf_value[:, 0] + ensemble.base_score[0]
        ends = jackknife_plus(
            values, self._positions(X), index.positions, index.bags, self._given_targets("intervals"), coverage
        )
        return np.stack(ends, axis=1)

    def predict_set(self, X: Rows, coverage: float = 0.9) -> Bools:
        """Find sets of classes that hold the true one with a given probability.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        coverage : float
            Between 0 and 1.

        Returns
        -------
        ndarray of bool, (n, n_classes)
            Classes in the order of ``forest.classes[0]``. A set holds the classes whose probability is above a
            threshold, which follows from the rows of `conformalize`. Sets are as small as possible on average, and may
            be empty.

        Raises
        ------
        ValueError
            If the targets are not classes, or `conformalize` was not called.
        """
        coverage = check_coverage(coverage)
        if not self._is_classifier:
            raise ValueError("predict_set expects a classifier, this model predicts numbers; call predict_interval")
        if self._scores is None:
            raise ValueError("predict_set needs held-out rows; call conformalize(X, y) first")
        _, rows = self._read(X)
        result: Bools = 1 - self._probabilities(rows) <= conformal_quantile(self._scores, coverage)
        return result

    # Influence

    def influence(self, X: Rows, n_neighbors: int | None = 10, output: int = 0) -> tuple[Doubles, Int64s] | Doubles:
        """Compute how each training row moved the predictions of X, with unchanged splits (LeafInfluence).

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        n_neighbors : int or None
            Number of training rows to return for each row of X: those with the largest magnitudes; None for all.
        output : int
            Which output, or class of a random forest.

        Returns
        -------
        influence : float64, (n, n_neighbors) or (n, n_rows)
            Margin minus margin without the training row: positive if the row raises the prediction. In forests that
            average it is exact: the mean of a leaf with and without the row. A leaf with only this row keeps its value.
            In boosted forests it is exact for the leaves of the row (0 if they have only this row), and a first-order
            approximation for all later rounds. The base score does not change.
        rows : int64, (n, n_neighbors)
            Places of the training rows; not returned for None.

        Raises
        ------
        ValueError
            If y was not given, or the leaves' values do not follow from X and y, because of other rows or targets,
            sampled rows for each tree, or another loss.
        NotImplementedError
            For linear leaves, and boosted forests of several outputs or of other losses than squared error, log loss
            and Poisson loss.

        Notes
        -----
        O(n_rows × n_trees) for each row of X. glasswood derives the learning rate and the L2 penalty from the leaves.
        """
        computed = self._influence
        everything, found = [], []
        positions = self._positions(X)
        step = max(1, INFLUENCES_TOGETHER // self.n_rows)
        k = None if n_neighbors is None else self._count(n_neighbors, False)
        for first in range(0, len(positions), step):
            values = computed.of(positions[first : first + step])
            if not 0 <= output < values.shape[2]:
                raise ValueError(f"output is {output}, expected 0 to {values.shape[2] - 1}")
            values = values[:, :, output]
            if k is not None:
                order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
                values = np.take_along_axis(values, order, axis=1)
                found.append(order)
            everything.append(values)
        width = self.n_rows if k is None else k
        result = np.concatenate(everything) if everything else np.zeros((0, width))
        return result if k is None else (result, np.concatenate(found) if found else np.zeros((0, width), np.int64))

    # Inside

    def _distribution(
        self, X: Rows | None, of_part: Callable[[TargetIndex, Int32s], Doubles], width: int, is_single: bool
    ) -> Doubles:
        """Results for each output of the targets, (n[, n_outputs][, width])."""
        rows = None if X is None else self._settled(X)
        result = np.empty((self.n_rows if rows is None else len(rows), len(self._by_target), width))
        for part, positions in self._parts(rows):
            for output, target in enumerate(self._by_target):
                result[part, output] = of_part(target, positions)
        if self._given_targets("quantile").ndim == 1:
            result = result[:, 0]
        return result[..., 0] if is_single else result

    @cached_property
    def _drawn(self) -> Any:
        """Rows that trees were given, by leaf, with their weights."""
        return self._index.given(self._n_jobs)

    @cached_property
    def _drawn_mass(self) -> Doubles:
        """Weights of these rows, cumulated over all leaves."""
        lists = self._drawn
        if not len(lists.mass):
            return np.arange(1.0, len(lists.rows) + 1)
        before = np.cumsum(lists.weight()) - lists.weight()
        result: Doubles = lists.mass + np.repeat(before, np.diff(lists.offsets))
        return result

    @cached_property
    def _scale(self) -> LeafScale:
        """Mean absolute residuals by leaf: out of bag where trees left rows out."""
        index, ensemble = self._index, self.forest.ensemble
        targets = self._given_targets("intervals")
        if index.bags is not None and is_average(ensemble) and not ensemble.has_linear_leaves:
            predicted = oob_predictions(ensemble.leaf_value, index.positions, index.bags)[:, 0]
        else:
            predicted = self._predictions(self._rows)
        return LeafScale(targets - predicted, index.positions, self.tree_weight, ensemble.n_leaves)

    @cached_property
    def _influence(self) -> AverageInfluence | BoostedInfluence:
        targets = self._given_targets("influence")
        y = targets.reshape(len(targets), -1).astype(np.float64)
        n_classes = len(self._labels) if self._is_classifier else 0
        if n_classes and self.forest.ensemble.leaf_width == n_classes:
            y = (targets[:, None] == np.arange(n_classes)).astype(np.float64)
        return influence_of(self._index, y)
