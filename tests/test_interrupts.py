"""Ctrl-C ends calls of the compiled core, and leaves everything usable."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from silva import Explainer
from tests.strategies import full_forest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
N_FEATURES = 20
SOON = 0.5
"""Seconds."""


@pytest.fixture(scope="module")
def forest():
    return full_forest(0, 400, 9, N_FEATURES)


@pytest.fixture(scope="module")
def rows():
    """Many rows that take little memory."""
    row = np.random.default_rng(0).normal(size=N_FEATURES).astype(np.float32)
    return np.broadcast_to(row, (3_000_000, N_FEATURES))


CALLS = {
    "by_sample": lambda forest, X, n_jobs: forest.predict(X, "margin", "by_sample", "cpu", n_jobs),
    "windowed": lambda forest, X, n_jobs: forest.predict(X, "margin", "windowed", "cpu", n_jobs),
    "serial": lambda forest, X, n_jobs: forest.predict(X, "margin", "serial", "cpu", n_jobs),
    "values": lambda forest, X, n_jobs: Explainer(forest, device="cpu", n_jobs=n_jobs).shap_values(X),
    "float64 values": lambda forest, X, n_jobs: Explainer(
        forest, device="cpu", dtype="float64", n_jobs=n_jobs
    ).shap_values(X),
    "interactions": lambda forest, X, n_jobs: Explainer(forest, device="cpu", n_jobs=n_jobs).shap_interaction_values(
        X[:100_000]
    ),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_soon_after_an_interrupt(forest, rows, name, n_jobs):
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.4, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        CALLS[name](forest, rows, n_jobs)
    assert time.perf_counter() - sent[0] < SOON
    timer.join()
    X = rows[:100]
    np.testing.assert_array_equal(forest.predict(X, n_jobs=n_jobs), forest.predict(X, algorithm="serial"))


def test_handlers_that_do_not_raise_do_not_end_a_call(forest, rows):
    """They may call the library themselves."""
    found = []
    X = rows[:60_000]
    expected = forest.predict(X[:1])[0]
    previous = signal.signal(signal.SIGALRM, lambda *_: found.append(forest.predict(X[:1000])))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        result = forest.predict(X, algorithm="by_sample", n_jobs=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(found) > 0
    assert (result == expected).all()
    assert all((one == expected).all() for one in found)


def test_calls_of_other_threads_end_by_themselves(forest, rows):
    results = []
    thread = threading.Thread(target=lambda: results.append(forest.predict(rows[:200_000], n_jobs=2)))
    thread.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    thread.join()
    assert len(results[0]) == 200_000
