"""A forest against the live model that it was read from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from silva.forest import Forest

TOLERANCE = 1e-5
"""Of numbers, relative to the largest; libraries add hundreds of trees in float32."""


def check_predictions(forest: Forest, model: Any, X: Any) -> None:
    """Compare default predictions.

    Parameters
    ----------
    forest : Forest
    model : object
        What the forest was read from.
    X : array-like of shape (n_rows, n_features)

    Raises
    ------
    ValueError
        If predictions differ, or `model` cannot predict.
    """
    expected, found = np.asarray(_source_predictions(model, X)), np.asarray(forest.predict(X))
    if expected.shape != found.shape:
        raise ValueError(f"the model predicts shape {expected.shape} for the rows of check, silva {found.shape}")
    differs = _differs(expected, found).reshape(len(expected), -1).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"silva and the model disagree on {differs.sum()} of {len(differs)} rows of check; first on row {row}: "
            f"{found[row]} instead of {expected[row]}; do not use this forest, and report the model"
        )


def _source_predictions(model: Any, X: Any) -> Any:
    from silva.readers import READERS, library_of

    library = library_of(model)
    if library not in READERS:
        raise ValueError(f"check needs a live model that can predict, a {type(model).__name__} cannot; load that")
    reader = importlib.import_module(READERS[library])
    predict = getattr(reader, "predict", None) or type(model).predict
    return predict(model, X)


def _differs(expected: Any, found: Any) -> Any:
    if expected.dtype.kind != "f":
        return expected != found
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return ~np.isclose(found, expected, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
