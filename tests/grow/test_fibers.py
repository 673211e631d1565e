"""Computations that hand their thread on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native import build_program

SOURCE = Path(__file__).with_name("fibers_host.cpp")


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"], ["-O1", "-fsanitize=undefined"]])
def test_fibers_keep_what_is_theirs(flags):
    try:
        program = build_program(SOURCE, *flags)
    except subprocess.CalledProcessError:
        if "-fsanitize=undefined" in flags:
            pytest.skip("no sanitizer")
        raise
    found = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
