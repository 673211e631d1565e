"""Instruction sets whose kernels tests ask for by GLASSWOOD_ISA."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from glasswood import _core

SETS = ("baseline", "scalar") if _core.instruction_set() == "baseline" else ("v4", "v3", "v2", "scalar")
"""Falling; where kernels are compiled once (`baseline`: on aarch64 NEON), scalar ones stand beside them."""


def skip_unless_runs(name: str) -> None:
    """Skip a test of kernels that this processor does not run, or that a build for one machine left out."""
    if name not in _core.instruction_sets():
        pytest.skip(f"no kernels for {name} here: build with GLASSWOOD_LEVELS=all, on a processor that runs them")


def run_again_on(level: str, file: str, keyword: str) -> None:
    """Run a file's tests whose names contain `keyword` by the kernels of an older level, in another process."""
    if _core.instruction_set() == level or os.environ.get("GLASSWOOD_ISA"):
        pytest.skip("no older level to ask for")
    skip_unless_runs(level)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", keyword, file]
    run = subprocess.run(
        command, env={**os.environ, "GLASSWOOD_ISA": level}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:]
