"""Rows that come from standard input or a pipe are read once, and are those of the file."""

from __future__ import annotations

import io
import os
import shlex
import subprocess

import numpy as np
import pandas as pd
import pytest

import glasswood
from tests.cli.files import command, run, write
from tests.sizes import rest_slow

FORMATS = ("csv", "parquet", "arrow", "feather")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, files, data, target):
    """Rows with their target in each format."""
    folder = tmp_path_factory.mktemp("streams")
    for suffix in FORMATS:
        write(data[["c", "a", "d", "b"]].assign(y=target), folder / f"rows.{suffix}")
    (folder / "model.json").write_bytes((files / "regressor.json").read_bytes())
    return folder


COMMANDS = {
    "score": ("rows", "--target", "y", "-o", "out.json"),
    "report": ("rows", "--target", "y", "-o", "out.html"),
    "plot": ("rows", "--target", "y", "-o", "out.png"),
    "neighbors": (
        *("rows.csv", "--training", "rows", "--target", "y", "--no-check"),
        *("--quantiles", "0.5", "-o", "out.csv"),
    ),
}
"""Arguments behind the model; what reads a target beside the features."""


class Stream:
    """Standard input of some bytes."""

    def __init__(self, content):
        self.buffer = io.BufferedReader(io.BytesIO(content))


def answer(folder, name, rows, monkeypatch, content=b"", more=()):
    """Exit code of a command, and what it has written."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", Stream(content))
    words = [rows if word == "rows" else word for word in COMMANDS[name]]
    code, out = run(name, "model.json", *words, *more), folder / words[-1]
    return code, out.stat().st_size if name == "report" else out.read_bytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_scores_of_standard_input_are_those_of_the_file(folder, suffix, monkeypatch, capsys):
    content = (folder / f"rows.{suffix}").read_bytes()
    for more in ((), ("--rows", "150")):
        expected = *answer(folder, "score", f"rows.{suffix}", monkeypatch, more=more), capsys.readouterr().out
        found = *answer(folder, "score", "-", monkeypatch, content, more), capsys.readouterr().out
        assert found == expected
        assert expected[0] == 0
        assert "ScoreValues(4 features, 150 rows" in expected[2] or not more


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "score"])
def test_rows_and_their_target_come_from_standard_input(folder, name, monkeypatch):
    expected = answer(folder, name, "rows.parquet", monkeypatch)
    found = answer(folder, name, "-", monkeypatch, (folder / "rows.parquet").read_bytes())
    assert found[0] == expected[0] == 0
    assert found[1] == expected[1] or name == "report"  # which says when it was made
    assert abs(len(str(found[1])) - len(str(expected[1]))) < 9


def test_scores_on_file_are_those_of_python(folder, data, tmp_path):
    """Column by name, in whatever order, target beside its own row."""
    assert run("score", folder / "model.json", folder / "rows.csv", "--target", "y", "-o", tmp_path / "out.json") == 0
    y = pd.read_csv(folder / "rows.csv")["y"].to_numpy()
    expected = glasswood.score_values(folder / "model.json", data, y)
    found = glasswood.ScoreValues.load(tmp_path / "out.json")
    np.testing.assert_array_equal(found.values, expected.values)
    assert (found.baseline, found.n_rows, found.names) == (expected.baseline, len(data), expected.names)


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["predict", "score"])
def test_named_pipes_are_refused(folder, tmp_path, name, suffix, capsys):
    """Arrow waited for a second writer in them, and neither Ctrl-C nor SIGTERM ended that."""
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    more = ("--target", "y") if name == "score" else ("-o", "-")
    assert run(name, folder / "model.json", tmp_path / f"pipe.{suffix}", *more) == 1
    error = capsys.readouterr().err
    assert "is a pipe or a device, expected a file; name - and redirect it to standard input" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input"),
        (b'{"a": 1}\n', "standard input has the 1 columns"),
        (b"a,b,c,d,y\n", "X has no rows"),
        (b"a,b,c,d,y\n1,2,3,4,\n", "column 'y' of standard input has no value in row 0"),
        (b"a,b,c,d,y\n1,2,3,4,nan\n", "column 'y' of standard input has no value in row 0"),
        (b"a,b,c,d,y\n1,2,3,4,x\n", "y"),
        (b"a,b,c,d\n1,2,3,4\n", "standard input has no columns 'y'"),
        (b"a,b,c,d,y,y\n1,2,3,4,5,6\n", "several columns 'y'"),
        (b"PAR1" + bytes(40), "standard input"),
        (b"ARROW1" + bytes(40), "standard input"),
        (b"\xff\xff\xff\xff" + bytes(40), "standard input"),
    ],
)
def test_hostile_standard_input_is_a_sentence(folder, content, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stream(content))
    assert run("score", folder / "model.json", "-", "--target", "y") == 1
    error = capsys.readouterr().err
    assert error.startswith("glasswood: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.skipif(os.name == "nt", reason="descriptors of POSIX")
@pytest.mark.parametrize("closed", rest_slow(2, ["0<&- 1>&- 2>&-", "| head -c 1", "0<&-", "1>&-", "2>&-"]))
def test_scores_are_written_where_streams_are_closed(folder, tmp_path, closed):
    words = ["score", str(folder / "model.json"), str(folder / "rows.csv"), "--target", "y", "-o"]
    line = f"{shlex.join([*command(*words), str(tmp_path / 'out.json')])} {closed}"
    assert subprocess.run(["sh", "-c", line], check=False, capture_output=True).returncode == 0
    assert glasswood.ScoreValues.load(tmp_path / "out.json").n_rows == 1000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_a_sentence(folder):
    words = shlex.join(command("score", folder / "model.json", folder / "rows.csv", "--target", "y"))
    done = subprocess.run(["sh", "-c", f"{words} > /dev/full"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_scores_go_to_no_stream(folder, capsys):
    with pytest.raises(SystemExit):
        run("score", folder / "model.json", folder / "rows.csv", "--target", "y", "-o", "-")
    assert "- has the suffix '', expected .json" in capsys.readouterr().err
