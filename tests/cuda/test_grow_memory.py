"""GPUs without room for the rows: what the message says, and when the cores take over."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import re
import types
import warnings

import numpy as np
import pytest

import glasswood.grow.cuda.parts
import glasswood.grow.cuda.rows
import glasswood.grow.search.engine
from glasswood import ModelTreeRegressor
from glasswood.base.device import DeviceError
from glasswood.grow.cuda import parts
from glasswood.grow.cuda import qr_rows as cuda_qr
from glasswood.grow.cuda import rows as cuda
from glasswood.grow.data.rows import prepare
from tests.cuda.emulator.cupy import MemoryPool
from tests.grow.engines import piecewise


class OutOfMemoryError(Exception):
    """CuPy's."""


class CUDARuntimeError(Exception):
    """CuPy's."""


@pytest.fixture
def gpu_memory(monkeypatch):
    """Memory of a GPU that says what is asked for."""

    def with_error(error, free=2**34, bound=0):
        def fail(*_, **__):
            raise error

        device = contextlib.nullcontext(types.SimpleNamespace(attributes={"MultiProcessorCount": 4}))
        runtime = types.SimpleNamespace(memGetInfo=lambda: (free, 2**37), CUDARuntimeError=CUDARuntimeError)
        memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
        pool = MemoryPool()
        pool.limit = bound
        module = types.SimpleNamespace(
            get_default_memory_pool=lambda: pool,
            cuda=types.SimpleNamespace(
                runtime=runtime,
                memory=memory,
                Device=lambda _: device,
                Stream=lambda **_: contextlib.nullcontext(),
                alloc=fail,
                alloc_pinned_memory=fail,
            ),
            empty=fail,
        )
        monkeypatch.setattr(cuda, "import_cupy", lambda: module)
        return cuda.GpuMemory(0)

    return with_error


@pytest.mark.parametrize("error", [OutOfMemoryError("out of memory"), CUDARuntimeError("cudaErrorMemoryAllocation")])
@pytest.mark.parametrize("take", ["reserve", "pin", "place"])
def test_an_allocation_that_fails_after_all(gpu_memory, take, error):
    memory = gpu_memory(error)
    with pytest.raises(DeviceError, match=r"cuda:0 or the host ran out of memory that was free") as caught:
        getattr(memory, take)(np.zeros(3) if take == "place" else 100)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "text",
    ["cudaErrorIllegalInstruction", "cudaErrorIllegalAddress: an illegal memory access was encountered"],
)
def test_other_errors_stay_what_they_are(gpu_memory, text):
    with pytest.raises(CUDARuntimeError, match=text):
        gpu_memory(CUDARuntimeError(text)).reserve(100)


def test_some_memory_is_left_free(gpu_memory):
    assert gpu_memory(None, 2**30).free == 2**30 - cuda.SLACK_BYTES
    assert gpu_memory(None, 5).free == 0


def test_a_bound_of_cupys_pool_counts_as_all_there_is(gpu_memory):
    assert gpu_memory(None, 2**34, bound=2**30).free == 2**30 - cuda.SLACK_BYTES
    assert gpu_memory(None, 2**30, bound=2**34).free == 2**30 - cuda.SLACK_BYTES


def test_the_rows_that_fit_count_what_the_paper_evaluation_needs():
    def more_bytes(n_rows):
        return sum(cuda_qr.qr_sizes(n_rows, 4, 64).values())

    message = r"cuda:0 has .* about ([0-9,]+) rows fit: pass fewer rows, or device='cpu'"
    with pytest.raises(DeviceError, match=message) as caught:
        parts.divide_rows(50_000_000, 2, 4, {0: 2**30}, None, more_bytes)
    fitting = int(re.search(r"about ([0-9,]+) rows", str(caught.value))[1].replace(",", ""))
    (layout,) = parts.divide_rows(fitting, 2, 4, {0: 2**30}, None, more_bytes)
    assert 0.7 * 2**30 < layout.on_device <= 2**30
    assert layout.more_bytes == more_bytes(fitting)


@pytest.fixture
def full_gpu(monkeypatch, limits):
    """A GPU on which no rows fit."""

    def refuse(*_, **__):
        raise DeviceError("cuda:0 has 5 bytes free")

    monkeypatch.setattr(glasswood.grow.search.engine, "is_cuda_usable", lambda: True)
    monkeypatch.setattr(glasswood.grow.search.engine, "find_gpus", lambda *_: (0,))
    limits(gpu_work=0)
    monkeypatch.setattr(glasswood.grow.cuda.rows, "RowsOnGpus", refuse)
    monkeypatch.setattr(glasswood.grow.cuda.qr_rows, "QrRowsOnGpu", refuse)


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


def test_rows_of_a_gpu_with_too_many_columns_stay_on_the_cores_and_say_so(limits):
    X, y = piecewise(200, 2)
    rows = prepare(X, y, np.ones(len(y)), np.ones(2, bool))
    limits(grow_columns=3)
    with pytest.warns(RuntimeWarning, match="growing on the CPU: leaf models have 4 columns, a GPU supports at most 3"):
        assert glasswood.grow.search.engine.place_rows("auto", "gram", 0, rows) is None


def test_streamed_parts_lie_in_memory_that_is_registered_whole(four_gpus):
    """A page that two registered ranges share can be registered once only."""
    X, y = piecewise(4000, 3)
    rows = prepare(X, y, np.ones(len(y)), np.ones(3, bool))
    layouts = parts.divide_rows(len(y), 3, rows.width, {0: 2**40}, 1000)
    (layout,) = (dataclasses.replace(layout, n_streamed=layout.n_parts) for layout in layouts)
    memory = cuda.GpuMemory(0)
    found = cuda.lay_out(rows, [layout], [memory]).parts
    assert [part.first for part in found] == [0, 1000, 2000, 3000]
    for attribute in range(3):
        listed = []
        for part in found:
            address = part.order_host + 4 * attribute * part.n_rows
            order = np.ctypeslib.as_array((ctypes.c_int32 * part.n_rows).from_address(address))
            listed.append(np.sort(order) + part.first)
            ranks = part.ranks_host + attribute * part.ranks_host_step
            ranks = np.ctypeslib.as_array((ctypes.c_int32 * part.n_rows).from_address(ranks))
            np.testing.assert_array_equal(ranks, rows.ranks[attribute, part.first :][: part.n_rows])
        np.testing.assert_array_equal(np.concatenate(listed), np.arange(4000))
    for name in ("ranks_host", "order_host"):
        owners = {
            start
            for start, n_bytes in four_gpus.registered.items()
            for part in found
            if start <= getattr(part, name) < start + n_bytes
        }
        assert len(owners) == 1
