"""Computations that hand their thread on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import silva


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"], ["-O1", "-fsanitize=undefined"]])
def test_fibers_keep_what_is_theirs(tmp_path, flags):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    native, program = Path(silva.__file__).parent / "native", tmp_path / "program"
    source = Path(__file__).with_name("fibers_host.cpp")
    command = [compiler, "-std=c++20", *flags, "-pthread", f"-I{native}", source, "-o", program]
    if subprocess.run(command, capture_output=True, check=False).returncode and "-fsanitize=undefined" in flags:
        pytest.skip("no sanitizer")
    found = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
