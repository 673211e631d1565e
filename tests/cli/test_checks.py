"""No output of any command is an input, whatever its name."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

import glasswood
from glasswood.cli.arguments import make_parser
from glasswood.cli.checks import MODELS, OUTPUTS, ROWS
from tests.cli.files import run

WRITERS = {
    "predict": ("MODEL", "ROWS.csv"),
    "explain": ("MODEL", "ROWS.csv", "--background", "MORE.csv"),
    "neighbors": ("MODEL", "ROWS.csv", "--training", "MORE.csv"),
    "report": ("MODEL", "ROWS.csv", "--before", "MORE.csv"),
    "compare": ("MODEL", "ROWS.csv", "MORE.csv"),
    "distill": ("MODEL", "ROWS.csv"),
    "plot": ("MODEL", "ROWS.csv"),
    "bench": ("MODEL", "ROWS.csv"),
    "grow": ("ROWS.csv", "--target", "y"),
    "score": ("MODEL", "ROWS.csv", "--target", "y", "--background", "MORE.csv"),
}
SUFFIXES = {"report": ".html", "compare": ".json", "score": ".json", "plot": ".svg"} | dict.fromkeys(
    ("distill", "bench", "grow"), ".glasswood"
)


def commands():
    parser = make_parser()
    (found,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return found.choices


def test_all_arguments_that_name_files_are_checked():
    named = {
        action.dest
        for command in commands().values()
        for action in command._actions
        if action.type is Path or "Path" in str(getattr(action.type, "__annotations__", {}).get("return"))
    }
    assert named == {*MODELS, *ROWS, *OUTPUTS}
    assert set(commands()) == {*WRITERS, "info", "demo"}


def by_path(target, name):
    return target if target.suffix == name.suffix else None


def by_link(target, name):
    name.symlink_to(target)
    return name


def by_hard_link(target, name):
    os.link(target, name)
    return name


def given(command, files, folder):
    """Arguments of a command, whose files are copies."""
    replaced = []
    for argument in WRITERS[command]:
        if argument == "MODEL" or argument.endswith(".csv"):
            source = files / ("model.glasswood" if argument == "MODEL" else "data.csv")
            target = folder / ("model.glasswood" if argument == "MODEL" else argument)
            target.write_bytes(source.read_bytes())
            replaced.append(target)
        else:
            replaced.append(argument)
    return replaced


@pytest.fixture(scope="module")
def with_forest(files):
    glasswood.load(files / "regressor.json").save(files / "model.glasswood")
    return files


@pytest.mark.parametrize("named", [by_path, by_link, by_hard_link])
@pytest.mark.parametrize("command", WRITERS)
def test_no_output_is_an_input(with_forest, tmp_path, capsys, command, named):
    arguments = given(command, with_forest, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    options = ["-o", "--save"] if command == "neighbors" else ["-o"]
    for number, target in enumerate(before):
        for option in options:
            suffix = ".glasswood" if option == "--save" else SUFFIXES.get(command, ".csv")
            out = named(target, tmp_path / f"out{number}{option}{suffix}")
            if out is None:
                continue
            more = ["-o", tmp_path / "other.csv"] if option == "--save" else []
            assert run(command, *arguments, option, out, *more) == 1
            assert f"cannot write {out}: it is the input" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".glasswood", "other"))]


def test_neighbors_does_not_replace_its_model(with_forest, tmp_path, capsys):
    """The background and settings of an explainer were gone, with the exit code 0."""
    arguments = given("neighbors", with_forest, tmp_path)
    assert run("neighbors", *arguments, "-o", tmp_path / "out.csv", "--save", arguments[0]) == 1
    assert "it is the input" in capsys.readouterr().err


def test_outputs_are_two_files(with_forest, tmp_path, capsys):
    arguments = given("neighbors", with_forest, tmp_path)
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "both.glasswood")
    assert run("neighbors", *arguments, "-o", link, "--save", tmp_path / "both.glasswood") == 1
    assert "twice" in capsys.readouterr().err


def test_standard_input_is_read_once(with_forest, capsys):
    assert run("compare", with_forest / "model.glasswood", "-", "-") == 1
    assert "standard input can be read only once" in capsys.readouterr().err


def test_a_model_in_a_pipe_is_refused(tmp_path, capsys):
    pipe = tmp_path / "model.glasswood"
    os.mkfifo(pipe)
    assert run("info", pipe) == 1
    assert "is a pipe or a device, expected a file; save the model in a file first" in capsys.readouterr().err
