"""C++ sources of the tests as libraries of the host."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import silva

NATIVE = Path(silva.__file__).parent / "native"


def host_library(folder, source, *flags):
    """Compile a source beside this file and load it; the test is skipped where there is no g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    path = folder / "-".join([Path(source).stem, *(flag.lstrip("-") for flag in flags if flag.startswith("-D"))])
    command = [compiler, "-std=c++20", "-shared", "-fPIC", "-Wno-psabi", f"-I{NATIVE}", *flags]
    subprocess.run([*command, str(Path(__file__).with_name(source)), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))
