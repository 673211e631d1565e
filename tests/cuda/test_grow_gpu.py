"""Growing on a real GPU: the trees of the cores, errors, arrays that live there."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood import ModelTreeRegressor
from glasswood.base.device import DeviceError, count_gpus
from glasswood.grow.cuda import parts
from glasswood.grow.cuda import rows as cuda
from glasswood.grow.data.rows import STORAGES
from tests.conftest import _why_no_gpu
from tests.cuda.growing import check_every_tree, on_gpu, whole_numbers
from tests.grow.engines import engine_of, piecewise

reason = _why_no_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(reason is not None, reason=str(reason))]
several_gpus = pytest.mark.skipif(reason is not None or count_gpus() < 2, reason="this machine has one GPU")


@pytest.fixture(autouse=True)
def everything_on_the_gpu(limits):
    limits(cpu_work=0)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_features", [2, 9, 20, 53, 90, 120])
def test_every_tree_of_a_run_has_the_fitness_of_the_cores(n_features, storage):
    X, y = piecewise(20_000, n_features)
    engine, _kept = on_gpu(X, y, storage=storage, polish_interval=4, population=16, n_threads=4)
    check_every_tree(engine, engine_of(X, y, storage=storage)[0], 4)


def test_the_same_bits_on_every_run():
    X, y = piecewise(50_000, 5)
    runs = [ModelTreeRegressor(generations=20, device="cuda").fit(X, y).history_["fitness"] for _ in range(5)]
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])


def test_missing_values_and_weights_count_as_on_the_cores():
    rng = np.random.default_rng(0)
    X, y = piecewise(20_000, 3)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.uniform(0.5, 2, len(y))
    engine, _kept = on_gpu(X, y, weight, polish_interval=4, population=16, n_threads=4)
    check_every_tree(engine, engine_of(X, y, weight)[0], 6)


@pytest.mark.parametrize("storage", STORAGES)
def test_streamed_rows_give_the_bits_of_resident_ones(monkeypatch, storage):
    X, y = piecewise(100_000, 5)
    histories = []
    sizes = parts.buffer_sizes(20_000, 5, 7, 100_000, z_bytes=np.dtype(storage).itemsize)
    for n_resident in (5, 2, 0):
        memory = sizes.lists + 2 * sizes.stream + min(n_resident + 2, 5) * sizes.rows + 5 * sizes.zones
        monkeypatch.setattr(cuda, "free_bytes", lambda _, memory=memory: memory)
        engine, (rows, gpu) = on_gpu(
            X, y, chunks=20_000, storage=storage, polish_interval=3, population=16, n_threads=4
        )
        assert gpu.layouts[0].n_streamed == 5 - n_resident
        with gpu.searching(engine):
            engine.initialise([])
            histories.append(engine.step(8, 100, 0.0, 1e9))
        del engine, rows, gpu
    assert histories[0] == histories[1] == histories[2]


def test_rows_that_do_not_fit_stream_and_find_the_tree_of_the_cores(monkeypatch, limits):
    X, y = whole_numbers(200_000, 6)
    limits(grow_partial_bytes=2**20, result_bytes=2**20, packet_bytes=2**20)
    limits(list_choices=((parts.N_LISTS, False),))
    (whole,) = parts.divide_rows(len(y), 6, 8, {0: 2**40})
    monkeypatch.setattr(cuda, "free_bytes", lambda _: whole.on_device - 1)
    cpu, gpu = (ModelTreeRegressor(generations=10, device=device).fit(X, y) for device in ("cpu", "cuda"))
    assert gpu.fitness_ == cpu.fitness_
    with pytest.raises(DeviceError, match=r"rows fit: pass fewer rows, storage='float32', chunks='auto'"):
        ModelTreeRegressor(generations=10, device="cuda", chunks=None).fit(X, y)


@several_gpus
@pytest.mark.parametrize("chunks", ["auto", 100_000])
def test_all_gpus_give_the_same_bits_on_every_run(chunks):
    X, y = piecewise(200_000, 5)
    runs = [
        ModelTreeRegressor(generations=15, device="cuda:all", chunks=chunks, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (None, 1, 8)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.history_["fitness"], runs[0].history_["fitness"])
    one = ModelTreeRegressor(generations=15, device="cuda").fit(X, y)
    assert runs[0].fitness_ == pytest.approx(one.fitness_, rel=1e-6)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("algorithm", ["gram", "qr"])
def test_exact_data_find_the_tree_of_the_cores(algorithm, storage):
    X, y = whole_numbers(20_000, 6)
    cpu, gpu = (
        ModelTreeRegressor(generations=10, algorithm=algorithm, storage=storage, device=device).fit(X, y)
        for device in ("cpu", "cuda")
    )
    assert gpu.fitness_ == cpu.fitness_
    np.testing.assert_array_equal(gpu.predict(X), cpu.predict(X))


def assert_same_tree(found, expected, X):
    """On one device: a GPU fuses products with sums, so that linear leaves may differ in the last bit between two."""
    np.testing.assert_array_equal(*(model.forest_.predict(X, device="cpu") for model in (found, expected)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_the_gpu_with_weights_and_missing_values(dtype):
    cupy = pytest.importorskip("cupy")
    X, y = (array.astype(dtype) for array in piecewise(5000, 3))
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)).astype(dtype)
    X[::7, 1] = np.nan
    settings = {"generations": 5, "storage": "float32"}
    model = ModelTreeRegressor(**settings).fit(*(cupy.asarray(array) for array in (X, y, weight)))
    expected = ModelTreeRegressor(**settings, device="cuda").fit(X, y, weight)
    assert_same_tree(model, expected, X)
    predicted = model.predict(cupy.asarray(X))
    assert isinstance(predicted, cupy.ndarray)
    np.testing.assert_allclose(predicted.get(), expected.predict(X), rtol=1e-14)
    np.testing.assert_array_equal(model.apply(cupy.asarray(X)).get(), expected.apply(X))


def test_arrays_on_the_gpu(monkeypatch):
    cupy = pytest.importorskip("cupy")
    X, y = piecewise(5000, 3)
    homes, lay_out = [], cuda.lay_out
    monkeypatch.setattr(
        cuda,
        "lay_out",
        lambda rows, layouts, memories: homes.append(layouts[0].gpu) or lay_out(rows, layouts, memories),
    )
    model = ModelTreeRegressor(generations=5).fit(cupy.asarray(X), cupy.asarray(y))
    assert homes == [0]
    expected = ModelTreeRegressor(generations=5, device="cuda").fit(X, y)
    assert_same_tree(model, expected, X)
    np.testing.assert_allclose(model.predict(cupy.asarray(X)).get(), expected.predict(X), rtol=1e-14)


def test_rows_that_do_not_fit(limits):
    limits(grow_partial_bytes=2**40)
    X, y = piecewise(20_000, 3)
    with pytest.raises(DeviceError, match=r"cuda:0 has [0-9,]+ bytes free, growing on 20,000 rows of 3 features takes"):
        ModelTreeRegressor(device="cuda").fit(X, y)


def test_a_gpu_that_is_not_there():
    X, y = piecewise(100, 2)
    with pytest.raises(DeviceError, match=r"device='cuda:99' is not available"):
        ModelTreeRegressor(device="cuda:99").fit(X, y)


def test_columns_that_the_gpu_ranks_grow_the_same_tree(limits):
    X, y = piecewise(3000, 3)
    grown = []
    for rows in (1, 10**9):
        limits(sorted_rows=rows)
        grown.append(ModelTreeRegressor(generations=20, device="cuda").fit(X, y).predict(X))
    np.testing.assert_array_equal(*grown)
