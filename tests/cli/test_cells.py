"""Texts of rows and models in CSV and on terminals: no formula for a spreadsheet, no order to a terminal."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost

from tests.cli.files import command, run

FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "=cmd|' /C calc'!A0",
]
HARMLESS = ["a=b", "x - 1", "'=1", "", "1e-3", "\u00e4=1", "n/a"]
FEATURES = ["=a", "b", "@c"]
ORDERS = "\x1b7owned\x07\x9b1m"


@pytest.fixture(scope="module")
def rows():
    texts = FORMULAS + HARMLESS
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(len(texts), 3)).astype(np.float32), columns=FEATURES)
    return frame.assign(note=texts, kind=pd.Categorical(texts))


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """A model whose features' names are formulas, and rows with such texts."""
    folder = tmp_path_factory.mktemp("cells")
    data = xgboost.DMatrix(rows[FEATURES], rows["b"])
    xgboost.train({"max_depth": 2, "nthread": 1}, data, 3).save_model(folder / "model.json")
    rows.to_parquet(folder / "rows.parquet")
    rows[FEATURES].assign(y=rows["b"]).to_parquet(folder / "training.parquet")
    return folder


def cells(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def is_formula(text):
    """Whether OWASP lists the beginning of a cell, spaces before it aside."""
    return text.lstrip()[:1] in tuple("=+-@\uff1d") or text[:1] in tuple("\t\r\n")


COMMANDS = {
    "predict": [],
    "explain": [],
    "explain --top": ["--top", "2"],
    "neighbors": ["--training", "training.parquet", "--target", "y", "--top", "2"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_formulas_are_escaped(folder, rows, tmp_path, monkeypatch, name):
    monkeypatch.chdir(folder)
    arguments = [name.split()[0], "model.json", "rows.parquet", *COMMANDS[name], "--columns", "note,kind,=a"]
    assert run(*arguments, "-o", tmp_path / "raw.csv") == 0
    assert run(*arguments, "-o", tmp_path / "safe.csv", "--escape-formulas") == 0
    raw, safe = cells(tmp_path / "raw.csv"), cells(tmp_path / "safe.csv")
    assert [row[0] for row in raw[1:]] == [*rows["note"]]
    for before, after in zip(raw, safe, strict=True):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            is_number = before is not raw[0] and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", old) and place >= 2
            assert new == ("'" + old if is_formula(old) and not is_number else old)
    assert sum(cell.startswith("'=") for row in safe for cell in row) >= 4


def test_parts_and_standard_output_are_escaped(folder, tmp_path):
    arguments = ["predict", folder / "model.json", folder / "rows.parquet", "--columns", "note", "--escape-formulas"]
    assert run(*arguments, "-o", tmp_path / "parts", "--partition-rows", "5", "--out-format", "csv") == 0
    parts = [row[0] for path in sorted((tmp_path / "parts").iterdir()) for row in cells(path)[1:]]
    written = subprocess.run(command(*arguments, "-o", "-"), capture_output=True, check=True).stdout.decode()
    lines = [row[0] for row in csv.reader(io.StringIO(written, newline=""))][1:]
    assert parts == lines == ["'" + text if text in FORMULAS else text for text in FORMULAS + HARMLESS]


def test_other_formats_have_no_formulas(folder, tmp_path, capsys):
    arguments = ["predict", folder / "model.json", folder / "rows.parquet", "--columns", "note"]
    assert run(*arguments, "-o", tmp_path / "out.parquet", "--escape-formulas") == 1
    assert "--escape-formulas is for CSV, the output is Parquet" in capsys.readouterr().err
    assert run(*arguments, "-o", tmp_path / "out.parquet") == 0
    assert pq.read_table(tmp_path / "out.parquet").column("note").to_pylist() == FORMULAS + HARMLESS


def read_all(leader):
    """What a terminal gets."""
    found = b""
    with contextlib.suppress(OSError):  # Linux's word for the end
        while part := os.read(leader, 65536):
            found += part
    os.close(leader)
    return found.decode().replace("\r\n", "\n")


def on_a_terminal(*arguments):
    """What a terminal gets of a command's standard output in this process, its messages and its exit code."""
    leader, follower = pty.openpty()
    with ThreadPoolExecutor(1) as pool, open(follower, "w", encoding="utf-8") as terminal:
        shown = pool.submit(read_all, leader)
        with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(io.StringIO()) as told:
            code = run(*arguments)
    return shown.result(), told.getvalue(), code


def on_a_terminal_of_its_own(*arguments):
    """`on_a_terminal`, of a process that starts with it."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command(*arguments), stdout=follower, stderr=subprocess.PIPE) as process:
        os.close(follower)
        shown = read_all(leader)
        message = process.stderr.read().decode()
    return shown, message, process.returncode


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model and rows whose names and texts are orders to a terminal."""
    folder = tmp_path_factory.mktemp("hostile") / f"f{ORDERS}"
    folder.mkdir()
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=[f"a{ORDERS}", "b"])
    xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, X["b"]), 3).save_model(folder / "model.json")
    X.assign(note=f"n{ORDERS}", y=X["b"]).to_parquet(folder / "rows.parquet")
    return folder


SHOWING = {
    "info": [],
    "predict": ["rows.parquet", "-o", "-", "--columns", "note"],
    "explain": ["rows.parquet", "-o", "-", "--columns", "note"],
    "neighbors": ["rows.parquet", "-o", "out.csv", "--training", "rows.parquet", "--target", "y"],
    "compare": ["rows.parquet", "rows.parquet"],
    "plot": ["rows.parquet", "--target", "y", "-o", "tree.svg"],
    "bench": ["rows.parquet", "--seconds", "1", "-o", "tuned.glasswood"],
}


@pytest.mark.parametrize("name", SHOWING)
def test_terminals_get_no_orders(hostile, name):
    paths = [hostile / word if "." in word else word for word in ["model.json", *SHOWING[name]]]
    shown, message, code = (on_a_terminal_of_its_own if name == "predict" else on_a_terminal)(name, *paths)
    assert code == 0, message
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown + message)
    assert "\\u001b7owned" in shown


@pytest.mark.parametrize("word", [f"--x{ORDERS}", f"x{ORDERS}"])
def test_wrong_usage_is_no_order(word, capsys):
    with pytest.raises(SystemExit):
        run("info", "model.json", word)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", capsys.readouterr().err)


def test_terminals_get_no_parquet(hostile):
    arguments = ["predict", hostile / "model.json", hostile / "rows.parquet", "-o", "-", "--out-format", "parquet"]
    shown, message, code = on_a_terminal(*arguments)
    assert (shown, code) == ("", 1)
    assert "standard output is a terminal, which cannot show Parquet; give -o the name of a file" in message


def test_names_of_files_that_are_no_utf_8(folder, tmp_path):
    out = os.fsencode(tmp_path) + b"/\xff.csv"
    arguments = ["predict", folder / "model.json", folder / "rows.parquet", "-o", os.fsdecode(out)]
    done = subprocess.run(command(*arguments), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\udcff.csv: 18 rows" in done.stdout
    assert os.path.exists(out)
