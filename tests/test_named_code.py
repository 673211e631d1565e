"""What pages for readers of the code name is there: files, folders, functions, options."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *ROOT.glob("docs/internals/*.md"),
        *ROOT.glob("src/**/README.md"),
        *(ROOT / name for name in ("docs/architecture.md", "tests/README.md", "CONTRIBUTING.md")),
    ]
)
MADE = ("build/", "dist/")
"""Folders that commands write."""
ELSEWHERE = ("vpcmpub", "vpermb", "vpermi2b", "vpshufb", "called_from_lib:libpython3")
"""Instructions of processors, and a suppression of ThreadSanitizer's."""


@functools.cache
def tracked():
    """Each file of the repository and each folder that holds one, as /its/path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    files = [Path(name) for name in listed if name]
    return {f"/{place.as_posix()}" for file in files for place in (file, *file.parents)}


@functools.cache
def words():
    """Each name that stands in code or in what builds it."""
    kinds = (".py", ".h", ".cuh", ".cu", ".cpp", ".pyi", ".toml", ".txt", ".yml", ".yaml", ".sh", ".js", "Makefile")
    texts = (Path(ROOT, name[1:]) for name in tracked() if name.endswith(kinds))
    code = (path.read_text(encoding="utf-8") for path in texts if path.is_file() and path != Path(__file__))
    return {word for text in code for word in re.findall(r"[A-Za-z_]\w*", text)}


def is_path(name):
    return bool(
        re.fullmatch(r"[\w.*/-]+\.(py|h|cuh|cu|cpp|sh|md|txt|ya?ml|toml|html|js|npz|svg)|[\w.*/-]*/[\w.*/-]*", name)
    )


def missing(name):
    """What of a name in code style is not in the repository."""
    if name in ELSEWHERE or name.startswith("git "):
        return []
    if name.startswith("python -m "):
        name = name.split()[2].replace(".", "/") + ".py"
    if is_path(name):
        pattern = re.compile("(.*/)?" + re.escape(name.strip("/")).replace(r"\*", "[^/]*"))
        return [] if name.startswith(MADE) or any(pattern.fullmatch(at[1:]) for at in tracked()) else [name]
    return [word for word in re.findall(r"(?<![\w\"])[A-Za-z_]\w*", name) if word not in words()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_code_exists(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    named = sorted(set(re.findall(r"`([^`\n]+)`", text)))
    assert named
    wrong = {name: found for name in named if (found := missing(name))}
    assert not wrong, f"{page.name} names what is not there: {wrong}"


@pytest.mark.parametrize(
    "name", ["no_such_file.py", "native/explain/no_such_folder/", "no_such_function", "Explainer.no_such_method"]
)
def test_what_is_missing_is_found(name):
    assert missing(name)
