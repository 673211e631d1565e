"""The libraries whose models are read, one line each: whatever lists libraries or their files is made of this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

NOTHING: Mapping[str, str] = MappingProxyType({})


class Source(NamedTuple):
    """A library of models.

    Parameters
    ----------
    title : str
        As people write it. `TreeEnsemble.source` begins with it, in any case, where `categories` is given.
    module : str
        Module of `glasswood.readers` whose `read` takes live models.
    files : mapping of str to str
        Modules whose `read_file` takes the path of a file, by suffix. The first suffix is that of ``format=``.
    starts : tuple of bytes
        First bytes of files of the first suffix.
    categories : {"value", "code"}, optional
        Arrays of numbers hold the values of categories; or columns of categories without a table, their codes.
    has_estimators : bool
        Live estimators are read; else files alone, or an object that errors name otherwise.
    has_curves : bool
        Models may predict curves over time.
    has_same_predict : bool
        The library's `predict` returns what the forest predicts. If it does not (medians, effects), the reader has a
        function ``predict(model, X)``, with which `glasswood.load` compares, and means of such models are refused.
    absent_is_missing : bool
        An entry that sparse rows do not store is missing; else it is 0.
    is_asked : bool
        `glasswood.load` asks a live model for its predictions. Not glasswood's own, nor those that predict in Java.
    """

    title: str
    module: str
    files: Mapping[str, str] = NOTHING
    starts: tuple[bytes, ...] = ()
    categories: Literal["value", "code"] | None = None
    has_estimators: bool = True
    has_curves: bool = False
    has_same_predict: bool = True
    absent_is_missing: bool = False
    is_asked: bool = True


BINARY = "binf"
"""Kind of XGBoost's binary files, which have any suffix."""

OWN = ".glasswood"

XGBOOST = {".json": "json_file", ".ubj": "xgboost", BINARY: "xgboost"}
CATBOOST = {".cbm": "catboost", ".json": "json_file"}

SOURCES = {
    "xgboost": Source("XGBoost", "xgboost", XGBOOST, categories="code", absent_is_missing=True),
    "lightgbm": Source("LightGBM", "lightgbm", {".txt": "lightgbm"}, (b"tree\n", b"tree\r\n"), categories="code"),
    "catboost": Source("CatBoost", "catboost", CATBOOST, (b"CBM1",), categories="value"),
    "onnx": Source("ONNX", "onnx", {".onnx": "onnx"}, categories="value", has_estimators=False),
    "treelite": Source("treelite", "treelite", has_estimators=False, absent_is_missing=True),
    "glasswood": Source("glasswood", "model_tree", is_asked=False),
    "sklearn": Source("scikit-learn", "sklearn", categories="value", has_curves=True),
    "sksurv": Source("scikit-survival", "sksurv", has_curves=True),
    "quantile_forest": Source("quantile-forest", "quantile_forest", has_same_predict=False),
    "ngboost": Source("NGBoost", "ngboost", has_same_predict=False),
    "econml": Source("econml", "econml", has_same_predict=False),
    "causalml": Source("causalml", "causalml", has_same_predict=False),
    "imodels": Source("imodels", "imodels"),
    "lineartree": Source("linear-tree", "lineartree"),
    "ydf": Source("YDF", "ydf", categories="value"),
    "pyspark": Source("Spark", "spark", categories="value", has_estimators=False, is_asked=False),
    "h2o": Source("H2O", "h2o", {".zip": "h2o"}, (b"PK\x03\x04",), has_estimators=False, is_asked=False),
}
"""By the package of a live model's class. `ModelFormat` (base/typing.py) repeats those with files for type checkers."""

FORMATS = {name: next(iter(source.files)) for name, source in SOURCES.items() if source.files} | {"glasswood": OWN}
"""Libraries whose files are read, and a suffix of them; XGBoost's and CatBoost's are told apart by what they hold."""

FILES = {suffix: f"glasswood.readers.{module}" for of in SOURCES.values() for suffix, module in of.files.items()}
"""Modules whose `read_file` takes a path of a file, by what its first bytes or else its suffix tell."""

MODEL_SUFFIXES = tuple(suffix for suffix in FILES if suffix.startswith("."))
"""Suffixes of other libraries' model files, by which `glasswood.load` chooses a reader."""

STARTS = ((b"\x93GLASS", OWN), *((start, FORMATS[name]) for name, of in SOURCES.items() for start in of.starts))
"""First bytes of files of models, and the suffix that stands for each."""

BY_VALUE = tuple(of.title.lower() for of in SOURCES.values() if of.categories == "value")
"""Libraries that expect the values of categories in arrays; others, their codes."""

BY_CODE = tuple(of.title.lower() for of in SOURCES.values() if of.categories == "code")
"""Libraries that read the codes of a column of categories where they have no table for it."""

ABSENT_IS_MISSING = tuple(of.title.lower() for of in SOURCES.values() if of.absent_is_missing)
"""Libraries for which an entry that is not stored is missing; for others it is 0."""

OTHER_PREDICTIONS = tuple(of.title for of in SOURCES.values() if not of.has_same_predict)
"""Libraries whose `predict` is not what their forests here predict: medians, means of a distribution, effects."""
