"""`glasswood neighbors`."""

import numpy as np
import pandas as pd
import pytest

import glasswood
from tests.cli.files import column, read, run, stack


@pytest.fixture(scope="module")
def folder(table, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbors")
    table.assign(price=target).to_csv(folder / "train.csv", index=False)
    table.assign(price=target)[::3].to_csv(folder / "some.csv", index=False)
    return folder


@pytest.fixture
def asked(files, folder):
    return ["neighbors", files / "regressor.json", files / "data.parquet", "--training", folder / "train.csv"]


def test_columns_are_those_of_the_class(asked, files, data, target, tmp_path):
    out = tmp_path / "out.parquet"
    options = ["--target", "price", "--quantiles", "0.1,0.9", "--top", "2", "--columns", "id", "-o", out]
    assert run(*asked, *options) == 0
    found = read(out)
    assert found.column_names == [
        *("id", "quantile_0.1", "quantile_0.9", "neighbor_1", "similarity_1", "neighbor_2", "similarity_2"),
    ]
    neighbors = glasswood.Neighbors(glasswood.load(files / "regressor.json"), data, target)
    np.testing.assert_allclose(stack(found, ["quantile_0.1", "quantile_0.9"]), neighbors.quantile(data, [0.1, 0.9]))
    similarity, rows = neighbors.kneighbors(data, 2)
    np.testing.assert_array_equal(stack(found, ["neighbor_1", "neighbor_2"]), rows)
    np.testing.assert_array_equal(stack(found, ["similarity_1", "similarity_2"]), similarity)


def test_saved_files_hold_the_training_rows_and_the_calibration(asked, files, folder, tmp_path):
    saved, first, again = (tmp_path / name for name in ("saved.glasswood", "first.csv", "again.csv"))
    calibration = ["--target", "price", "--calibration", folder / "some.csv", "--coverage", "0.8"]
    assert run(*asked, *calibration, "--save", saved, "-o", first) == 0
    assert run("neighbors", saved, files / "data.parquet", "--coverage", "0.8", "-o", again) == 0
    pd.testing.assert_frame_equal(pd.read_csv(first), pd.read_csv(again))
    assert (column(read(first), "lower") < column(read(first), "upper")).all()
    assert run("info", saved) == 0


def test_similar_rows_need_no_target(asked, tmp_path):
    assert run(*asked, "-o", tmp_path / "out.csv") == 0
    assert read(tmp_path / "out.csv").num_columns == 10


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--quantiles", "0.5"], "quantile needs the targets of the training rows"),
        (["--coverage", "0.9", "--target", "price"], "pass held-out rows to conformalize"),
        (["--calibration", "{folder}/some.csv"], "--calibration needs --target"),
        (["--target", "cost"], "has no columns 'cost'"),
        (["--save", "{folder}/train.glasswood", "--scheduler", "tcp://nowhere:1"], "does not support --scheduler"),
    ],
)
def test_refusals(asked, folder, more, message, tmp_path, capsys):
    out = tmp_path / ("parts" if "--scheduler" in more else "out.csv")
    assert run(*asked, *(part.format(folder=folder) for part in more), "-o", out) == 1
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_training_rows_are_needed_once(files, folder, asked, tmp_path, capsys):
    assert run(*asked[:3], "-o", tmp_path / "out.csv") == 1
    assert "holds no training rows; pass them by --training" in capsys.readouterr().err
    assert run(*asked, "--save", tmp_path / "saved.glasswood", "-o", tmp_path / "out.csv") == 0
    again = ["neighbors", tmp_path / "saved.glasswood", files / "data.parquet", "--training", folder / "train.csv"]
    assert run(*again, "-o", tmp_path / "out.csv") == 1
    assert "leave --training out" in capsys.readouterr().err


def test_other_rows_than_those_of_the_training(asked, folder, tmp_path, capsys):
    other = [*asked[:3], "--training", folder / "some.csv", "-o", tmp_path / "out.csv"]
    assert run(*other) == 1
    assert "X has 334 rows, the forest was trained on 1,000" in capsys.readouterr().err
    assert run(*other, "--no-check") == 0


def test_quantiles_lie_between_0_and_1(asked, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(*asked, "--quantiles", "5,95", "-o", tmp_path / "out.csv")
    assert "numbers from 0 to 1, such as 0.05,0.95" in capsys.readouterr().err
