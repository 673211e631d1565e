"""Files whose suffix lies, and files of something else: the first bytes decide, and messages say what a file is."""

from __future__ import annotations

import os
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest

import glasswood
from glasswood.readers.contents import OTHERS

DATA = Path(__file__).parent / "data"
MODELS = {
    "catboost": DATA / "catboost-1.2.10-classes.cbm",
    "CatBoost": DATA / "catboost-1.2.10-depthwise.json",
    "xgboost": DATA / "xgboost-3.2.0-logistic.json",
    "Xgboost": DATA / "xgboost-3.2.0-softprob.ubj",
    "xGboost": DATA / "versions" / "xgboost-0.90-logistic.model",
    "LightGBM": DATA / "versions" / "lightgbm-4.0.0-binary.txt",
    "LIGHTGBM": DATA / "versions" / "lightgbm-3.3.5-binary.json",
    "H2O": DATA / "h2o-3.46.0.7-logistic.zip",
}


@pytest.mark.parametrize(
    "suffix", [".json", ".ubj", ".txt", ".cbm", ".onnx", ".zip", ".model", ".glasswood", ".pt", ""]
)
@pytest.mark.parametrize("library", MODELS)
def test_the_first_bytes_decide(tmp_path, library, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(MODELS[library].read_bytes())
    forest = glasswood.load(path)
    assert forest.source.lower().startswith(library.lower())
    np.testing.assert_array_equal(forest.ensemble.leaf_value, glasswood.load(MODELS[library]).ensemble.leaf_value)


@pytest.mark.parametrize(("start", "what"), OTHERS)
def test_messages_say_what_a_file_is(tmp_path, start, what):
    for name in ("model.json", "model.bin", "model.txt", "model.rds"):
        (tmp_path / name).write_bytes(start + b"\1" * 500)
        with pytest.raises(ValueError, match="is " + what.partition(",")[0].partition(";")[0]) as caught:
            glasswood.load(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_pickles_are_told_under_every_name(tmp_path):
    for name in ("model.json", "model.cbm", "model.txt", "model"):
        (tmp_path / name).write_bytes(b"\x80\x04\x95pickled")
        with pytest.raises(ValueError, match=r"is a pickle, which glasswood does not open.*joblib\.load"):
            glasswood.load(tmp_path / name)


def test_archives_of_others(tmp_path):
    with zipfile.ZipFile(tmp_path / "MLModel.zip", "w") as archive:
        archive.writestr("TrainingInfo/Version.txt", "3.0")
    with pytest.raises(ValueError, match=r"MLModel\.zip is an archive that holds TrainingInfo/Version\.txt"):
        glasswood.load(tmp_path / "MLModel.zip")
    with zipfile.ZipFile(tmp_path / "model.json", "w") as archive:
        archive.writestr("data.pkl", b"")
    with pytest.raises(ValueError, match=r"model\.json is an archive"):
        glasswood.load(tmp_path / "model.json")


def test_empty_files(tmp_path):
    (tmp_path / "model.json").write_bytes(b"")
    with pytest.raises(ValueError, match=r"model\.json is empty, expected a model"):
        glasswood.load(tmp_path / "model.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="of POSIX")
def test_what_is_no_file(tmp_path):
    """A pipe would be waited for, a device might never end."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    (tmp_path / "nothing.json").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s.json"))
    for name, what in {"pipe": "a pipe", "zeros": "a device", "nothing": "a device", "s": "a socket"}.items():
        with pytest.raises(ValueError, match=f"{name}.json is {what}, expected a file"):
            glasswood.load(tmp_path / f"{name}.json")
