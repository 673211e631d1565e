"""What a file holds, by its first bytes: a suffix may lie, or say nothing."""

from __future__ import annotations

import stat
from pathlib import Path

from glasswood.base.sources import BINARY, STARTS
from glasswood.readers.ubjson import is_ubjson
from glasswood.readers.xgboost.binary import START, is_binary

ONNX = b"\x08"
"""First byte of an ONNX model; other files begin with it, too."""

OTHERS = (
    (b"\x1f\x8b", "compressed by gzip, as R's saveRDS and joblib do; unpack it, or load it with what wrote it"),
    (b"BZh", "compressed by bzip2; unpack it"),
    (b"\xfd7zXZ", "compressed by xz; unpack it"),
    (b"x\x9c", "compressed by zlib, as joblib does; load it by joblib.load, and pass the model to glasswood.load"),
    (b"\x89HDF", "an HDF5 file; load the model with the library that wrote it"),
    (b"PAR1", "a Parquet file; of a model of Spark pass the folder above its folders data and metadata"),
    (b"\x93NUMPY", "an array of NumPy"),
    (b"ARROW1", "an Arrow file"),
    (b"bs64", "XGBoost's base64 format of before 0.4; load it with that version, and save it again"),
    (b"CONFIG-offset:", "a snapshot of a Booster as its pickle holds it; load the pickle, and save it by save_model"),
    (b"booster[", "a dump of XGBoost, for people to read; write the model by save_model instead"),
    (b"version https://git-lfs", "a pointer to a file of Git LFS; get the file by git lfs pull"),
    (b"<!DOCTYPE", "a web page; download the file itself"),
    (b"<html", "a web page; download the file itself"),
    (b"<?xml", "XML, PMML perhaps; save the model in its library's own format"),
    (b"<PMML", "PMML; save the model in its library's own format"),
    (b"# -*-", "source code"),
)
"""First bytes of files that hold no model that is read, and what they are."""


FOLDERS = {
    "saved_model.pb": "a folder of TensorFlow; load a model of TF-DF by ydf.from_tensorflow_decision_forests(path), "
    "and pass the model",
    "data_spec.pb": "a folder of YDF; load it by ydf.load_model(path), and pass the model",
    "MLmodel": "a folder of MLflow; load it by glasswood.mlflow or by the flavour that wrote it, and pass the model",
}
"""Files by which folders of others are told, and what these are."""


def kind_of(path: Path, suffix: str) -> str:
    """Tell what a file holds by its first bytes and, where they say nothing, its suffix.

    Returns
    -------
    str
        A key of `glasswood.base.sources.FILES`, ".glasswood", or, if nothing is told, `suffix`.

    Raises
    ------
    ValueError
        If it is no regular file, empty, or a file of something else.
    """
    if (mode := path.stat().st_mode) and not stat.S_ISREG(mode):
        raise ValueError(f"{path} is {_named(mode)}, expected a file; write the model into one, and pass its path")
    with path.open("rb") as file:
        start = file.read(START)
    if not start:
        raise ValueError(f"{path} is empty, expected a model; save it again")
    if is_binary(start):
        return BINARY
    found = next((kind for first, kind in STARTS if start.startswith(first)), "")
    if found:
        return found
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        return ".ubj" if is_ubjson(start) else ".json"
    if is_pickle(start) or path.suffix.lower() in {".pkl", ".pickle", ".joblib"}:
        raise ValueError(
            f"{path} is a pickle, which glasswood does not open: it may run any code; load it by joblib.load or "
            "pickle.load, and pass the model to glasswood.load, whose forest.save writes a .glasswood file"
        )
    if told := next((what for first, what in OTHERS if start.startswith(first)), ""):
        raise ValueError(f"{path} is {told}")
    return suffix if suffix or not start.startswith(ONNX) else ".onnx"


def is_pickle(start: bytes) -> bool:
    """Whether a file is a pickle of protocol 2 or later, by its first bytes."""
    return len(start) > 1 and start[0] == 0x80 and 2 <= start[1] <= 5


def folder_of(path: Path) -> str:
    """Say what a folder is that is none of Spark's, and what to pass."""
    for name, what in FOLDERS.items():
        if (path / name).exists():
            return what
    return "a folder, expected a model file; pass the path of a file in it, or the folder that pyspark.ml has saved"


def _named(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"))
    return next((name for test, name in kinds if test(mode)), "a device")
