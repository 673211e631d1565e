"""From a trained model of another library to a Forest."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silva.forest import Forest

READERS = {
    "xgboost": "silva.readers.xgboost",
    "lightgbm": "silva.readers.lightgbm",
    "silva": "silva.readers.model_tree",
    "sklearn": "silva.readers.sklearn",
}
"""Modules whose `read` takes a live model of a library."""

PENDING = {
    "catboost": "CatBoost models are not read yet; train with XGBoost, LightGBM or scikit-learn",
    "treelite": "treelite models are not read yet; load the model that treelite was given instead",
}

FILES = {
    ".json": "silva.readers.xgboost",
    ".ubj": "silva.readers.xgboost",
    ".txt": "silva.readers.lightgbm",
}
"""Modules whose `read_file` takes a path with the suffix."""

EXPECTED = (
    "expected a Booster or estimator of XGBoost or LightGBM, a tree ensemble of scikit-learn, a silva.Forest, "
    "or the path of a .json, .ubj, .txt or .silva file"
)


def load(model: Any, check: Any = None) -> Forest:
    """Read a trained model of any supported library.

    Parameters
    ----------
    model : object or path
        An ``xgboost.Booster`` or ``lightgbm.Booster``, a fitted estimator of XGBoost, LightGBM or scikit-learn, a
        `ModelTreeRegressor`, a `Forest`, or the path of a model file: ``.json`` and ``.ubj`` (XGBoost), ``.txt``
        (LightGBM), ``.silva``.
        A Booster or a file predicts as the Booster does, with all its rounds; an estimator as itself: labels of a
        classifier, up to its best iteration.
    check : array-like of shape (n_rows, n_features), optional
        Rows on which the forest must predict what the live model predicts.

    Returns
    -------
    Forest

    Raises
    ------
    TypeError
        If `model` is nothing that is read.
    ValueError
        If the model is not trained, or a file is truncated or corrupt, or predictions differ on `check`.
    NotImplementedError
        If the library or a feature of the model is not supported yet; the message names it.

    Examples
    --------
    >>> forest = silva.load("model.json")  # doctest: +SKIP
    """
    forest = _read(model)
    if check is not None:
        from silva.readers.check import check_predictions

        check_predictions(forest, model, check)
    return forest


def _read(model: Any) -> Forest:
    from silva.forest import Forest

    if isinstance(model, Forest):
        return model
    if isinstance(model, str | os.PathLike):
        return _read_file(Path(model))
    library = library_of(model)
    if library in PENDING:
        raise NotImplementedError(PENDING[library])
    if library is None:
        raise TypeError(f"cannot load a {type(model).__module__}.{type(model).__qualname__}; {EXPECTED}")
    forest: Forest = importlib.import_module(READERS[library]).read(model)
    return forest


def library_of(model: Any) -> str | None:
    """Name the library that a live model comes from, by the modules of its class and base classes."""
    for base in type(model).__mro__:
        library = base.__module__.partition(".")[0]
        if library in READERS or library in PENDING:
            return library
    return None


def _read_file(path: Path) -> Forest:
    suffix = path.suffix.lower()
    if suffix == ".silva":
        from silva.storage import load_forest

        return load_forest(path)
    if suffix == ".cbm":
        raise NotImplementedError(f"{path}: {PENDING['catboost']}")
    if suffix not in FILES:
        raise ValueError(f"cannot tell from the suffix {path.suffix!r} what {path} holds; {EXPECTED}")
    forest: Forest = importlib.import_module(FILES[suffix]).read_file(path)
    return forest
