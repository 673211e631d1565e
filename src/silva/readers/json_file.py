"""Which library a JSON file comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silva.readers import catboost, xgboost
from silva.readers.documents import load_document

if TYPE_CHECKING:
    import os

    from silva.ensemble import TreeEnsemble


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a file of CatBoost or XGBoost.

    Raises
    ------
    ValueError
        If it is truncated, corrupt or no model of theirs.
    NotImplementedError
        If it holds what the library's reader does not support.
    """
    document = load_document(path)
    read_document = catboost.read_document if catboost.is_document(document) else xgboost.read_document
    return read_document(document, str(path))
