"""Ctrl-C ends calls of the compiled core, and leaves everything usable."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import glasswood
from glasswood import Explainer
from tests.example_forests import with_models
from tests.strategies import full_forest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
N_FEATURES = 20
SOON = 0.5
"""Seconds of processor time."""


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


def seconds_after_interrupt(call):
    """How long a call works on after Ctrl-C: processor time, because other processes may delay it."""
    sent = []

    def send():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    ended = time.process_time()
    timer.join()
    return ended - sent[0]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_soon_after_an_interrupt(forest, rows, name, n_jobs):
    assert seconds_after_interrupt(lambda: CALLS[name](forest, rows, n_jobs)) < SOON
    X = rows[:100]
    np.testing.assert_array_equal(forest.predict(X, n_jobs=n_jobs), forest.predict(X, algorithm="serial"))


NEIGHBOR_CALLS = {
    "nearest": lambda neighbors, X: neighbors.kneighbors(X, 3),
    "quantiles": lambda neighbors, X: neighbors.quantile(X, np.linspace(0, 1, 101)),
    "index": lambda neighbors, X: glasswood.Neighbors(neighbors.forest, X, check=False, n_jobs=1),
}


@pytest.mark.parametrize("name", NEIGHBOR_CALLS)
def test_neighbours_end_soon_after_an_interrupt(forest, name):
    X = np.random.default_rng(1).normal(size=(150_000, N_FEATURES)).astype(np.float32)
    neighbors = glasswood.Neighbors(forest, X[:20_000], X[:20_000, 0], check=False, n_jobs=1)
    neighbors.quantile(X[:10])
    neighbors.kneighbors(X[:10])
    assert seconds_after_interrupt(lambda: NEIGHBOR_CALLS[name](neighbors, X)) < SOON
    assert neighbors.kneighbors(X[:10], 3, return_similarity=False).shape == (10, 3)


EXACT_CALLS = {
    "values": lambda explainer, X: explainer.shap_values(X),
    "pairs": lambda explainer, X: explainer.shap_interaction_values(X),
    "sets": lambda explainer, X: explainer.interaction_index(X, itertools.combinations(range(N_FEATURES), 3)),
}


@pytest.mark.parametrize("name", [*EXACT_CALLS, "callable", "equations", "estimates"])
def test_exact_responses_end_soon_after_an_interrupt(forest, name):
    """Though a pair of rows has a million coalitions; the explainer stays usable."""
    n_features = N_FEATURES
    if name == "estimates":
        n_features = 50
        forest = full_forest(0, 400, 9, n_features)
    if name == "equations":
        forest = with_models(full_forest(0, 6, 5, n_features), 1)
    X = np.random.default_rng(1).normal(size=(3000, n_features))
    forest = dataclasses.replace(forest, link="exp", leaf_value=forest.leaf_value / 100)
    output = np.tanh if name == "callable" else "response"
    explainer, same = (Explainer(forest, X[-5:], output=output, device="cpu", n_jobs=1) for _ in range(2))
    call = EXACT_CALLS.get(name, EXACT_CALLS["values"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert seconds_after_interrupt(lambda: call(explainer, X[:2000])) < SOON
        some = X[:1, :] if name == "estimates" else np.where(np.arange(n_features) < 8, X[:1], X[-1:])
        np.testing.assert_array_equal(explainer.shap_values(some), same.shap_values(some))


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
