"""`silva grow` on small files."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

import pandas as pd

import silva
from silva.cli import main


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    kind, x = rng.choice(["a", "b", "c"], 600), rng.uniform(size=600)
    y = np.where(kind == "b", 3 * x, 1 - x) + 0.01 * rng.standard_normal(600)
    y[:5] = np.nan
    frame = pd.DataFrame({"kind": kind, "x": x, "y": y})
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.to_parquet(tmp_path / "data.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_grows_prints_and_saves(table, name, capsys):
    out = table / "tree.silva"
    assert main(["grow", str(table / name), "--target", "y", "-o", str(out), "--n-jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "kind in {b}" in shown
    assert "595 rows, 2 leaves" in shown
    frame = pd.read_csv(table / "data.csv").dropna()
    predicted = silva.load(out).predict(frame[["kind", "x"]])
    assert np.sqrt(np.mean((predicted - frame["y"]) ** 2)) < 0.02


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "z"], "no columns 'z'"),
        (["--target", "kind"], "expected numbers"),
        (["--target", "y", "--columns", "x,y"], "also one of the features"),
    ],
)
def test_mistakes(table, arguments, message, capsys):
    assert main(["grow", str(table / "data.csv"), "-o", str(table / "t.silva"), *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "cuda:all"])
def test_the_device_reaches_the_search(table, device, monkeypatch):
    devices = []

    def fit(tree, X, y):
        devices.append(tree.device)
        return original(tree.set_params(device="cpu", generations=2), X, y)

    original = silva.ModelTreeRegressor.fit
    monkeypatch.setattr(silva.ModelTreeRegressor, "fit", fit)
    data, out = str(table / "data.parquet"), str(table / "tree.silva")
    assert main(["grow", data, "--target", "y", "-o", out, "--device", device]) == 0
    assert devices == [device]


def test_a_device_that_is_none(table, capsys):
    with pytest.raises(SystemExit):
        main(["grow", str(table / "data.csv"), "--target", "y", "-o", "t.silva", "--device", "gpu"])
    assert "expected 'auto', 'cpu', 'cuda'" in capsys.readouterr().err


def test_a_gpu_is_asked_for_where_there_is_none(table, capsys, monkeypatch):
    import silva.device

    def none():
        raise silva.device.DeviceError("this machine has no NVIDIA GPU; use device='cpu'")

    monkeypatch.setattr(silva.device, "count_gpus", none)
    data, out = str(table / "data.parquet"), table / "tree.silva"
    assert main(["grow", data, "--target", "y", "-o", str(out), "--device", "cuda"]) == 1
    assert "no NVIDIA GPU" in capsys.readouterr().err
    assert not out.exists()
