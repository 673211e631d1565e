"""Growing on a GPU, emulated and real: answers of every kind, and whole searches."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood import _core
from glasswood.base.device import DeviceError
from glasswood.grow.cuda import parts
from glasswood.grow.cuda import rows as cuda
from glasswood.grow.data.rows import STORAGES
from tests.cuda.growing import check_every_tree, check_loss, on_gpu, whole_numbers
from tests.grow.engines import engine_of, piecewise, single_leaf, stump


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_features", [2, 3, 9, 20, 40])
def test_sums_of_leaves(gpu_engine, n_features, storage):
    X, y = piecewise(1000, n_features)
    expected_engine, _ = engine_of(X, y, storage=storage)
    engine, _kept = gpu_engine(X, y, storage=storage)
    for cut in (1, 300, 999):
        tree = stump(1, cut, n_features)
        expected, found = (e.apply("evaluate", tree, 0, None, 0, 0)[0] for e in (expected_engine, engine))
        np.testing.assert_array_equal(found["n_rows"], expected["n_rows"])
        np.testing.assert_allclose(found["node_error"], expected["node_error"], rtol=1e-9)
        assert found["fitness"] == pytest.approx(expected["fitness"], rel=1e-9)


@pytest.mark.parametrize("storage", STORAGES)
def test_missing_values_and_weights(gpu_engine, storage):
    rng = np.random.default_rng(3)
    X, y = piecewise(600, 3)
    X[rng.random(X.shape) < 0.2] = np.nan
    weight = rng.uniform(0.5, 2, len(y))
    expected_engine, _ = engine_of(X, y, weight, storage=storage)
    engine, _kept = gpu_engine(X, y, weight, storage=storage)
    for name in ("search_threshold", "evaluate", "shift_threshold", "expand"):
        trees = [e.apply(name, stump(0, 300, 3), 0, None, 0, 5)[0] for e in (expected_engine, engine)]
        np.testing.assert_array_equal(trees[1]["threshold"], trees[0]["threshold"])
        assert trees[1]["fitness"] == pytest.approx(trees[0]["fitness"], rel=1e-9)


@pytest.mark.parametrize("solve_work", [0, 10**9])
@pytest.mark.parametrize(("distinct", "cpu_work"), [(2, 0), (40, 0), (100_000, 0), (100_000, 20_000)])
def test_thresholds(gpu_engine, distinct, cpu_work, solve_work):
    """The GPU finds the errors at the cuts, or the cores; with some work left to them, also those of small brackets."""
    X, y = piecewise(5000, 3)
    X = np.floor(X / 5 * distinct) / distinct * 5
    expected_engine, _ = engine_of(X, y)
    engine, _kept = gpu_engine(X, y, cpu_work=cpu_work, solve_work=solve_work)
    for attribute in (0, 1):
        tree = stump(attribute, min(distinct, 5000) // 2, 3)
        expected, found = (e.apply("search_threshold", tree, 0, None, 0, 0)[0] for e in (expected_engine, engine))
        assert len(expected["threshold"]) == 3
        np.testing.assert_array_equal(found["threshold"], expected["threshold"])


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("division", [{}, {"n_gpus": 2}, {"n_gpus": 2, "chunks": 1500}])
def test_thresholds_between_models_of_few_columns(gpu_engine, division, storage):
    """The answers hold the columns of each leaf's model, and the indicators of their missing values."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 20))
    y = np.where(X[:, 0] < 0.3, X[:, 1] - X[:, 12], 2 * X[:, 1]) + 0.1 * rng.standard_normal(3000)
    X[::7, 12] = np.nan
    models = np.zeros((2, 20), np.uint8)
    models[0, [1, 12]] = models[1, 1] = 1
    engine, _kept = gpu_engine(X, y, storage=storage, **division)
    tree = stump(0, 1000, 20, models)
    expected, found = (
        e.apply("search_threshold", tree, 0, None, 0, 0)[0] for e in (engine_of(X, y, storage=storage)[0], engine)
    )
    np.testing.assert_array_equal(found["threshold"], expected["threshold"])
    assert abs(int(found["threshold"][0]) - int((X[:, 0] < 0.3).sum())) < 20
    assert found["fitness"] == pytest.approx(expected["fitness"], rel=1e-9)


def test_the_best_split_of_a_leaf_is_found_on_a_sample_first(gpu_engine):
    X, y = piecewise(10_000, 2)
    expected_engine, _ = engine_of(X, y)
    engine, _kept = gpu_engine(X, y)
    expected, found = (e.apply("polish", single_leaf(2), 0, None, 0, 0)[0] for e in (expected_engine, engine))
    assert len(found["threshold"]) > 3
    for name in ("feature", "threshold", "n_rows", "model"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("cpu_work", "solve_work"), [(0, 0), (0, 10**9), (20_000, 0)])
def test_exact_data_grow_the_same_trees(gpu_engine, n_threads, cpu_work, solve_work, storage):
    X, y = whole_numbers(512, 6)
    changes = {"storage": storage, "polish_interval": 3, "population": 12}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept = gpu_engine(X, y, n_threads=n_threads, cpu_work=cpu_work, solve_work=solve_work, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(12, 100, 0.0, 1e9)
    for expected, found in zip(expected_engine.population(), engine.population(), strict=True):
        for name in ("feature", "threshold", "n_rows", "model"):
            np.testing.assert_array_equal(found[name], expected[name])
        assert found["fitness"] == expected["fitness"]


@pytest.mark.parametrize("division", [{"n_threads": 1}, {"n_gpus": 2, "chunks": 512, "n_threads": 3}])
def test_exact_wide_data_grow_the_same_trees(gpu_engine, division):
    """The splits of wide models are ranked by scores; a GPU tries moves beside each other, cores in turn."""
    X, _ = whole_numbers(1024, 26)
    y = np.where(X[:, 0] < 0, X[:, 1] * X[:, 2], np.where(X[:, 3] < 0, X[:, 4], X[:, 5] * X[:, 6]))
    y[:: len(y) // 64] *= -1
    y[np.flatnonzero(y == np.sign(y.sum()))[: int(abs(y.sum())) // 2]] *= -1  # as many of each sign
    changes = {"polish_interval": 1, "population": 4, "max_leaves": 6}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept = gpu_engine(X, y, **division, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(1, 100, 0.0, 1e9)
    assert len(expected_engine.best()["threshold"]) > 5
    assert_same_trees(engine, expected_engine)


def check_places(engine, expected_engine, n_features, n_rows):
    """Trees of several tests, changed below the first one: zones lie within, across and outside of its left box."""
    random = np.random.default_rng(5)
    for seed in range(4):
        cut = int(random.integers(n_rows // 3, 2 * n_rows // 3))
        tree = stump(seed % min(n_features, 3), cut, n_features)
        for name in ("expand", "shift_threshold", "new_split", "search_threshold"):
            expected, found = (e.apply(name, tree, 1, None, 0, seed)[0] for e in (expected_engine, engine))
            np.testing.assert_array_equal(found["threshold"], expected["threshold"])
            np.testing.assert_array_equal(found["n_rows"], expected["n_rows"])
            np.testing.assert_allclose(found["node_error"], expected["node_error"], rtol=1e-9)
            if len(expected["threshold"]) < 5 or expected["feature"][1] < 0:  # cut off: the others need a test there
                break
            tree = expected


@pytest.mark.parametrize(("n_features", "missing", "n_gpus"), [(2, 0, 1), (6, 0.0003, 1), (2, 0.0003, 2)])
def test_sums_of_arranged_rows(gpu_engine, limits, n_features, missing, n_gpus):
    """Few missing values, so that some zones have none."""
    limits(least_arranged=0)
    X, y = piecewise(10_000, n_features)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    expected_engine, _ = engine_of(X, y)
    engine, kept = gpu_engine(X, y, n_gpus=n_gpus)
    zones = cuda.rank_zones(kept[0].ranks)
    assert (np.ptp(zones, axis=-1) < 7000).any(axis=1).sum() == 2  # the attributes that the target depends on
    assert missing == 0 or 0 < np.mean(zones[..., 0] < 0) < 1
    check_places(engine, expected_engine, n_features, len(y))


@pytest.mark.parametrize("division", [{}, {"n_gpus": 2}, {"n_gpus": 2, "chunks": 4500}, {"chunks": 3000}])
def test_exact_arranged_data_grow_the_same_trees(gpu_engine, limits, division):
    limits(least_arranged=0)
    X, y = whole_numbers(9000, 2)
    X[:, 0] *= np.arange(1, 9001) % 4 + 1
    expected_engine, _ = engine_of(X, y, population=8, polish_interval=3)
    engine, _kept = gpu_engine(X, y, population=8, polish_interval=3, **division)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(4, 100, 0.0, 1e9)
    assert_same_trees(engine, expected_engine)


@pytest.mark.parametrize("storage", STORAGES)
def test_every_tree_of_a_run_has_the_fitness_of_the_cores(gpu_engine, storage):
    X, y = piecewise(1500, 3)
    engine, _kept = gpu_engine(X, y, storage=storage, polish_interval=4, population=10)
    check_every_tree(engine, engine_of(X, y, storage=storage)[0], 3)


def test_many_requests_share_a_round(gpu_engine):
    """Of moves that are tried beside each other, and of a generation's offspring."""
    X, y = piecewise(500, 3)
    for polish_interval, least in ((1, 2), (0, 4)):
        engine, _kept = gpu_engine(X, y, population=8, polish_interval=polish_interval, solve_work=10**18)
        engine.initialise([])
        before = engine.gpu_counters[0], engine.counters[2]
        engine.step(2, 100, 0.0, 1e9)
        assert engine.counters[2] - before[1] > least * (engine.gpu_counters[0] - before[0])


def test_more_trees_are_polished_than_the_population_has(gpu_engine):
    X, y = whole_numbers(512, 4)
    changes = {"polish_interval": 1, "population": 4, "polish_random": 40}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept = gpu_engine(X, y, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(2, 100, 0.0, 1e9)
    assert engine.best()["fitness"] == expected_engine.best()["fitness"]


def test_more_trees_are_near_the_best_one_than_the_population_has(gpu_engine):
    """Each task that waits has buffers of its own."""
    X, y = piecewise(512, 4)
    changes = {"population": 6, "polish_random": 0, "margin": 1.0, "n_threads": 1}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept = gpu_engine(X, y, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(40, 100, 0.0, 1e9)
    expected, found = ([tree["fitness"] for tree in e.met()] for e in (expected_engine, engine))
    assert len(expected) > 18
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def assert_same_trees(found_engine, expected_engine):
    for expected, found in zip(expected_engine.population(), found_engine.population(), strict=True):
        for name in ("feature", "threshold", "n_rows", "model", "node_error"):
            np.testing.assert_array_equal(found[name], expected[name])
        assert found["fitness"] == expected["fitness"]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "division",
    [
        {"n_gpus": 2, "n_threads": 3},
        {"n_gpus": 4},
        {"n_gpus": 3, "chunks": 171},
        {"chunks": 200},
        {"n_gpus": 2, "chunks": 100},
    ],
)
@pytest.mark.parametrize("cpu_work", [0, 20_000])
def test_exact_data_grow_the_same_trees_on_any_division(gpu_engine, division, cpu_work, storage):
    X, y = whole_numbers(512, 6)
    changes = {"storage": storage, "polish_interval": 3, "population": 12}
    expected_engine, _ = engine_of(X, y, **changes)
    engine, _kept = gpu_engine(X, y, cpu_work=cpu_work, **division, **changes)
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(8, 100, 0.0, 1e9)
    assert_same_trees(engine, expected_engine)


@pytest.mark.parametrize("cells", [1, 7, 64, None])
@pytest.mark.parametrize(("distinct", "cpu_work"), [(2, 0), (40, 0), (100_000, 0), (100_000, 20_000)])
def test_thresholds_of_divided_rows(gpu_engine, distinct, cpu_work, cells):
    X, y = piecewise(1500, 3)
    X = np.floor(X / 5 * distinct) / distinct * 5
    X[::3, 0] = 2.5  # half of a list may be one value
    X[1::9, 1] = np.nan
    expected_engine, _ = engine_of(X, y)
    engine, _kept = gpu_engine(X, y, cpu_work=cpu_work, n_gpus=3, chunks=500, cells=cells)
    for attribute in (0, 1):
        tree = stump(attribute, min(distinct, 1000) // 2, 3)
        expected, found = (e.apply("search_threshold", tree, 0, None, 0, 0)[0] for e in (expected_engine, engine))
        assert len(expected["threshold"]) == 3
        np.testing.assert_array_equal(found["threshold"], expected["threshold"])
        assert found["fitness"] == pytest.approx(expected["fitness"], rel=1e-9)


@pytest.mark.parametrize(
    ("division", "storage"),
    [
        ({"n_gpus": 2}, "float64"),
        ({"n_gpus": 2, "chunks": 4000, "cells": 50}, "float32"),
    ],
)
def test_the_best_split_is_found_on_the_same_sample_of_divided_rows(gpu_engine, division, storage):
    X, y = piecewise(10_000, 2)
    expected_engine, _ = engine_of(X, y, storage=storage)
    engine, _kept = gpu_engine(X, y, storage=storage, **division)
    expected, found = (e.apply("polish", single_leaf(2), 0, None, 0, 0)[0] for e in (expected_engine, engine))
    for name in ("feature", "threshold", "n_rows", "model"):
        np.testing.assert_array_equal(found[name], expected[name])


def small_buffers(limits):
    limits(grow_partial_bytes=2**12, packet_bytes=2**14, result_bytes=2**14, list_choices=((parts.N_LISTS, True),))


@pytest.mark.parametrize(("n_resident", "storage"), [(0, "float64"), (1, "float64"), (1, "float32")])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_streamed_rows_give_the_bits_of_resident_ones(four_gpus, limits, n_resident, n_threads, storage):
    small_buffers(limits)
    X, y = piecewise(400, 3)
    sizes = parts.buffer_sizes(100, 3, 5, 400, z_bytes=np.dtype(storage).itemsize)
    runs = []
    for limit in (2**40, sizes.lists + 2 * sizes.stream + (n_resident + 2) * sizes.rows + 4 * sizes.zones):
        changes = {"storage": storage, "search_threshold": 1.0, "population": 8, "n_threads": n_threads}
        four_gpus.free[0] = limit + cuda.SLACK_BYTES
        engine, kept = on_gpu(X, y, chunks=100, **changes)
        engine.initialise([])
        engine.step(4, 100, 0.0, 1e9)
        runs.append((engine, kept))
    assert [gpu.layouts[0].n_streamed for _, (_, gpu) in runs] == [0, 4 - n_resident]
    assert_same_trees(runs[1][0], runs[0][0])


def balanced(n_leaves, n_rows, n_features):
    """Leaves of as many rows each, by tests of the first attribute."""
    attribute, cut, left, right = [], [], [], []

    def grow(first, last):
        at = len(attribute)
        is_leaf = last - first == 1
        attribute.append(-1 if is_leaf else 0)
        cut.append(0 if is_leaf else (first + last) // 2 * n_rows // n_leaves)
        left.append(-1), right.append(-1)
        if not is_leaf:
            left[at] = grow(first, (first + last) // 2)
            right[at] = grow((first + last) // 2, last)
        return at

    grow(0, n_leaves)
    arrays = {"feature": attribute, "threshold": cut, "left": left, "right": right}
    tree = {name: np.array(values, np.int32) for name, values in arrays.items()}
    model = np.repeat((tree["feature"] < 0).astype(np.uint8), n_features)
    return tree | {"missing_left": np.zeros(len(attribute), np.uint8), "model": model}


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize("n_features", [2, 9, 40])
def test_the_largest_request_fits_the_smallest_buffers(limits, n_features):
    """All slots of a block, and the parts that its layouts write beside them."""
    small_buffers(limits)
    limits(packet_bytes=2**17)
    X, y = piecewise(8000, n_features)
    tree = balanced(_core.GROW_SLOTS, 8000, n_features)
    changes = {"max_leaves": _core.GROW_SLOTS}
    engine, _kept = on_gpu(X, y, **changes)
    expected, found = (e.apply("evaluate", tree, 0, None, 0, 0)[0] for e in (engine_of(X, y, **changes)[0], engine))
    assert len(found["threshold"]) == 2 * _core.GROW_SLOTS - 1
    np.testing.assert_array_equal(found["n_rows"], expected["n_rows"])
    assert found["fitness"] == pytest.approx(expected["fitness"], rel=1e-9)


def test_rows_that_do_not_fit_pass_through_in_chunks(four_gpus, limits):
    small_buffers(limits)
    X, y = whole_numbers(2048, 3)
    (whole,) = parts.divide_rows(2048, 3, 5, {0: 2**40}, "auto")
    less = range(whole.on_device, 0, -(2**12))
    memory = next(free for free in less if parts.divide_rows(2048, 3, 5, {0: free}, "auto")[0].n_streamed > 2)
    changes = {"polish_interval": 3, "population": 10}
    expected_engine, _ = engine_of(X, y, **changes)
    four_gpus.free[0] = memory + cuda.SLACK_BYTES
    engine, (_rows, gpu) = on_gpu(X, y, **changes)
    (layout,) = gpu.layouts
    assert layout.n_streamed > 2
    assert layout.on_device <= memory
    for e in (expected_engine, engine):
        e.initialise([])
        e.step(4, 100, 0.0, 1e9)
    assert_same_trees(engine, expected_engine)


def test_the_same_bits_on_every_run(gpu_engine):
    X, y = piecewise(1500, 3)
    runs = []
    for _ in range(2):
        engine, _kept = gpu_engine(X, y, population=10)
        engine.initialise([])
        runs.append(engine.step(5, 100, 0.0, 1e9))
    assert runs[0] == runs[1]


def test_a_lost_gpu_leaves_the_best_tree(four_gpus):
    X, y = piecewise(1500, 3)
    engine, _kept = on_gpu(X, y, population=10)
    check_loss(engine, four_gpus, 3)


def test_the_gpu_that_is_lost_is_named(four_gpus):
    X, y = piecewise(1500, 3)
    engine, _kept = on_gpu(X, y, population=10, n_gpus=2)
    engine.initialise([])
    with (
        four_gpus.failing(3, gpu=1),
        pytest.raises(DeviceError, match="cuda:1 failed during the search"),
        cuda.explaining_loss(engine),
    ):
        engine.step(50, 100, 0.0, 1e9)
    engine.step(2, 100, 0.0, 1e9)
