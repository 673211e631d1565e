"""No message of a public call holds what terminals obey, whatever names, texts and arguments hold."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from glasswood.base.escapes import shown
from glasswood.cli import main
from glasswood.cli.arguments import make_parser
from tests.hostile_calls import EVIL, IN_PATHS, NAMES, call, calls, finding, hostile_forest, rows, subjects

ONE_IN = 30
"""Of all calls, this part is quick."""


def attacked(chosen, monkeypatch, tmp_path):
    """What is wrong with the messages of the chosen calls, and how many there were."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    everything = ((name, one, *rest) for name, one in subjects() for rest in calls(one))
    findings, n = [], 0
    for name, function, parameter, kind, arguments in chosen(everything):
        n += 1
        findings += [
            f"{name}, {parameter} is a hostile {kind}: {wrong}"
            for text in call(function, arguments)
            if (wrong := finding(text))
        ]
        pyplot.close("all")
    return findings, n


def test_messages_of_some_calls_hold_nothing_hostile(monkeypatch, tmp_path):
    findings, n = attacked(lambda all_calls: itertools.islice(all_calls, 0, None, ONE_IN), monkeypatch, tmp_path)
    assert findings == []
    assert n > 200


@pytest.mark.slow
def test_messages_of_all_calls_hold_nothing_hostile(monkeypatch, tmp_path):
    findings, n = attacked(lambda all_calls: all_calls, monkeypatch, tmp_path)
    assert findings == []
    assert n > 5_000


def test_hostile_messages_are_found():
    for text in (EVIL, "a\x1b[31m", "a\x00", "a\u202eb", "a\n\tglasswood: all is well"):
        assert finding(f"no {text}")
    for text in ("names:\n- a\n- b", shown(EVIL), repr(EVIL)):
        assert finding(text) is None


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory):
    """A model and tables whose names, paths and columns are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    model, table, other = (folder / f"{IN_PATHS}{suffix}" for suffix in (".glasswood", ".parquet", "2.parquet"))
    hostile_forest().save(model)
    rows().assign(**{EVIL: EVIL}).to_parquet(table)
    pd.DataFrame({EVIL: [1.0, 2.0]}).to_parquet(other)
    (folder / f"{IN_PATHS}.csv").write_text(f'"{NAMES[0]}","b"\n1,{EVIL!r}\n')
    (folder / f"{IN_PATHS}.json").write_text("{}")
    return folder, model, table, other


COMMANDS = {
    "predict": [["{model}", "{other}", "-o", "{out}.csv"], ["{model}", "{table}", "--features", EVIL],
                ["{model}", "{table}", "--output", EVIL], ["{bad}", "{table}", "-o", "{out}.csv"]],
    "explain": [["{model}", "{other}", "-o", "{out}.csv"], ["{model}", "{table}", "--by", EVIL, "-o", "{out}.csv"]],
    "neighbors": [["{model}", "{table}", "{other}", "-o", "{out}.csv"], ["{model}", "--train", "{table}", EVIL]],
    "report": [["{model}", "{other}", "-o", "{out}.html"], ["{model}", "{table}", "--target", EVIL]],
    "compare": [["{model}", "{table}", "{other}"], ["{table}", "{other}"], ["{bad}", "{table}", "{table}"]],
    "score": [["{model}", "{table}", "--target", EVIL], ["{model}", "{other}", "--target", EVIL]],
    "grow": [["{table}", "--target", EVIL, "-o", "{out}.glasswood"], ["{csv}", "--target", "no" + EVIL]],
    "distill": [["{model}", "{other}", "-o", "{out}"], ["{bad}", "{table}", "-o", "{out}"]],
    "plot": [["{model}", "-o", "{out}.txt"], ["{bad}", "-o", "{out}.png"], ["{model}", "--tree", EVIL]],
    "bench": [["{model}", "{other}"], ["{bad}"]],
    "info": [["{model}"], ["{bad}"], [EVIL.replace("\x00", "")]],
}  # fmt: skip
"""Arguments of every command that reads files; most must be refused."""


def test_every_command_is_attacked():
    commands = next(one.choices for one in make_parser()._actions if one.metavar == "COMMAND")
    assert set(commands) == {*COMMANDS, "demo"}


@pytest.mark.parametrize("command", COMMANDS)
def test_lines_of_commands_hold_nothing_hostile(command, hostile_files, capsys, monkeypatch):
    folder, model, table, other = hostile_files
    monkeypatch.chdir(folder)
    places = {
        "model": model, "table": table, "other": other, "out": folder / IN_PATHS / IN_PATHS,
        "bad": folder / f"{IN_PATHS}.json", "csv": folder / f"{IN_PATHS}.csv",
    }  # fmt: skip
    codes = set()
    for arguments in COMMANDS[command]:
        given = [one.format(**places) if one.startswith("{") else one.replace("\x00", "") for one in arguments]
        for options in ([], ["--traceback"]):
            try:
                codes.add(main([*options, command, *map(str, given)]))
            except SystemExit as left:
                codes.add(left.code)
            printed = capsys.readouterr()
            assert finding(printed.out + printed.err) is None
    assert codes - {0}
