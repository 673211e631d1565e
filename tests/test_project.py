"""Files of the project agree with each other, and links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import glasswood
from tests.limits import LIMITS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?:|#|mailto:", target):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_tables_stand_below_a_head(page):
    """An empty line within a table makes text of the rows below it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for block in re.split(r"\n\s*\n", text):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert not rows or re.fullmatch(r"[|:\- ]+", rows[1]), rows[0]


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version", "urls"]
    assert f"version: {glasswood.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_reference_has_every_public_name():
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in glasswood.__all__:
        assert name == "__version__" or re.search(rf"^   {name}$", reference, re.M), name


def test_the_headline_chart_is_drawn_from_results():
    pytest.importorskip("matplotlib")
    from benchmarks.chart import errors, label_of, times

    bars = [*times(), *errors()]
    text = (ROOT / "docs" / "images" / "benchmarks.svg").read_text()
    assert len(bars) >= 10
    for bar in bars:
        assert f"<!-- {label_of(bar)} -->" in text, f"{bar} is not drawn; run python -m benchmarks.chart"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("Subject\n\nThe body says why.\n", ""),
        (f"{'x' * 72}\n\nThe body says why.\n", ""),
        (f"{'x' * 73}\n\nThe body says why.\n", "73 characters"),
        ("Subject\n", "no body"),
        ("Subject\nthat goes on\n\nThe body says why.\n", "not empty"),
    ],
)
def test_messages_of_commits_are_checked(message, wrong):
    spec = importlib.util.spec_from_file_location("check_commits", ROOT / "tools" / "check_commits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.faults(message)
    assert wrong in found[0] if wrong else not found


def test_no_generated_file_is_kept():
    kept = subprocess.run(
        ["git", "ls-files", "docs/tutorials", "build"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not kept.stdout


def test_the_oldest_versions_are_those_that_extras_ask_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if not name.startswith("cuda")}
    lines = [line for one in (project["dependencies"], *extras.values()) for line in one if "glasswood" not in line]
    least = dict(re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", line).groups() for line in lines)
    oldest = dict(line.split("==") for line in (ROOT / "tests" / "oldest.txt").read_text().split())
    assert {name: version for name, version in least.items() if f"{oldest[name]}.".startswith(f"{version}.")} == least


def test_messages_name_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = [path.read_text() for path in (ROOT / "src" / "glasswood").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'import_extra\(\s*"[\w.]+",\s*"(\w+)"', text)}
    assert {"files", "sklearn"} <= named <= {*extras}


NATIVE = ROOT / "src" / "glasswood" / "native"


def included(source):
    return [Path(name) for name in re.findall(r'^#include "([\w/.]+)"', source.read_text(), re.MULTILINE)]


def job_of(path):
    """The folder that a file belongs to; what reference/ holds belongs to the jobs that its folders name."""
    return path.parts[1] if path.parts[0] == "reference" else path.parts[0]


@pytest.mark.parametrize("source", sorted(p for p in NATIVE.rglob("*.*") if p.suffix in {".h", ".cpp", ".cuh", ".cu"}))
def test_no_job_includes_another(source):
    path = source.relative_to(NATIVE)
    for other in included(source):
        assert (NATIVE / other).exists()
        assert job_of(other) in {"common", job_of(path)}, f"{path} includes {other}; move what both need to common/"


@pytest.mark.parametrize("source", sorted(p for p in NATIVE.rglob("*.*") if p.suffix in {".h", ".cpp"}))
def test_only_cuda_includes_cuda(source):
    path = source.relative_to(NATIVE)
    for other in included(source):
        is_door = other.name == "bindings.h"  # what an engine calls, whether or not GPUs are compiled
        assert "cuda" not in other.parts or "cuda" in path.parts or is_door, f"{path} includes {other}"


def test_limits_reach_every_module_that_imports_them():
    """A constant that is set where it is defined alone would stay what it was elsewhere."""
    names = "|".join({constant for constant, *_ in LIMITS.values()})
    holders = {}
    for path in (ROOT / "src" / "glasswood").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "src" / "glasswood").with_suffix("").parts)
        for node in ast.parse(path.read_text()).body if re.search(rf"import .*\b({names})\b", path.read_text()) else ():
            if isinstance(node, ast.ImportFrom):
                for name in node.names:
                    holders.setdefault((name.name, (node.module or "").removeprefix("glasswood.")), set()).add(module)
    for constant, home, *_ in LIMITS.values():
        listed = {module for name, *modules in LIMITS.values() if name == constant for module in modules}
        assert holders.get((constant, home), set()) <= listed, constant
