"""One rule for names: LightGBM writes `_` for a space, and people go on using theirs."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import xgboost

import glasswood
from glasswood.base.wording import spelled
from glasswood.cli import main

N = 200
SPACED = ["km pro Jahr", "Alter (Jahre)", "rest"]
JOINED = ["km_pro_Jahr", "Alter_(Jahre)", "rest"]


@pytest.fixture(scope="module", name="X")
def rows_with_names():
    return pd.DataFrame(np.random.default_rng(0).random((N, 3)), columns=SPACED)


@pytest.fixture(scope="module")
def model(X):
    return lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, X["km pro Jahr"] - X["Alter (Jahre)"])


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "model.txt"
    model.booster_.save_model(path)
    return path


def test_spelled():
    assert spelled(["a b", "c"], ["c", "a_b"]) == ["a_b", "c"]
    assert spelled(["a_b"], ["a b"]) == ["a b"]
    assert spelled(["a b", "a_b"], ["a_b"]) == ["a b", "a_b"]  # which is given exactly
    assert spelled(["a b_c"], ["a_b c", "a b c"]) == ["a b_c"]  # which could be either
    assert spelled(["d"], ["c"]) == ["d"]


CALLS = {
    "predict": lambda forest, X: forest.predict(X),
    "predict, polars": lambda forest, X: forest.predict(pl.from_pandas(X)),
    "ignoring more": lambda forest, X: glasswood.load(forest, columns="subset").predict(X.assign(more=1.0)),
    "shap values": lambda forest, X: glasswood.Explainer(forest).shap_values(X),
    "interactions of some": lambda forest, X: glasswood.Explainer(forest).shap_interaction_values(X, features=SPACED),
    "background": lambda forest, X: glasswood.Explainer(forest, X[:9]).shap_values(X[:3]),
    "groups": lambda forest, X: glasswood.Explainer(forest, groups={"car": SPACED[:1], "you": SPACED[1:]})(X).values,
    "a row": lambda forest, X: forest.predictor(names=True)(X.iloc[0].to_dict()),
    "reasons": lambda forest, X: glasswood.Explainer(forest).row(top=1, names=True)(X.iloc[0].to_dict())[0].effect,
    "encoder": lambda forest, X: forest.encoder()(X.iloc[0].to_dict()),
    "mapper": lambda forest, X: forest.mapper()(X)["prediction"],
    "mapper, Arrow": lambda forest, X: forest.mapper()(pa.Table.from_pandas(X)).column("prediction").to_numpy(),
    "mapper of named inputs": lambda forest, X: forest.mapper(inputs=SPACED)(X)["prediction"],
    "explaining mapper": lambda forest, X: glasswood.Explainer(forest).mapper(features=SPACED[:1])(X).iloc[:, 0],
    "dependence": lambda forest, X: glasswood.partial_dependence(forest, X, "km pro Jahr").average,
    "effects": lambda forest, X: glasswood.effects(forest, X, features=SPACED[:2]).dependence("km pro Jahr").average,
    "importance": lambda forest, X: glasswood.permutation_importance(forest, X, X["rest"], random_state=0).importances,
    "neighbours": lambda forest, X: glasswood.Neighbors(forest, X).kneighbors(X[:3], 2)[0],
    "comparison": lambda forest, X: glasswood.compare(X[:50], X[50:], model=forest).change,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_every_call_takes_names_with_spaces(name, library, X, model):
    """As the same call takes those that the model has."""
    if library == "xgboost":
        joined = X.set_axis(JOINED, axis=1)
        model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(joined, X["rest"] - X["km pro Jahr"])
    forest = glasswood.load(model)
    assert list(forest.feature_names) == JOINED
    expected = CALLS[name](glasswood.load(model, names=dict(zip(JOINED, SPACED, strict=True))), X)
    np.testing.assert_array_equal(CALLS[name](forest, X), expected)


def test_report_with_units(X, model, tmp_path):
    page = glasswood.report(model, X, X["rest"], tmp_path / "r.html", units={"km pro Jahr": "km"}).read_text()
    assert "km_pro_Jahr" in page
    assert "leaf" in glasswood.export_text(model, units={"km pro Jahr": "km"})


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("command", ["predict", "explain"])
def test_command_line(command, suffix, X, file, tmp_path):
    rows, out = tmp_path / f"rows{suffix}", tmp_path / "out.parquet"
    (X.to_parquet if suffix == ".parquet" else X.to_csv)(rows, index=False)
    assert main([command, str(file), str(rows), "-o", str(out)]) == 0
    found = pa.parquet.read_table(out).column("prediction" if command == "predict" else "margin").to_numpy()
    np.testing.assert_allclose(found, glasswood.load(file).predict(X))
    other = X.rename(columns={"km pro Jahr": "km", "rest": "x=y"})
    (other.to_parquet if suffix == ".parquet" else other.to_csv)(rows, index=False)
    assert main([command, str(file), str(rows), "-o", str(out)]) != 0
    renamed = ["--rename", "km pro Jahr=km", "--rename", "rest=x=y"]
    assert main([command, str(file), str(rows), "-o", str(out), *renamed]) == 0
    again = pa.parquet.read_table(out).column("prediction" if command == "predict" else "margin").to_numpy()
    np.testing.assert_array_equal(again, found)


def test_command_line_needs_to_know_categories(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zone": pd.Categorical(rng.choice(list("abc"), N)), "n": rng.integers(0, 3, N)})
    booster = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(frame, frame["zone"].cat.codes + frame["n"])
    booster.booster_.save_model(tmp_path / "m.txt")
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model, out = str(tmp_path / "m.txt"), tmp_path / "out.parquet"

    def predicted(*arguments):
        assert main(["predict", model, *arguments, "-o", str(out)]) == 0
        return pa.parquet.read_table(out).column("prediction").to_numpy()

    expected = booster.predict(frame)
    np.testing.assert_allclose(predicted(str(tmp_path / "rows.parquet")), expected)
    assert main(["predict", model, str(tmp_path / "rows.csv"), "-o", str(out)]) != 0
    assert "name the columns that were of dtype category in training by --categories" in capsys.readouterr().err
    np.testing.assert_allclose(predicted(str(tmp_path / "rows.csv"), "--categories", "zone"), expected)


def test_your_names(X, model):
    yours = {"km_pro_Jahr": "distance", "Alter (Jahre)": "age"}
    forest = glasswood.load(model, names=yours)
    assert forest.feature_names == ("distance", "age", "rest")
    rows = X.set_axis(["distance", "age", "rest"], axis=1)
    np.testing.assert_array_equal(forest.predict(rows[["rest", "distance", "age"]]), model.predict(X))
    checked = glasswood.load(model, names=yours, check=X)
    assert checked.feature_names == forest.feature_names
    with pytest.raises(ValueError, match="names holds 'year', the model's features are 'km_pro_Jahr', 'Alter_"):
        glasswood.load(model, names={"year": "a"})
    with pytest.raises(ValueError, match="names calls several features 'rest'"):
        glasswood.load(model, names={"km_pro_Jahr": "rest"})
    with pytest.raises(TypeError, match="expected a mapping of the model's names to yours"):
        glasswood.load(model, names=SPACED)


def test_names_of_a_model_without_any(X):
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X.to_numpy(), X["rest"])
    forest = glasswood.load(model, names={f"x{i}": name for i, name in enumerate(SPACED)})
    np.testing.assert_allclose(forest.predict(X[SPACED[::-1]]), model.predict(X.to_numpy()), rtol=1e-6)
    with pytest.raises(ValueError, match="the model has no names: names holds 1 of 3"):
        glasswood.load(model, names={"x0": "a"})


def test_columns_of_sql(X, model):
    duckdb = pytest.importorskip("duckdb")
    expression = glasswood.export_sql(model, columns=dict(zip(JOINED, SPACED, strict=True)))
    found = duckdb.sql(f"SELECT {expression} AS p FROM X").df()["p"]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)
    assert '"km"' in glasswood.export_sql(model, columns={"km pro Jahr": "km"})


def test_refusals_name_the_ways_out(X, model):
    forest = glasswood.load(model)
    for rows in (X.rename(columns={"rest": "other"}), X.set_axis(list("abc"), axis=1)):
        with pytest.raises(ValueError, match="columns='position'"):
            forest.predict(rows)
    with pytest.raises(ValueError, match=r"glasswood\.load\(model, names=\{the model's: yours\}\)"):
        forest.predict(X.rename(columns={"rest": "other"}))
    with pytest.raises(ValueError, match="several columns named 'km_pro_Jahr'"):
        forest.predict(X.set_axis(["km pro Jahr", "km pro_Jahr", "Alter_(Jahre)"], axis=1))


@pytest.mark.parametrize("kind", ["row", "reasons", "encoder"])
def test_named_rows_of_other_keys(kind, X, model):
    """Numbers from 0 on are places, as the columns of a frame of an array are; others are names."""
    forest = glasswood.load(model)
    call = {
        "row": forest.predictor(names=True),
        "reasons": glasswood.Explainer(forest).row(names=True),
        "encoder": forest.encoder(),
    }[kind]
    row = X.iloc[0]
    expected = call(row.to_dict())
    np.testing.assert_array_equal(call(dict(enumerate(row.tolist()))), expected)
    np.testing.assert_array_equal(call(pd.Series(row.to_numpy())), expected)
    for wrong, said in (({0: 1.0, 1: 2.0, 7: 3.0}, "lacks .* and has '0', '1', '7'"), ({None: 1.0}, "has 'None'")):
        with pytest.raises(ValueError, match=said):
            call(wrong)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, {1}, ([],), np.zeros(2)])
def test_categories_without_a_hash(value):
    catboost = pytest.importorskip("catboost")
    frame = pd.DataFrame({"kind": ["a", "b"] * 20, "x": np.arange(40.0)})
    for size in (1, 10):  # target statistics, and sets
        settings = {"iterations": 3, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": size}
        forest = glasswood.load(catboost.CatBoostRegressor(**settings).fit(frame, frame["x"], cat_features=["kind"]))
        rows = frame[:1].astype(object)
        rows.at[0, "kind"] = value
        with pytest.raises(TypeError, match="CatBoost's categories are text or whole numbers"):
            forest.predict(rows)


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT, float("nan")])
def test_missing_category_of_catboost(value):
    catboost = pytest.importorskip("catboost")
    frame = pd.DataFrame({"kind": ["a", "b"] * 20, "x": np.arange(40.0)})
    settings = {"iterations": 3, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 10}
    forest = glasswood.load(catboost.CatBoostRegressor(**settings).fit(frame, frame["x"], cat_features=["kind"]))
    rows = pd.DataFrame({"kind": pd.Series([value], dtype=object), "x": [1.0]})
    with pytest.raises(ValueError, match="has no value in row 0, and CatBoost does not accept missing categories"):
        forest.predict(rows)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_huge_integers_are_refused(value, X, model):
    forest = glasswood.load(model)
    rows = X[:1].astype(object)
    rows.iloc[0, 0] = value
    for call in (forest.predict, lambda rows: forest.predictor(names=True)(rows.iloc[0].to_dict())):
        with pytest.raises(ValueError, match="holds a number beyond float64"):
            call(rows)
