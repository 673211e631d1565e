"""Which library a JSON file comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glasswood.readers import catboost, xgboost
from glasswood.readers.documents import load_document

if TYPE_CHECKING:
    import os

    from glasswood.model.ensemble import TreeEnsemble


def _dumped_by(document: object) -> str:
    """Name the library whose `dump_model` wrote this, "" if it is none."""
    if isinstance(document, list) and document and isinstance(document[0], dict) and "nodeid" in document[0]:
        return "XGBoost"
    return "LightGBM" if isinstance(document, dict) and "tree_info" in document else ""


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
    if library := _dumped_by(document):
        raise ValueError(f"{path} is a dump of {library}, for people to read; write the model by save_model instead")
    read_document = catboost.read_document if catboost.is_document(document) else xgboost.read_document
    return read_document(document, str(path))
