"""Computations that hand their thread on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native import build_sanitized
from tests.sizes import rest_slow

SOURCE = Path(__file__).with_name("fibers_host.cpp")


FLAGS = [["-O2"], ["-O1", "-fsanitize=thread"], ["-O0"], ["-O1", "-fsanitize=undefined"]]


@pytest.mark.parametrize("flags", rest_slow(2, FLAGS))
def test_fibers_keep_what_is_theirs(flags):
    program = build_sanitized(SOURCE, *flags)
    found = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
