"""Directories, patterns, streams and dialects: the results of one plain file."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import glasswood
from glasswood.cli.tables.reader import TableReader
from tests.cli.files import N_ROWS, column, command, read, run, write


@pytest.fixture(scope="module")
def expected(files, tmp_path_factory):
    """What a Parquet file gives."""
    path = tmp_path_factory.mktemp("expected") / "out.parquet"
    run("predict", files / "regressor.json", files / "data.parquet", "-o", path, "--columns", "id")
    return plain(read(path))


def plain(table):
    """Text of CSV and of pandas has the same type."""
    kinds = [pa.string() if pa.types.is_large_string(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def predict(files, tmp_path, data, *arguments):
    assert run("predict", files / "regressor.json", data, "-o", tmp_path / "out.parquet", *arguments) == 0
    return plain(read(tmp_path / "out.parquet"))


@pytest.fixture
def standard_input(monkeypatch):
    """What a function gives this process to read from standard input: a file."""
    with contextlib.ExitStack() as files:
        yield lambda path: monkeypatch.setattr(sys, "stdin", files.enter_context(open(path)))


class TestSeveralFiles:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".arrow"])
    def test_directories_and_patterns(self, files, tmp_path, table, expected, suffix):
        for i, start in enumerate(range(0, N_ROWS, 170)):
            write(table[start : start + 170], tmp_path / "data" / f"part-{i:02d}{suffix}")
        (tmp_path / "data" / "_metadata.parquet").write_text("about the table")
        (tmp_path / "data" / "_SUCCESS").touch()
        assert predict(files, tmp_path, tmp_path / "data", "--columns", "id").equals(expected)
        assert predict(files, tmp_path, tmp_path / "data" / f"p*{suffix}", "--columns", "id").equals(expected)

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_folders_are_columns(self, files, tmp_path, table, expected, suffix):
        """Of text, whole numbers and missing values; a feature may be one."""
        for i, start in enumerate(range(0, N_ROWS, 500)):
            place = tmp_path / f"year={2020 + i}" / ("kind=a%20b" if i else "kind=__HIVE_DEFAULT_PARTITION__")
            write(table[start : start + 500], place / f"x{suffix}")
        result = predict(files, tmp_path, tmp_path / "year=*/*/*" if suffix == ".csv" else tmp_path, "--columns", "id")
        assert result.equals(expected)
        result = predict(files, tmp_path, tmp_path / f"*/*/*{suffix}", "--columns", "year,kind,id")
        assert result["year"].to_pylist() == [2020] * 500 + [2021] * 500
        assert result["kind"].to_pylist() == [None] * 500 + ["a b"] * 500
        write(table.drop(columns="b"), tmp_path / "by_b" / "b=1" / f"x{suffix}")
        of_ones = glasswood.load(files / "regressor.json").predict(table.assign(b=1)[["a", "b", "c", "d"]])
        assert column(predict(files, tmp_path, tmp_path / "by_b"), "prediction").tobytes() == of_ones.tobytes()

    def test_folders_of_one_column_have_one_type(self, tmp_path, table):
        """Missing values stand beside whole numbers; what only looks like one is text."""
        for name, value in (("year", "__HIVE_DEFAULT_PARTITION__"), ("year", "-5"), ("x", "--5"), ("y", str(2**63))):
            write(table[:3], tmp_path / name / f"{name}={value}" / "part.parquet")
        batches = list(TableReader(tmp_path / "year").batches(["year"], [], [], 10))
        assert [batch.column(0).type for batch in batches] == [pa.int64()] * 2
        assert [batch.column(0).to_pylist() for batch in batches] == [[-5] * 3, [None] * 3]
        for name, value in (("x", "--5"), ("y", str(2**63))):
            assert TableReader(tmp_path / name).whole()[name].to_pylist() == [value] * 3

    def test_types_that_differ(self, files, tmp_path, table, expected):
        """Features may change their type; kept columns have that of the first file."""
        write(table[:600].astype({"count": "int64"}), tmp_path / "data" / "a.parquet")
        write(table[600:].astype({"count": "int32", "a": "float64"}), tmp_path / "data" / "b.parquet")
        result = predict(files, tmp_path, tmp_path / "data", "--columns", "id,count")
        assert result.schema.field("count").type == pa.int64()
        assert result["count"].to_pylist() == list(range(N_ROWS))
        assert result["prediction"].equals(expected["prediction"])

    def test_a_file_without_rows(self, files, tmp_path, table, expected):
        write(table[:0], tmp_path / "data" / "a.parquet")
        write(table, tmp_path / "data" / "b.parquet")
        assert column(predict(files, tmp_path, tmp_path / "data"), "prediction").tolist() == (
            column(expected, "prediction").tolist()
        )

    def test_growing(self, tmp_path, table, target):
        frame = table.assign(y=target)
        for i in range(2):
            write(frame[i * 500 : i * 500 + 500], tmp_path / "data" / f"{i}.csv")
        frame.to_csv(tmp_path / "one.csv", index=False, sep=";", decimal=",")
        options = ["--target", "y", "--columns", "a,b,c,d", "--generations", "2"]
        assert run("grow", tmp_path / "data", "-o", tmp_path / "a.glasswood", *options) == 0
        assert run("grow", tmp_path / "one.csv", "-o", tmp_path / "b.glasswood", "--decimal", ",", *options) == 0
        assert (tmp_path / "a.glasswood").read_bytes() == (tmp_path / "b.glasswood").read_bytes()


class TestStreams:
    def test_standard_input_and_output(self, files, expected):
        arguments = ["predict", files / "regressor.json", "-", "-o", "-", "--columns", "id", "--out-format", "arrow"]
        with open(files / "data.csv", "rb") as file:
            done = subprocess.run(command(*arguments), stdin=file, capture_output=True, check=True)
        assert plain(pa.ipc.open_stream(done.stdout).read_all()).equals(expected)
        assert done.stderr.startswith(b"-: 1,000 rows in ")

    @pytest.mark.parametrize("form", ["parquet", "arrow", "feather"])
    def test_formats_of_standard_input(self, files, tmp_path, table, expected, form, standard_input):
        write(table, tmp_path / f"data.{form}")
        standard_input(tmp_path / f"data.{form}")
        assert predict(files, tmp_path, "-", "--columns", "id").equals(expected)

    def test_csv_is_the_default(self, files, expected):
        arguments = ["predict", files / "regressor.json", files / "data.parquet", "-o", "-", "--columns", "id"]
        done = subprocess.run(command(*arguments), capture_output=True, check=True)
        found = pd.read_csv(io.BytesIO(done.stdout))
        assert found["id"].tolist() == expected["id"].to_pylist()
        np.testing.assert_allclose(found["prediction"], column(expected, "prediction"), rtol=1e-6)

    def test_more_than_a_block(self, files, tmp_path, table, standard_input):
        frame = pd.concat([table] * 80)
        frame.to_csv(tmp_path / "long.csv", index=False)
        assert os.path.getsize(tmp_path / "long.csv") > 2**22
        standard_input(tmp_path / "long.csv")
        assert column(predict(files, tmp_path, "-", "--columns", "count"), "count").tolist() == frame["count"].tolist()


class TestDialects:
    def test_semicolons_and_decimal_commas(self, files, tmp_path, table, expected, capsys):
        table.to_csv(tmp_path / "data.csv", index=False, sep=";", decimal=",")
        assert predict(files, tmp_path, tmp_path / "data.csv", "--columns", "id", "--decimal", ",").equals(expected)
        assert "data.csv has ';' between its columns; pass --delimiter if it is another one" in capsys.readouterr().err
        arguments = ["--columns", "id", "--decimal", ",", "--delimiter", ";"]
        assert predict(files, tmp_path, tmp_path / "data.csv", *arguments).equals(expected)
        assert capsys.readouterr().err == ""
        assert run("predict", files / "regressor.json", tmp_path / "data.csv", "-o", tmp_path / "x.csv") == 1
        assert "if commas are decimal points, say --decimal ," in capsys.readouterr().err

    @pytest.mark.parametrize(("sep", "name"), [("\t", "\\t"), ("|", "|")])
    def test_other_delimiters(self, files, tmp_path, table, expected, sep, name):
        table.to_csv(tmp_path / "data.csv.gz", index=False, sep=sep)
        result = predict(files, tmp_path, tmp_path / "data.csv.gz", "--columns", "id", "--delimiter", name)
        assert result.equals(expected)

    @pytest.mark.parametrize("long", ["name", "cell"])
    def test_lines_end_with_carriage_returns_and_fields_are_long(
        self, files, tmp_path, table, expected, long, standard_input
    ):
        """Fields above the 131,072 characters of the csv module, in files of two blocks, from standard input too."""
        table = table.assign(extra="", **{"n" * (140_000 if long == "name" else 1): 0})
        table.loc[3, "extra"] = "c" * (140_000 if long == "cell" else 1)
        repeated = pd.concat([table] * 80)
        repeated.to_csv(tmp_path / "data.csv", index=False, lineterminator="\r")
        assert os.path.getsize(tmp_path / "data.csv") > 2**22
        found = predict(files, tmp_path, tmp_path / "data.csv", "--columns", "id")
        assert found.slice(0, len(table)).equals(expected)
        standard_input(tmp_path / "data.csv")
        assert predict(files, tmp_path, "-", "--columns", "id").equals(found)

    @pytest.mark.parametrize(("first", "stream"), [(5, True), (900, False)])
    def test_quoted_empty_cells_are_missing_numbers(self, files, tmp_path, table, first, stream, standard_input):
        """From the first rows on, or after blocks without any."""
        blanked = pd.concat([table] * 100, ignore_index=True)
        blanked.loc[first * 100 :: 3, "a"] = np.nan
        lines = blanked.to_csv(index=False, na_rep='""', quoting=3, quotechar="'").replace("'", "")
        (tmp_path / "data.csv").write_text(lines)
        standard_input(tmp_path / "data.csv")
        result = predict(files, tmp_path, "-" if stream else tmp_path / "data.csv", "--columns", "count")
        expected = glasswood.load(files / "regressor.json").predict(blanked[["a", "b", "c", "d"]])
        assert column(result, "prediction").tobytes() == expected.tobytes()
        assert column(result, "count").tolist() == blanked["count"].tolist()

    def test_quoted_empty_text_is_a_category(self, tmp_path):
        import xgboost

        frame = pd.DataFrame({"t": pd.Categorical(["", "x", "y"] * 40), "u": np.arange(120.0)})
        model = xgboost.XGBRegressor(n_estimators=4, enable_categorical=True).fit(frame, np.arange(120) % 3)
        model.save_model(tmp_path / "model.json")
        (tmp_path / "data.csv").write_text('t,u\n"",1\nx,""\n,2\n')
        assert run("predict", tmp_path / "model.json", tmp_path / "data.csv", "-o", tmp_path / "out.parquet") == 0
        rows = pd.DataFrame({"t": pd.Categorical(["", "x", None]), "u": [1.0, np.nan, 2.0]})
        expected = glasswood.load(tmp_path / "model.json").predict(rows)
        assert column(read(tmp_path / "out.parquet"), "prediction").tolist() == expected.tolist()


class TestDirectories:
    @pytest.mark.parametrize("form", [None, "csv", "arrow"])
    def test_partitions(self, files, tmp_path, expected, form):
        arguments = ["-o", tmp_path / "out", "--columns", "id", "--partition-rows", "301", "--batch-rows", "70"]
        arguments += ["--out-format", form] if form else []
        assert run("predict", files / "regressor.json", files / "data.parquet", *arguments) == 0
        parts = sorted((tmp_path / "out").iterdir())
        suffix = {None: "parquet", "csv": "csv", "arrow": "arrow"}[form]
        assert [part.name for part in parts] == [f"part-0000{i}.{suffix}" for i in range(4)]
        make = {None: pl.read_parquet, "csv": pl.read_csv, "arrow": pl.read_ipc}[form]
        tables = [make(part) for part in parts]
        assert [len(table) for table in tables] == [301, 301, 301, 97]
        together = pl.concat(tables)
        assert together["id"].to_list() == expected["id"].to_pylist()
        np.testing.assert_allclose(together["prediction"], column(expected, "prediction"), rtol=1e-6)

    def test_no_rows_are_one_file(self, files, tmp_path, table):
        table[:0].to_parquet(tmp_path / "none.parquet")
        arguments = ["-o", tmp_path / "out", "--partition-rows", "10"]
        assert run("predict", files / "regressor.json", tmp_path / "none.parquet", *arguments) == 0
        assert read(tmp_path / "out" / "part-00000.parquet").num_rows == 0

    def test_what_is_there_stays(self, files, tmp_path, capsys):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        arguments = ["-o", tmp_path / "out", "--partition-rows", "10"]
        assert run("predict", files / "regressor.json", files / "data.parquet", *arguments) == 1
        assert "out: it exists; a directory of files is not replaced, remove it first" in capsys.readouterr().err
        assert os.listdir(tmp_path / "out") == ["mine"]

    def test_an_error_leaves_nothing(self, files, tmp_path, table, capsys):
        write(table, tmp_path / "data" / "a.parquet")
        write(table.drop(columns="c"), tmp_path / "data" / "b.parquet")
        arguments = ["-o", tmp_path / "out", "--partition-rows", "10"]
        assert run("predict", files / "regressor.json", tmp_path / "data", *arguments) == 1
        assert "b.parquet has no columns 'c'; the first file has them" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["data"]


class TestErrors:
    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ([], "data holds no table; expected files that end in .csv"),
            (["a.csv", "b.parquet"], "data holds files of several formats (csv, parquet); name those of one"),
            (["x=1/a.csv", "b.csv"], "data name the columns none for some files, 'x' for others"),
        ],
    )
    def test_directories(self, files, tmp_path, capsys, names, message):
        (tmp_path / "data").mkdir()
        for name in names:
            (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "data" / name).touch()
        assert run("predict", files / "regressor.json", tmp_path / "data", "-o", tmp_path / "out.csv") == 1
        assert message in capsys.readouterr().err

    def test_outputs(self, files, tmp_path, capsys):
        model, data = files / "regressor.json", files / "data.parquet"
        assert run("predict", model, data, "-o", tmp_path / "out") == 1
        assert (
            "out has no suffix that says its format; for a directory pass --partition-rows" in capsys.readouterr().err
        )
        assert run("predict", model, data, "-o", "-", "--partition-rows", "5") == 1
        assert "a directory of files cannot go to standard output" in capsys.readouterr().err
        assert run("predict", model, files / "data.*et", "-o", data) == 1
        assert "it is the input" in capsys.readouterr().err
        assert run("predict", model, data, "-o", tmp_path / "a.csv", "--delimiter", ",", "--decimal", ",") == 1
        assert "--delimiter and --decimal are both ','; they must differ" in capsys.readouterr().err

    def test_standard_input_without_columns(self, files, tmp_path):
        arguments = ["predict", files / "regressor.json", "-", "-o", tmp_path / "out.csv"]
        done = subprocess.run(command(*arguments), input=b"x,y\n1,2\n", capture_output=True, check=False)
        assert done.returncode == 1
        assert b"standard input has the 2 columns 'x', 'y', none named like one of the model's 4" in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="of POSIX")
def test_pipes_devices_and_folders_among_the_files_are_skipped(files, tmp_path, expected):
    """One that opens a pipe waits until somebody writes."""
    folder = tmp_path / "data"
    (folder / "day.parquet").mkdir(parents=True)
    (folder / "a.parquet").write_bytes((files / "data.parquet").read_bytes())
    os.mkfifo(folder / "b.parquet")
    (folder / "c.parquet").symlink_to("/dev/zero")
    assert predict(files, tmp_path, folder, "--columns", "id").equals(expected)


def test_patterns_enter_no_links(tmp_path, monkeypatch):
    """A link to a folder above would list each file again and again, as other rows."""
    from glasswood.cli.tables import sources

    for name in ("a.csv", "deep/b.csv", "deep/c.txt", ".hidden/d.csv", "deep/.e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    for place in ("up", "deep/up"):
        (tmp_path / place).symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    for pattern in (tmp_path / "**" / "*.csv", type(tmp_path)("**/*.csv")):
        found = [file.resolve().relative_to(tmp_path.resolve()).as_posix() for file in sources.find(pattern).files]
        assert found == ["a.csv", "deep/b.csv"]


def test_patterns_of_folders_are_their_files(tmp_path):
    """`day=*.parquet` may be files, or folders that a cluster has written."""
    from glasswood.cli.tables import sources

    for name in ("day=1.csv/part-0.csv", "day=2.csv/deep/part-1.csv", "day=2.csv/_SUCCESS", "day=2.csv/_old/part.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "day=3.csv").symlink_to(tmp_path / "day=1.csv", target_is_directory=True)
    found = sources.find(tmp_path / "day=*.csv")
    assert [file.name for file in found.files] == ["part-0.csv", "part-1.csv"]
    assert found.partitions == ({"day": "1.csv"}, {"day": "2.csv"})
    (tmp_path / "day=9.csv").write_text("x\n1\n")
    assert [file.name for file in sources.find(tmp_path / "day=*.csv").files] == ["day=9.csv"]


def test_tables_of_many_columns(tmp_path):
    """10,000 columns took 8 s: sets of names were made anew for each. pyarrow takes 9 kB a column."""
    from glasswood.cli.tables.reader import TableReader

    path = tmp_path / "wide.csv"
    path.write_bytes(b",".join(b"c%d" % i for i in range(50_001)) + b"\n")
    with pytest.raises(ValueError, match=f"cannot read {path}: it has more than 50,000 columns; write it as Parquet"):
        TableReader(path)
