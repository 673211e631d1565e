"""Columns ranked on a GPU have the ranks that the host gives them, number by number."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import silva.grow.search
from silva.grow.cuda import ranking
from silva.grow.data import prepare, ranked
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


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.usefixtures("gpu")
def test_ranks_are_the_hosts(name):
    for found, expected in zip(ranking.Ranker([0])(COLUMNS[name]), ranked(COLUMNS[name]), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("gpu")
def test_threads_share_gpus():
    rank = ranking.Ranker([0])
    with ThreadPoolExecutor(4) as pool:
        for found, values in zip(pool.map(rank, COLUMNS.values()), COLUMNS.values(), strict=True):
            np.testing.assert_array_equal(found[1], ranked(values)[1])


@pytest.mark.usefixtures("gpu")
def test_the_host_ranks_where_memory_is_short(monkeypatch):
    cupy = sys.modules["cupy"]

    def fail(*_):
        raise cupy.cuda.memory.OutOfMemoryError(1, 1, 1)

    monkeypatch.setattr(cupy, "argsort", fail)
    np.testing.assert_array_equal(ranking.Ranker([0])(COLUMNS["ties"])[0], ranked(COLUMNS["ties"])[0])


@pytest.mark.usefixtures("gpu")
def test_rows_are_prepared_alike():
    X, y = piecewise(150_000, 3)
    X[::7, 1], X[:, 2] = np.nan, np.round(X[:, 2])
    given = X, y, np.ones(len(y)), np.ones(3, bool), 2
    expected, found = vars(prepare(*given)), vars(prepare(*given, rank=ranking.Ranker([0])))
    for name in ("z", "ranks", "order", "values", "starts", "offsets", "source"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.usefixtures("gpu")
def test_cores_rank_for_cores():
    assert silva.grow.search.find_ranker("cpu", None, 10**7, 10) is None
    assert silva.grow.search.find_ranker("cuda", None, 1000, 10) is None
    assert silva.grow.search.find_ranker("cuda:99", None, 10**7, 10) is None
    assert silva.grow.search.find_ranker("auto", None, 10**7, 10) is not None
