"""Which library a JSON file comes from."""

from __future__ import annotations

import os

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers import catboost, lightgbm, xgboost
from glasswood.readers.documents import load_document
from glasswood.readers.lightgbm.dump import is_dump


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a file of CatBoost or XGBoost, or a complete dump of LightGBM.

    Raises
    ------
    ValueError
        If it is truncated, corrupt or no model of theirs.
    NotImplementedError
        If it holds what the library's reader does not support.
    """
    document = load_document(path)
    if isinstance(document, list) and document and isinstance(document[0], dict) and "nodeid" in document[0]:
        raise ValueError(f"{path} is a dump of XGBoost, for people to read; write the model by save_model instead")
    if isinstance(document, dict) and is_dump(document):
        return lightgbm.read_dump(document, str(path))
    read_document = catboost.read_document if catboost.is_document(document) else xgboost.read_document
    return read_document(document, str(path))
