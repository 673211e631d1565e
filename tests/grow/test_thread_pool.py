"""Errors of tasks that run beside each other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.native import build_sanitized


@pytest.mark.parametrize("flags", [[], ["-fsanitize=thread"]])
def test_what_a_task_throws_reaches_the_caller(flags):
    program = build_sanitized(Path(__file__).with_name("thread_pool_host.cpp"), *flags)
    found = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, "")
