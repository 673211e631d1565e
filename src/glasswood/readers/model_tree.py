"""glasswood's own estimator: the forest that it has grown."""

from __future__ import annotations

from typing import Any

from glasswood.model.ensemble import TreeEnsemble


def read(model: Any) -> TreeEnsemble:
    """Take the forest of a fitted ModelTreeRegressor.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    trees: TreeEnsemble = model.forest_.ensemble
    return trees
