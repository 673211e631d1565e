"""Calls that a forest keeps to launch them again, and calls beside each other: on an emulated GPU and on a GPU."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import glasswood.cuda.launches
import glasswood.evaluate.cuda.few_rows
import glasswood.evaluate.cuda.packing
import glasswood.evaluate.cuda.tiles
import glasswood.evaluate.cuda.tiling
from glasswood import Explainer
from glasswood.base.device import DeviceError
from glasswood.cuda.launches import KEPT
from glasswood.plans import plan_of
from tests.strategies import Options, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize("n_trees", [7, 300])
@pytest.mark.parametrize("n_rows", [1, 5, 150, 600])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_calls_on_gpu_rows_like_the_last(n_rows, n_outputs, n_trees):
    import cupy

    options = Options(n_trees=n_trees, n_outputs=n_outputs, meaning={"result_dtype": "float32"})
    forest = random_forest(5, options)
    for seed in range(3):
        X = random_rows(seed, forest, n_rows, "float32")
        found = forest.predict(cupy.asarray(X), output="margin")
        assert isinstance(found, cupy.ndarray)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(cupy.asnumpy(found), forest.predict(X, output="margin", device="cpu"))


def test_calls_without_memory(monkeypatch):
    """A result stands where the next one does not fit; a call whose own does not fit goes the long way."""
    import cupy

    forest, empty = random_forest(5, Options(n_trees=7)), cupy.empty
    rows = random_rows(0, forest, 5, "float32")
    X, expected = cupy.asarray(rows), forest.predict(rows, output="margin", device="cpu")
    fits = []

    def allocate(shape, dtype):
        if not fits.pop(0):
            raise cupy.cuda.memory.OutOfMemoryError(1, 0)
        return empty(shape, dtype)

    forest.predict(X, output="margin")
    forest = dataclasses.replace(forest)  # its kernels and tables are there, a call is not
    monkeypatch.setattr(cupy, "empty", lambda *args: allocate(*args) if fits else empty(*args))
    forest.predict(X, output="margin")
    for answers in ([True, False], [False], [True, True]):
        fits[:] = answers
        np.testing.assert_array_equal(cupy.asnumpy(forest.predict(X, output="margin")), expected)
        assert not fits


def test_which_calls_are_kept():
    """Rows of another number, layout or type, other arguments and other threads go the long way first."""
    import cupy

    forest = random_forest(5, Options(n_trees=7, n_features=3))
    rows = random_rows(0, forest, 6, "float32")
    X, expected = cupy.asarray(rows), forest.predict(rows, output="margin", device="cpu")
    arguments = "margin", "auto", "auto"
    assert plan_of(forest, "cuda").again(X, *arguments) is None
    forest.predict(X, output="margin")
    again = plan_of(forest, "cuda").again
    kept = again(X, *arguments)
    np.testing.assert_array_equal(cupy.asnumpy(kept), expected)
    np.testing.assert_array_equal(cupy.asnumpy(again(X[::-1].copy(), *arguments)), expected[::-1])
    np.testing.assert_array_equal(cupy.asnumpy(kept), expected)
    for other in (X[:5], X[::2], X.astype(np.float64), cupy.asarray(np.asfortranarray(rows)), rows, None):
        assert again(other, *arguments) is None
    for changed in (("leaf", "auto", "auto"), ("margin", "serial", "auto"), ("margin", "auto", "cuda"), (1, 2, 3)):
        assert again(X, *changed) is None
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(again, X, *arguments).result() is None
        np.testing.assert_array_equal(cupy.asnumpy(pool.submit(forest.predict, X, "margin").result()), expected)
        assert pool.submit(again, X, *arguments).result() is not None


def test_calls_give_way():
    import cupy

    forest = random_forest(5, Options(n_trees=7, n_features=3))
    X = cupy.asarray(random_rows(0, forest, KEPT + 2, "float32"))
    for n_rows in range(1, KEPT + 3):
        forest.predict(X[:n_rows], output="margin")
    kept = [plan_of(forest, "cuda").again(X[:n], "margin", "auto", "auto") is not None for n in range(1, KEPT + 3)]
    assert kept == [False] * 2 + [True] * KEPT


def test_calls_give_way_to_large_buffers(monkeypatch):
    import cupy

    monkeypatch.setattr(glasswood.cuda.launches, "kept_bytes", lambda: 2048)
    forest = random_forest(5, Options(n_trees=7, n_features=3, meaning={"result_dtype": "float32"}))
    X = cupy.asarray(random_rows(0, forest, 202, "float32"))
    for n_rows in (200, 201, 202):  # 800 bytes and more of results that are allocated ahead
        forest.predict(X[:n_rows], output="margin")
    kept = [plan_of(forest, "cuda").again(X[:n], "margin", "auto", "auto") is not None for n in (200, 201, 202)]
    assert kept == [False, True, True]


@pytest.mark.parametrize("n_rows", [5, 600])
def test_forests_are_freed_and_pickle_after_use(n_rows):
    """Calls, plans and predictors that a forest keeps do not keep it."""
    import cupy

    forest = random_forest(5, Options(n_trees=7, n_features=3))
    X = random_rows(0, forest, n_rows, "float32")
    for _ in range(3):
        found = cupy.asnumpy(forest.predict(cupy.asarray(X), output="margin"))
    forest.predict(X[:1], output="margin", device="cuda")
    copy = pickle.loads(pickle.dumps(forest))
    np.testing.assert_array_equal(cupy.asnumpy(copy.predict(cupy.asarray(X), output="margin")), found)
    alive = weakref.ref(forest)
    del forest
    gc.collect()
    assert alive() is None


def test_launches_that_are_refused(gpu):
    """The error is named, and the next call is as good as any."""
    import cupy

    if gpu is None:
        pytest.skip("a real driver fails for good")
    forest = random_forest(5, Options(n_trees=7, n_features=3))
    rows = random_rows(0, forest, 5, "float32")
    X = cupy.asarray(rows)
    expected = cupy.asnumpy(forest.predict(X, output="margin"))
    with gpu.failing(), pytest.raises(DeviceError, match="the driver refuses a launch: CUDA_ERROR_OF_THE_TEST on cuda"):
        forest.predict(X, output="margin")
    np.testing.assert_array_equal(cupy.asnumpy(forest.predict(X, output="margin")), expected)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("is_warm", [False, True])
def test_capture_into_a_graph_is_refused(is_warm):
    """Also where an earlier call was alike; the next one outside of the capture is answered."""
    import cupy

    forest = random_forest(5, Options(n_trees=7, n_features=3))
    X, stream = cupy.asarray(random_rows(0, forest, 5, "float32")), cupy.cuda.Stream(non_blocking=True)
    explainer = Explainer(forest)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        if is_warm:
            expected, _ = forest.predict(X, output="margin"), explainer.shap_values(X)
        for call in (lambda: forest.predict(X, output="margin"), lambda: explainer.shap_values(X)):
            stream.begin_capture()
            try:
                with pytest.raises(DeviceError, match=r"captured into a CUDA graph.*outside of the capture"):
                    call()
            finally:
                stream.end_capture()
        found = forest.predict(X, output="margin")
    stream.synchronize()
    if is_warm:
        np.testing.assert_array_equal(cupy.asnumpy(found), cupy.asnumpy(expected))


@pytest.mark.gpu
def test_threads_and_streams_side_by_side(gpu):
    """Each has its own plans and lanes, and the interpreter is free while a GPU is asked."""
    import cupy

    if gpu is not None:
        pytest.skip("the emulator runs one kernel at a time")
    forest = random_forest(5, Options(n_trees=300, n_features=6))
    rows = random_rows(0, forest, 600, "float32")
    expected = forest.predict(rows, output="margin", device="cpu")

    def work(number):
        with cupy.cuda.Stream(non_blocking=number % 2 == 0) as stream:
            X = cupy.asarray(rows)
            for n_rows in (5, 600) * 100:
                found = forest.predict(X[:n_rows], output="margin")
                np.testing.assert_array_equal(cupy.asnumpy(found, stream=stream), expected[:n_rows])
        found = [forest.predict(row[None], output="margin", device="cuda")[0] for row in rows]
        np.testing.assert_array_equal(found, expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
