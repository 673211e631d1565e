"""Ctrl-C keeps the tree, whenever it comes after the search has begun."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

import glasswood
from glasswood.grow import estimator
from glasswood.grow.search import engine, growing


@pytest.fixture
def data():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    return X, np.where(X[:, 0] < 0.5, X[:, 1], 3 - X[:, 1])


def interrupted_by(function):
    def interrupt(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return function(*arguments, **options)

    return interrupt


@pytest.mark.parametrize(
    ("module", "name"),
    [(estimator, "watching"), (growing, "search"), (growing, "grown_tree"), (estimator, "leaf_table")],
)
def test_an_interrupt_beside_the_search_keeps_the_tree(data, monkeypatch, module, name):
    monkeypatch.setattr(module, name, interrupted_by(getattr(module, name)))
    tree = glasswood.ModelTreeRegressor(generations=2, n_jobs=1).fit(*data)
    assert tree.interrupted_
    assert np.isfinite(tree.predict(data[0])).all()
    assert tree.n_iter_ == (0 if name in {"watching", "search"} else 2)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_interrupts_that_follow_keep_the_tree_too(data, monkeypatch):
    @contextlib.contextmanager
    def watching(*_):
        yield (lambda _: signal.raise_signal(signal.SIGINT),)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(estimator, "watching", watching)
    monkeypatch.setattr(growing, "grown_tree", interrupted_by(growing.grown_tree))
    tree = glasswood.ModelTreeRegressor(n_jobs=1).fit(*data)
    assert tree.interrupted_
    assert tree.n_iter_ == 1


@pytest.mark.parametrize("parameters", [{"stability": 4}, {"smoothing": "auto"}])
def test_an_interrupt_in_searches_beside_each_other_keeps_the_tree(data, monkeypatch, parameters):
    def interrupting(*values):
        if threading.current_thread() is not threading.main_thread():
            begun.append(0)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return progress(*values)

    begun, progress = [], engine.Progress
    monkeypatch.setattr(engine, "Progress", interrupting)
    tree = glasswood.ModelTreeRegressor(generations=2, n_jobs=2, **parameters).fit(data[0][:60], data[1][:60])
    assert begun
    assert tree.interrupted_
    assert np.isfinite(tree.predict(data[0])).all()


def test_handlers_of_others_stay(data):
    def handler(_number, _frame):
        raise NotImplementedError

    previous = signal.signal(signal.SIGINT, handler)
    try:
        glasswood.ModelTreeRegressor(
            generations=1, n_jobs=1, callbacks=[lambda _: signal.getsignal(signal.SIGINT) is not handler]
        ).fit(*data)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, previous)
