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
    """

    title: str
    module: str
    files: Mapping[str, str] = NOTHING
    starts: tuple[bytes, ...] = ()
    categories: Literal["value", "code"] | None = None
    has_estimators: bool = True
    has_curves: bool = False


BINARY = "binf"
"""Kind of XGBoost's binary files, which have any suffix."""

OWN = ".glasswood"

XGBOOST = {".json": "json_file", ".ubj": "xgboost", BINARY: "xgboost"}
CATBOOST = {".cbm": "catboost", ".json": "json_file"}

SOURCES = {
    "xgboost": Source("XGBoost", "xgboost", XGBOOST, categories="code"),
    "lightgbm": Source("LightGBM", "lightgbm", {".txt": "lightgbm"}, (b"tree\n", b"tree\r\n"), categories="code"),
    "catboost": Source("CatBoost", "catboost", CATBOOST, (b"CBM1",), categories="value"),
    "onnx": Source("ONNX", "onnx", {".onnx": "onnx"}, categories="value", has_estimators=False),
    "treelite": Source("treelite", "treelite", has_estimators=False),
    "glasswood": Source("glasswood", "model_tree"),
    "sklearn": Source("scikit-learn", "sklearn", categories="value", has_curves=True),
    "sksurv": Source("scikit-survival", "sksurv", has_curves=True),
    "quantile_forest": Source("quantile-forest", "quantile_forest"),
    "ngboost": Source("NGBoost", "ngboost"),
    "econml": Source("econml", "econml"),
    "causalml": Source("causalml", "causalml"),
    "imodels": Source("imodels", "imodels"),
    "lineartree": Source("linear-tree", "lineartree"),
    "ydf": Source("YDF", "ydf", categories="value"),
    "pyspark": Source("Spark", "spark", categories="value", has_estimators=False),
    "h2o": Source("H2O", "h2o", {".zip": "h2o"}, (b"PK\x03\x04",), has_estimators=False),
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
