"""From a trained model of another library to the arrays of its trees."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from glasswood.base.sources import FILES, FORMATS, MODEL_SUFFIXES, SOURCES
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.contents import kind_of
from glasswood.readers.own_methods import refuse_own_methods

if TYPE_CHECKING:
    from glasswood.readers.curve import Curve

READERS = {name: f"glasswood.readers.{source.module}" for name, source in SOURCES.items()}
"""Modules whose `read` takes a live model of a library."""

UNREAD = {
    "snapml": "its trees are in its compiled library alone, and the PMML that it writes lacks the training weights of "
    "nodes and the columns that no tree asks for"
}
"""Libraries that are told apart only to say why they are not read."""

EXPECTED = (
    "expected a Booster or estimator of "
    + ", ".join(source.title for source in SOURCES.values() if source.has_estimators)
    + ", a treelite.Model, an onnx.ModelProto, a glasswood.Forest, or the path of a "
    + ", ".join(MODEL_SUFFIXES).replace(".zip", ".zip (H2O)")
    + ", .glasswood or binary file of XGBoost, or of a folder of pyspark.ml"
)


def read_model(model: object, curve: Curve | None = None) -> TreeEnsemble:
    """Read a live model; a survival forest with a curve for its outputs, if one is asked for.

    Raises
    ------
    TypeError
        If no reader takes it, or it predicts no curves.
    NotImplementedError
        If the library or a feature of the model is not supported, or its class predicts by methods of its own.
    """
    if isinstance(model, type):
        raise TypeError(
            f"the model is the class {model.__name__}, expected a fitted one; pass {model.__name__}(...).fit(X, y)"
        )
    if (owner := getattr(model, "__self__", None)) is not None and library_of(owner) is not None:
        called = getattr(model, "__name__", "a method")
        raise TypeError(
            f"the model is the method {called} of a {type(owner).__name__}; pass the {type(owner).__name__} itself"
        )
    library = library_of(model)
    if library in UNREAD:
        raise NotImplementedError(
            f"a {type(model).__name__} of {library} is not supported: {UNREAD[library]}; explain "
            "the tree of glasswood.distill(model, X), or train with another library"
        )
    if library is None:
        raise TypeError(f"cannot load a {type(model).__module__}.{type(model).__qualname__}; {EXPECTED}")
    if curve is not None and not SOURCES[library].has_curves:
        raise TypeError(
            f"a {type(model).__name__} does not predict curves over time; {curve.kind}_at is for survival forests of "
            "scikit-survival"
        )
    refuse_own_methods(model, READERS)
    options = {} if curve is None else {"curve": curve}
    trees: TreeEnsemble = importlib.import_module(READERS[library]).read(model, **options)
    return trees


def refuse_own_methods_of(members: Iterable[object]) -> None:
    """Raise NotImplementedError if a member that is read by its arrays predicts by methods of its own."""
    seen: set[type] = set()
    for member in members:
        if type(member) not in seen:
            seen.add(type(member))
            refuse_own_methods(member, READERS)


def library_of(model: object) -> str | None:
    """Name the library that a live model comes from, by the modules of its class and base classes."""
    for base in type(model).__mro__:
        library = base.__module__.partition(".")[0]
        if library in READERS or library in UNREAD:
            return library
    return None


def read_file(path: Path, library: str | None = None) -> TreeEnsemble:
    """Read a file of the library named or, without a name, of the one that its suffix or first bytes tell.

    Raises
    ------
    ValueError
        If neither its suffix nor its first bytes tell the format, or the file is truncated or corrupt.
    """
    suffix = suffix_of(path, library)
    if suffix not in FILES:
        raise ValueError(
            f"cannot tell from its suffix {path.suffix!r} or its first bytes what {path} holds; {EXPECTED}"
        )
    trees: TreeEnsemble = importlib.import_module(FILES[suffix]).read_file(path)
    return trees


def suffix_of(path: Path, library: str | None = None) -> str:
    """Tell a file's format by its first bytes or, where they say nothing, its suffix or the library named.

    Returns
    -------
    str
        One of `FILES`, ".glasswood", or "" if it is none of them.

    Raises
    ------
    ValueError
        If it is no regular file, empty, or a file of something else.
    """
    suffix = path.suffix.lower()
    return kind_of(path, FORMATS[library] if library else suffix if suffix in {*FILES, ".glasswood"} else "")
