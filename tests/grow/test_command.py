"""`glasswood grow` on small files."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import glasswood
import glasswood.grow.estimator
from glasswood.cli import main


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


@pytest.mark.parametrize(("name", "options"), [("data.csv", []), ("data.parquet", ["--generations", "10"])])
def test_grows_prints_and_saves(table, name, options, capsys):
    out = table / "tree.glasswood"
    assert main(["grow", str(table / name), "--target", "y", "-o", str(out), "--n-jobs", "1", *options]) == 0
    shown = capsys.readouterr().out
    assert "kind = b" in shown
    assert "595 rows, 2 leaves" in shown
    frame = pd.read_csv(table / "data.csv").dropna()
    predicted = glasswood.load(out).predict(frame[["kind", "x"]])
    assert np.sqrt(np.mean((predicted - frame["y"]) ** 2)) < 0.02


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "z"], "no columns 'z'"),
        (["--target", "day"], ", expected numbers, text or true and false"),
        (["--target", "y", "--columns", "x,y"], "also one of the features"),
        (["--target", "empty"], "column 'empty' of "),
    ],
)
def test_mistakes(table, arguments, message, capsys):
    frame = pd.read_csv(table / "data.csv")
    frame.assign(empty=np.nan, day=pd.Timestamp("2024-01-01")).to_parquet(table / "data.parquet")
    assert main(["grow", str(table / "data.parquet"), "-o", str(table / "t.glasswood"), *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("target", ["text", "truth", "number"])
def test_classes_are_grown(table, target, capsys):
    frame = pd.read_csv(table / "data.csv").drop(columns="y")
    inside = frame["x"] > 0.6
    values = {"text": np.where(inside, "high", "low"), "truth": inside, "number": np.where(inside, 7, 3)}[target]
    frame.assign(label=values).to_parquet(table / "classes.parquet")
    more = ["--classes"] if target == "number" else []
    out, data = str(table / "tree.glasswood"), str(table / "classes.parquet")
    brief = ["--n-jobs", "1", "--max-leaves", "3", "--generations", "10"]
    assert main(["grow", data, "--target", "label", "-o", out, *brief, *more]) == 0
    shown = capsys.readouterr().out
    name = {"text": "high", "truth": "True", "number": "7"}[target]  # the rarer class
    assert f"Probability of {name}" in shown
    assert "of the rows" in shown
    assert np.mean(glasswood.load(out).predict(frame) == values) > 0.99


def test_a_target_of_0_and_1_may_be_classes(table, capsys):
    frame = pd.read_csv(table / "data.csv").drop(columns="y")
    frame.assign(label=(frame["x"] > 0.6) * 1).to_parquet(table / "classes.parquet")
    brief = ["--n-jobs", "1", "--max-leaves", "2", "--generations", "5"]
    given = ["grow", str(table / "classes.parquet"), "-o", str(table / "tree.glasswood"), *brief, "--target"]
    assert main([*given, "label"]) == 0
    assert "the target is 0 or 1 in all rows; if these are classes, pass --classes" in capsys.readouterr().err
    for others in (["label", "--classes"], ["x", "--columns", "kind"]):
        assert main([*given, *others]) == 0
        assert "--classes" not in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_plots_a_tree(table, suffix, capsys):
    pytest.importorskip("matplotlib")
    data, out = str(table / "data.parquet"), str(table / "tree.glasswood")
    assert main(["grow", data, "--target", "y", "-o", out, "--n-jobs", "1", "--generations", "10"]) == 0
    picture = table / f"tree{suffix}"
    frame = pd.read_parquet(data).dropna()
    frame.to_parquet(data)
    assert main(["plot", out, data, "--target", "y", "-o", str(picture)]) == 0
    assert picture.stat().st_size > 5000
    assert main(["plot", out, "-o", str(picture), "--tree", "3"]) == 1
    assert main(["plot", out, "-o", str(picture), "--target", "y"]) == 1
    assert "pass DATA too" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plot", out, "-o", str(table / "tree.doc")])


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "cuda:all"])
def test_the_device_reaches_the_search(table, device, monkeypatch):
    devices = []

    def fit(tree, X, y):
        devices.append((tree.device, glasswood.get_config()["device"]))
        return original(tree.set_params(device="cpu", generations=2), X, y)

    original = glasswood.ModelTreeRegressor.fit
    monkeypatch.setattr(glasswood.ModelTreeRegressor, "fit", fit)
    data, out = str(table / "data.parquet"), str(table / "tree.glasswood")
    assert main(["grow", data, "--target", "y", "-o", out, "--device", device]) == 0
    assert devices == [("auto", device)]


@pytest.mark.parametrize("storage", [None, "float64", "float32"])
def test_the_storage_reaches_the_search(table, storage, monkeypatch):
    found, original = [], glasswood.grow.search.growing.make_engine
    monkeypatch.setattr(
        glasswood.grow.search.growing,
        "make_engine",
        lambda rows, *rest: found.append(rows.z.dtype) or original(rows, *rest),
    )
    arguments = ["grow", str(table / "data.parquet"), "--target", "y", "-o", str(table / "tree.glasswood")]
    assert main([*arguments, *(["--storage", storage] if storage else []), "--generations", "2"]) == 0
    assert set(found) == {np.dtype(storage or "float64")}


def test_parquet_of_many_types(tmp_path):
    """Columns with and without nulls of every type that holds numbers or categories, in several row groups."""
    rng = np.random.default_rng(0)
    x, kind = rng.integers(0, 400, 300), rng.integers(0, 3, 300)
    y = 0.25 * x * (kind == 1) + 10 * kind
    holes, unknown = np.arange(300) % 11 == 0, np.arange(300) % 13 == 0
    columns = {
        "decimal": pa.array(x / 4).cast(pa.decimal128(8, 2)),
        "small": pa.array(x, pa.int16(), mask=holes),
        "single": pa.array(x.astype(np.float32)),
        "flag": pa.array(kind == 1, mask=holes),
        "kind": pa.array(np.array(["a", "b", "c"])[kind]).dictionary_encode(),
        "nothing": pa.nulls(300),
        "y": pa.array(y, mask=unknown).cast(pa.decimal128(10, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "data.parquet", row_group_size=64)
    out = tmp_path / "tree.glasswood"
    assert main(["grow", str(tmp_path / "data.parquet"), "--target", "y", "-o", str(out), "--generations", "60"]) == 0
    features = pa.table({name: column for name, column in columns.items() if name != "y"})
    np.testing.assert_allclose(glasswood.load(out).predict(features)[~unknown], y[~unknown], atol=1e-9)


def test_no_value_to_predict(table, capsys):
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())}), table / "none.parquet")
    assert main(["grow", str(table / "none.parquet"), "--target", "y", "-o", str(table / "t.glasswood")]) == 1
    assert "has no value in any of 2 rows; name another target" in capsys.readouterr().err


def test_no_generations(table, capsys):
    arguments = ["grow", str(table / "data.parquet"), "--target", "y", "-o", str(table / "t.glasswood")]
    assert main([*arguments, "--generations", "0"]) == 0
    y = pd.read_csv(table / "data.csv")["y"].dropna()
    shown = capsys.readouterr().out
    assert "nan" not in shown
    error = float(shown.partition("(RMSE) ")[2].partition(",")[0])
    assert 0 < error <= 1.001 * np.std(y)


def test_a_device_that_is_none(table, capsys):
    with pytest.raises(SystemExit):
        main(["grow", str(table / "data.csv"), "--target", "y", "-o", "t.glasswood", "--device", "tpu"])
    assert "expected 'auto', 'cpu', 'cuda'" in capsys.readouterr().err


def test_a_gpu_is_asked_for_where_there_is_none(table, capsys, monkeypatch):
    import glasswood.base.device

    def none():
        raise glasswood.base.device.DeviceError("this machine has no NVIDIA GPU; use device='cpu'")

    monkeypatch.setattr(glasswood.base.device, "count_gpus", none)
    data, out = str(table / "data.parquet"), table / "tree.glasswood"
    assert main(["grow", data, "--target", "y", "-o", str(out), "--device", "cuda"]) == 1
    assert "no NVIDIA GPU" in capsys.readouterr().err
    assert not out.exists()
