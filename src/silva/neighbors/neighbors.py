"""`silva.Neighbors`: what a forest's leaves know of its training rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.device import gpus_worthwhile, on_host
from silva.escapes import shown
from silva.evaluate.evaluator import evaluator_of
from silva.forest import Forest
from silva.inputs import arranged, as_rows
from silva.inputs.targets import as_targets, class_places, refuse_text
from silva.loading import load
from silva.neighbors.conformal import LeafScale, check_coverage, conformal_quantile, jackknife_plus
from silva.neighbors.cuda import MOST_NEAREST, WORTHWHILE, CudaShares
from silva.neighbors.imputation import are_codes, fill, typical_row
from silva.neighbors.index import LeafIndex, TargetIndex, in_parts, list_rows
from silva.neighbors.influence import influence_of
from silva.neighbors.outliers import outlier_scores, prototypes_of
from silva.neighbors.stored import load_neighbors, save_neighbors
from silva.neighbors.training import bags_of, check_counts, drew_by_weight, is_average, oob_predictions, tree_shares
from silva.parallel import cached_property

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike

    from silva.ensemble import TreeEnsemble
    from silva.neighbors.influence import AverageInfluence, BoostedInfluence
    from silva.neighbors.outliers import Prototypes
    from silva.typing import Array, Bools, Doubles, Int32s, Int64s, IntervalMethod, QuantileMethod, Rows

INFLUENCES_TOGETHER = 2**22
"""Influences that are held together."""


class Neighbors:
    """Training rows by the leaves of a forest: distributions, intervals, similar rows, influence, missing values.

    Two rows are similar if they reach the same leaves. One inverted index, from leaves to training rows, answers all
    questions below; no table of all pairs of rows is made.

    Parameters
    ----------
    model : Forest, estimator, or any model that `silva.load` reads
        Of a live random forest of scikit-learn the index knows which rows each tree was given.
    X : array-like or frame of shape (n, n_features)
        The rows that the forest was trained on.
    y : array-like of shape (n,) or (n, n_outputs), optional
        Their targets or class labels. Similar rows, `impute` and `outlier_score` work without.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the training.
    tree_weight : {"auto", "uniform"} or array-like of shape (n_trees,)
        How much a tree counts. "auto": all the same in forests that average (random forests); in boosted forests the
        standard deviation, over the training rows, of what the tree adds to the margin, so that first trees count most.
        Weights are rounded to 1/65,535 of their sum.
    check : bool
        Compare the number of rows in each leaf with the forest's own, where its source counts rows. False is for other
        rows than those of the training: which rows a tree was given then counts as unknown.
    by_position : bool
        Match the columns of a frame by position and ignore their names.
    n_jobs : int, optional
        Number of threads; None or -1 for all.

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
    training rows. Building costs about as much as predicting the rows; the index has 4 bytes for each row and tree,
    twice that with y, and more where trees were given different rows.

    References
    ----------
    Meinshausen, "Quantile regression forests", JMLR 7 (2006). Breiman, "Random forests", Machine Learning 45 (2001),
    https://doi.org/10.1023/A:1010933404324. Sharchilev et al., "Finding influential training samples for gradient
    boosted decision trees", ICML 2018.

    Examples
    --------
    >>> neighbors = silva.Neighbors(model, X_train, y_train)  # doctest: +SKIP
    >>> neighbors.quantile(X, [0.05, 0.5, 0.95])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: object,
        X: Rows,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        tree_weight: str | ArrayLike = "auto",
        check: bool = True,
        by_position: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        loaded = load(model)
        ensemble = loaded.ensemble
        if ensemble.n_trees == 0:
            raise ValueError("the forest has no trees, expected at least one; neighbours are rows of the same leaves")
        rows = as_rows(arranged(on_host(X), ensemble, by_position), ensemble)
        if not len(rows):
            raise ValueError("X has no rows, expected the rows that the forest was trained on")
        targets = None if y is None else _targets(ensemble, y, len(rows))
        row_weight = _row_weight(sample_weight, len(rows))
        bags = bags_of(model, len(rows), ensemble.n_trees) if check else None
        if bags is not None and drew_by_weight(ensemble, bags):
            row_weight = None
        positions = evaluator_of(ensemble).positions(rows, n_jobs)
        lists = list_rows(ensemble, positions, None, None, n_jobs)
        index = LeafIndex(ensemble, lists, np.ones(1, np.int64), bags, row_weight)
        index.positions = positions
        counts = lists.weight() if index.weight() is None else _leaf_weights(index)
        if check:
            check_counts(ensemble, counts)
        index.weights = tree_shares(ensemble, counts, tree_weight)
        self._settle(loaded, index, rows, targets, by_position, n_jobs)

    def _settle(
        self,
        forest: Forest,
        index: LeafIndex,
        rows: Array | None,
        targets: Array | None,
        by_position: bool,
        n_jobs: int | None,
    ) -> None:
        assert rows is not None
        self.forest, self._index, self._rows, self._targets = forest, index, rows, targets
        self._by_position, self._n_jobs = by_position, n_jobs
        self._scores: Doubles | None = None

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        target = "" if self._targets is None else ", with targets"
        return f"Neighbors({self.n_rows:,} training rows{target}, {self.forest!r})"

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self._index)

    @property
    def tree_weight(self) -> Doubles:
        """Weights of the trees; they add up to 1."""
        return self._index.weights / self._index.total

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
            As in NumPy: between neighbouring targets, or the smallest target whose share of the weight reaches q
            (Meinshausen's definition). "linear" is that of quantile-forest: the total weight counts as the number of
            rows in the leaves.
        weighted_leaves : bool
            Each leaf weighs as much as its tree (Meinshausen). False: each row of a leaf does, so that large leaves
            count more, which is the default of quantile-forest.

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
            raise ValueError(f"method is {method!r}, expected 'linear' or 'inverted_cdf'")
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        if wanted.ndim > 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise ValueError(f"q is {q!r}, expected numbers from 0 to 1")
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
            Shapes as of `quantile`.
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
            (n, n_samples), or (n, n_samples, n_outputs); labels if the targets are classes. All outputs of a draw are
            those of one training row.

        Raises
        ------
        ValueError
            If y was not given, or the leaves of a row have no training rows.
        """
        targets = self._given_targets("sample")
        if not hasattr(n_samples, "__index__") or n_samples < 1:
            raise ValueError(f"n_samples is {n_samples!r}, expected a whole number of at least 1")
        rng = np.random.default_rng(random_state)
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
        """Learn from held-out rows how far predictions are off.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Rows that the forest was **not** trained on.
        y : array-like of shape (n,)
            Their targets or class labels.

        Returns
        -------
        Neighbors
            Itself; `predict_interval` or `predict_set` use the result, and files hold it.

        Raises
        ------
        ValueError
            If y does not fit X, holds NaN, or y of the training was not given.
        """
        self._given_targets("conformalize")
        positions, rows = self._read(X)
        targets = _targets(self.forest.ensemble, y, len(rows))
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
            "split": prediction ± a quantile of the errors of the rows of `conformalize`, each in units of the mean
            absolute residual of the training rows in the same leaves; covers with at least this probability, whatever
            the distribution, if new rows come from the same one. "jackknife+": from the trees that were not given a
            row, for random forests of scikit-learn with bootstrap; needs no held-out rows, covers with at least
            2 · coverage − 1, and in practice about coverage. "quantile": between quantiles of the leaves' targets,
            without any guarantee. "auto": "split" after `conformalize`, else "jackknife+".

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends; infinite where there are too few rows for this coverage.

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
        raise ValueError(f"method is {method!r}, expected 'auto', 'split', 'jackknife+' or 'quantile'")

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
            Classes in the order of ``forest.classes[0]``. Probabilities of the model above a threshold that follows
            from the rows of `conformalize`: sets are as small as possible on average, and may be empty.

        Raises
        ------
        ValueError
            If the targets are no classes, or `conformalize` was not called.
        """
        coverage = check_coverage(coverage)
        if not self._is_classifier:
            raise ValueError("predict_set expects a classifier, this model predicts numbers; call predict_interval")
        if self._scores is None:
            raise ValueError("predict_set needs held-out rows; call conformalize(X, y) first")
        _, rows = self._read(X)
        result: Bools = 1 - self._probabilities(rows) <= conformal_quantile(self._scores, coverage)
        return result

    # Similar rows

    def kneighbors(
        self,
        X: Rows | None = None,
        n_neighbors: int = 5,
        return_similarity: bool = True,
        *,
        device: str = "auto",
    ) -> tuple[Doubles, Int32s] | Int32s:
        """Most similar training rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), optional
            Default: the training rows, none of which is then its own neighbour.
        n_neighbors : int
        return_similarity : bool
        device : {"auto", "cpu", "cuda", "cuda:1"}
            Where to compare leaves. "auto" uses a GPU, if there is one, for many rows. GPUs find up to 64 neighbours.

        Returns
        -------
        similarity : float64, (n, n_neighbors)
            Share of the trees, by their weights, in which both rows reach the same leaf: falling, 1 in the same leaves
            throughout, 0 where fewer rows share any leaf. scikit-learn's distances are 1 minus this.
        rows : int32, (n, n_neighbors)
            Places of training rows; of equally similar ones the first. -1 where there are fewer.
        """
        k = self._count(n_neighbors, X is None)
        settled = None if X is None else self._settled(X)
        n = self.n_rows if settled is None else len(settled)
        find = self._finder(n, k, device)
        rows, shares = (np.empty((n, k), np.int32) for _ in range(2))
        for part, positions in self._parts(settled):
            rows[part], shares[part] = find(positions, k, part.start if settled is None else -1)
        return (shares / self._index.total, rows) if return_similarity else rows

    def kneighbors_graph(self, X: Rows | None = None, n_neighbors: int = 5, mode: str = "similarity") -> Any:
        """Most similar training rows as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As for `kneighbors`.
        mode : {"similarity", "connectivity", "distance"}
            What the entries are: similarity, 1, or 1 − similarity, which DBSCAN and others of scikit-learn accept with
            ``metric="precomputed"``.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, n_rows)

        Raises
        ------
        ImportError
            If SciPy is not installed.
        """
        if mode not in {"similarity", "connectivity", "distance"}:
            raise ValueError(f"mode is {mode!r}, expected 'similarity', 'connectivity' or 'distance'")
        from scipy.sparse import csr_matrix

        similarity, rows = self.kneighbors(X, n_neighbors)
        there = rows >= 0
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        values = {"similarity": similarity, "connectivity": np.ones_like(similarity), "distance": 1 - similarity}[mode]
        return csr_matrix((values[there], rows[there], starts), shape=(len(rows), self.n_rows))

    def kneighbors_frame(self, X: Rows | None = None, n_neighbors: int = 5) -> Any:
        """Most similar training rows as a frame.

        Parameters
        ----------
        X, n_neighbors
            As for `kneighbors`.

        Returns
        -------
        pandas.DataFrame
            One row per pair: ``row`` of X, ``neighbor`` (place of the training row), ``similarity`` and, with y,
            ``target``, the neighbour's.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        import pandas

        similarity, rows = self.kneighbors(X, n_neighbors)
        row, place = np.nonzero(rows >= 0)
        columns = {"row": row, "neighbor": rows[row, place], "similarity": similarity[row, place]}
        if self._targets is not None and self._targets.ndim == 1:
            found = self._targets[columns["neighbor"]]
            columns["target"] = self._labels[found] if self._is_classifier else found
        return pandas.DataFrame(columns)

    def similarity(self, X: Rows, Y: Rows | None = None) -> Doubles:
        """Similarity of all pairs of rows, for few of them.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        Y : array-like or frame of shape (m, n_features), optional
            Default: X.

        Returns
        -------
        ndarray of shape (n, m)
        """
        first = self._positions(X)
        second = first if Y is None else self._positions(Y)
        result = np.zeros((len(first), len(second)))
        for tree, weight in enumerate(self._index.weights):
            result += weight * (first[:, tree, None] == second[:, tree])
        return result / self._index.total

    def distance(self, a: ArrayLike, b: ArrayLike) -> float:
        """Compute 1 minus the similarity of two rows: a metric for scikit-learn, as in ``DBSCAN(metric=n.distance)``.

        Parameters
        ----------
        a, b : array-like of shape (n_features,)

        Returns
        -------
        float
        """
        pair = evaluator_of(self.forest.ensemble).positions(self._settled(np.asarray([a, b])), 1)
        return float(self._index.weights[pair[0] != pair[1]].sum() / self._index.total)

    def outlier_score(self, X: Rows | None = None, y: ArrayLike | None = None) -> Doubles:
        """How far rows are from all training rows of their class (Breiman and Cutler).

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), optional
            Default: the training rows.
        y : array-like of shape (n,), optional
            Classes of the rows of X. Where the targets are no classes, all rows are of one.

        Returns
        -------
        ndarray of shape (n,)
            n_rows / Σ similarity² over the training rows of the class, minus the median of the class, divided by its
            median absolute deviation (times 1.4826, as in R's randomForest). Above 10 is commonly called an outlier.
        """
        ensemble = self.forest.ensemble
        group = self._targets if self._is_classifier and self._targets is not None else np.zeros(self.n_rows, np.int32)
        of_rows = None
        if X is not None and self._is_classifier:
            if y is None:
                raise ValueError("y was not given; pass the classes of X, whose rows they are compared with")
            of_rows = _targets(ensemble, y, len(self._positions(X)))
        elif X is None and y is not None:
            raise ValueError("y was given without X; the training rows have their own classes")
        return outlier_scores(self._index, None if X is None else self._positions(X), group, of_rows, self._n_jobs)

    def prototypes(self, n_prototypes: int = 1, n_neighbors: int | None = None) -> Prototypes:
        """Typical rows of each class (Breiman and Cutler).

        Parameters
        ----------
        n_prototypes : int
            A class; each next one leaves the neighbours of those before aside.
        n_neighbors : int, optional
            Default: the number of rows of the smallest class, but at most 50.

        Returns
        -------
        Prototypes
            A named tuple of ``label``, (p,); ``row``, (p,): the training row with the most rows of its class among its
            neighbours; ``n_members``, (p,): how many; ``median``, ``low``, ``high``, (p, n_features): of the features
            of these, and quartiles. Categories have the most frequent one's code in ``median``, NaN in the others.

        Raises
        ------
        ValueError
            If the model is no classifier, or y was not given.
        """
        targets = self._given_targets("prototypes")
        if not self._is_classifier:
            raise ValueError("prototypes expects a classifier, this model predicts numbers; call kneighbors")
        smallest = int(np.bincount(targets)[np.unique(targets)].min())
        k = self._count(min(50, max(smallest - 1, 1)) if n_neighbors is None else n_neighbors, True)
        rows = self._nearest(self._index.positions, k, 0)[0]
        codes = are_codes(self.forest.ensemble)
        return prototypes_of(rows, targets, self._labels, self._rows, codes, n_prototypes)

    # Influence and missing values

    def influence(self, X: Rows, n_neighbors: int | None = 10, output: int = 0) -> tuple[Doubles, Int64s] | Doubles:
        """How each training row moved the predictions of X, with the splits as they are (LeafInfluence).

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        n_neighbors : int or None
            How many training rows to return for each row of X, those of the largest magnitude; None for all.
        output : int
            Which output, or class of a random forest.

        Returns
        -------
        influence : float64, (n, n_neighbors) or (n, n_rows)
            Margin minus margin without the training row: positive where the row raises the prediction. In forests that
            average it is exact, the mean of a leaf with and without the row; a leaf that holds only this row keeps its
            value. In boosted forests it is exact for the leaves of the row (0 if they hold only this row), and first
            order for what follows from them in all later rounds. The base score stays.
        rows : int64, (n, n_neighbors)
            Places of the training rows; not returned for None.

        Raises
        ------
        ValueError
            If y was not given, or the values in the leaves do not follow from X and y: other rows or targets, rows
            that were sampled for each tree, or another loss.
        NotImplementedError
            For linear leaves, and boosted forests of several outputs or of other losses than squared error, log loss
            and Poisson loss.

        Notes
        -----
        O(n_rows × n_trees) for each row of X. The learning rate and the L2 penalty follow from the leaves.
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

    def impute(self, X: Rows, n_neighbors: int = 10, max_iter: int = 5) -> Array:
        """Fill missing values in from the most similar training rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Missing values are NaN.
        n_neighbors : int
        max_iter : int
            Rounds: rows that are filled in may reach other leaves. If the forest accepts missing values, its own way
            with them is the start; otherwise medians and most frequent categories of the training rows are.

        Returns
        -------
        ndarray of shape (n, n_features)
            Weighted means, of categories the codes of the most frequent ones, of the neighbours that have a value.
        """
        ensemble = self.forest.ensemble
        rows = self._settled(X, allows_nan=True)
        missing = np.isnan(rows)
        codes, typical = are_codes(ensemble), typical_row(self._rows, are_codes(ensemble))
        result = rows if ensemble.nan_allowed else np.where(missing, typical, rows).astype(rows.dtype)
        affected = np.flatnonzero(missing.any(axis=1))
        for _ in range(max_iter if len(affected) else 0):
            positions = evaluator_of(ensemble).positions(result[affected], self._n_jobs)
            near, shares = self._nearest(positions, self._count(n_neighbors, False), -1)
            filled = result.copy()
            filled[affected] = fill(
                rows[affected], missing[affected], self._rows, near, shares / self._index.total, codes, typical
            )
            if np.array_equal(filled, result, equal_nan=True):
                break
            result = filled
        return result

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forest, the index, the training rows and targets to a `.silva` file.

        `silva.load` reads the forest of such a file, `Neighbors.load` all of it.

        Parameters
        ----------
        path : path
            The file appears complete or not at all.

        Raises
        ------
        ValueError
            If the suffix belongs to another library's models.
        """
        parts = {"training": self._rows, "targets": self._targets, "scores": self._scores}
        has_numbers = self._targets is not None and not self._is_classifier
        save_neighbors(path, self._index, parts, self._by_target if has_numbers else [], self._by_position)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False, n_jobs: int | None = None) -> Neighbors:
        """Read what `save` has written.

        Parameters
        ----------
        path : path
        mmap : bool
            Map the file, so that processes share its memory (`silva.load`).
        n_jobs : int, optional

        Returns
        -------
        Neighbors

        Raises
        ------
        ValueError
            If the file holds no neighbours, or is truncated or corrupt.
        """
        index, parts, targets, by_position = load_neighbors(path, mmap)
        made = cls.__new__(cls)
        made._settle(Forest(index.forest), index, parts["training"], parts["targets"], by_position, n_jobs)
        made._scores = parts["scores"]
        if targets:
            made._by_target = targets
        return made

    # Inside

    def _nearest(self, positions: Int32s, k: int, first_own: int) -> tuple[Int32s, Int32s]:
        return self._index.nearest(positions, k, first_own, self._n_jobs)

    def _finder(self, n: int, k: int, device: str) -> Callable[[Int32s, int, int], tuple[Int32s, Int32s]]:
        """Choose what finds the k nearest of n rows: `_nearest`, or a GPU, if it is asked for or worth while."""
        work = float(n) * self.n_rows * self.forest.n_trees if k <= MOST_NEAREST else 0.0
        gpus = gpus_worthwhile(device, None, work, WORTHWHILE)[:1]
        if not gpus:
            return self._nearest
        if k > MOST_NEAREST:
            raise ValueError(f"n_neighbors is {k}, GPUs find up to {MOST_NEAREST}; pass device='cpu'")
        if gpus[0] not in self._on_gpu:
            self._on_gpu[gpus[0]] = CudaShares(self._index, gpus[0])
        return self._on_gpu[gpus[0]].nearest

    def _parts(self, rows: Array | None) -> Iterator[tuple[slice, Int32s]]:
        """Find the leaves of rows, or of the training rows, part by part."""
        for part in in_parts(self.forest.ensemble, self.n_rows if rows is None else len(rows)):
            yield part, self._index.positions[part] if rows is None else self._evaluated(rows[part])

    def _evaluated(self, rows: Array) -> Int32s:
        return evaluator_of(self.forest.ensemble).positions(rows, self._n_jobs)

    def _count(self, k: int, without_own: bool) -> int:
        most = self.n_rows - without_own
        if not hasattr(k, "__index__") or isinstance(k, bool) or not 1 <= k <= max(most, 1):
            raise ValueError(f"n_neighbors is {k!r}, expected 1 to {max(most, 1)}")
        return int(k)

    def _settled(self, X: Rows, allows_nan: bool = False) -> Array:
        ensemble = self.forest.ensemble
        if allows_nan and not ensemble.nan_allowed:
            import dataclasses

            ensemble = dataclasses.replace(ensemble, nan_allowed=True)
        return as_rows(arranged(on_host(X), ensemble, self._by_position), ensemble)

    def _read(self, X: Rows) -> tuple[Int32s, Array]:
        rows = self._settled(X)
        return self._evaluated(rows), rows

    def _positions(self, X: Rows | None) -> Int32s:
        return self._index.positions if X is None else self._read(X)[0]

    def _given_targets(self, what: str) -> Array:
        if self._targets is None:
            raise ValueError(f"{what} needs the targets of the training rows; pass y to silva.Neighbors")
        return self._targets

    def _numbers(self, what: str) -> None:
        self._given_targets(what)
        if self._is_classifier:
            raise ValueError(f"{what} expects targets that are numbers, these are classes; call predict_set")

    def _one_output(self, what: str) -> None:
        if self._given_targets(what).ndim > 1 or self.forest.n_outputs > 1:
            raise ValueError(f"{what} expects a model of one output, this one has {self.forest.n_outputs}")

    @property
    def _is_classifier(self) -> bool:
        return len(self.forest.classes) == 1

    @property
    def _labels(self) -> Array:
        return self.forest.classes[0]

    def _predictions(self, rows: Array) -> Doubles:
        found = evaluator_of(self.forest.ensemble).predict_rows(rows, "prediction", self._n_jobs)
        return np.asarray(found, np.float64)

    def _probabilities(self, rows: Array) -> Doubles:
        found = np.asarray(evaluator_of(self.forest.ensemble).predict_rows(rows, "probability", self._n_jobs))
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

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
    def _on_gpu(self) -> dict[int, CudaShares]:
        """Leaves of the training rows on GPUs, by GPU."""
        return {}

    @cached_property
    def _by_target(self) -> list[TargetIndex]:
        """Lists of the ranks of each output's targets."""
        targets = self._given_targets("quantile")
        columns = targets.reshape(len(targets), -1).T
        found = []
        for column in columns:
            order = np.argsort(column, kind="stable")
            lists = list_rows(self.forest.ensemble, self._index.positions, order, self._index.weight(), self._n_jobs)
            found.append(TargetIndex(self._index, column[order], lists))
        return found

    @cached_property
    def _drawn(self) -> Any:
        """Rows that trees were given, by leaf, with their weights."""
        weight = self._index.weight()
        if weight is None:
            return self._index.lists
        return list_rows(self.forest.ensemble, self._index.positions, None, weight, self._n_jobs)

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


_COMPUTED = {"_by_target", "_on_gpu", "_drawn", "_drawn_mass", "_scale", "_influence"}


def _leaf_weights(index: LeafIndex) -> Doubles:
    """Weight of the rows that each leaf was given."""
    weight = index.weight()
    assert weight is not None
    total = np.empty(index.forest.n_leaves)
    for tree, (first, end) in enumerate(pairwise(index.forest.leaf_offsets.tolist())):
        total[first:end] = np.bincount(index.positions[:, tree] - first, weight[:, tree], end - first)
    return total


def _row_weight(sample_weight: ArrayLike | None, n_rows: int) -> Doubles | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n_rows},), one per row of X")
    if not np.isfinite(weight).all() or weight.min() < 0 or not weight.any():
        raise ValueError("sample_weight expects finite numbers of at least 0, and one above 0")
    return weight


def _targets(forest: TreeEnsemble, y: ArrayLike, n_rows: int) -> Array:
    """Targets as float64, or places among the classes of a classifier."""
    values = as_targets(y, n_rows)
    if len(forest.classes) > 1:
        raise NotImplementedError(
            f"the model has {len(forest.classes)} classification outputs; Neighbors expects one, or y=None"
        )
    if forest.classes:
        return class_places(values, forest).astype(np.int32)
    refuse_text(values)
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values.reshape(n_rows, -1)).all(axis=1)))
        raise ValueError(f"y is {shown(str(values[row]))} in row {row}, expected finite numbers; leave such rows out")
    return values
