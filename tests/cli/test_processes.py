"""Signals, full disks, terminals and memory: the command line as a process."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.files import N_ROWS, SCRIPT, command, train
from tests.sizes import rest_slow


def start_writing(folder, arguments):
    """Start a command and wait until its unfinished file is there."""
    process = subprocess.Popen(
        command(*arguments, folder / "out.parquet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup's tests hear of hang-ups, too
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
            (signal.SIGINT, 130, "glasswood: interrupted; no unfinished file is left\n"),
            (signal.SIGTERM, 143, ""),
            (signal.SIGHUP, 129, ""),
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
        assert result.stderr == f"glasswood: {tmp_path / f'out.{suffix}'}: File too large\n"
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("form", rest_slow(1, ["png", "svg", "pdf"]))
    def test_a_full_disk_under_matplotlib_is_a_sentence(self, tmp_path, files, form):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

        arguments = ["plot", files / "regressor.json", "-o", tmp_path / f"tree.{form}"]
        result = subprocess.run(command(*arguments), preexec_fn=limit, capture_output=True, text=True, check=False)
        assert result.stderr == f"glasswood: {tmp_path / f'tree.{form}'}: File too large\n"
        assert (result.returncode, os.listdir(tmp_path)) == (1, [])


INTERRUPTED_IMPORT = """
import builtins, signal, sys

original, seen = builtins.__import__, []

def watched(name, *arguments, **settings):
    if name.startswith("pandas.core.arrays") and not seen:
        seen.append(name)
        signal.raise_signal(signal.SIGINT)
    return original(name, *arguments, **settings)

builtins.__import__ = watched
from glasswood.cli import main
code = main(sys.argv[1:])
sys.exit(code if seen else 99)
"""


@pytest.mark.parametrize("job", ["grow", "predict"])
def test_an_interrupt_while_pandas_is_imported_ends_the_command(files, tmp_path, job):
    arguments = {
        "grow": ["grow", files / "data.csv", "--target", "a", "--columns", "b,c", "--generations", "3"],
        "predict": ["predict", files / "regressor.json", files / "data.csv"],
    }[job]
    out = tmp_path / {"grow": "out.glasswood", "predict": "out.csv"}[job]
    command_line = [sys.executable, "-c", INTERRUPTED_IMPORT, *map(str, arguments), "-o", str(out)]
    result = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert result.returncode == 130, result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "module", ["typing", "glasswood.cli.command", "numpy", "glasswood.model.ensemble", "glasswood.cli.commands"]
)
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(module):
    script = INTERRUPTED_IMPORT.replace("pandas.core.arrays", module)
    result = subprocess.run([sys.executable, "-c", script, "info", "none"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "glasswood: interrupted; no unfinished file is left\n")


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


PEAK = """
import sys
from glasswood.cli import main
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


@pytest.mark.skipif(os.name == "nt", reason="descriptors of POSIX")
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_commands_run_where_streams_are_closed(files, tmp_path, closed):
    """As cron and services start them: no stream, and no file in its place."""
    out = tmp_path / "out.csv"
    words = [sys.executable, "-c", SCRIPT, "predict", str(files / "regressor.json"), str(files / "data.csv"), "-o"]
    command = f"{shlex.join([*words, str(out)])} {closed}"
    found = subprocess.run(["sh", "-c", command], check=False)
    assert found.returncode == 0
    assert len(out.read_text().splitlines()) == N_ROWS + 1
    if "1>&-" in closed:
        assert subprocess.run(["sh", "-c", f"{shlex.join([*words, '-'])} {closed}"], check=False).returncode == 1
