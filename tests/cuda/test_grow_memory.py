"""GPUs without room for the rows: what the message says, and when the cores take over."""

from __future__ import annotations

import re
import types
import warnings

import numpy as np
import pytest

import silva.grow.cuda
import silva.grow.search
from silva import ModelTreeRegressor
from silva.device import DeviceError
from silva.grow import cuda, cuda_qr
from tests.grow.engines import piecewise


class OutOfMemoryError(Exception):
    """CuPy's."""


class CUDARuntimeError(Exception):
    """CuPy's."""


def cupy_with(free):
    runtime = types.SimpleNamespace(memGetInfo=lambda: (free, 2**37), CUDARuntimeError=CUDARuntimeError)
    memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    pool = types.SimpleNamespace(free_all_blocks=lambda: None)
    return types.SimpleNamespace(
        get_default_memory_pool=lambda: pool, cuda=types.SimpleNamespace(runtime=runtime, memory=memory)
    )


def gram_bytes(n_rows):
    return cuda.buffer_sizes(n_rows, 2, 4).on_device


def qr_bytes(n_rows):
    return gram_bytes(n_rows) + cuda_qr.qr_sizes(n_rows, 4, 64).on_device


@pytest.mark.parametrize("needed", [gram_bytes, qr_bytes])
def test_the_message_counts_the_rows_that_fit(needed):
    with (
        pytest.raises(DeviceError, match=r"about ([0-9,]+) rows fit: pass fewer rows or device='cpu'") as caught,
        cuda.fitting_memory(cupy_with(2**30), 0, needed, 50_000_000, 2),
    ):
        pytest.fail("the rows do not fit")
    fitting = int(re.search(r"about ([0-9,]+) rows", str(caught.value))[1].replace(",", ""))
    assert 0.7 * 2**30 < needed(fitting) <= 2**30 - cuda.SLACK_BYTES


def test_no_number_of_rows_fits():
    with (
        pytest.raises(DeviceError, match="no number of rows fits: free memory or pass device='cpu'"),
        cuda.fitting_memory(cupy_with(2**20), 0, gram_bytes, 1000, 2),
    ):
        pytest.fail("the rows do not fit")


@pytest.mark.parametrize("error", [OutOfMemoryError("out of memory"), CUDARuntimeError("cudaErrorMemoryAllocation")])
def test_an_allocation_that_fails_after_all(error):
    with (
        pytest.raises(DeviceError, match=r"something else took the memory meanwhile.*emory") as caught,
        cuda.fitting_memory(cupy_with(2**34), 0, gram_bytes, 1000, 2),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_other_errors_stay_what_they_are():
    with pytest.raises(CUDARuntimeError), cuda.fitting_memory(cupy_with(2**34), 0, gram_bytes, 1000, 2):
        raise CUDARuntimeError("cudaErrorIllegalInstruction")


@pytest.fixture
def full_gpu(monkeypatch):
    """A GPU on which no rows fit."""

    def refuse(*_, **__):
        raise DeviceError("cuda:0 has 5 bytes free")

    monkeypatch.setattr(silva.grow.search, "is_cuda_usable", lambda: True)
    monkeypatch.setattr(silva.grow.search, "find_gpus", lambda *_: (0,))
    monkeypatch.setattr(silva.grow.search, "GPU_WORK", 0)
    monkeypatch.setattr(silva.grow.cuda, "RowsOnGpu", refuse)
    monkeypatch.setattr(silva.grow.cuda_qr, "QrRowsOnGpu", refuse)


@pytest.mark.parametrize("algorithm", ["gram", "qr"])
@pytest.mark.usefixtures("full_gpu")
def test_auto_goes_on_with_the_cores_and_says_so(algorithm):
    X, y = piecewise(500, 2)
    with pytest.warns(RuntimeWarning, match="growing on the CPU: cuda:0 has 5 bytes free"):
        found = ModelTreeRegressor(generations=3, algorithm=algorithm).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = ModelTreeRegressor(generations=3, algorithm=algorithm, device="cpu").fit(X, y)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("algorithm", ["gram", "qr"])
@pytest.mark.usefixtures("full_gpu")
def test_a_gpu_that_was_asked_for_raises(algorithm):
    X, y = piecewise(500, 2)
    with pytest.raises(DeviceError, match="5 bytes free"):
        ModelTreeRegressor(generations=3, algorithm=algorithm, device="cuda").fit(X, y)
