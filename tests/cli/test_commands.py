"""The commands that describe, show and measure."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost

import glasswood
from tests.cli.files import N_ROWS, NAMES, column, command, read, run, stack


class TestInfo:
    def test_facts(self, files, capsys):
        assert run("info", files / "classifier.json") == 0
        facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        forest = glasswood.load(files / "classifier.json")
        assert facts["source"].startswith("xgboost")
        assert facts["objective"] == "multi:softprob"
        assert facts["trees"] == "18"
        assert facts["leaves"] == f"{forest.n_leaves}"
        assert facts["depth"] == "4"
        assert facts["features"] == "4 (a, b, c, d)"
        assert facts["outputs"].startswith("3")
        assert facts["memory"].endswith("KiB")

    def test_glasswood_files(self, files, capsys, tmp_path):
        glasswood.load(files / "regressor.json").save(tmp_path / "model.glasswood")
        assert run("info", tmp_path / "model.glasswood") == 0
        saved = capsys.readouterr().out
        run("info", files / "regressor.json")
        assert saved == capsys.readouterr().out

    def test_explainers_say_that_they_are(self, files, capsys, tmp_path, data):
        glasswood.Explainer(files / "regressor.json", background=data.iloc[[*range(50), 0, 1]]).save(
            tmp_path / "explainer.glasswood"
        )
        assert run("info", tmp_path / "explainer.glasswood") == 0
        facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        found = re.search(r"background=<(\d+) rows>", facts["explainer"])
        assert 40 < int(found[1]) <= 50  # rows that agree in all splits count as one, and the copies do
        run("info", files / "regressor.json")
        assert "explainer" not in capsys.readouterr().out

    def test_a_reader_that_leaves_early(self, files):
        process = subprocess.Popen(
            command("info", files / "regressor.json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 1


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output and folder of `glasswood demo`, as `make demo` runs it."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = subprocess.run(command("demo", "--out", folder), capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout, folder


def test_a_file_in_the_place_of_the_folder_of_the_demo(tmp_path, capsys):
    (tmp_path / "out").write_text("precious")
    assert run("demo", "--out", tmp_path / "out") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"glasswood: {tmp_path / 'out'}: File exists\n"


@pytest.mark.slow
class TestDemo:
    """What `make demo` runs, in a process of seven seconds."""

    def test_table(self, demo):
        out, folder = demo
        lines = out.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("feature"))
        ranked = [line.split()[:2] for line in lines[start + 1 : start + 9]]
        importance = [float(value) for _, value in ranked]
        assert importance == sorted(importance, reverse=True)
        assert {name for name, _ in ranked} == {
            "MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude",
        }  # fmt: skip
        explained = read(folder / "explanation.parquet")
        for name, value in ranked:
            mean = np.abs(column(explained, f"phi_{name}").astype(np.float64)).mean()
            assert float(value) == pytest.approx(mean, abs=5.1e-5)
        assert "20,640 districts" in out
        assert str(folder / "beeswarm.png") in out

    def test_grown_tree(self, demo):
        out, folder = demo
        grown = next(line for line in out.splitlines() if line.startswith("Tree grown"))
        tree = glasswood.load(folder / "tree.glasswood")
        assert f" {tree.n_leaves} leaves" in grown
        assert 1 < tree.n_leaves <= 6
        assert sum("rmse" in line for line in out.splitlines()) == tree.n_leaves
        frame = pq.read_table(Path(glasswood.__file__).parent / "data" / "california_housing.parquet").to_pandas()
        error = np.sqrt(np.mean((tree.predict(frame[list(tree.feature_names)]) - frame["MedHouseVal"]) ** 2))
        assert error < 0.63
        assert float(grown.split()[-1]) == pytest.approx(error, rel=0.05)
        assert (folder / "tree.png").stat().st_size > 10_000

    def test_additivity(self, demo):
        out, folder = demo
        line = next(line for line in out.splitlines() if line.startswith("additivity"))
        assert float(line.split()[-1]) < 1e-4
        explained = read(folder / "explanation.parquet")
        assert explained.num_rows == 20640
        names = [name for name in explained.column_names if name.startswith(("phi_", "expected"))]
        assert len(names) == 9
        total = stack(explained, names).sum(axis=1)
        np.testing.assert_allclose(total, column(explained, "margin"), atol=1e-4)

    def test_picture(self, demo):
        from PIL import Image

        with Image.open(demo[1] / "beeswarm.png") as picture:
            assert picture.width > 500
            colours = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
        assert len(colours) > 100

    def test_model_is_valid_for_xgboost(self, demo):
        folder = Path(glasswood.__file__).parent / "data"
        assert (folder / "california_housing.json").stat().st_size < 3e6
        booster = xgboost.Booster(model_file=folder / "california_housing.json")
        assert booster.num_boosted_rounds() >= 100
        frame = pq.read_table(folder / "california_housing.parquet").to_pandas()
        expected = booster.predict(xgboost.DMatrix(frame[booster.feature_names]))
        margin = column(read(demo[1] / "explanation.parquet"), "margin")
        np.testing.assert_allclose(margin, expected, rtol=1e-4, atol=1e-5)


def test_bench_measures_every_algorithm_and_saves_the_choices(files, tmp_path, capsys):
    tuned = tmp_path / "tuned.glasswood"
    settings = ("--seconds", "0.02", "--device", "cpu", "-o", tuned)
    assert run("bench", files / "regressor.json", files / "data.parquet", *settings) == 0
    lines = capsys.readouterr().out.splitlines()
    for algorithm in ("serial", "by_sample", "by_node", "windowed"):
        assert sum(f" {algorithm} " in line for line in lines) >= 3
    choices = glasswood.load(tuned).choices
    assert [choice.n_rows for choice in choices] == [1, 100, N_ROWS]
    assert sum(line.endswith(" *") for line in lines[:-1]) == 3


def test_bench_of_few_rows_and_of_none(files, tmp_path, capsys):
    assert run("bench", files / "regressor.json", files / "data.csv", "--seconds", "0.01", "--rows", "7") == 0
    assert "        7  cpu" in capsys.readouterr().out
    pd.DataFrame({name: np.zeros(0) for name in NAMES}).to_parquet(tmp_path / "empty.parquet")
    assert run("bench", files / "regressor.json", tmp_path / "empty.parquet") == 1
    assert "no rows to measure on" in capsys.readouterr().err
