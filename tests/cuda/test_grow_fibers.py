"""Stacks of the tasks that wait for a GPU beside each other."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from tests.cuda.growing import on_gpu
from tests.grow.engines import engine_of


def n_stacks():
    """Stacks of fibers that the process holds: a megabyte each, the lowest page of which is a mapping of its own."""
    sizes = [
        int(last, 16) - int(first, 16)
        for first, last in (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    ]
    return sizes.count((1 << 20) - resource.getpagesize())


@pytest.mark.usefixtures("four_gpus")
def test_more_attributes_than_the_system_gives_stacks_for():
    """Each attribute's best split is a part of the polishing task, and each part a fiber."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 700))
    y = (X[:, 650] > 0.5) + 0.1 * rng.standard_normal(40)
    before, best = n_stacks(), []
    for make in (engine_of, lambda *a, **k: on_gpu(*a, **k, solve_work=10**18)):
        engine, _kept = make(X, y, linear=np.zeros(700, bool), population=2, polish_interval=1)
        engine.initialise([])
        engine.step(1, 100, 0.0, 1e9)
        best.append(engine.best())
    assert 400 < n_stacks() - before <= 512
    np.testing.assert_array_equal(best[1]["feature"], best[0]["feature"])
    assert 650 in best[0]["feature"]
