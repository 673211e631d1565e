"""CatBoost's models of categories: DATA has the columns that their statistics are computed from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import glasswood
from tests.cli.files import column, read, run

catboost = pytest.importorskip("catboost")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("statistics"), np.random.default_rng(0)
    city = rng.choice([f"city {i}" for i in range(9)], 300)
    frame = pd.DataFrame({"code": rng.integers(0, 30, 300), "size": rng.normal(size=300), "city": city})
    y = frame["size"] + (frame["code"] % 4) + 2.0 * frame["city"].isin(["city 1", "city 4"])
    settings = {"iterations": 8, "depth": 3, "allow_writing_files": False, "verbose": False, "thread_count": 1}
    model = catboost.CatBoostRegressor(**settings).fit(frame, y, cat_features=["code", "city"])
    model.save_model(str(folder / "model.cbm"))
    frame[["city", "size", "code"]].assign(y=y).to_csv(folder / "data.csv", index=False)
    frame.assign(y=y).to_parquet(folder / "data.parquet")
    assert glasswood.load(model).ensemble.transform is not None
    return folder, model, frame


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_predict_and_explain(model, name, tmp_path):
    folder, catboosts, frame = model
    assert run("predict", folder / "model.cbm", folder / name, "-o", tmp_path / "p.parquet", "--columns", "y") == 0
    found = column(read(tmp_path / "p.parquet"), "prediction")
    np.testing.assert_allclose(found, catboosts.predict(frame), rtol=0, atol=1e-9)
    assert run("explain", folder / "model.cbm", folder / name, "-o", tmp_path / "phi.parquet") == 0
    explained = read(tmp_path / "phi.parquet").to_pandas()
    values = explained.filter(like="phi_").sum(axis=1) + explained["expected_value"]
    np.testing.assert_allclose(values, explained["margin"], atol=1e-4)
    np.testing.assert_allclose(explained["margin"], catboosts.predict(frame), rtol=0, atol=1e-9)


def test_report_and_background(model, tmp_path):
    folder, _, _ = model
    files = folder / "model.cbm", folder / "data.csv"
    assert run("report", *files, "--target", "y", "-o", tmp_path / "report.html") == 0
    assert run("explain", *files, "-o", tmp_path / "phi.csv", "--background", folder / "data.parquet") == 0


def test_columns_that_are_missing_or_called_otherwise(model, tmp_path, capsys):
    folder, _, _ = model
    out = ("-o", tmp_path / "p.csv")
    assert run("predict", folder / "model.cbm", folder / "data.csv", *out, "--inputs", "code,size") == 1
    assert "--inputs names 2 columns, the model has 3 features" in capsys.readouterr().err
    assert run("predict", folder / "model.cbm", folder / "data.csv", *out, "--inputs", "code,size,town") == 1
    assert "has no columns 'town'" in capsys.readouterr().err
