"""The GPUs of tests that run on emulated ones too."""

from __future__ import annotations

import pytest

from tests.conftest import _why_no_gpu
from tests.cuda.emulator import emulated_gpus
from tests.cuda.growing import on_gpu
from tests.native import COMPILER

EMULATED_OR_REAL = ["emulated", pytest.param("real", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module", params=EMULATED_OR_REAL)
def gpu(request):
    """device="cuda" is a real GPU (None is given), or the first of two emulated ones."""
    yield from gpus_of(request.param, 2)


@pytest.fixture(params=EMULATED_OR_REAL)
def gpu_engine(request):
    """Make engines whose rows real GPUs read, or up to four emulated ones."""
    for _ in gpus_of(request.param, 4):
        yield on_gpu


@pytest.fixture
def four_gpus():
    """Emulated GPUs, whose memory and failures the test decides on."""
    yield from gpus_of("emulated", 4)


def gpus_of(kind, count):
    if kind == "emulated" and COMPILER is None:
        pytest.skip("no g++")
    if kind == "real" and (reason := _why_no_gpu()):
        pytest.skip(reason)
    if kind == "real":
        yield
        return
    with emulated_gpus(count) as gpus:
        yield gpus
