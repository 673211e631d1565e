"""The GPU of tests that run on an emulated one too."""

from __future__ import annotations

import functools

import pytest

from tests.conftest import _why_no_gpu
from tests.cuda.emulator import COMPILER, emulated_gpu
from tests.cuda.growing import emulated, emulators, on_gpu


@pytest.fixture(scope="module", params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def gpu(request, tmp_path_factory):
    """device="cuda" is a real GPU, or the CPU that runs the same kernels."""
    if request.param == "real":
        if reason := _why_no_gpu():
            pytest.skip(reason)
        yield
    elif COMPILER is None:
        pytest.skip("no C++ compiler")
    else:
        with emulated_gpu(tmp_path_factory.mktemp("kernels")):
            yield


@pytest.fixture(scope="session")
def emulator(tmp_path_factory):
    """Libraries of the kernels of growing, by the columns of z."""
    return emulators(tmp_path_factory.mktemp("grow"))


@pytest.fixture(params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def gpu_engine(request):
    """Make engines whose rows a GPU reads: the engine, what it borrows, and the emulator's library."""
    if request.param == "emulated":
        return functools.partial(emulated, request.getfixturevalue("emulator"))
    if reason := _why_no_gpu():
        pytest.skip(reason)
    return on_gpu
