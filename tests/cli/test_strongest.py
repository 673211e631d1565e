"""`glasswood explain --top`: the strongest features of each row."""

import dataclasses

import numpy as np
import pytest

import glasswood
from glasswood.cli import main
from tests.strategies import full_forest

pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")


@pytest.fixture
def files(tmp_path):
    forest = dataclasses.replace(full_forest(0, 20, 4, 6), feature_names=tuple(f"x{i}" for i in range(6)))
    forest.save(tmp_path / "model.glasswood")
    rows = np.random.default_rng(0).normal(size=(300, 6))
    frame = pandas.DataFrame(rows, columns=[f"x{i}" for i in range(6)]).assign(id=np.arange(300))
    frame.to_parquet(tmp_path / "rows.parquet")
    return forest, rows, tmp_path


def test_they_are_those_of_the_values(files):
    forest, rows, folder = files
    out = folder / "out.parquet"
    arguments = ["explain", str(folder / "model.glasswood"), str(folder / "rows.parquet"), "-o", str(out)]
    assert main([*arguments, "--top", "2", "--columns", "id"]) == 0
    found = pandas.read_parquet(out)
    assert found.columns.tolist() == ["id", "feature_1", "phi_1", "feature_2", "phi_2", "expected_value", "margin"]
    values = glasswood.Explainer(forest).shap_values(rows)
    order = np.argsort(-np.abs(values), axis=1, kind="stable")
    for place in (0, 1):
        assert found[f"feature_{place + 1}"].tolist() == [f"x{feature}" for feature in order[:, place]]
        np.testing.assert_array_equal(found[f"phi_{place + 1}"], values[np.arange(300), order[:, place]])
    assert main([*arguments, "--top", "1", "--features", "x1,x3"]) == 0
    assert set(pandas.read_parquet(out)["feature_1"]) <= {"x1", "x3"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--top", "7"], "top is 7, expected a whole number from 1 to 6, the features"),
        (["--top", "2", "--interactions"], "cannot be combined with --interactions"),
    ],
)
def test_refusals(files, more, message, capsys):
    _, _, folder = files
    out = str(folder / "out.parquet")
    assert main(["explain", str(folder / "model.glasswood"), str(folder / "rows.parquet"), "-o", out, *more]) == 1
    assert message in capsys.readouterr().err
