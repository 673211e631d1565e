"""Instruction sets whose kernels tests ask for by SILVA_ISA."""

from __future__ import annotations

import pytest

from silva import _core

SETS = ("baseline", "scalar") if _core.instruction_set() == "baseline" else ("v4", "v3", "v2", "scalar")
"""Falling; where kernels are compiled once (`baseline`: on aarch64 NEON), scalar ones stand beside them."""


def skip_unless_runs(name: str) -> None:
    """Skip a test of kernels that this processor does not run, or that a build for one machine left out."""
    if name not in _core.instruction_sets():
        pytest.skip(f"no kernels for {name} here: build with SILVA_LEVELS=all, on a processor that runs them")
