"""The command line, on real models and real files."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import xgboost

import silva
from silva.cli import main
from silva.cli.tables import table_format

NAMES = ["a", "b", "c", "d"]
N_ROWS = 1000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 4)).astype(np.float32), columns=NAMES)
    frame.loc[::7, "b"] = np.nan
    return frame


@pytest.fixture(scope="module")
def target(data):
    return data["a"] * data["c"] + data["b"].fillna(2) + (data["d"] > 0)


def train(data, target, **settings):
    settings = {"max_depth": 4, "nthread": 1, "seed": 0} | settings
    return xgboost.train(settings, xgboost.DMatrix(data, target), 6)


@pytest.fixture(scope="module")
def regressor(data, target):
    return train(data, target)


@pytest.fixture(scope="module")
def classifier(data, target):
    """Three classes."""
    return train(data, np.digitize(target, [0, 2]), objective="multi:softprob", num_class=3)


@pytest.fixture(scope="module")
def table(data):
    """The data with its columns in another order, an id and a count."""
    return data[["d", "b", "a", "c"]].assign(id=[f"row {i}" for i in range(N_ROWS)], count=np.arange(N_ROWS))


@pytest.fixture(scope="module")
def files(tmp_path_factory, regressor, classifier, table):
    """A folder with both models, the table as CSV, as Parquet with several row groups, and a hundred times as long."""
    folder = tmp_path_factory.mktemp("cli")
    regressor.save_model(folder / "regressor.json")
    classifier.save_model(folder / "classifier.json")
    table.to_csv(folder / "data.csv", index=False)
    table.to_parquet(folder / "data.parquet", row_group_size=300)
    pd.concat([table] * 100).to_parquet(folder / "long.parquet")
    return folder


def run(*arguments):
    return main([str(argument) for argument in arguments])


def read(path):
    if table_format(Path(path)) == "csv":
        return pa.csv.read_csv(path)
    return pq.read_table(path)


def column(table, name):
    return table.column(name).to_numpy()


def stack(table, names):
    return np.stack([column(table, name) for name in names], axis=1)


SCRIPT = "import sys; from silva.cli import main; sys.exit(main())"


def command(*arguments):
    return [sys.executable, "-c", SCRIPT, *map(str, arguments)]


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
    def test_columns_by_position_or_as_told(self, files, tmp_path, regressor, data, suffix):
        other = data.set_axis(["p", "q", "r", "s"], axis=1)[["s", "p", "q", "r"]]
        ordered = data.set_axis(["p", "q", "r", "s"], axis=1)
        other.assign(y=0).to_csv(tmp_path / "other.csv", index=False)
        other.assign(y=0).to_parquet(tmp_path / "other.parquet")
        ordered.to_csv(tmp_path / "ordered.csv", index=False)
        ordered.to_parquet(tmp_path / "ordered.parquet")
        model = files / "regressor.json"
        told = ["--inputs", "p,q,r,s"]
        assert run("predict", model, tmp_path / f"other.{suffix}", "-o", tmp_path / "a.parquet", *told) == 0
        assert run("predict", model, tmp_path / f"ordered.{suffix}", "-o", tmp_path / "b.parquet") == 0
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
            about = json.loads(schema.metadata[b"silva"])
            explainer = silva.Explainer(silva.load(files / f"{model}.json"))
            assert about["features"] == NAMES
            assert about["outputs"] == outputs
            assert about["expected_value"] == np.atleast_1d(explainer.expected_value).tolist()
            assert about["source"].startswith("xgboost")
            assert about["version"] == silva.__version__

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_dtype(self, files, tmp_path, table, dtype):
        path = tmp_path / "out.parquet"
        run("explain", files / "regressor.json", files / "data.parquet", "-o", path, "--dtype", dtype)
        phi = [f"phi_{name}" for name in NAMES]
        explainer = silva.Explainer(silva.load(files / "regressor.json"), dtype=dtype)
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
        names = ["phi_f0", "phi_f1", "phi_f2", "phi_f3", "expected_value", "margin"]
        assert read(tmp_path / "out.parquet").column_names == names

    @pytest.mark.parametrize("batch_rows", [1, 999])
    @pytest.mark.parametrize("interactions", [[], ["--interactions"]])
    def test_batches_do_not_matter(self, files, tmp_path, batch_rows, interactions):
        arguments = ["explain", files / "regressor.json", files / "data.parquet", *interactions]
        run(*arguments, "-o", tmp_path / "a.parquet")
        run(*arguments, "-o", tmp_path / "b.parquet", "--batch-rows", batch_rows)
        assert read(tmp_path / "a.parquet").equals(read(tmp_path / "b.parquet"))

    def test_no_rows(self, files, tmp_path, table):
        table.iloc[:0].to_csv(tmp_path / "none.csv", index=False)
        assert run("explain", files / "regressor.json", tmp_path / "none.csv", "-o", tmp_path / "out.parquet") == 0
        assert read(tmp_path / "out.parquet").num_rows == 0


class TestInfo:
    def test_facts(self, files, capsys):
        assert run("info", files / "classifier.json") == 0
        facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        forest = silva.load(files / "classifier.json")
        assert facts["source"].startswith("xgboost")
        assert facts["objective"] == "multi:softprob"
        assert facts["trees"] == "18"
        assert facts["leaves"] == f"{forest.n_leaves}"
        assert facts["depth"] == "4"
        assert facts["features"] == "4 (a, b, c, d)"
        assert facts["outputs"].startswith("3")
        assert facts["memory"].endswith("MiB")

    def test_silva_files(self, files, capsys, tmp_path):
        silva.load(files / "regressor.json").save(tmp_path / "model.silva")
        assert run("info", tmp_path / "model.silva") == 0
        saved = capsys.readouterr().out
        run("info", files / "regressor.json")
        assert saved == capsys.readouterr().out

    def test_a_reader_that_leaves_early(self, files):
        process = subprocess.Popen(
            command("info", files / "regressor.json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 1


class TestErrors:
    def fails(self, capsys, tmp_path, *arguments, out="out.parquet"):
        """Run a command that fails; return its one line."""
        assert run(*arguments, "-o", tmp_path / out) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert not any(name == out or name.endswith(".part") for name in os.listdir(tmp_path))
        return lines[0]

    def test_files_that_are_not_there(self, files, tmp_path, capsys):
        model, data = files / "regressor.json", files / "data.csv"
        for source in ("none.csv", "none.parquet"):
            line = self.fails(capsys, tmp_path, "predict", model, tmp_path / source)
            assert line == f"silva: {tmp_path / source}: No such file or directory"
        line = self.fails(capsys, tmp_path, "predict", tmp_path / "none.json", data)
        assert line.startswith("silva: ")
        assert "none.json" in line
        line = self.fails(capsys, tmp_path, "predict", model, data, out="none/out.csv")
        assert line.endswith("does not exist; create it first")

    def test_damaged_files(self, files, tmp_path, capsys):
        model = files / "regressor.json"
        (tmp_path / "data.parquet").write_bytes((files / "data.parquet").read_bytes()[:-10])
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.parquet")
        assert line.startswith(f"silva: cannot read {tmp_path / 'data.parquet'}: ")
        for text in (b"", b"a,b,c,d\n1,2,3\n", b"a,b,c,d\n1,2,x,4\n", b"a,b,c,\xf6\n1,2,3,4\n"):
            (tmp_path / "data.csv").write_bytes(text)
            line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
            assert line.startswith(f"silva: cannot read {tmp_path / 'data.csv'}: ")
        (tmp_path / "data.csv.gz").write_bytes(b"a,b,c,d\n1,2,3,4\n")
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv.gz")
        assert line.startswith(f"silva: cannot read {tmp_path / 'data.csv.gz'}: ")
        (tmp_path / "model.json").write_text(model.read_text()[:1000])
        self.fails(capsys, tmp_path, "predict", tmp_path / "model.json", files / "data.csv")

    def test_columns_that_are_not_there(self, files, tmp_path, capsys, table):
        model = files / "regressor.json"
        table.drop(columns="c").to_csv(tmp_path / "data.csv", index=False)
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
        assert "has no columns 'c'; it has 'd', 'b', 'a', 'id', 'count'" in line
        line = self.fails(capsys, tmp_path, "predict", model, files / "data.csv", "--columns", "id,x")
        assert "has no columns 'x'" in line
        line = self.fails(capsys, tmp_path, "explain", model, files / "data.csv", "--features", "a,x")
        assert "--features names 'x'; the model's features are 'a', 'b', 'c', 'd'" in line
        line = self.fails(capsys, tmp_path, "predict", model, files / "data.csv", "--inputs", "a,b")
        assert "--inputs names 2 columns, the model has 4 features" in line
        table.rename(columns=str.upper).to_csv(tmp_path / "data.csv", index=False)
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
        assert "name the columns to use by --inputs" in line

    def test_columns_that_are_there_twice(self, files, tmp_path, capsys, table):
        (tmp_path / "data.csv").write_text("a,b,c,d,d\n1,2,3,4,5\n")
        line = self.fails(capsys, tmp_path, "predict", files / "regressor.json", tmp_path / "data.csv")
        assert "several columns 'd'" in line
        frame = table.rename(columns={"id": "prediction"})
        frame.to_csv(tmp_path / "data.csv", index=False)
        line = self.fails(
            capsys, tmp_path, "predict", files / "regressor.json", tmp_path / "data.csv", "--columns", "prediction"
        )
        assert "the output would have several columns 'prediction'" in line

    def test_text_where_numbers_are_expected(self, files, tmp_path, capsys, table):
        table.assign(a="x").to_parquet(tmp_path / "data.parquet")
        line = self.fails(capsys, tmp_path, "predict", files / "regressor.json", tmp_path / "data.parquet")
        assert "column 'a' of X holds text ('x')" in line

    def test_an_existing_output_survives(self, files, tmp_path):
        out = tmp_path / "out.csv"
        out.write_text("precious")
        assert run("predict", files / "regressor.json", tmp_path / "none.csv", "-o", out) == 1
        (tmp_path / "data.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 10 + "1,2,x,4\n")
        assert run("predict", files / "regressor.json", tmp_path / "data.csv", "-o", out, "--batch-rows", 1) == 1
        assert out.read_text() == "precious"

    def test_a_device_that_is_not_there(self, files, tmp_path, capsys):
        line = self.fails(
            capsys, tmp_path, "predict", files / "regressor.json", files / "data.csv", "--device", "cuda:99"
        )
        assert "cuda:99" in line or "CuPy" in line or "GPU" in line

    def test_traceback_on_request(self, files, tmp_path, capsys):
        arguments = ["predict", files / "regressor.json", tmp_path / "none.csv", "-o", tmp_path / "out.csv"]
        assert run("--traceback", *arguments) == 1
        assert "Traceback" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "the following arguments are required: COMMAND"),
            (["fly"], "invalid choice: 'fly'"),
            (["predict", "m.json", "d.csv"], "the following arguments are required: -o"),
            (["predict", "m.json", "d.txt", "-o", "o.csv"], "d.txt has an unknown suffix, expected one of .csv"),
            (["predict", "m.json", "d.csv", "-o", "o"], "o has an unknown suffix"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--output", "x"], "invalid choice: 'x'"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--columns", "a,,b"], "'a,,b' holds an empty name"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--n-jobs", "0"], "'0' is no whole number of at least 1"),
            (["explain", "m.json", "d.csv", "-o", "o.csv", "--batch-rows", "x"], "'x' is no whole number"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--batch-rows", "9" * 20], "at most 9 digits"),
            (["explain", "m.json", "d.csv", "-o", "o.csv", "--dtype", "int8"], "invalid choice: 'int8'"),
            (
                ["explain", "m.json", "d.csv", "-o", "o.csv", "--device", "gpu"],
                "device is 'gpu', expected 'auto', 'cpu'",
            ),
        ],
    )
    def test_usage(self, capsys, arguments, message):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["predict", "explain", "info", "demo"])
    def test_help(self, capsys, name):
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert name in capsys.readouterr().out

    def test_module(self):
        result = subprocess.run(
            [sys.executable, "-m", "silva", "--version"], capture_output=True, text=True, check=True
        )
        assert result.stdout == f"silva {silva.__version__}\n"


def start_writing(folder, arguments):
    """Start a command and wait until its unfinished file is there."""
    process = subprocess.Popen(
        command(*arguments, folder / "out.parquet"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in folder.iterdir()):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"nothing was written: {process.communicate()}")
        time.sleep(0.01)
    return process


class TestEndsEarly:
    @pytest.mark.parametrize(
        ("number", "code", "message"),
        [
            (signal.SIGINT, 130, "silva: interrupted; no unfinished file is left\n"),
            (signal.SIGTERM, 143, ""),
        ],
    )
    def test_signals_leave_nothing_behind(self, files, tmp_path, number, code, message):
        arguments = ["explain", files / "regressor.json", files / "long.parquet", "--batch-rows", 1, "-o"]
        process = start_writing(tmp_path, arguments)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (code, "", message)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_a_full_disk_leaves_nothing_behind(self, tmp_path, files, suffix):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        arguments = ["explain", files / "regressor.json", files / "long.parquet", "-o", tmp_path / f"out.{suffix}"]
        result = subprocess.run(command(*arguments), preexec_fn=limit, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1
        assert "File too large" in result.stderr
        assert os.listdir(tmp_path) == []


class TestProgress:
    def test_a_bar_on_a_terminal(self, files, tmp_path):
        ours, theirs = pty.openpty()
        arguments = ["predict", files / "regressor.json", files / "data.parquet", "-o", tmp_path / "out.csv"]
        process = subprocess.Popen(command(*arguments, "--batch-rows", 1), stderr=theirs, stdout=subprocess.PIPE)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal hangs up
            while chunk := os.read(ours, 4096):
                shown += chunk
        os.close(ours)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert b"out.csv" in shown
        assert b"%|" in shown
        assert b"1,000 rows in" in out

    def test_silence_elsewhere(self, files, tmp_path):
        arguments = ["predict", files / "regressor.json", files / "data.parquet", "-o", tmp_path / "out.csv"]
        result = subprocess.run(command(*arguments), capture_output=True, text=True, check=True)
        assert result.stderr == ""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output and folder of `silva demo`, as `make demo` runs it."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = subprocess.run(command("demo", "--out", folder), capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout, folder


class TestDemo:
    def test_a_file_in_the_place_of_the_folder(self, tmp_path, capsys):
        (tmp_path / "out").write_text("precious")
        assert run("demo", "--out", tmp_path / "out") == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == f"silva: {tmp_path / 'out'}: File exists\n"

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
        tree = silva.load(folder / "tree.silva")
        assert f" {tree.n_leaves} leaves" in grown
        assert 1 < tree.n_leaves <= 6
        assert sum("rmse" in line for line in out.splitlines()) == tree.n_leaves
        frame = pq.read_table(Path(silva.__file__).parent / "data" / "california_housing.parquet").to_pandas()
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
        folder = Path(silva.__file__).parent / "data"
        assert (folder / "california_housing.json").stat().st_size < 3e6
        booster = xgboost.Booster(model_file=folder / "california_housing.json")
        assert booster.num_boosted_rounds() >= 100
        frame = pq.read_table(folder / "california_housing.parquet").to_pandas()
        expected = booster.predict(xgboost.DMatrix(frame[booster.feature_names]))
        margin = column(read(demo[1] / "explanation.parquet"), "margin")
        np.testing.assert_allclose(margin, expected, rtol=1e-4, atol=1e-5)


PEAK = """
import sys
from silva.cli import main
code = main(sys.argv[1:])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0])
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from Linux's /proc")
def test_memory_does_not_grow_with_rows(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(8)]
    sample = pd.DataFrame(rng.normal(size=(2000, 8)), columns=names)
    train(sample, sample["x0"] * sample["x1"], max_depth=6).save_model(tmp_path / "model.json")
    peaks = []
    for n_rows in (500_000, 4_000_000):
        table = pa.table({name: rng.normal(size=n_rows) for name in names})
        pq.write_table(table, tmp_path / "data.parquet", row_group_size=n_rows)
        arguments = ["explain", tmp_path / "model.json", tmp_path / "data.parquet", "-o", tmp_path / "out.parquet"]
        result = subprocess.run(
            [sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True, timeout=280
        )
        assert pq.read_metadata(tmp_path / "out.parquet").num_rows == n_rows
        peaks.append(int(result.stdout.split()[-1]) / 2**10)
    assert peaks[1] < 1024
    assert peaks[1] < peaks[0] + 100
