"""Columns sorted on a GPU have the ranks that the cores give them, number by number."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import glasswood.grow.search.engine
from glasswood.grow.cuda import sorting
from glasswood.grow.cuda.sorting import PAGE_BYTES, GpuSorter
from glasswood.grow.data.rows import prepare
from glasswood.grow.data.sorting import Sorter
from tests.grow.engines import piecewise

rng = np.random.default_rng(0)
COLUMNS = {
    "numbers": rng.standard_normal(5000) * 10.0 ** rng.integers(-300, 300, 5000),
    "ties": rng.integers(-3, 4, 5000).astype(float),
    "both zeros and missing values": rng.choice([0.0, -0.0, 5e-324, -5e-324, np.nan, -np.nan, 1.0], 5000),
    "all missing": np.full(100, np.nan),
    "one value": np.full(100, 2.5),
    "infinite": rng.choice([np.inf, -np.inf, np.nan, 3.0], 1000),
    "one row": np.array([1.0]),
}


def ranks_of(sorter, values):
    """Ranks, order, distinct values and starts."""
    ranks, order = np.empty((2, len(values)), np.int32)
    distinct, starts = np.empty(len(values)), np.empty(len(values) + 1, np.int32)
    n_distinct = sorter.rank(values, ranks, order, distinct, starts)
    return ranks, order, distinct[:n_distinct], starts[: n_distinct + 1]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.usefixtures("gpu")
def test_ranks_are_those_of_the_cores(name):
    for found, expected in zip(ranks_of(GpuSorter([0]), COLUMNS[name]), ranks_of(Sorter(), COLUMNS[name]), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("gpu")
def test_memory_that_is_pinned():
    """Its pages hold nothing else, and views keep it."""
    sorter = GpuSorter([0])
    for shape, dtype in (((3, 1001), np.int32), ((0,), np.float64), ((5000,), np.float64)):
        array = sorter.empty(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.ctypes.data % PAGE_BYTES == 0
        taken = array.base
        n_pages = -(-array.nbytes // PAGE_BYTES)
        assert array.ctypes.data + n_pages * PAGE_BYTES <= taken.ctypes.data + taken.nbytes
        array[...] = 7
        view = array[:1]
        del array
        gc.collect()
        assert (view == 7).all()


@pytest.mark.usefixtures("gpu")
def test_threads_share_gpus():
    sorter = GpuSorter([0])
    with ThreadPoolExecutor(5) as pool:
        columns = list(COLUMNS.values())
        for found, values in zip(pool.map(lambda values: ranks_of(sorter, values), columns), columns, strict=True):
            np.testing.assert_array_equal(found[1], ranks_of(Sorter(), values)[1])


@pytest.mark.usefixtures("gpu")
def test_the_cores_sort_where_memory_is_short(monkeypatch):
    cupy = sys.modules["cupy"]

    def fail(*_):
        raise cupy.cuda.memory.OutOfMemoryError(1, 1, 1)

    monkeypatch.setattr(cupy, "argsort", fail)
    values, keys = COLUMNS["ties"], rng.integers(0, 9, 500).astype(np.uint16)
    np.testing.assert_array_equal(ranks_of(GpuSorter([0]), values)[0], ranks_of(Sorter(), values)[0])
    np.testing.assert_array_equal(GpuSorter([0]).order(keys), Sorter().order(keys))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("fails", [False, True])
def test_ranks_follow_their_rows(monkeypatch, fails):
    """Where memory is short for an attribute's order, the cores move both its ranks and its order, once."""
    X = rng.integers(-50, 50, (4, 3000)).astype(float)
    ranks, order = np.empty((2, *X.shape), np.int32)
    source = rng.permutation(3000).astype(np.int32)
    for a, values in enumerate(X):
        ranks[a], order[a], *_ = ranks_of(Sorter(), values)
    expected = np.empty((2, *X.shape), np.int32)
    for a, values in enumerate(X):
        expected[:, a] = ranks_of(Sorter(), values[source])[:2]
    if fails:
        given, n_calls = sorting.sent, iter(range(100))

        def fail(cupy, values):
            if next(n_calls) == 3:
                raise cupy.cuda.memory.OutOfMemoryError(1, 1, 1)
            return given(cupy, values)

        monkeypatch.setattr(sorting, "sent", fail)
    GpuSorter([0]).rearrange(ranks, order, source, 2)
    np.testing.assert_array_equal(ranks, expected[0])
    for rank, rows in zip(ranks, order, strict=True):  # rows of equal rank keep the order that they had
        np.testing.assert_array_equal(rank[rows], np.sort(rank))
        np.testing.assert_array_equal(np.sort(rows), np.arange(3000))


@pytest.mark.usefixtures("gpu")
def test_rows_are_prepared_alike():
    X, y = piecewise(150_000, 3)
    X[::7, 1], X[:, 2] = np.nan, np.round(X[:, 2])
    given = X, y, np.ones(len(y)), np.ones(3, bool), 2
    expected, found = vars(prepare(*given)), vars(prepare(*given, sorter=GpuSorter([0])))
    for name in ("z", "ranks", "order", "values", "starts", "offsets", "source"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.usefixtures("gpu")
def test_cores_rank_for_cores():
    assert glasswood.grow.search.engine.find_sorter("cpu", None, 10**7, 10) is None
    assert glasswood.grow.search.engine.find_sorter("cuda", None, 1000, 10) is None
    assert glasswood.grow.search.engine.find_sorter("cuda:99", None, 10**7, 10) is None
    assert glasswood.grow.search.engine.find_sorter("auto", None, 10**7, 10) is not None
