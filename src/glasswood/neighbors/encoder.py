"""Leaves as features: a transformer of scikit-learn's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from glasswood.base.device import on_host
from glasswood.base.typing import Array, Rows
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.inputs import arranged, as_rows
from glasswood.loading import load

if TYPE_CHECKING:
    from glasswood.forest import Forest


class LeafEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode rows by the leaves that they reach: one column for each leaf, with a 1 for one leaf of each tree.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
        `fit` does not change a fitted model. If an estimator is not fitted, it trains a clone.
    sparse_output : bool
        Return a sparse matrix.
    n_jobs : int, optional
        Number of threads; -1 for all. None is that of `glasswood.set_config`.

    Attributes
    ----------
    forest_ : Forest
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the forest has names.

    Examples
    --------
    >>> make_pipeline(glasswood.LeafEncoder(booster), LogisticRegression()).fit(X, y)  # doctest: +SKIP
    """

    def __init__(self, model: object, *, sparse_output: bool = True, n_jobs: int | None = None) -> None:
        self.model = model
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs

    def fit(self, X: Rows, y: ArrayLike | None = None) -> LeafEncoder:
        """Read the model, or train a clone of it.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        y : array-like of shape (n,), optional

        Returns
        -------
        LeafEncoder
            Itself.
        """
        model: Any = self.model
        try:
            self.forest_: Forest = load(model)
        except NotFittedError:
            self.forest_ = load(clone(model).fit(X, y))
        self.n_features_in_: int = self.forest_.n_features
        if self.forest_.feature_names is not None:
            self.feature_names_in_: Array = np.array(self.forest_.feature_names, object)
        return self

    def transform(self, X: Rows) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix or ndarray of float64, (n, n_leaves)
        """
        check_is_fitted(self)
        ensemble = self.forest_.ensemble
        rows = as_rows(arranged(on_host(X), ensemble), ensemble)
        positions = evaluator_of(ensemble).positions(rows, self.n_jobs)
        if not self.sparse_output:
            dense = np.zeros((len(positions), ensemble.n_leaves))
            dense[np.arange(len(positions))[:, None], positions] = 1.0
            return dense
        from scipy.sparse import csr_matrix

        starts = np.arange(len(positions) + 1, dtype=np.int64) * ensemble.n_trees
        shape = len(positions), ensemble.n_leaves
        return csr_matrix((np.ones(positions.size), positions.reshape(-1), starts), shape=shape)

    def get_feature_names_out(self, input_features: Any = None) -> Array:  # noqa: ARG002
        """Names of the columns, such as ``tree0_leaf3``, with the source's ids of leaves.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        ensemble = self.forest_.ensemble
        tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.leaf_offsets))
        names = [f"tree{t}_leaf{leaf}" for t, leaf in zip(tree, ensemble.leaf_id.tolist(), strict=True)]
        return np.array(names, object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags
