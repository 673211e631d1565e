"""The GPU of tests that run on an emulated one too."""

from __future__ import annotations

import pytest

from tests.conftest import _why_no_gpu
from tests.cuda.emulator import COMPILER, emulated_gpu


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
