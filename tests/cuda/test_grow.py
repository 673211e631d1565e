"""Growing on a GPU that g++ emulates from the kernels' own sources: answers of every kind, and whole searches."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest

import silva
from silva import _core
from silva.device import DeviceError
from silva.grow import cuda
from silva.grow.data import prepare
from tests.grow.engines import engine_of, given, piecewise, settings, single_leaf, stump

NATIVE = Path(silva.__file__).parent / "native"
DRIVER = ("launch", "copy_in", "copy_out", "synchronize", "error_name")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """Libraries by the columns of z."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    libraries = {}

    def build(stride):
        if stride not in libraries:
            path = tmp_path_factory.mktemp("grow") / f"grow{stride}.so"
            flags = [
                "-O2",
                "-std=c++20",
                "-shared",
                "-fPIC",
                "-U_FORTIFY_SOURCE",
                "-Wno-unknown-pragmas",
                f"-DSTRIDE={stride}",
            ]
            source = Path(__file__).with_name("grow_host.cpp")
            subprocess.run([compiler, *flags, f"-I{NATIVE}", str(source), "-o", str(path)], check=True)
            libraries[stride] = ctypes.CDLL(str(path))
        return libraries[stride]

    return build


def emulated(emulator, X, y, weight=None, linear=None, core_work=0, **changes):
    """An engine whose rows are read by the emulated GPU; what it borrows; the library."""
    X = np.ascontiguousarray(X, float)
    weight = np.ones(len(y)) if weight is None else weight
    rows = prepare(X, y, weight, np.ones(X.shape[1], bool) if linear is None else linear)
    sizes = cuda.buffer_sizes(len(y), X.shape[1], rows.width)
    library = emulator(sizes.stride)
    kept = {"z": cuda.padded_rows(rows), "ranks": rows.ranks, "order": rows.order}
    for name in ("lists", "packet", "parts", "part_counts", "results"):
        kept[name] = np.zeros(getattr(sizes, name) // 8 + 1)
    addresses = {
        **{name: array.ctypes.data for name, array in kept.items()},
        **{name: number for number, name in enumerate(cuda.kernels(8), start=1)},
        **{name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in DRIVER},
        **cuda.engine_numbers(sizes, len(y), n_processors=2),
        "packet_host": kept["packet"].ctypes.data,
        "stream": 0,
        "core_work": core_work,
    }
    numbers = {name: float(value) for name, value in settings(len(y), **changes).items()}
    engine = _core.GrowEngine(
        rows.z, rows.y, rows.ranks, rows.order, rows.values, rows.starts, rows.offsets, rows.column, rows.indicator,
        rows.width, numbers, addresses,
    )  # fmt: skip
    return engine, (rows, kept), library


def whole_numbers(n_rows, n_features, seed=0):
    """Rows whose standardised values and sums are exact: two values a column, half of the rows each."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.permutation(np.repeat([-1.0, 1.0], n_rows // 2)) for _ in range(n_features)], axis=1)
    y = rng.permutation(np.repeat([-1.0, 1.0], n_rows // 2))
    return X, y


@pytest.mark.parametrize("n_features", [2, 3, 9, 20, 40])
def test_sums_of_leaves(emulator, n_features):
    X, y = piecewise(1000, n_features)
    expected_engine, _ = engine_of(X, y)
    engine, _kept, _ = emulated(emulator, X, y)
    for cut in (1, 300, 999):
        tree = stump(1, cut, n_features)
        expected, found = (e.apply("evaluate", tree, 0, None, 0, 0)[0] for e in (expected_engine, engine))
        np.testing.assert_array_equal(found["n_rows"], expected["n_rows"])
        np.testing.assert_allclose(found["node_error"], expected["node_error"], rtol=1e-9)
        assert found["fitness"] == pytest.approx(expected["fitness"], rel=1e-9)


def test_missing_values_and_weights(emulator):
    rng = np.random.default_rng(3)
    X, y = piecewise(600, 3)
    X[rng.random(X.shape) < 0.2] = np.nan
    weight = rng.uniform(0.5, 2, len(y))
    expected_engine, _ = engine_of(X, y, weight)
    engine, _kept, _ = emulated(emulator, X, y, weight)
    for name in ("sweep", "evaluate", "shift_threshold", "expand"):
        trees = [e.apply(name, stump(0, 300, 3), 0, None, 0, 5)[0] for e in (expected_engine, engine)]
        np.testing.assert_array_equal(trees[1]["cut"], trees[0]["cut"])
        assert trees[1]["fitness"] == pytest.approx(trees[0]["fitness"], rel=1e-9)


@pytest.mark.parametrize(("distinct", "core_work"), [(2, 0), (40, 0), (100_000, 0), (100_000, 20_000)])
def test_thresholds(emulator, distinct, core_work):
    """With some work left to the cores they settle the small brackets of a sweep."""
    X, y = piecewise(5000, 3)
    X = np.floor(X / 5 * distinct) / distinct * 5
    expected_engine, _ = engine_of(X, y)
    engine, _kept, _ = emulated(emulator, X, y, core_work=core_work)
    for attribute in (0, 1):
        tree = stump(attribute, 1, 3)
        expected, found = (e.apply("sweep", tree, 0, None, 0, 0)[0] for e in (expected_engine, engine))
        np.testing.assert_array_equal(found["cut"], expected["cut"])


def test_the_best_split_of_a_leaf_is_found_on_a_sample_first(emulator):
    X, y = piecewise(10_000, 2)
    expected_engine, _ = engine_of(X, y)
    engine, _kept, _ = emulated(emulator, X, y)
    expected, found = (e.apply("polish", single_leaf(2), 0, None, 0, 0)[0] for e in (expected_engine, engine))
    assert len(found["cut"]) > 3
    for name in ("attribute", "cut", "n_rows", "model"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("core_work", [0, 20_000])
def test_exact_data_grow_the_same_trees(emulator, n_threads, core_work):
    X, y = whole_numbers(512, 6)
    changes = {"polish_interval": 3, "population": 12}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept, _ = emulated(emulator, X, y, n_threads=n_threads, core_work=core_work, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(12, 100, 0.0, 1e9)
    for expected, found in zip(expected_engine.population(), engine.population(), strict=True):
        for name in ("attribute", "cut", "n_rows", "model"):
            np.testing.assert_array_equal(found[name], expected[name])
        assert found["fitness"] == expected["fitness"]


def test_every_tree_of_a_run_has_the_fitness_of_the_cores(emulator):
    X, y = piecewise(1500, 3)
    engine, _kept, _ = emulated(emulator, X, y, polish_interval=4, population=10)
    cores, _ = engine_of(X, y)
    engine.initialise([])
    for _ in range(6):
        engine.step(1, 100, 0.0, 1e9)
        for tree in engine.population():
            again = cores.apply("evaluate", given(tree), 0, None, 0, 0)[0]
            assert tree["fitness"] == pytest.approx(again["fitness"], rel=1e-9)


def test_more_trees_are_polished_than_the_population_has(emulator):
    X, y = whole_numbers(512, 4)
    changes = {"polish_interval": 1, "population": 4, "polish_random": 40}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept, _ = emulated(emulator, X, y, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(2, 100, 0.0, 1e9)
    assert engine.best()["fitness"] == expected_engine.best()["fitness"]


def test_the_same_bits_on_every_run(emulator):
    X, y = piecewise(1500, 3)
    runs = []
    for _ in range(2):
        engine, _kept, _ = emulated(emulator, X, y, population=10)
        engine.initialise([])
        runs.append(engine.step(5, 100, 0.0, 1e9))
    assert runs[0] == runs[1]


def test_a_lost_gpu_leaves_the_best_tree(emulator):
    X, y = piecewise(1500, 3)
    engine, _kept, library = emulated(emulator, X, y, population=10)
    engine.initialise([])
    engine.step(2, 100, 0.0, 1e9)
    library.fail_after(3)
    try:
        with (
            pytest.raises(DeviceError, match=r"CUDA_ERROR_OF_THE_TEST.*best tree") as caught,
            cuda.explaining_loss(engine, 0),
        ):
            engine.step(50, 100, 0.0, 1e9)
    finally:
        library.fail_after(-1)
    assert caught.value.best["fitness"] == engine.best()["fitness"]
    engine.step(2, 100, 0.0, 1e9)


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match=r"130 columns .* at most 128; use device='cpu'"):
        cuda.buffer_sizes(1000, 128, 130)


def test_the_message_counts_the_rows_that_fit():
    runtime = types.SimpleNamespace(memGetInfo=lambda: (2**30, 2**37))
    pool = types.SimpleNamespace(free_all_blocks=lambda: None)
    cupy = types.SimpleNamespace(get_default_memory_pool=lambda: pool, cuda=types.SimpleNamespace(runtime=runtime))

    n_rows = 50_000_000
    sizes = cuda.buffer_sizes(n_rows, 2, 4)
    with pytest.raises(DeviceError, match=r"about ([0-9,]+) rows fit: pass fewer rows or device='cpu'") as caught:
        cuda._check_memory(cupy, 0, sizes, n_rows, 2, 4)
    fitting = int(re.search(r"about ([0-9,]+) rows", str(caught.value))[1].replace(",", ""))
    assert 0.8 * 2**30 < cuda.buffer_sizes(fitting, 2, 4).on_device <= 2**30
