"""Instruction sets whose kernels tests ask for by SILVA_ISA."""

from __future__ import annotations

import pytest

from silva import _core

SETS = ("baseline", "scalar") if _core.instruction_set() == "baseline" else ("v4", "v3", "v2", "scalar")
"""Falling; where kernels are compiled once (`baseline`: on aarch64 NEON), scalar ones stand beside them."""


def skip_unless_runs(name: str) -> None:
    """Skip a test of kernels that this processor does not run."""
    if name != "scalar" and _core.instruction_set() not in SETS[: SETS.index(name) + 1]:
        pytest.skip(f"this processor does not run x86-64-{name}")
