"""silva's own estimator: the forest that it has grown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from silva.forest import Forest
    from silva.grow import ModelTreeRegressor


def read(model: ModelTreeRegressor) -> Forest:
    """Take the forest of a fitted ModelTreeRegressor.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return model.forest_
