"""Errors of tasks that run beside each other."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import silva


def test_what_a_task_throws_reaches_the_caller(tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    native, program = Path(silva.__file__).parent / "native", tmp_path / "program"
    source = Path(__file__).with_name("thread_pool_host.cpp")
    subprocess.run([compiler, "-std=c++20", "-O1", "-pthread", f"-I{native}", source, "-o", program], check=True)
    found = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, "")
