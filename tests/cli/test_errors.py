"""What the command line refuses, in one line each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glasswood
from glasswood.cli import main
from glasswood.cli.arguments import make_parser
from tests.cli.files import command, read, run, train


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
            assert line == f"glasswood: {tmp_path / source}: No such file or directory"
        line = self.fails(capsys, tmp_path, "predict", tmp_path / "none.json", data)
        assert line.startswith("glasswood: ")
        assert "none.json" in line
        line = self.fails(capsys, tmp_path, "predict", model, data, out="none/out.csv")
        assert line.endswith("does not exist; create it first")

    def test_damaged_files(self, files, tmp_path, capsys):
        model = files / "regressor.json"
        (tmp_path / "data.parquet").write_bytes((files / "data.parquet").read_bytes()[:-10])
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.parquet")
        assert line.startswith(f"glasswood: cannot read {tmp_path / 'data.parquet'}: ")
        for text in (b"", b"a,b,c,d\n1,2,3\n", b"a,b,c,d\n1,2,x,4\n", b"a,b,c,\xf6\n1,2,3,4\n"):
            (tmp_path / "data.csv").write_bytes(text)
            line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
            assert line.startswith(f"glasswood: cannot read {tmp_path / 'data.csv'}: ")
        (tmp_path / "data.csv.gz").write_bytes(b"a,b,c,d\n1,2,3,4\n")
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv.gz")
        assert line.startswith(f"glasswood: cannot read {tmp_path / 'data.csv.gz'}: ")
        (tmp_path / "model.json").write_text(model.read_text()[:1000])
        self.fails(capsys, tmp_path, "predict", tmp_path / "model.json", files / "data.csv")

    def test_a_first_row_is_no_line_of_names(self, tmp_path, capsys):
        rows = np.random.default_rng(0).normal(size=(50, 3))
        train(rows, rows[:, 0]).save_model(tmp_path / "model.json")  # of arrays, so without names
        (tmp_path / "out").mkdir()
        np.savetxt(tmp_path / "data.csv", rows, delimiter=",")
        for name in ("predict", "explain"):
            line = self.fails(capsys, tmp_path / "out", name, tmp_path / "model.json", tmp_path / "data.csv")
            assert "has numbers where the names of its columns are expected" in line
        for header in ("0,1,2", "2019,2020,2021", "u,v,w"):
            np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header=header, comments="")
            assert run("predict", tmp_path / "model.json", tmp_path / "data.csv", "-o", tmp_path / "out.parquet") == 0
            assert len(read(tmp_path / "out.parquet")) == 50
        capsys.readouterr()

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
        for columns in (["d", "b", "a", "c", "id", "count"], ["d", "b", "a", "c"]):
            table[columns].rename(columns=str.upper).to_csv(tmp_path / "data.csv", index=False)
            line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
            assert "none named like one of the model's 4 features ('a', 'b', 'c', 'd'); name the columns to use" in line
        table[["a", "b", "c", "d"]].to_csv(tmp_path / "data.csv", index=False, header=False)
        line = self.fails(capsys, tmp_path, "predict", model, tmp_path / "data.csv")
        assert "the first line of a CSV file holds its names" in line

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

    def test_text_among_the_numbers_of_a_csv_file(self, files, tmp_path, capsys):
        (tmp_path / "data.csv").write_text("id,b,c,d,a\n" + "r,1,2,3,4\n" * 3 + "r,1,x,3,4\n")
        line = self.fails(capsys, tmp_path, "predict", files / "regressor.json", tmp_path / "data.csv")
        assert "In CSV column 'c': " in line

    @pytest.mark.parametrize("name", ["predict", "explain", "grow", "bench"])
    def test_outputs_are_checked_first(self, files, tmp_path, capsys, monkeypatch, name):
        """Neither a model nor data are read for an output that cannot be written."""
        suffix = "csv" if name in {"predict", "explain"} else "glasswood"
        link, folder = tmp_path / f"link.{suffix}", tmp_path / "closed"
        data = tmp_path / f"data.{suffix}" if name == "grow" else files / "data.csv"
        model = tmp_path / "model.glasswood"
        glasswood.load(files / "regressor.json").save(model)
        (tmp_path / "data.glasswood").write_text("a,y\n1,2\n")
        link.symlink_to({"grow": data, "bench": model}.get(name, data))
        monkeypatch.setattr(glasswood, "load", None)
        monkeypatch.setattr("glasswood.cli.grow.read_table", None)
        arguments = [name, data, "--target", "y"] if name == "grow" else [name, model, data]
        assert run(*arguments, "-o", tmp_path / "none" / f"x.{suffix}") == 1
        assert "does not exist; create it first" in capsys.readouterr().err
        assert run(*arguments, "-o", link) == 1
        assert f"cannot write {link}: it is the input" in capsys.readouterr().err
        folder.mkdir()
        monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != folder)
        assert run(*arguments, "-o", folder / f"x.{suffix}") == 1
        assert f"the folder {folder} is not writable" in capsys.readouterr().err

    def test_outputs_that_are_inputs_by_another_name(self, files, tmp_path, capsys):
        """Background rows, data of a report, and inputs that are links to the output."""
        model, data, link = files / "regressor.json", tmp_path / "data.csv", tmp_path / "link.csv"
        data.write_bytes((files / "data.csv").read_bytes())
        content = data.read_bytes()
        link.symlink_to(data)
        os.link(data, tmp_path / "data.html")
        for arguments in (
            ["explain", model, files / "data.csv", "--background", data, "-o", data],
            ["explain", model, files / "data.csv", "--background", link, "-o", data],
            ["predict", model, link, "-o", data],
            ["report", model, data, "-o", tmp_path / "data.html"],
        ):
            assert run(*arguments) == 1
            assert f"cannot write {arguments[-1]}: it is the input" in capsys.readouterr().err
            assert data.read_bytes() == content
        assert run("report", model, data, "-o", tmp_path / "none" / "x.html") == 1
        assert "does not exist; create it first" in capsys.readouterr().err

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
            ([], "explain every row of a file by SHAP values"),
            (["fly"], "unknown command fly, expected grow, predict, explain,"),
            (["explian"], "unknown command explian (did you mean explain?)"),
            (["--verson"], "unknown option --verson (did you mean --version?)"),
            (["predict", "--ouput=x"], "unknown option --ouput (did you mean --output?)"),
            (["grow", "d.csv", "--targt", "y"], "unknown option --targt (did you mean --target?)"),
            (["grow", "d.csv", "--target", "y", "-o", "x.glasswood", "z"], "unexpected 'z'"),
            (["predict", "m.json", "d.csv"], "the following arguments are required: -o"),
            (["predict", "m.json", "d.txt", "-o", "o.csv"], "d.txt has an unknown suffix, expected one of .csv"),
            (["predict", "m.json", "d.csv", "-o", "o.txt"], "o.txt has an unknown suffix"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--output", "x"], "--output: 'x' is not one of prediction,"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--columns", "a,,b"], "'a,,b' holds an empty name"),
            (
                ["predict", "m.json", "d.csv", "-o", "o.csv", "--n-jobs", "0"],
                "'0' is not a whole number from 1 to",
            ),
            (["explain", "m.json", "d.csv", "-o", "o.csv", "--batch-rows", "x"], "'x' is not a whole number"),
            (["predict", "m.json", "d.csv", "-o", "o.csv", "--batch-rows", "9" * 20], "from 1 to 999999999"),
            (["bench", "m.json", "d.csv", "-o", "x.json"], "x.json has the suffix '.json', expected .glasswood"),
            (["grow", "d.csv", "--target", "y", "-o", "x.json"], "x.json has the suffix '.json', expected .glasswood"),
            (["explain", "m.json", "d.csv", "-o", "o.csv", "--dtype", "int8"], "'int8' is not one of float32"),
            (
                ["explain", "m.json", "d.csv", "-o", "o.csv", "--device", "tpu"],
                "device is 'tpu', expected 'auto', 'cpu'",
            ),
        ],
    )
    def test_usage(self, capsys, arguments, message):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        shown = capsys.readouterr().err
        assert message in shown
        if arguments:
            command = arguments[0] if "-" not in arguments[0] and len(arguments) > 1 else ""
            assert shown.count("\n") == 1
            assert shown.endswith(f"; see '{f'glasswood {command}'.strip()} --help'\n")

    def test_names_that_only_look_like_options(self, files, tmp_path, capsys):
        """What follows -- is a file, a value with a blank a value, and options may be shortened."""
        assert run("predict", files / "regressor.json", "-o", tmp_path / "o.csv", "--n-j=1", "--", "--none.csv") == 1
        assert "--none.csv: No such file" in capsys.readouterr().err
        options = make_parser().parse_args(["report", "m.json", "d.csv", "-o", "o.html", "--title", "--a title--"])
        assert options.title == "--a title--"

    @pytest.mark.parametrize("name", ["predict", "explain", "info", "demo"])
    def test_help(self, capsys, name):
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert name in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["predict", "explain", "grow", "report"])
    def test_examples_of_the_help_are_taken(self, capsys, name):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        example = shown.partition("Example: glasswood ")[2].partition(" positional")[0]
        assert make_parser().parse_args(example.split()).run

    def test_defaults_of_growing_are_those_of_python(self):
        options = make_parser().parse_args(["grow", "d.csv", "--target", "y", "-o", "o.glasswood"])
        own = glasswood.ModelTreeRegressor().get_params()
        names = ("generations", "max_leaves", "time_limit", "n_jobs", "device", "storage")
        assert {name: getattr(options, name) for name in names} == {name: own[name] for name in names}
        assert options.seed == own["random_state"]

    def test_module(self):
        result = subprocess.run(
            [sys.executable, "-m", "glasswood", "--version"], capture_output=True, text=True, check=True
        )
        assert result.stdout == f"glasswood {glasswood.__version__}\n"


@pytest.mark.parametrize("asked", ["bogus", "V2", os.fsdecode(b"v\xff2\x1b7")])
def test_unknown_instruction_sets_are_a_sentence(files, tmp_path, asked):
    arguments = ["predict", files / "regressor.json", files / "data.csv", "-o", tmp_path / "out.csv"]
    env = {**os.environ, "GLASSWOOD_ISA": asked}
    done = subprocess.run(command(*arguments), env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"glasswood: GLASSWOOD_ISA is '[!-~]+', expected one of [a-z0-9, ]+, the kernels of this build that this "
        r"processor runs; unset it for the fastest\n",
        done.stderr,
    )
    script = "import glasswood, sys; glasswood.load(sys.argv[1]).predict([[0.0] * 4])"
    again = [sys.executable, "-c", script, files / "regressor.json"]
    done = subprocess.run(again, env=env, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: GLASSWOOD_ISA is '")


DATA = ["{files}/regressor.json", "{files}/data.csv"]
LOOPS = {
    "model": ["predict", "{loop}.json", "{files}/data.csv", "-o", "{out}.csv"],
    "rows": ["predict", "{files}/regressor.json", "{loop}.csv", "-o", "{out}.csv"],
    "output": ["predict", *DATA, "-o", "{loop}.csv"],
    "folder of output": ["predict", *DATA, "-o", "{loop}.csv/out.csv"],
    "folder of parts": [
        "predict",
        "{files}/regressor.json",
        "{files}/data.csv",
        "-o",
        "{loop}",
        "--partition-rows",
        "9",
    ],
    "saved": [
        "neighbors",
        "{files}/regressor.json",
        "{files}/data.csv",
        "--training",
        "{files}/data.csv",
        "--save",
        "{loop}.glasswood",
        "-o",
        "{out}.csv",
    ],
    "picture": ["plot", "{files}/regressor.json", "-o", "{loop}.svg"],
    "report": ["report", *DATA, "-o", "{loop}.html"],
    "tree": ["grow", "{files}/data.csv", "--target", "a", "-o", "{loop}.glasswood"],
    "demo": ["demo", "--out", "{loop}"],
}


@pytest.mark.parametrize("name", LOOPS)
def test_links_in_a_circle_are_a_sentence(files, tmp_path, capsys, name):
    for suffix in ("", ".json", ".csv", ".glasswood", ".svg", ".html"):
        (tmp_path / f"loop{suffix}").symlink_to(tmp_path / f"back{suffix}")
        (tmp_path / f"back{suffix}").symlink_to(tmp_path / f"loop{suffix}")
    places = {"loop": tmp_path / "loop", "files": files, "out": tmp_path / "out"}
    assert run(*(word.format(**places) for word in LOOPS[name])) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"glasswood: .*(symbolic links|does not exist|File exists).*\n", printed.err)
    assert sorted(os.listdir(tmp_path)) == sorted(
        f"{end}{suffix}" for end in ("loop", "back") for suffix in ("", ".json", ".csv", ".glasswood", ".svg", ".html")
    )


def test_saving_over_links_in_a_circle(files, tmp_path):
    (tmp_path / "loop.glasswood").symlink_to("loop.glasswood")
    with pytest.raises(OSError, match="Too many levels of symbolic links; give the path of a file"):
        glasswood.load(files / "regressor.json").save(tmp_path / "loop.glasswood")
    assert (tmp_path / "loop.glasswood").is_symlink()
