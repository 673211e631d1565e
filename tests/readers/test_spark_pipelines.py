"""Pipelines and searches of Spark 3.0 to 4.3 take the frame of their first stage, and predict as that Spark has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.readers import spark_models

import glasswood

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
FILES = sorted((Path(__file__).parent / "data" / "versions").glob("spark-*.spark"))
HOT = next(path for path in FILES if path.stem.endswith("hot"))


def unpacked(path, tmp_path):
    return spark_models.unpack(path.read_bytes(), tmp_path / "model")


def frames(path):
    """What Spark was given, in another order of columns, and what it said."""
    told = json.loads(Path(f"{path}.told.json").read_text())
    frame = pandas.DataFrame(told["rows"], columns=told["columns"])
    return frame[sorted(frame, reverse=True)], told


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pipelines_predict_as_their_spark_has(path, tmp_path):
    forest = glasswood.load(unpacked(path, tmp_path))
    frame, told = frames(path)
    frame = frame[[name for name in frame if name in forest.feature_names]]
    found = forest.predict(frame)
    if isinstance(told["predictions"][0], str):
        assert found.tolist() == told["predictions"]
        np.testing.assert_allclose(forest.predict(frame, "probability"), told["probabilities"], atol=1e-12)
    else:
        np.testing.assert_allclose(found, told["predictions"], atol=1e-12)
    if "others" in told:
        others = pandas.DataFrame(told["others"], columns=told["columns"])
        np.testing.assert_allclose(forest.predict(others[[*forest.feature_names]]), told["of_others"], atol=1e-12)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_stage_refuses_is_refused(path, tmp_path):
    forest = glasswood.load(unpacked(path, tmp_path))
    frame = frames(path)[0][[*forest.feature_names]]
    for value in ("nowhere", None):
        with pytest.raises(
            ValueError, match=r"row 0, column \d \(city\), or has a category there that was not in training"
        ):
            forest.predict(frame.assign(city=[value, *frame["city"].tolist()[1:]]))
    keeps = path.stem.endswith("labels")  # its assembler keeps missing numbers
    numbers = frame.assign(a=[np.nan, *frame["a"].tolist()[1:]])
    if keeps:
        forest.predict(numbers)
    else:
        with pytest.raises(ValueError, match=r"row 0, column \d \(a\)"):
            forest.predict(numbers)


def test_values_are_those_of_columns(tmp_path):
    """One-hot entries are one column: Shapley values by definition, from predictions of Spark's own semantics."""
    forest = glasswood.load(unpacked(HOT, tmp_path))
    frame = frames(HOT)[0][[*forest.feature_names]]
    explanation = glasswood.Explainer(forest, frame[:20], dtype="float64")(frame[20:30])
    assert explanation.values.shape == (10, 5)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, forest.predict(frame[20:30]), atol=1e-9)
    alone = forest.predict(frame[20:30])
    absent = [  # the value of a column that no split depends on given the others is 0 where changing it changes nothing
        forest.predict(frame[20:30].assign(city=city)) for city in ("x y", "b", "zz", "d")
    ]
    still = np.all([np.abs(one - alone) < 1e-12 for one in absent], axis=0)
    assert still.sum() < 10


def test_they_are_saved(tmp_path):
    forest = glasswood.load(unpacked(HOT, tmp_path))
    forest.save(tmp_path / "forest.glasswood")
    again, frame = glasswood.load(tmp_path / "forest.glasswood"), frames(HOT)[0][[*forest.feature_names]]
    np.testing.assert_array_equal(again.predict(frame), forest.predict(frame))
    np.testing.assert_array_equal(again.ensemble.nan_allowed_in, [False, False, True, True, False])


def stage(folder, kind):
    return next(path for path in folder.glob("stages/*") if kind in path.name)


def document(folder, change):
    [path] = (folder / "metadata").glob("part-*")
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))


REFUSED = {
    "another stage": (
        "Imputer",
        lambda about: about.update({"class": "org.apache.spark.ml.feature.PCAModel"}),
        "PCAModel",
    ),
    "a marker": ("Imputer", lambda about: about["paramMap"].update(missingValue=-1.0), "an Imputer of -1.0 in place"),
    "two stages": (
        "OneHot",
        lambda about: about["paramMap"].update(inputCols=["a", "kind_at"]),
        "city|two lists|as a number and as a category|load",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_stages_that_are_refused(tmp_path, name):
    folder = unpacked(HOT, tmp_path)
    kind, change, message = REFUSED[name]
    document(stage(folder, kind), change)
    with pytest.raises((NotImplementedError, ValueError), match=message) as caught:
        glasswood.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="of POSIX")
def test_pipes_and_devices_in_folders_are_skipped(tmp_path):
    """One that opens a pipe waits until somebody writes."""
    folder = unpacked(HOT, tmp_path)
    trees = stage(folder, "RandomForest")
    os.mkfifo(folder / "metadata" / "part-00000-a")
    os.mkfifo(trees / "data" / "part-00000-a.parquet")
    (trees / "data" / "part-00000-b.parquet").symlink_to("/dev/zero")
    assert glasswood.load(folder).n_trees == 3


def test_the_command_line_takes_folders(tmp_path):
    folder = unpacked(HOT, tmp_path)
    frame = frames(HOT)[0]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    code = "from glasswood.cli import main; import sys; sys.exit(main(sys.argv[1:]))"

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
        )

    told = run("info", folder)
    assert told.returncode == 0, told.stderr
    assert "Spark" in told.stdout
    done = run("predict", folder, tmp_path / "rows.csv", "-o", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
