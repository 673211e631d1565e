"""Fits take no more threads than `n_jobs` allows, whatever the options of the process say."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import glasswood
from glasswood.base import parallel

TREE = {"generations": 3, "max_leaves": 3, "time_limit": None, "verbose": False}


@pytest.fixture
def pools(monkeypatch):
    """Workers of each pool that is made, and whether the main thread made it."""
    made = []

    class Noted(parallel.ThreadPoolExecutor):
        def __init__(self, n_workers):
            made.append((n_workers, threading.current_thread() is threading.main_thread()))
            super().__init__(n_workers)

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Noted)
    return made


def ensemble(n_jobs):
    return glasswood.ModelTreeEnsembleRegressor(glasswood.ModelTreeRegressor(**TREE), n_estimators=3, n_jobs=n_jobs)


FITS = {
    "tree": lambda n_jobs: glasswood.ModelTreeRegressor(**TREE, alternatives=2, n_jobs=n_jobs),
    "consensus": lambda n_jobs: glasswood.ModelTreeRegressor(**TREE, smoothing="auto", n_jobs=n_jobs),
    "classes": lambda n_jobs: glasswood.ModelTreeClassifier(**TREE, n_jobs=n_jobs),
    "ensemble": ensemble,
    "curves": lambda n_jobs: glasswood.AdditiveRegressor(n_jobs=n_jobs),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_takes_the_threads_of_its_estimator(limits, pools, name, n_jobs):
    limits(few_values=500, least_arranged=0, block_values=64, routed_rows=64)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.where(X[:, 0] > 0, X[:, 1], -X[:, 2]) + rng.normal(scale=0.1, size=600)
    with glasswood.config_context(n_jobs=8):
        FITS[name](n_jobs).fit(X, y > 0 if name == "classes" else y)
    assert max((workers for workers, _ in pools), default=1) == n_jobs
    if name == "ensemble":
        grown = [workers for workers, is_main in pools if not is_main]
        assert not grown, "members have a thread each"
