"""From a trained model of another library to the arrays of its trees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from silva.ensemble import TreeEnsemble

READERS = {
    "xgboost": "silva.readers.xgboost",
    "lightgbm": "silva.readers.lightgbm",
    "catboost": "silva.readers.catboost",
    "onnx": "silva.readers.onnx",
    "treelite": "silva.readers.treelite",
    "silva": "silva.readers.model_tree",
    "sklearn": "silva.readers.sklearn",
}
"""Modules whose `read` takes a live model of a library."""

FILES = {
    ".json": "silva.readers.json_file",
    ".ubj": "silva.readers.xgboost",
    ".cbm": "silva.readers.catboost",
    ".txt": "silva.readers.lightgbm",
    ".onnx": "silva.readers.onnx",
}
"""Modules whose `read_file` takes a path with the suffix."""

EXPECTED = (
    "expected a Booster or estimator of XGBoost or LightGBM, a CatBoost model, a tree ensemble of scikit-learn, "
    "a treelite.Model, an onnx.ModelProto, a silva.Forest, or the path of a .json, .ubj, .txt, .cbm, .onnx or .silva "
    "file"
)


def read_model(model: object) -> TreeEnsemble:
    """Read a live model.

    Raises
    ------
    TypeError
        If no reader takes it.
    """
    library = library_of(model)
    if library is None:
        raise TypeError(f"cannot load a {type(model).__module__}.{type(model).__qualname__}; {EXPECTED}")
    trees: TreeEnsemble = importlib.import_module(READERS[library]).read(model)
    return trees


def library_of(model: object) -> str | None:
    """Name the library that a live model comes from, by the modules of its class and base classes."""
    for base in type(model).__mro__:
        library = base.__module__.partition(".")[0]
        if library in READERS:
            return library
    return None


def read_file(path: Path) -> TreeEnsemble:
    """Read another library's file.

    Raises
    ------
    ValueError
        If the suffix tells no library, or the file is truncated or corrupt.
    """
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise ValueError(f"cannot tell from the suffix {path.suffix!r} what {path} holds; {EXPECTED}")
    trees: TreeEnsemble = importlib.import_module(FILES[suffix]).read_file(path)
    return trees
