"""Predictions and explanations of files, on real models."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost

import glasswood
from tests.cli.files import N_ROWS, NAMES, column, read, run, stack, train


class TestPredict:
    @pytest.mark.parametrize("source", ["data.csv", "data.parquet"])
    @pytest.mark.parametrize("out", ["out.csv", "out.csv.gz", "out.parquet", "out.pq"])
    def test_like_the_source_library(self, files, tmp_path, regressor, data, source, out):
        assert run("predict", files / "regressor.json", files / source, "-o", tmp_path / out) == 0
        result = read(tmp_path / out)
        assert result.column_names == ["prediction"]
        expected = regressor.predict(xgboost.DMatrix(data))
        np.testing.assert_allclose(column(result, "prediction"), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
    def test_kept_columns_come_first(self, files, tmp_path, table, out):
        path = tmp_path / out
        run("predict", files / "regressor.json", files / "data.parquet", "-o", path, "--columns", "id,count,a")
        result = read(path)
        assert result.column_names == ["id", "count", "a", "prediction"]
        assert result.column("id").to_pylist() == table["id"].tolist()
        assert result.column("count").to_pylist() == list(range(N_ROWS))
        np.testing.assert_array_equal(column(result, "a").astype(np.float32), table["a"])

    def test_kept_columns_with_commas_in_their_names(self, files, tmp_path, table):
        table.rename(columns={"id": "id, of a row"}).to_csv(tmp_path / "data.csv", index=False)
        path = tmp_path / "out.parquet"
        run("predict", files / "regressor.json", tmp_path / "data.csv", "-o", path, "--columns", '"id, of a row",a')
        assert read(path).column_names == ["id, of a row", "a", "prediction"]

    @pytest.mark.parametrize("output", ["prediction", "margin", "probability"])
    def test_several_outputs(self, files, tmp_path, classifier, data, output):
        path = tmp_path / "out.parquet"
        run("predict", files / "classifier.json", files / "data.csv", "-o", path, "--output", output)
        result = read(path)
        names = [f"{output}_{i}" for i in range(3)]
        assert result.column_names == names
        expected = classifier.predict(xgboost.DMatrix(data), output_margin=output == "margin")
        np.testing.assert_allclose(stack(result, names), expected, rtol=1e-5, atol=1e-6)

    def test_leaves(self, files, tmp_path, classifier, data):
        path = tmp_path / "out.parquet"
        run("predict", files / "classifier.json", files / "data.parquet", "-o", path, "--output", "leaf")
        result = read(path)
        assert result.column_names == [f"leaf_{i}" for i in range(18)]
        expected = classifier.predict(xgboost.DMatrix(data), pred_leaf=True)
        np.testing.assert_array_equal(stack(result, result.column_names), expected)

    @pytest.mark.parametrize("batch_rows", [1, 37, 300, 5000])
    @pytest.mark.parametrize("source", ["data.csv", "data.parquet"])
    def test_batches_do_not_matter(self, files, tmp_path, source, batch_rows):
        run("predict", files / "regressor.json", files / source, "-o", tmp_path / "a.parquet")
        arguments = ["-o", tmp_path / "b.parquet", "--batch-rows", batch_rows, "--n-jobs", 2]
        run("predict", files / "regressor.json", files / source, *arguments)
        assert read(tmp_path / "a.parquet").equals(read(tmp_path / "b.parquet"))

    @pytest.mark.parametrize("source", ["none.csv", "none.parquet"])
    @pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
    def test_no_rows(self, files, tmp_path, table, source, out):
        frame = table.iloc[:0]
        frame.to_csv(tmp_path / "none.csv", index=False)
        frame.to_parquet(tmp_path / "none.parquet")
        assert run("predict", files / "regressor.json", tmp_path / source, "-o", tmp_path / out, "--columns", "id") == 0
        result = read(tmp_path / out)
        assert result.column_names == ["id", "prediction"]
        assert result.num_rows == 0

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_columns_as_told_or_by_position(self, files, tmp_path, regressor, data, target, suffix):
        other = data.set_axis(["p", "q", "r", "s"], axis=1)[["s", "p", "q", "r"]]
        ordered = data.set_axis(["p", "q", "r", "s"], axis=1)
        other.assign(y=0).to_csv(tmp_path / "other.csv", index=False)
        other.assign(y=0).to_parquet(tmp_path / "other.parquet")
        ordered.to_csv(tmp_path / "ordered.csv", index=False)
        ordered.to_parquet(tmp_path / "ordered.parquet")
        told = ["--inputs", "p,q,r,s"]
        model = files / "regressor.json"
        assert run("predict", model, tmp_path / f"other.{suffix}", "-o", tmp_path / "a.parquet", *told) == 0
        unnamed = tmp_path / "unnamed.json"
        train(data.to_numpy(), target).save_model(unnamed)
        assert run("predict", unnamed, tmp_path / f"ordered.{suffix}", "-o", tmp_path / "b.parquet") == 0
        expected = regressor.predict(xgboost.DMatrix(data))
        for name in ("a.parquet", "b.parquet"):
            np.testing.assert_allclose(column(read(tmp_path / name), "prediction"), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_categories_by_value(self, tmp_path, suffix):
        rng = np.random.default_rng(1)
        colour = rng.choice(["red", "green", "blue"], N_ROWS)
        frame = pd.DataFrame({"colour": pd.Categorical(colour), "x": rng.normal(size=N_ROWS)})
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
        model.fit(frame, frame["x"] + 3 * (colour == "red") + (colour == "blue"))
        model.booster_.save_model(tmp_path / "model.txt")
        frame.to_csv(tmp_path / "data.csv", index=False)
        frame.to_parquet(tmp_path / "data.parquet")
        assert run("predict", tmp_path / "model.txt", tmp_path / f"data.{suffix}", "-o", tmp_path / "out.csv") == 0
        np.testing.assert_allclose(column(read(tmp_path / "out.csv"), "prediction"), model.predict(frame), rtol=1e-12)

    def test_booleans_and_blanks_in_csv(self, tmp_path):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({"flag": rng.random(N_ROWS) < 0.5, "x": rng.normal(size=N_ROWS)})
        booster = train(frame, frame["flag"] * 2 + frame["x"])
        booster.save_model(tmp_path / "model.json")
        frame.loc[::3, "x"] = np.nan
        frame.to_csv(tmp_path / "data.csv", index=False)
        assert run("predict", tmp_path / "model.json", tmp_path / "data.csv", "-o", tmp_path / "out.parquet") == 0
        expected = booster.predict(xgboost.DMatrix(frame))
        np.testing.assert_allclose(column(read(tmp_path / "out.parquet"), "prediction"), expected, rtol=1e-5, atol=1e-6)

    def test_integers_first_and_fractions_much_later(self, files, tmp_path, regressor):
        n_rows = 600_000
        lines = ["1,2,3,4"] * (n_rows - 1) + ["1.5,2.5,3.5,4.5"]
        (tmp_path / "data.csv").write_text("a,b,c,d\n" + "\n".join(lines) + "\n")
        assert run("predict", files / "regressor.json", tmp_path / "data.csv", "-o", tmp_path / "out.parquet") == 0
        rows = pd.DataFrame([[1, 2, 3, 4], [1.5, 2.5, 3.5, 4.5]], columns=NAMES)
        expected = regressor.predict(xgboost.DMatrix(rows))
        result = column(read(tmp_path / "out.parquet"), "prediction")
        assert len(result) == n_rows
        np.testing.assert_allclose(result[[0, -1]], expected, rtol=1e-5, atol=1e-6)


class TestExplain:
    @pytest.mark.parametrize("source", ["data.csv", "data.parquet"])
    @pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
    def test_one_output(self, files, tmp_path, regressor, data, source, out):
        path = tmp_path / out
        assert run("explain", files / "regressor.json", files / source, "-o", path, "--columns", "id") == 0
        result = read(path)
        phi = [f"phi_{name}" for name in NAMES]
        assert result.column_names == ["id", *phi, "expected_value", "margin"]
        expected = regressor.predict(xgboost.DMatrix(data), pred_contribs=True)
        np.testing.assert_allclose(stack(result, [*phi, "expected_value"]), expected, rtol=1e-4, atol=1e-5)
        total = stack(result, [*phi, "expected_value"]).sum(axis=1, dtype=np.float64)
        np.testing.assert_allclose(total, column(result, "margin"), rtol=1e-5, atol=1e-5)

    def test_parquet_says_what_it_holds(self, files, tmp_path):
        for model, outputs in (("regressor", []), ("classifier", ["0", "1", "2"])):
            run("explain", files / f"{model}.json", files / "data.parquet", "-o", tmp_path / "out.parquet")
            schema = pq.read_schema(tmp_path / "out.parquet")
            about = json.loads(schema.metadata[b"glasswood"])
            explainer = glasswood.Explainer(glasswood.load(files / f"{model}.json"))
            assert about["features"] == NAMES
            assert about["outputs"] == outputs
            assert about["expected_value"] == np.atleast_1d(explainer.expected_value).tolist()
            assert about["source"].startswith("xgboost")
            assert about["version"] == glasswood.__version__

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_dtype(self, files, tmp_path, table, dtype):
        path = tmp_path / "out.parquet"
        run("explain", files / "regressor.json", files / "data.parquet", "-o", path, "--dtype", dtype)
        phi = [f"phi_{name}" for name in NAMES]
        explainer = glasswood.Explainer(glasswood.load(files / "regressor.json"), dtype=dtype)
        result = stack(read(path), phi)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, explainer.shap_values(table[NAMES]))

    def test_several_outputs(self, files, tmp_path, classifier, data):
        path = tmp_path / "out.parquet"
        run("explain", files / "classifier.json", files / "data.parquet", "-o", path)
        result = read(path)
        phi = [f"phi_{name}_{i}" for name in NAMES for i in range(3)]
        ends = [f"{what}_{i}" for what in ("expected_value", "margin") for i in range(3)]
        assert result.column_names == phi + ends
        expected = classifier.predict(xgboost.DMatrix(data), pred_contribs=True)
        for i in range(3):
            columns = [f"phi_{name}_{i}" for name in NAMES] + [f"expected_value_{i}"]
            np.testing.assert_allclose(stack(result, columns), expected[:, i], rtol=1e-4, atol=1e-5)

    def test_background(self, files, tmp_path, table):
        path = tmp_path / "out.parquet"
        arguments = ("explain", files / "regressor.json", files / "data.csv", "-o", path)
        assert run(*arguments, "--background", files / "data.parquet", "--dtype", "float64") == 0
        explainer = glasswood.Explainer(glasswood.load(files / "regressor.json"), table[NAMES], dtype="float64")
        result = read(path)
        np.testing.assert_array_equal(stack(result, [f"phi_{n}" for n in NAMES]), explainer.shap_values(table[NAMES]))
        assert (column(result, "expected_value") == explainer.expected_value).all()

    def test_files_of_explainers(self, files, tmp_path, table):
        forest = glasswood.load(files / "regressor.json")
        glasswood.Explainer(forest, table[NAMES][:9], dtype="float64").save(tmp_path / "explainer.glasswood")
        out, phi = tmp_path / "out.parquet", [f"phi_{name}" for name in NAMES]
        for background, more in ((table[NAMES][:9], ()), (table[NAMES], ("--background", files / "data.parquet"))):
            assert run("explain", tmp_path / "explainer.glasswood", files / "data.csv", "-o", out, *more) == 0
            dtype = "float32" if more else "float64"
            expected = glasswood.Explainer(forest, background, dtype=dtype).shap_values(table[NAMES])
            np.testing.assert_array_equal(stack(read(out), phi), expected)

    def test_explainers_of_groups_name_their_columns(self, files, tmp_path, table):
        explainer = glasswood.Explainer(glasswood.load(files / "regressor.json"), groups={"both": NAMES[1::-1]})
        explainer.save(tmp_path / "explainer.glasswood")
        out, players = tmp_path / "out.parquet", ["both", *NAMES[2:]]
        command = ("explain", tmp_path / "explainer.glasswood", files / "data.csv", "-o", out)
        assert run(*command) == 0
        np.testing.assert_array_equal(
            stack(read(out), [f"phi_{name}" for name in players]), explainer.shap_values(table[NAMES])
        )
        assert run(*command, "--interactions", "--features", "both") == 0
        pairs = stack(read(out), [f"phi_both__{name}" for name in players])
        np.testing.assert_array_equal(pairs, explainer.shap_interaction_values(table[NAMES], features=["both"])[:, 0])

    def test_probabilities(self, tmp_path, table, data, capsys):
        """They need background rows, and two classes."""
        model = train(data, (table["a"] > 0).to_numpy(), objective="binary:logistic")
        model.save_model(tmp_path / "model.json")
        table.to_parquet(tmp_path / "data.parquet")
        path, rows = tmp_path / "out.parquet", tmp_path / "data.parquet"
        arguments = ("explain", tmp_path / "model.json", rows, "-o", path, "--output", "probability")
        assert run(*arguments) == 1
        assert "output='probability' needs background rows" in capsys.readouterr().err
        assert run(*arguments, "--background", rows) == 0
        result = read(path)
        total = stack(result, [*(f"phi_{name}" for name in NAMES), "expected_value"]).sum(axis=1)
        np.testing.assert_allclose(total, model.predict(xgboost.DMatrix(data)), atol=1e-6)

    def test_some_features(self, files, tmp_path):
        path = tmp_path / "out.csv"
        run("explain", files / "regressor.json", files / "data.parquet", "-o", path, "--features", "c,a")
        assert read(path).column_names == ["phi_a", "phi_c", "expected_value", "margin"]

    def test_interactions(self, files, tmp_path, regressor, data):
        path = tmp_path / "out.parquet"
        assert run("explain", files / "regressor.json", files / "data.csv", "-o", path, "--interactions") == 0
        result = read(path)
        pairs = [f"phi_{a}__{b}" for a in NAMES for b in NAMES]
        assert result.column_names == [*pairs, "expected_value", "margin"]
        expected = regressor.predict(xgboost.DMatrix(data), pred_interactions=True)[:, :-1, :-1]
        np.testing.assert_allclose(stack(result, pairs), expected.reshape(N_ROWS, -1), rtol=1e-3, atol=1e-5)

    def test_interactions_of_some_features(self, files, tmp_path, classifier, data):
        path = tmp_path / "out.parquet"
        options = ["--interactions", "--features", "c,a"]
        run("explain", files / "classifier.json", files / "data.csv", "-o", path, *options)
        result = read(path)
        pairs = [f"phi_{a}__{b}_{i}" for a in "ca" for b in NAMES for i in range(3)]
        assert result.column_names[: len(pairs)] == pairs
        expected = classifier.predict(xgboost.DMatrix(data), pred_interactions=True)[:, :, [2, 0], :-1]
        got = stack(result, pairs).reshape(N_ROWS, 2, 4, 3).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)

    def test_features_without_names(self, tmp_path, data, target):
        booster = train(data.to_numpy(), target)
        booster.save_model(tmp_path / "model.json")
        data.to_csv(tmp_path / "data.csv", index=False)
        assert run("explain", tmp_path / "model.json", tmp_path / "data.csv", "-o", tmp_path / "out.parquet") == 0
        names = ["phi_x0", "phi_x1", "phi_x2", "phi_x3", "expected_value", "margin"]
        assert read(tmp_path / "out.parquet").column_names == names

    @pytest.mark.parametrize("batch_rows", [1, 99])
    @pytest.mark.parametrize("interactions", [[], ["--interactions"]])
    def test_batches_do_not_matter(self, files, tmp_path, table, batch_rows, interactions):
        table.iloc[:100].to_parquet(tmp_path / "data.parquet", row_group_size=30)
        arguments = ["explain", files / "regressor.json", tmp_path / "data.parquet", *interactions]
        run(*arguments, "-o", tmp_path / "a.parquet")
        run(*arguments, "-o", tmp_path / "b.parquet", "--batch-rows", batch_rows)
        assert read(tmp_path / "a.parquet").equals(read(tmp_path / "b.parquet"))

    def test_no_rows(self, files, tmp_path, table):
        table.iloc[:0].to_csv(tmp_path / "none.csv", index=False)
        assert run("explain", files / "regressor.json", tmp_path / "none.csv", "-o", tmp_path / "out.parquet") == 0
        assert read(tmp_path / "out.parquet").num_rows == 0
