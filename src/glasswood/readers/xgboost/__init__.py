"""XGBoost models, from the documents that XGBoost 1.0 to 3.4 writes (JSON, UBJSON), and binary files of 0.80 to 3.0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.documents import load_document
from glasswood.readers.ubjson import decode
from glasswood.readers.xgboost.binary import START, document_of, is_binary
from glasswood.readers.xgboost.document import DocumentReader

if TYPE_CHECKING:
    from xgboost import Booster, XGBModel


def read(model: Booster | XGBModel) -> TreeEnsemble:
    """Read a live model.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
        A Booster predicts with all its rounds; an estimator as itself: up to ``best_iteration``, with its ``missing``,
        labels for classifiers.

    Raises
    ------
    TypeError
        If it is another object of XGBoost.
    ValueError
        If the Booster is not trained.
    NotImplementedError
        If the model is not a tree ensemble (gblinear), or its objective is unknown.
    """
    import xgboost

    if isinstance(model, xgboost.Booster):
        return read_document(_document(model), "the Booster")
    if not isinstance(model, xgboost.XGBModel):
        raise TypeError(f"cannot read a {type(model).__name__} of XGBoost, expected a Booster or an estimator")
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    n_rounds = None if best is None else int(best) + 1
    return read_document(_document(booster), f"the {type(model).__name__}", n_rounds, estimator=model)


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a file written by ``save_model``; it predicts as the Booster does, with all rounds.

    Parameters
    ----------
    path : path
        JSON, UBJSON or the binary format, whatever its suffix.

    Raises
    ------
    ValueError
        If the file is truncated, corrupt or no model of XGBoost.
    NotImplementedError
        As in `read`.
    """
    if not is_binary((data := Path(path).read_bytes())[:START]):
        return read_document(load_document(path), str(path))
    try:
        document = document_of(data)
    except ValueError as error:
        raise ValueError(f"{path} holds no valid XGBoost model: {error}; save it again") from error
    return read_document(document, str(path))


def predict(model: Booster | XGBModel, X: Any) -> Any:
    """Predict with the live model itself, arrays with the names and types of its features.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
    X : array-like of shape (n_rows, n_features)
    """
    import xgboost

    if not isinstance(model, xgboost.Booster):
        return model.predict(X)
    names = (
        {} if hasattr(X, "columns") else {"feature_names": model.feature_names, "feature_types": model.feature_types}
    )
    return model.predict(xgboost.DMatrix(X, enable_categorical=True, **names))


def _document(booster: Booster) -> Any:
    """Let the Booster describe itself."""
    try:
        return decode(bytes(booster.save_raw("ubj")))
    except ValueError as error:
        raise ValueError(f"the Booster cannot be saved ({error}); train it first") from error


def read_document(document: object, where: str, n_rounds: int | None = None, estimator: object = None) -> TreeEnsemble:
    """Build a forest, with the source of the document in every message."""
    try:
        return DocumentReader(document, n_rounds).forest(estimator)
    except ValueError as error:
        raise ValueError(f"{where} holds no valid XGBoost model: {error}; save it again") from error
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from error
