"""`--resume`: a run that ended early goes on, and ends with the files of a run that did not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

import pytest

from glasswood.mapping.mapper import Mapper
from tests.cli.files import N_ROWS, command, read, run, write


class Stopped(BaseException):
    """As an interrupt, which no code of the commands expects."""


def stop_after(monkeypatch, n_calls):
    """Let mappers raise after so many batches."""
    calls, original = [0], Mapper.__call__

    def mapped(self, batch):
        calls[0] += 1
        if calls[0] > n_calls:
            raise Stopped
        return original(self, batch)

    monkeypatch.setattr(Mapper, "__call__", mapped)
    return calls


def parts(folder):
    return {path.name: read(path) for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("extra", [[], ["--out-format", "csv"]])
def test_a_run_goes_on_with_the_parts_that_are_there(files, tmp_path, monkeypatch, capsys, extra):
    arguments = ["explain", files / "regressor.json", files / "data.parquet", "--partition-rows", "150", *extra]
    assert run(*arguments, "-o", tmp_path / "whole") == 0
    arguments += ["-o", tmp_path / "out", "--resume", "--batch-rows", "100"]
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Stopped):
            run(*arguments)
    # 400 rows: two parts of 150, and a third that was not finished
    assert len(list((tmp_path / "out.unfinished").glob("part-*"))) == 2
    assert not list((tmp_path / "out.unfinished").glob(".glasswood-*"))
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        calls = stop_after(patch, 1000)
        assert run(*arguments) == 0
    assert calls[0] == 7, "of ten batches, three were finished"
    assert f"{N_ROWS - 300:,} rows" in (said := capsys.readouterr().out)
    assert "beside 2 parts of an earlier run" in said
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["out", "whole"]


def test_only_the_same_run_goes_on(files, tmp_path, monkeypatch, capsys, table):
    shutil.copy(files / "regressor.json", tmp_path / "model.json")
    write(table, tmp_path / "rows.parquet")
    arguments = ["predict", tmp_path / "model.json", tmp_path / "rows.parquet", "--partition-rows", "300"]
    arguments += ["-o", tmp_path / "out", "--resume", "--batch-rows", "300"]
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Stopped):
            run(*arguments)

    def refused(*changed):
        assert run(*changed) == 1
        return capsys.readouterr().err

    assert "another output; remove it" in refused(*arguments, "--output", "leaf")
    assert "another columns" in refused(*arguments, "--columns", "id")
    shutil.copy(files / "classifier.json", tmp_path / "model.json")
    assert "another model's content; remove it" in refused(*arguments)
    shutil.copy(files / "regressor.json", tmp_path / "model.json")
    write(table[:-1], tmp_path / "rows.parquet")
    assert "another rows; remove it" in refused(*arguments)
    shutil.rmtree(tmp_path / "out.unfinished")
    assert run(*arguments, "--n-jobs", "1") == 0
    (tmp_path / "out.unfinished").mkdir()
    shutil.rmtree(tmp_path / "out")
    assert "says of no run" in refused(*arguments)


def test_what_cannot_be_resumed(files, tmp_path, capsys):
    arguments = ["predict", files / "regressor.json"]
    assert run(*arguments, files / "data.parquet", "-o", tmp_path / "out.csv", "--resume") == 1
    assert "add --partition-rows or --scheduler" in capsys.readouterr().err
    assert run(*arguments, "-", "-o", tmp_path / "out", "--partition-rows", "9", "--resume") == 1
    assert "not standard input" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(files, tmp_path):
    arguments = ["explain", files / "regressor.json", files / "data.parquet", "--partition-rows", "1"]
    arguments += ["--batch-rows", "1", "--resume", "-o", tmp_path / "out"]
    process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL)
    while len(list(tmp_path.glob("out.unfinished/part-*"))) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run(*arguments) == 0
    assert run("explain", files / "regressor.json", files / "data.parquet", "-o", tmp_path / "one.parquet") == 0
    assert [part.num_rows for part in parts(tmp_path / "out").values()] == [1] * N_ROWS
