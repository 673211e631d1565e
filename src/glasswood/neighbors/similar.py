"""Training rows that are similar to rows: neighbours, outliers, prototypes, and values in place of missing ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.config import device_of
from glasswood.base.device import gpus_worthwhile
from glasswood.base.escapes import quoted
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Doubles, Int32s, Rows
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.neighbors.cuda import MOST_NEAREST, WORTHWHILE, CudaShares
from glasswood.neighbors.imputation import are_codes, fill, typical_row
from glasswood.neighbors.leaf_rows import LeafRows, targets_of
from glasswood.neighbors.outliers import outlier_scores, prototypes_of

if TYPE_CHECKING:
    from glasswood.neighbors.outliers import Prototypes


class SimilarRows(LeafRows):
    """Training rows by how many leaves they share with a row."""

    def kneighbors(
        self,
        X: Rows | None = None,
        n_neighbors: int = 5,
        return_similarity: bool = True,
    ) -> tuple[Doubles, Int32s] | Int32s:
        """Most similar training rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), optional
            Default: the training rows, none of which is then its own neighbour.
        n_neighbors : int
        return_similarity : bool

        Returns
        -------
        similarity : float64, (n, n_neighbors)
            Weighted share of the trees in which both rows reach the same leaf, in falling order: 1 if all leaves are
            the same, 0 if no further row shares any leaf. scikit-learn's distances are 1 minus this.
        rows : int32, (n, n_neighbors)
            Places of the training rows; the first of equally similar ones. -1 if there are fewer.

        Notes
        -----
        The device "auto" (`glasswood.set_config`) uses a GPU, if there is one, for many rows. GPUs find up to 64
        neighbours.
        """
        k = self._count(n_neighbors, X is None)
        settled = None if X is None else self._settled(X)
        n = self.n_rows if settled is None else len(settled)
        find = self._finder(n, k, device_of("auto"))
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
            Entries: similarity, 1, or 1 − similarity, which DBSCAN and other estimators of scikit-learn accept with
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
            raise ValueError(f"mode is {quoted(mode)}, expected 'similarity', 'connectivity' or 'distance'")
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
        """Similarity of all pairs of rows, for a small number of rows.

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
        """Distance of rows from all training rows of their class (Breiman and Cutler).

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features), optional
            Default: the training rows.
        y : array-like of shape (n,), optional
            Classes of the rows of X. If the targets are not classes, all rows have the same class.

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
            of_rows = targets_of(ensemble, y, len(self._positions(X)))
        elif X is None and y is not None:
            raise ValueError("y was given without X; the training rows have their own classes")
        return outlier_scores(self._index, None if X is None else self._positions(X), group, of_rows, self._n_jobs)

    def prototypes(self, n_prototypes: int = 1, n_neighbors: int | None = None) -> Prototypes:
        """Typical rows of each class (Breiman and Cutler).

        Parameters
        ----------
        n_prototypes : int
            Number per class. Each further prototype ignores the neighbours of the previous ones.
        n_neighbors : int, optional
            Default: the number of rows of the smallest class, but at most 50. R's ``randomForest::classCenter`` takes
            all rows of the smallest class but one.

        Returns
        -------
        Prototypes
            A named tuple of ``label``, (p,); ``row``, (p,): the training row with the most rows of its class among its
            neighbours; ``n_members``, (p,): the number of these rows; ``median``, ``low``, ``high``, (p, n_features):
            medians and quartiles of their features. For categories, ``median`` is the code of the most frequent one,
            the others are NaN.

        Raises
        ------
        ValueError
            If the model is not a classifier, or y was not given.
        """
        targets = self._given_targets("prototypes")
        if not self._is_classifier:
            raise ValueError("prototypes expects a classifier, this model predicts numbers; call kneighbors")
        smallest = int(np.bincount(targets)[np.unique(targets)].min())
        k = self._count(min(50, max(smallest - 1, 1)) if n_neighbors is None else n_neighbors, True)
        rows = self._nearest(self._index.positions, k, 0)[0]
        codes = are_codes(self.forest.ensemble)
        return prototypes_of(rows, targets, self._labels, self._rows, codes, n_prototypes)

    def impute(self, X: Rows, n_neighbors: int = 10, max_iter: int = 5) -> Array:
        """Fill in missing values from the most similar training rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
            Missing values are NaN.
        n_neighbors : int
        max_iter : int
            Number of rounds; rows that are filled in may reach other leaves. If the forest accepts missing values, the
            first round uses the leaves that it routes them to; otherwise it starts from medians and most frequent
            categories of the training rows.

        Returns
        -------
        ndarray of shape (n, n_features)
            Missing values are weighted means over the neighbours that have a value; for categories, the codes of the
            most frequent ones.
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

    def _nearest(self, positions: Int32s, k: int, first_own: int) -> tuple[Int32s, Int32s]:
        return self._index.nearest(positions, k, first_own, self._n_jobs)

    def _finder(self, n: int, k: int, device: str) -> Callable[[Int32s, int, int], tuple[Int32s, Int32s]]:
        """Choose what finds the k nearest of n rows: `_nearest`, or a GPU, if it is asked for or worth while."""
        work = float(n) * self.n_rows * self.forest.n_trees if k <= MOST_NEAREST else 0.0
        gpus = gpus_worthwhile(device, None, work, WORTHWHILE)[:1]
        if not gpus:
            return self._nearest
        if k > MOST_NEAREST:
            raise ValueError(
                f"n_neighbors is {k}, GPUs find up to {MOST_NEAREST}; set device='cpu' (glasswood.config_context)"
            )
        if gpus[0] not in self._on_gpu:
            self._on_gpu[gpus[0]] = CudaShares(self._index, gpus[0])
        return self._on_gpu[gpus[0]].nearest

    def _count(self, k: int, without_own: bool) -> int:
        most = self.n_rows - without_own
        if not hasattr(k, "__index__") or isinstance(k, bool) or not 1 <= k <= max(most, 1):
            raise ValueError(f"n_neighbors is {quoted(k)}, expected 1 to {max(most, 1)}")
        return int(k)

    @cached_property
    def _on_gpu(self) -> dict[int, CudaShares]:
        """Leaves of the training rows on GPUs, by GPU."""
        return {}
