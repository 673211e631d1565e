"""Engines whose rows a GPU reads, emulated or real, and what is checked of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from glasswood.base.device import DeviceError, count_gpus
from glasswood.grow.cuda import qr_rows as cuda_qr
from glasswood.grow.cuda import rows as cuda
from glasswood.grow.data.rows import prepare
from glasswood.grow.search.engine import make_engine
from tests.cuda.emulator import driver_functions
from tests.grow.engines import given, settings


def on_gpu(
    X, y, weight=None, linear=None, cpu_work=0, n_gpus=1, chunks="auto", cells=None, solve_work=0, storage="float64",
    **changes,
):  # fmt: skip
    """An engine whose rows are read by GPUs, and what it borrows: the training rows and their place on the GPUs."""
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
    search = gpu.search
    search.cpu_work, search.solve_work, search.n_cells = cpu_work, solve_work, cells or search.n_cells
    if is_emulated():
        search.driver = driver_functions()
    return make_engine(rows, numbers, gpu), (rows, gpu)


def is_emulated():
    """Whether the GPUs are those of tests.cuda.emulator."""
    return not hasattr(sys.modules["cupy"], "__file__")


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


def check_loss(engine, gpus, n_launches):
    """A GPU lost after so many launches leaves the best tree, and an engine that goes on when it is back."""
    engine.initialise([])
    engine.step(2, 100, 0.0, 1e9)
    with (
        gpus.failing(n_launches),
        pytest.raises(DeviceError, match=r"CUDA_ERROR_OF_THE_TEST.*best tree") as caught,
        cuda.explaining_loss(engine),
    ):
        engine.step(50, 100, 0.0, 1e9)
    assert caught.value.best["fitness"] == engine.best()["fitness"]
    engine.step(2, 100, 0.0, 1e9)
