"""Engines whose rows a GPU reads: one that g++ emulates from the kernels' own sources, or a real one."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest

from silva import _core
from silva.device import DeviceError
from silva.grow.cuda import paper as cuda_qr
from silva.grow.cuda import parts
from silva.grow.cuda import rows as cuda
from silva.grow.data import prepare
from silva.grow.search import engine_settings, make_engine
from tests.cuda.host import host_library
from tests.grow.engines import given, settings

DRIVER = (
    "launch", "copy_in", "copy_out", "synchronize", "record_event", "elapsed_time", "stream_context", "set_context",
    "error_name",
)  # fmt: skip

EMULATION = ("-U_FORTIFY_SOURCE", "-Wno-unknown-pragmas")
"""Fibers jump between stacks."""


def emulators(folder):
    """A function that compiles a library by the columns of z and the type of its numbers, once each."""

    @functools.cache
    def build(stride, stored):
        return host_library(folder, "grow_host.cpp", "-O2", *EMULATION, f"-DSTRIDE={stride}", f"-DSTORED={stored}")

    return build


POISONED = 1 << 16
"""Numbers of a buffer that are not a number before anybody writes; most tests use fewer."""


class EmulatedGpu:
    """Memory of the host in the part of a GPU's."""

    n_processors = 2

    def __init__(self, gpu):
        self.gpu, self.kept, self.n_streams = gpu, [], 0
        self.registered = {}

    def place(self, array):
        self.kept.append(np.ascontiguousarray(array).copy())
        return self.kept[-1].ctypes.data

    def reserve(self, n_bytes):
        self.kept.append(np.empty(n_bytes // 8 + 1))
        self.kept[-1][:POISONED] = np.nan
        return self.kept[-1].ctypes.data

    pin = reserve

    def register(self, array):
        self.registered[array.ctypes.data] = array
        return array.ctypes.data

    def make_stream(self):
        self.n_streams += 1
        return self.gpu << 8 | self.n_streams

    def make_event(self):
        return self.reserve(8)

    def load(self, wanted):
        numbers = {name: number for number, name in enumerate(cuda.kernels(1), start=1)}
        numbers |= {name: number for number, name in enumerate(cuda_qr.KERNELS, start=101)}
        return {name: numbers[name] for name in wanted}


def emulated(
    emulator, X, y, weight=None, linear=None, cpu_work=0, n_gpus=1, chunks="auto", memory=2**40, cells=None,
    solve_work=0, storage="float64", **changes,
):  # fmt: skip
    """An engine whose rows are read by emulated GPUs; what it borrows; the library."""
    X = np.ascontiguousarray(X, float)
    weight = np.ones(len(y)) if weight is None else weight
    rows = prepare(X, y, weight, np.ones(X.shape[1], bool) if linear is None else linear, 1, storage)
    free = dict.fromkeys(range(n_gpus), memory)
    layouts = parts.divide_rows(len(y), X.shape[1], rows.width, free, chunks, None, rows.z.itemsize)
    memories = [EmulatedGpu(layout.gpu) for layout in layouts]
    search = cuda.lay_out(rows, layouts, memories)
    library = emulator(layouts[0].sizes.stride, cuda.C_TYPES[rows.z.itemsize])
    search.driver = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in DRIVER}
    search.cpu_work, search.solve_work = cpu_work, solve_work
    search.n_cells = cells or search.n_cells
    numbers = settings(len(y), **changes)
    if numbers["qr"]:
        sizes = cuda_qr.qr_sizes(len(y), rows.width, numbers["max_leaves"])
        cuda_qr.lay_out_qr(sizes, rows, memories[0], search)
    engine = _core.GrowEngine(
        rows.z, rows.y, rows.ranks, rows.order, rows.values, rows.starts, rows.offsets, rows.column, rows.indicator,
        rows.width, engine_settings(numbers), search,
    )  # fmt: skip
    return engine, (rows, memories, layouts), library


def on_gpu(
    X, y, weight=None, linear=None, cpu_work=0, n_gpus=1, chunks="auto", cells=None, solve_work=0, storage="float64",
    **changes,
):  # fmt: skip
    """The same by real GPUs, without a library."""
    from silva.device import count_gpus

    if n_gpus > count_gpus():
        pytest.skip(f"this machine has fewer than {n_gpus} GPUs")
    X = np.ascontiguousarray(X, float)
    weight = np.ones(len(y)) if weight is None else weight
    rows = prepare(X, y, weight, np.ones(X.shape[1], bool) if linear is None else linear, 1, storage)
    numbers = settings(len(y), **changes)
    if numbers["qr"]:
        gpu = cuda_qr.QrRowsOnGpu(rows, 0, numbers["max_leaves"])
    else:
        gpu = cuda.RowsOnGpus(rows, range(n_gpus), chunks)
    gpu.search.cpu_work, gpu.search.solve_work = cpu_work, solve_work
    gpu.search.n_cells = cells or gpu.search.n_cells
    return make_engine(rows, numbers, gpu), (rows, gpu), None


def whole_numbers(n_rows, n_features, seed=0):
    """Rows whose standardised values and sums are exact: two values a column, half of the rows each."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.permutation(np.repeat([-1.0, 1.0], n_rows // 2)) for _ in range(n_features)], axis=1)
    y = rng.permutation(np.repeat([-1.0, 1.0], n_rows // 2))
    return X, y


def check_every_tree(engine, cores, n_generations):
    """Each tree of each generation has the rows and the fitness that the cores give it."""
    engine.initialise([])
    for _ in range(n_generations):
        engine.step(1, 100, 0.0, 1e9)
        for tree in engine.population():
            again = cores.apply("evaluate", given(tree), 0, None, 0, 0)[0]
            assert tree["fitness"] == pytest.approx(again["fitness"], rel=1e-9)
            np.testing.assert_array_equal(tree["n_rows"], again["n_rows"])


def check_loss(engine, library, n_launches):
    """A GPU lost after so many launches leaves the best tree, and an engine that goes on when it is back."""
    engine.initialise([])
    engine.step(2, 100, 0.0, 1e9)
    library.fail_after(0, n_launches)
    try:
        with (
            pytest.raises(DeviceError, match=r"CUDA_ERROR_OF_THE_TEST.*best tree") as caught,
            cuda.explaining_loss(engine),
        ):
            engine.step(50, 100, 0.0, 1e9)
    finally:
        library.fail_after(0, -1)
    assert caught.value.best["fitness"] == engine.best()["fitness"]
    engine.step(2, 100, 0.0, 1e9)
