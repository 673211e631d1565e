"""`--scheduler`: workers write the parts that one process would, and one sentence says what went wrong."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time

import pandas as pd
import pyarrow as pa
import pytest

from glasswood.cli import cluster
from tests.cli.files import N_ROWS, command, read, run, stack, write


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """Address of a scheduler with two workers."""
    with started(tmp_path_factory.mktemp("scheduler")) as (address, _):
        yield address


@contextlib.contextmanager
def started(folder):
    """Address and process of a scheduler with two workers, as `dask scheduler` and `dask worker` start them."""
    pytest.importorskip("distributed")
    start = "from distributed.cli.dask_{0} import main; main()"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    told = folder / "scheduler.json"
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", told]
    processes = [subprocess.Popen([sys.executable, "-c", start.format("scheduler"), *arguments], **quiet)]
    arguments = ["--scheduler-file", told, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
    processes += [subprocess.Popen([sys.executable, "-c", start.format("worker"), *arguments], cwd=folder, **quiet)]
    for _ in range(300):
        if told.exists() and (text := told.read_text()):
            break
        time.sleep(0.1)
    yield json.loads(text)["address"], processes[0]
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # workers look for a scheduler that is gone
            process.kill()
            process.wait(10)


@pytest.mark.slow
class TestScheduler:
    def test_parts_of_files(self, files, tmp_path, table, scheduler):
        for i, start in enumerate(range(0, N_ROWS, 100)):
            write(table[start : start + 100], tmp_path / "data" / f"x={i}" / "rows.parquet")
        model = files / "regressor.json"
        assert run("explain", model, files / "data.parquet", "-o", tmp_path / "one.parquet", "--columns", "id") == 0
        arguments = ["--columns", "id,x", "--scheduler", scheduler]
        assert run("explain", model, tmp_path / "data", "-o", tmp_path / "out", *arguments) == 0
        parts = sorted((tmp_path / "out").iterdir())
        assert [part.name for part in parts] == [f"part-{i:05d}.parquet" for i in range(10)]
        together, one = pa.concat_tables([read(part) for part in parts]), read(tmp_path / "one.parquet")
        # files in the order of their names: x=0, x=1, ... x=9
        assert together.drop_columns("x").equals(one)
        assert together.schema.metadata == one.schema.metadata
        assert stack(together, ["phi_a"]).shape == (N_ROWS, 1)
        arguments = ["--top", "2", "--scheduler", scheduler]
        assert run("explain", model, tmp_path / "data", "-o", tmp_path / "strongest", *arguments) == 0
        assert run("explain", model, files / "data.parquet", "-o", tmp_path / "two.parquet", "--top", "2") == 0
        strongest = pa.concat_tables([read(part) for part in sorted((tmp_path / "strongest").iterdir())])
        assert strongest.equals(read(tmp_path / "two.parquet"))

    def test_parts_that_an_earlier_run_finished_stay(self, files, tmp_path, table, scheduler, monkeypatch, capsys):
        for name in "abc":
            write(table, tmp_path / "data" / f"{name}.parquet")
        arguments = ["predict", files / "regressor.json", tmp_path / "data", "--scheduler", scheduler]
        arguments += ["-o", tmp_path / "out", "--resume"]
        with monkeypatch.context() as patch:

            def stopped(folder):
                (folder / "part-00001.parquet").unlink()
                raise OSError("the machine went away")

            patch.setattr(cluster, "sweep", stopped)
            assert run(*arguments) == 1
        first = (tmp_path / "out.unfinished" / "part-00000.parquet").stat().st_mtime_ns
        assert run(*arguments) == 0
        assert f"{N_ROWS:,} rows" in (said := capsys.readouterr().out)
        assert "beside 2 parts of an earlier run" in said
        assert sorted(os.listdir(tmp_path)) == ["data", "out"]
        assert (tmp_path / "out" / "part-00000.parquet").stat().st_mtime_ns == first
        assert [read(part).num_rows for part in (tmp_path / "out").iterdir()] == [N_ROWS] * 3

    def test_what_killed_workers_left_is_removed(self, files, tmp_path, table, scheduler, monkeypatch):
        write(table, tmp_path / "data" / "a.parquet")
        make = cluster.Job

        def job(*arguments):
            (arguments[5] / ".glasswood-0123456789abcdef.part").touch()
            return make(*arguments)

        monkeypatch.setattr(cluster, "Job", job)
        arguments = ["-o", tmp_path / "out", "--scheduler", scheduler]
        assert run("predict", files / "regressor.json", tmp_path / "data", *arguments) == 0
        assert os.listdir(tmp_path / "out") == ["part-00000.parquet"]

    def test_a_column_that_a_file_lacks(self, files, tmp_path, table, scheduler, capsys):
        write(table, tmp_path / "data" / "a.parquet")
        write(table.drop(columns="c"), tmp_path / "data" / "b.parquet")
        arguments = ["-o", tmp_path / "out", "--scheduler", scheduler]
        assert run("predict", files / "regressor.json", tmp_path / "data", *arguments) == 1
        assert "'c'" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["data"]

    def test_a_scheduler_that_goes_in_the_middle(self, files, tmp_path, table, capsys, monkeypatch):
        write(table, tmp_path / "data" / "a.parquet")
        make = cluster.Job
        with started(tmp_path / "data") as (address, process):

            def job(*arguments):
                process.kill()
                process.wait(30)
                return make(*arguments)

            monkeypatch.setattr(cluster, "Job", job)
            arguments = ["-o", tmp_path / "out", "--scheduler", address]
            assert run("predict", files / "regressor.json", tmp_path / "data" / "a.parquet", *arguments) == 1
        assert f"the scheduler at {address} is gone" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["data"]

    @pytest.mark.parametrize("end", ["kill", "terminate"])
    def test_a_scheduler_that_goes_while_tasks_run(self, end, files, tmp_path, table):
        """Some parts are finished, others are being written; the one sentence is all that a user sees."""
        for i in range(8):
            write(pd.concat([table] * 100), tmp_path / "data" / f"{i}.parquet")
        (tmp_path / "out").mkdir()
        with started(tmp_path / "data") as (address, process):
            arguments = ["-o", tmp_path / "out" / "parts", "--scheduler", address, "--batch-rows", "500"]
            shell = subprocess.Popen(
                command("explain", files / "regressor.json", tmp_path / "data" / "*.parquet", *arguments),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            while not list((tmp_path / "out").glob("*/part-*")):
                assert shell.poll() is None
                time.sleep(0.01)
            getattr(process, end)()
            out, error = shell.communicate(timeout=120)
        assert (shell.returncode, out) == (1, "")
        assert len(error.splitlines()) == 1
        assert f"the scheduler at {address} is gone" in error
        assert os.listdir(tmp_path / "out") == []

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            (importlib.metadata.PackageNotFoundError("glasswood"), "has no glasswood"),
            ("9.9", "has glasswood 9.9, this is glasswood"),
        ],
    )
    def test_workers_without_glasswood_or_with_another_are_named(self, found, message, files, tmp_path, table, capsys,
                                                              scheduler, monkeypatch):  # fmt: skip
        import distributed

        write(table, tmp_path / "data" / "a.parquet")
        monkeypatch.setattr(distributed.Client, "run", lambda *_, **__: {"tcp://10.0.0.7:1": found})
        arguments = ["-o", tmp_path / "out", "--scheduler", scheduler]
        assert run("predict", files / "regressor.json", tmp_path / "data", *arguments) == 1
        assert f"the worker tcp://10.0.0.7:1 {message}" in capsys.readouterr().err
        assert os.listdir(tmp_path) == ["data"]

    def test_errors(self, files, tmp_path, capsys):
        model = files / "regressor.json"
        arguments = ["-o", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9"]
        assert run("predict", model, "-", *arguments) == 1
        assert "--scheduler reads files that all workers see, not standard input" in capsys.readouterr().err
        assert run("predict", model, files / "data.csv", *arguments, "--partition-rows", "5") == 1
        assert "remove --partition-rows" in capsys.readouterr().err
        assert run("predict", model, files / "data.csv", *arguments) == 1
        assert "no scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
        assert os.listdir(tmp_path) == []
