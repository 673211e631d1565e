"""The one place where tests compile C++: flags, and a cache of what was compiled.

A library is known by what it is made of: its source, the project's headers that it includes, the flags, the compiler.
It lies in build/test-kernels, where all workers and later runs find it; `make clean` removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import glasswood

NATIVE = Path(glasswood.__file__).parent / "native"
EMULATOR = Path(__file__).parent / "cuda" / "emulator"
CACHE = Path(__file__).parent.parent / "build" / "test-kernels"
COMPILER = shutil.which("g++")

# Emulated threads jump between stacks; libraries must not share what headers define, which macros may have changed.
COMMON = ("-U_FORTIFY_SOURCE", "-fno-gnu-unique", "-Wno-psabi", "-Wno-unknown-pragmas", f"-I{NATIVE}", f"-I{EMULATOR}")
LIBRARY = (*COMMON, "-shared", "-fPIC")
PROGRAM = (*COMMON, "-pthread")
HOST = ("-std=c++20", "-O1")
CPU_INFO = Path("/proc/cpuinfo")
# Without these, half precision and fused operations are calls of a library, a tenth of the time of emulated kernels.
INSTRUCTIONS = {"f16c": "-mf16c", "fma": "-mfma"} if platform.machine() == "x86_64" and CPU_INFO.exists() else {}
HAS = tuple(flag for name, flag in INSTRUCTIONS.items() if f" {name} " in CPU_INFO.read_text())
KERNEL = (*HOST, *HAS, "-ffp-contract=off")
"""No fused operations that the source does not ask for."""


def load_library(source: Path, *flags: str) -> ctypes.CDLL:
    """Load a source as a library; `flags` come after those of HOST. The test is skipped where there is no g++."""
    return ctypes.CDLL(str(build(source.read_text(), source.stem, (*HOST, *LIBRARY, *flags), source.parent)))


def build_program(source: Path, *flags: str) -> Path:
    """Build a source that has a main function."""
    return build(source.read_text(), source.stem, (*HOST, *PROGRAM, *flags), source.parent)


def build_sanitized(source: Path, *flags: str) -> Path:
    """`build_program`; the test is skipped where the compiler lacks a sanitizer that is asked for."""
    try:
        return build_program(source, *flags)
    except subprocess.CalledProcessError:
        if any(flag.startswith("-fsanitize") for flag in flags):
            pytest.skip("no sanitizer")
        raise


def build_kernel(text: str, name: str, flags: tuple[str, ...]) -> Path:
    """Compile a kernel for the emulated GPU, which includes cuda.h; `flags` come after those of KERNEL.

    That header is compiled once, which halves the time of a kernel.
    """
    precompiled = build('#include "cuda.h"\n', "cuda.h", (*KERNEL, *LIBRARY, "-x", "c++-header"), ending=".gch")
    header = precompiled.with_suffix("")
    header.touch()  # empty: for compilers that cannot use the other, since the kernel includes cuda.h itself
    return build(text, name, (*KERNEL, *LIBRARY, *flags, "-include", str(header)))


def build(text: str, name: str, flags: tuple[str, ...], folder: Path = EMULATOR, ending: str = "") -> Path:
    """Compile a text, whose includes may be relative to `folder`, unless it has been compiled before."""
    if COMPILER is None:
        pytest.skip("no g++")
    parts = (text, *read_headers(text, folder), *flags, compiler_version())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    built = CACHE / f"{name}-{key}{ending}"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with locked(built.with_suffix(".lock")):
            if not built.exists():
                compile_text(text, flags, built)
    return built


def compile_text(text: str, flags: tuple[str, ...], built: Path) -> None:
    """Compile beside the cache's entry first: whoever sees the entry sees all of it."""
    source, partial = (built.with_suffix(f".{os.getpid()}.{kind}") for kind in ("cpp", "partial"))
    source.write_text(text)
    subprocess.run([COMPILER, *flags, str(source), "-o", str(partial)], check=True)
    source.unlink()
    partial.rename(built)


@contextlib.contextmanager
def locked(path: Path):
    """Hold a file for one process at a time; what waits for it finds the work done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        path.unlink(missing_ok=True)


def read_headers(text: str, folder: Path) -> list[str]:
    """Texts of the headers of the project that a text includes, in their own headers too."""
    seen: dict[Path, str] = {}

    def collect(text: str, folder: Path) -> None:
        for name in re.findall(r'^\s*#include "([^"]+)"', text, re.MULTILINE):
            path = next(root / name for root in (folder, NATIVE, EMULATOR) if (root / name).exists())
            if path not in seen:
                seen[path] = path.read_text()
                collect(seen[path], path.parent)

    collect(text, folder)
    return list(seen.values())


@functools.cache
def compiler_version() -> str:
    """What else the machine code depends on."""
    version = subprocess.run([COMPILER, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    return f"{version.strip()} {platform.machine()} {os.path.realpath(COMPILER)}"
